package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferBytes is what one direction of a link holds before Write blocks: like a
// kernel's socket buffers, small enough that a stalled reader is noticed.
const bufferBytes = 64 << 10

// A Conn is one end of a link.
type Conn struct {
	local, remote net.Addr
	in, out       *pipe // what this end reads from and writes to

	mu     sync.Mutex
	linger int
}

func pair(a, b net.Addr) (near, far *Conn) {
	ab, ba := newPipe(), newPipe()
	return &Conn{local: a, remote: b, in: ba, out: ab, linger: -1},
		&Conn{local: b, remote: a, in: ab, out: ba, linger: -1}
}

// Read returns io.EOF after the peer's FIN and syscall.ECONNRESET after its reset.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write blocks while the buffer is full. It returns syscall.EPIPE once the peer
// is closed and syscall.ECONNRESET after its reset.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// SetLinger decides what Close does: 0 resets the link, anything else ends it
// with a FIN.
func (c *Conn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = seconds
	return nil
}

// CloseWrite sends the FIN and leaves reading open.
func (c *Conn) CloseWrite() error {
	c.out.finish()
	return nil
}

// Close ends both directions; with linger 0 the bytes in flight are lost and the
// peer sees a reset.
func (c *Conn) Close() error {
	c.mu.Lock()
	reset := c.linger == 0
	c.mu.Unlock()
	c.in.abandon(net.ErrClosed, closedPeer(reset))
	if reset {
		c.out.reset()
	}
	c.out.abandon(nil, net.ErrClosed)
	return nil
}

func closedPeer(reset bool) error {
	if reset {
		return syscall.ECONNRESET
	}
	return syscall.EPIPE
}

// LocalAddr and RemoteAddr return loopback addresses.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	c.out.writeDeadline.set(t)
	return nil
}

// SetReadDeadline bounds the present and later Reads; the zero time removes the bound.
func (c *Conn) SetReadDeadline(t time.Time) error { c.in.readDeadline.set(t); return nil }

// SetWriteDeadline bounds the present and later Writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { c.out.writeDeadline.set(t); return nil }

// A pipe is one direction of a link. readErr and writeErr, once set, are what
// that side gets when nothing else is left to do.
type pipe struct {
	mu                          sync.Mutex
	changed                     *sync.Cond
	data                        []byte
	readErr, writeErr           error
	readDeadline, writeDeadline deadline
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed = sync.NewCond(&p.mu)
	p.readDeadline.pipe, p.writeDeadline.pipe = p, p
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = p.data[:copy(p.data, p.data[n:])]
			p.changed.Broadcast()
			return n, nil
		case p.readErr != nil:
			return 0, p.readErr
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.writeErr != nil:
			return written, p.writeErr
		case p.writeDeadline.passed:
			return written, os.ErrDeadlineExceeded
		}
		room := min(bufferBytes-len(p.data), len(b)-written)
		p.data = append(p.data, b[written:written+room]...)
		written += room
		p.changed.Broadcast()
		if written == len(b) {
			return written, nil
		}
		p.changed.Wait()
	}
}

// finish is the writer's FIN: what is in flight still arrives.
func (p *pipe) finish() { p.abandon(io.EOF, net.ErrClosed) }

// reset throws away what is in flight.
func (p *pipe) reset() {
	p.mu.Lock()
	p.data = nil
	p.mu.Unlock()
	p.abandon(syscall.ECONNRESET, nil)
}

// abandon sets what the reader and the writer get from now on; the first reason
// stays. A nil read error stands for the FIN of the writer's side.
func (p *pipe) abandon(read, write error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if read == nil {
		read = io.EOF
	}
	if p.readErr == nil || read == net.ErrClosed {
		p.readErr = read
		if read == net.ErrClosed {
			p.data = nil
		}
	}
	if write != nil && p.writeErr == nil {
		p.writeErr = write
	}
	p.changed.Broadcast()
}

// A deadline wakes its pipe when it passes.
type deadline struct {
	pipe   *pipe
	timer  *time.Timer
	passed bool // guarded by pipe.mu
}

func (d *deadline) set(t time.Time) {
	d.pipe.mu.Lock()
	defer d.pipe.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = !t.IsZero() && time.Until(t) <= 0
	if !t.IsZero() && !d.passed {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(t), func() {
			d.pipe.mu.Lock()
			defer d.pipe.mu.Unlock()
			if d.timer == timer { // else a later set has replaced it
				d.passed = true
				d.pipe.changed.Broadcast()
			}
		})
		d.timer = timer
	}
	d.pipe.changed.Broadcast()
}
