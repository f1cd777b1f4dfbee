package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gapless-dev/gapless/internal/guard"
)

// A carrier is a link that takes HTTP/1.1 requests and carries them, one after the other,
// on an HTTP/2 connection of its own:
//
//	Write ─► pipe ─► http.ReadRequest ─► ClientConn.RoundTrip ─► HTTP/2
//	Read  ◄─ pipe ◄─ head, chunks ◄───── Response.Body ◄──────── HTTP/2
//
// The pipe holds nothing, so whoever does not read makes the server wait as soon as the
// flow-control window is full. Where the HTTP/2 stream or connection breaks, the HTTP/1.1
// body ends before its framing says.
type carrier struct {
	net.Conn // our end of the pipe
	far      net.Conn
	h2       *http.ClientConn
	under    net.Conn // what HTTP/2 runs over
	scheme   string
	ctx      context.Context // of the requests
	cancel   context.CancelFunc
	serving  guard.Group
	answered bool // once, on this link; of serve

	mu             sync.Mutex
	idle           bool // no exchange is under way
	closed, resets bool
	err            error // what ended the link
}

var _ net.Conn = (*carrier)(nil)

func newCarrier(h2 *http.ClientConn, under net.Conn, scheme string) *carrier {
	c := &carrier{h2: h2, under: under, scheme: scheme}
	c.Conn, c.far = net.Pipe()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	h2.SetStateHook(func(h2 *http.ClientConn) {
		if h2.Err() != nil {
			c.gone()
		}
	})
	c.serving.Go(c.serve)
	return c
}

// Read gives the bytes of the answer. At the end it gives what ended the HTTP/2
// connection, matching syscall.ECONNRESET after a reset, or io.EOF.
func (c *carrier) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = c.end("read", io.EOF)
	} else if err == io.ErrClosedPipe {
		err = c.failed("read", net.ErrClosed)
	}
	return n, err
}

// Write takes bytes of a request; it returns when HTTP/2 has taken them over.
func (c *carrier) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == io.ErrClosedPipe {
		err = c.end("write", syscall.EPIPE)
	}
	return n, err
}

// end says what ended the link, otherwise when nothing is known.
func (c *carrier) end(op string, otherwise error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return c.failed(op, net.ErrClosed)
	}
	// The far end of the pipe is closed, so that nothing holds serve any more. A panic
	// there is handed on to the goroutine that uses the link.
	if err := c.serving.Wait(); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil && otherwise == io.EOF:
		return io.EOF
	case c.err == nil:
		return c.failed(op, otherwise)
	}
	return c.failed(op, c.err)
}

func (c *carrier) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Close closes the connection: with a reset after SetLinger(0). It returns when nothing
// of the link is left.
func (c *carrier) Close() error {
	c.mu.Lock()
	again, resets := c.closed, c.resets
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	if resets {
		_ = innermost(c.under).Close() // before TLS or HTTP/2 can say goodbye
	}
	err := c.h2.Close()
	c.cancel()
	_ = c.Conn.Close() // a pipe's Close cannot fail
	if lost := c.serving.Wait(); lost != nil {
		panic(lost)
	}
	if resets {
		return nil // the error is that the connection was closed below
	}
	return err
}

// SetLinger with 0 makes Close reset the connection.
func (c *carrier) SetLinger(sec int) error {
	l, ok := innermost(c.under).(interface{ SetLinger(int) error })
	if !ok {
		return errors.ErrUnsupported
	}
	c.mu.Lock()
	c.resets = sec == 0
	c.mu.Unlock()
	return l.SetLinger(sec)
}

// SetReadBuffer sets the receive buffer of the connection.
func (c *carrier) SetReadBuffer(bytes int) error {
	l, ok := innermost(c.under).(interface{ SetReadBuffer(int) error })
	if !ok {
		return errors.ErrUnsupported
	}
	return l.SetReadBuffer(bytes)
}

// LocalAddr returns the address of our end of the connection.
func (c *carrier) LocalAddr() net.Addr { return c.under.LocalAddr() }

// RemoteAddr returns the address of the other end, which is the proxy where there is one.
func (c *carrier) RemoteAddr() net.Addr { return c.under.RemoteAddr() }

func innermost(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}

// gone ends a link that rests when its HTTP/2 connection is gone. An exchange under way
// ends by itself, behind what has arrived.
func (c *carrier) gone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		_ = c.far.Close() // a pipe's Close cannot fail
	}
}

