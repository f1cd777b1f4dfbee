// Package memnet is a network in memory for tests in virtual time.
//
// Real sockets do not count as durably blocked inside a testing/synctest
// bubble, net.Pipe has no buffers, and neither can be reset. A memnet link has
// what a cut needs to mean something: bytes in flight, deadlines, half-close,
// and a reset that throws the bytes in flight away.
package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// A Listener is a net.Listener whose links exist in memory only.
type Listener struct {
	accept chan net.Conn
	done   chan struct{}
	once   sync.Once

	mu   sync.Mutex
	last int // port number given to the latest client
}

// Listen returns an open listener. Close it to end Accept.
func Listen() *Listener {
	return &Listener{accept: make(chan net.Conn), done: make(chan struct{}), last: 10000}
}

// Dial opens a link to the listener. The error is syscall.ECONNREFUSED when the
// listener is closed, else the context's.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	l.last++
	client := addr(l.last)
	l.mu.Unlock()
	near, far := pair(client, l.Addr())
	select {
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "memnet", Addr: l.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	case l.accept <- far:
		return near, nil
	}
}

// Accept waits for the next link.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses later dials. Open links stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr returns a loopback address, so that a URL can be made of it.
func (l *Listener) Addr() net.Addr { return addr(8931) }

func addr(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
