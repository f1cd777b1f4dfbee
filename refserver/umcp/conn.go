package umcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// sendBuffer bounds what the kernel takes for a client that does not read.
	sendBuffer = 16 << 10
	// lingerTime is how long what comes after the last response is read and thrown away:
	// closing with bytes unread would reset the connection, and the client might lose the
	// response.
	lingerTime = 500 * time.Millisecond
)

// conn is one connection of a client. One goroutine serves it, request by request.
type conn struct {
	net.Conn
	s      *Server
	ctx    context.Context // done when the server is closed
	read   *reader
	served int // requests so far

	mu   sync.Mutex
	idle bool // no byte of a request has come
	gone bool // closed while idle
}

func (s *Server) newConn(ctx context.Context, nc net.Conn) *conn {
	if b, ok := nc.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer) // the default works too, with more memory
	}
	return &conn{Conn: nc, s: s, ctx: ctx, read: newReader(nc, s.cfg.Limits)}
}

// serve serves requests until the connection ends.
func (c *conn) serve() {
	for c.next() {
	}
	_ = c.Close() // it may be closed already
}

// next serves one request and reports whether another may follow.
func (c *conn) next() bool {
	if !c.await() {
		return false
	}
	c.served++
	c.limitRead()
	req, err := c.read.head()
	if err != nil {
		return c.reject(err)
	}
	req.RemoteAddr = c.RemoteAddr().String()
	req.Request = req.WithContext(context.WithValue(c.ctx, http.LocalAddrContextKey, c.LocalAddr()))
	a := c.s.check(req)
	if waits(req) {
		if a != nil {
			a.close = true // nobody knows whether the body comes
			return c.answer(req, a)
		}
		if !c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) {
			return false
		}
	}
	c.limitRead()
	body, err := c.read.body(req, a == nil)
	if err != nil {
		return c.reject(err)
	}
	if a == nil {
		if a = c.s.handle(c, req, body); a == nil {
			return false // an event stream, which took the connection with it
		}
	}
	return c.answer(req, a)
}

// await waits for the first byte of a request. It is false when none came in time: that
// is the one end of a connection without a response to say it in.
func (c *conn) await() bool {
	c.mu.Lock()
	c.idle = !c.s.stopping()
	open := c.idle
	c.mu.Unlock()
	if !open {
		return false
	}
	c.limitRead()
	_, err := c.read.in.Peek(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = false
	return err == nil && !c.gone
}

// leave closes the connection if it is idle.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		c.gone = true
		_ = c.Close() // nothing is lost
	}
}

func (c *conn) limitRead() {
	_ = c.SetReadDeadline(time.Now().Add(c.s.cfg.Limits.IdleRead)) // a closed link fails in the read
}

// waits tells whether the client sends the body only when it is told to.
func waits(r *request) bool {
	return !r.old && r.length > 0 && strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

// reject answers a request that cannot be read to its end, and ends the connection.
func (c *conn) reject(err error) bool {
	why := new(unreadable)
	switch {
	case errors.As(err, &why):
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = &unreadable{http.StatusRequestTimeout, "the request did not come to its end in time"}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		why = &unreadable{http.StatusBadRequest, "the request ended before its end"}
	default:
		return false // the link is broken
	}
	a := refuse(why.status, why.text)
	a.close = true
	return c.answer(nil, a)
}

// answer writes an answer and reports whether the connection goes on. A nil request is
// one that could not be read.
func (c *conn) answer(r *request, a *answer) bool {
	left := c.s.cfg.Limits.RequestsPerConnection - c.served
	persist := r != nil && r.persist && !a.close && left > 0 && !c.s.stopping()
	c.s.metrics.answered(a.status)
	if !c.write(a.wire(c.fate(persist, left), r != nil && r.Method == http.MethodHead)) {
		return false
	}
	if !persist {
		c.linger()
	}
	return persist
}

// fate tells the client what becomes of the connection: "A server must never advertise or
// imply persistence and then close an otherwise valid connection without warning."
func (c *conn) fate(persist bool, left int) http.Header {
	if !persist {
		return http.Header{"Connection": {"close"}}
	}
	h := http.Header{"Connection": {"keep-alive"}}
	if seconds := int(c.s.cfg.Limits.IdleRead / time.Second); seconds > 0 {
		h.Set("Keep-Alive", "timeout="+strconv.Itoa(seconds)+", max="+strconv.Itoa(left))
	}
	return h
}

func (c *conn) write(b []byte) bool { return c.send(b) == nil }

func (c *conn) send(b []byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(c.s.cfg.WriteTimeout)) // a closed link fails in the write
	_, err := c.Write(b)
	return err
}

// linger lets the client read the last response before the connection is closed. What it
// still sends is not looked at.
func (c *conn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTime)) // a closed link fails in the read
	_, _ = io.Copy(io.Discard, c.Conn)
}

// chunk returns data as a chunk of RFC 9112, 7.1.
func chunk(data []byte) []byte {
	var b bytes.Buffer
	b.WriteString(strconv.FormatInt(int64(len(data)), 16) + "\r\n")
	b.Write(data)
	b.WriteString("\r\n")
	return b.Bytes()
}