// rests says whether an exchange is under way.
func (c *carrier) rests(idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = idle
}

// serve carries exchanges until one of the ends is gone.
func (c *carrier) serve() {
	defer c.far.Close()
	in := &io.LimitedReader{R: c.far}
	requests := bufio.NewReader(in)
	for {
		in.N = math.MaxInt64
		c.rests(true)
		if c.h2.Err() != nil {
			c.fail(io.ErrClosedPipe)
			return
		}
		_, err := requests.Peek(1)
		c.rests(false)
		if err != nil {
			c.fail(err)
			return
		}
		in.N = maxHead
		request, err := http.ReadRequest(requests)
		if err != nil {
			c.fail(fmt.Errorf("a request that HTTP/2 cannot carry: %w", err))
			return
		}
		in.N = math.MaxInt64
		if err := c.exchange(request); err != nil {
			c.fail(err)
			return
		}
		if request.Close {
			return
		}
	}
}

// fail keeps what ended the link: a broken connection as the system said it, the plain
// end of one as nothing.
func (c *carrier) fail(err error) {
	var plain *handshakeError
	var broken *net.OpError
	if secure, is := c.under.(*secureLink); is && !c.answered && (c.h2.Err() != nil || errors.As(err, &broken)) {
		err = secure.plain(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case errors.As(err, &plain):
		c.err = plain
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
	case errors.Is(err, syscall.ECONNRESET):
		c.err = syscall.ECONNRESET
	default:
		c.err = fmt.Errorf("HTTP/2: %w", err)
	}
}

// exchange carries one request and its answer.
func (c *carrier) exchange(request *http.Request) error {
	if request.Method == http.MethodConnect || request.Method == http.MethodHead {
		return fmt.Errorf("the method %s is not carried", request.Method)
	}
	request.RequestURI = ""
	request.URL.Scheme, request.URL.Host = c.scheme, request.Host
	hopByHop(request.Header)
	if request.Header.Get("User-Agent") == "" {
		request.Header["User-Agent"] = []string{""} // none, instead of Go's
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	response, err := c.h2.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return err
	}
	c.answered = true
	defer response.Body.Close()
	if err := c.answer(response, request.Close); err != nil {
		return err
	}
	// The next request begins behind the body, which may be longer than the server cared to
	// read: the rest is read away, and HTTP/2 lets go of it.
	return request.Body.Close()
}

// hopByHop removes the fields that HTTP/2 has no use for (RFC 9113 §8.2.2), and those that
// announce what is not handed on. The framing of the body is not among them: net/http
// keeps it elsewhere.
func hopByHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.Trim(name, " \t"))
		}
	}
	for _, name := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// answer writes the response in HTTP/1.1, each part of the body as soon as it has come.
func (c *carrier) answer(response *http.Response, last bool) error {
	sized := response.ContentLength >= 0
	bodiless := response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
	head := fmt.Appendf(nil, "HTTP/1.1 %03d %s\r\n", response.StatusCode, http.StatusText(response.StatusCode))
	hopByHop(response.Header)
	response.Header.Del("Content-Length")
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		for _, value := range response.Header[name] {
			head = fmt.Appendf(head, "%s: %s\r\n", name, value)
		}
	}
	switch {
	case bodiless:
	case sized:
		head = fmt.Appendf(head, "Content-Length: %d\r\n", response.ContentLength)
	default:
		head = append(head, "Transfer-Encoding: chunked\r\n"...)
	}
	if last {
		head = append(head, "Connection: close\r\n"...)
	}
	if _, err := c.far.Write(append(head, "\r\n"...)); err != nil || bodiless {
		return err
	}
	return c.body(response.Body, !sized)
}

// body hands the parts of the body on, as chunks if it is not sized.
func (c *carrier) body(from io.Reader, chunked bool) error {
	const before, after = len("4000\r\n"), len("\r\n") // 4000 is frameSize
	buf := make([]byte, before+frameSize+after)
	for {
		n, err := from.Read(buf[before : before+frameSize])
		if n > 0 {
			part := buf[before : before+n]
			if chunked {
				size := strconv.FormatInt(int64(n), 16) + "\r\n"
				begin := before - len(size)
				copy(buf[begin:], size)
				part = append(buf[begin:before+n], "\r\n"...)
			}
			if _, err := c.far.Write(part); err != nil {
				return err
			}
		}
		if err == io.EOF && chunked {
			_, err = io.WriteString(c.far, "0\r\n\r\n")
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
