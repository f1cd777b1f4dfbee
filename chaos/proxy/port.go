package proxy

import (
	"net"
	"os"
	"sync/atomic"
	"time"
)

const bufferBytes = 32 << 10

type buffer [bufferBytes]byte

func (p *Proxy) getBuffer() *buffer { return p.buffers.Get().(*buffer) }

// putBuffer takes nil too.
func (p *Proxy) putBuffer(b *buffer) {
	if b != nil {
		p.buffers.Put(b)
	}
}

// A port is a connection that can be waited for without holding a buffer, and that
// counts what passes.
type port struct {
	net.Conn
	p             *Proxy
	total         *atomic.Int64 // what is read counts here too
	read, written atomic.Int64
	// silent: a black hole keeps it open, whatever becomes of the client.
	silent atomic.Bool
	// shy: a Read returns a timeout where nothing was found. It belongs to whoever reads.
	shy bool
	waiter
}

func newPort(conn net.Conn, p *Proxy, total *atomic.Int64) *port {
	c := &port{Conn: conn, p: p, total: total}
	c.waiter.init(conn, p)
	return c
}

// NetConn returns the connection itself.
func (c *port) NetConn() net.Conn { return c.Conn }

// Read returns what a wait has found, else it reads.
func (c *port) Read(b []byte) (int, error) {
	n, err, found := c.found(b)
	switch {
	case found:
	case c.shy:
		return 0, os.ErrDeadlineExceeded
	default:
		n, err = c.Conn.Read(b)
	}
	c.read.Add(int64(n))
	c.total.Add(int64(n))
	return n, err
}

func (c *port) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// Close closes it and forgets that it was kept open.
func (c *port) Close() error {
	if c.silent.Load() {
		c.p.unsilence(c)
	}
	return c.Conn.Close()
}

// reset ends the connection with an RST.
func (c *port) reset() {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0) // it fails only on a connection that is gone already
	}
	_ = c.Close()
}

func (c *port) closeWrite() {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // as above
		return
	}
	_ = c.Close()
}

// finish sends the FIN and gives the peer some time to send its own.
func (c *port) finish(linger time.Duration) {
	_ = c.SetReadDeadline(time.Now().Add(linger))
	c.closeWrite()
}
