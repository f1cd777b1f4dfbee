package refserver

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Bounded returns a listener that keeps at most so many connections open at once. One
// more is accepted and closed at once: whoever tries is told, and does not wait in a
// queue for a place that may never be free. For TLS put [tls.NewListener] around it.
func Bounded(ln net.Listener, connections int) net.Listener {
	return &bounded{Listener: ln, most: int64(connections)}
}

type bounded struct {
	net.Listener
	most int64
	open atomic.Int64
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.most {
			return &counted{Conn: conn, left: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = conn.Close() // nobody was promised anything
	}
}

// counted is a connection of a bounded listener. It has those abilities of the one
// below that this package and net/http look for.
type counted struct {
	net.Conn
	left func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.left()
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer without losing it to a reset.
func (c *counted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger is what a reset needs.
func (c *counted) SetLinger(seconds int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// SetWriteBuffer is what bounds a client that does not read.
func (c *counted) SetWriteBuffer(bytes int) error {
	if w, ok := c.Conn.(interface{ SetWriteBuffer(int) error }); ok {
		return w.SetWriteBuffer(bytes)
	}
	return errors.ErrUnsupported
}
