package wire

import (
	"fmt"
	"io"
	"net"
)

// Defaults of [Limits].
const (
	defaultEvent = 16 << 20
	defaultHead  = 64 << 10
)

// headsSkipped bounds the interim responses before the final one.
const headsSkipped = 8

// Limits bounds what a peer may make us hold, in bytes.
type Limits struct {
	Line  int // one SSE line; 0: 16 MiB
	Head  int // a response head with its interim heads, a trailer, an event id or type; 0: 64 KiB
	Event int // the data of one event; 0: 16 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Line <= 0 {
		l.Line = defaultEvent
	}
	if l.Head <= 0 {
		l.Head = defaultHead
	}
	if l.Event <= 0 {
		l.Event = defaultEvent
	}
	return l
}

// held is the most that a [Reader] keeps of one event and the line that is incomplete.
func (l Limits) held() int { return max(l.Line, l.Event) + l.Head }

// buffer is the size that the buffer of a link never needs to exceed: what a Reader keeps,
// framing that is incomplete, and room to read on.
func (l Limits) buffer() int {
	return max(l.held()+max(l.Head, chunkLine)+smallBuffer, burstBuffer)
}

// A Conn carries HTTP/1.1 exchanges over one link, one after the other. It belongs
// to one goroutine.
type Conn struct {
	link net.Conn
	win  window
	resp Response // its win is nil before the first exchange
}

// NewConn speaks HTTP/1.1 on link. Deadlines are the caller's, on the link.
func NewConn(link net.Conn, lim Limits) *Conn {
	c := &Conn{link: link}
	c.resp.limit = lim.withDefaults()
	c.win.src, c.win.most = link, c.resp.limit.buffer()
	return c
}

// Link returns the link that the Conn was made for.
func (c *Conn) Link() net.Conn { return c.link }

// Close closes the link.
func (c *Conn) Close() error { return c.link.Close() }

// RoundTrip writes the request in one piece, skips interim responses and returns
// the final response as soon as its head is complete. The Response belongs to the Conn
// and is valid until the next RoundTrip.
//
// Errors: ErrRequest and ErrBusy before anything is written; *SendError when the
// request was not written whole; io.EOF when the link ended before the first byte
// of a response, io.ErrUnexpectedEOF inside a head; *FrameError and *LimitError for what
// the peer did wrong; the link's own, matching syscall.ECONNRESET after an RST.
// After any of the errors behind ErrBusy the link is not reusable.
func (c *Conn) RoundTrip(req *Request) (*Response, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if c.resp.win != nil && !c.resp.Reusable() {
		return nil, ErrBusy
	}
	c.resp.begin(&c.win)
	if err := c.send(req); err != nil {
		return nil, err
	}
	if err := c.resp.readHead(); err != nil {
		return nil, err
	}
	if req.closes() {
		c.resp.keep = false
	}
	return &c.resp, nil
}

// send builds the request in the read buffer, which is empty between exchanges.
func (c *Conn) send(req *Request) error {
	w := &c.win
	if w.r != w.w {
		return ErrBusy
	}
	if w.buf == nil {
		w.room()
	}
	out := req.append(w.buf[:0])
	n, err := c.link.Write(out)
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &SendError{Sent: n, Size: len(out), Err: err}
	}
	w.a, w.b, w.r, w.w = 0, 0, 0, 0
	return nil
}

// readHead reads heads until one is final.
func (p *Response) readHead() error {
	left := p.limit.Head
	for range headsSkipped {
		n, err := p.nextHead(left)
		if err != nil {
			return err
		}
		left -= n
		if err := p.parseHead(); err != nil {
			return err
		}
		switch {
		case p.Status == 101:
			return &FrameError{What: "switch of protocols that nobody asked for"}
		case p.Status >= 200:
			return p.frame()
		}
	}
	return &FrameError{What: fmt.Sprintf("more than %d interim responses", headsSkipped)}
}
