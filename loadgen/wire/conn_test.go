package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script is a link that gives out a scripted answer and keeps what was written.
type script struct {
	pieces
	wrote    strings.Builder
	writeErr error
}

func (s *script) Write(b []byte) (int, error) {
	if s.writeErr != nil {
		return len(b) / 2, s.writeErr
	}
	return s.wrote.Write(b)
}
func (*script) Close() error                     { return nil }
func (*script) LocalAddr() net.Addr              { return nil }
func (*script) RemoteAddr() net.Addr             { return nil }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

func get() *Request { return &Request{Method: "GET", Target: "/mcp", Host: "h"} }

// answer makes one exchange over a link that answers parts.
func answer(parts ...string) (*Conn, *Response, error) {
	c := NewConn(&script{pieces: pieces{parts: append([]string(nil), parts...)}}, Limits{})
	resp, err := c.RoundTrip(get())
	return c, resp, err
}

func TestChunkedEventsCutAnywhere(t *testing.T) {
	const head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	const body = "e;x=\"y\"\r\nid: 1\ndata: a\n\r\n1\r\n\n\r\n9\r\nid: 2\ndat\r\n6\r\na: b\n\n\r\n"
	tests := []struct {
		name, tail string
		end        error
		reusable   bool
	}{
		{"whole – clean end", "0\r\n\r\n", io.EOF, true},
		{"trailer – ignored", "0\r\nX: y\r\n\r\n", io.EOF, true},
		{"cut between chunks – truncated", "", io.ErrUnexpectedEOF, false},
		{"cut in the last chunk – truncated", "0\r\n", io.ErrUnexpectedEOF, false},
		{"clean end inside an event", "6\r\nid: 3\n\r\n0\r\n\r\n", ErrMidEvent, true},
		{"truncated inside an event", "6\r\nid: 3\n", io.ErrUnexpectedEOF, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := head + body + tt.tail
			for i := 1; i < len(whole); i++ {
				_, resp, err := answer(whole[:i], whole[i:])
				if err != nil || !resp.SSE() || resp.JSON() || resp.Status != 200 {
					t.Fatalf("cut at %d: head %+v, %v", i, resp, err)
				}
				got := drain(new(Reader), resp, "")
				if strings.Join(got.events, " ") != "message|a|1 message|b|2" || got.cursor != "2" || got.err != tt.end {
					t.Fatalf("cut at %d: %v", i, got)
				}
				if resp.Reusable() != tt.reusable {
					t.Fatalf("cut at %d: reusable %v", i, resp.Reusable())
				}
			}
		})
	}
}

func TestBytesBehindTheBodySpoilTheLink(t *testing.T) {
	c, resp, _ := answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n")
	if b, err := resp.ReadAll(2); string(b) != "{}" || err != nil || resp.Reusable() {
		t.Errorf("%q, %v, reusable %v", b, err, resp.Reusable())
	}
	if _, err := c.RoundTrip(get()); err != ErrBusy {
		t.Errorf("second exchange: %v", err)
	}
}

func TestReusable(t *testing.T) {
	tests := []struct {
		name, head string
		want       bool
	}{
		{"1.1 – kept", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true},
		{"1.1 with close – closed", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, Close\r\n\r\n{}", false},
		{"1.0 – closed", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", false},
		{"1.0 with keep-alive – kept", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}", true},
		{"ended by the link – closed", "HTTP/1.1 200 OK\r\n\r\n{}", false},
		{"no content – kept", "HTTP/1.1 204 No Content\r\n\r\n", true},
		{"accepted without body – kept", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, resp, err := answer(tt.head)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Drain(10); err != nil || resp.Reusable() != tt.want {
				t.Errorf("%v, reusable %v", err, resp.Reusable())
			}
		})
	}
}

func TestTwoExchangesOnOneLink(t *testing.T) {
	link := &script{pieces: pieces{parts: []string{
		"HTTP/1.1 200 OK\r\nMcp-Session-Id: s1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
	}}}
	c := NewConn(link, Limits{})
	resp, err := c.RoundTrip(&Request{Method: "POST", Target: "/mcp", Host: "h:1", Fields: []Field{{"Accept", "*/*"}}, Body: []byte("{}")})
	if err != nil || resp.Get("mcp-session-id") != "s1" || !resp.JSON() || resp.Count("X") != 0 || resp.Get("X") != "" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := c.RoundTrip(get()); err != ErrBusy {
		t.Errorf("with an unread body: %v", err)
	}
	if _, err := resp.ReadAll(1); !isLimit(err, "body") {
		t.Errorf("body of 2 bytes in 1: %v", err)
	}
	if err := resp.Drain(0); err != nil && !isLimit(err, "body") {
		t.Errorf("drain: %v", err)
	}
	if err := resp.Drain(2); err != nil {
		t.Errorf("drain: %v", err)
	}
	if resp, err = c.RoundTrip(&Request{Method: "POST", Target: "/mcp", Host: "h:1", Fields: []Field{{"Connection", "close"}, {"Accept-Encoding", "gzip"}}}); err != nil || resp.Status != 202 || resp.Get("Mcp-Session-Id") != "" {
		t.Fatalf("second exchange: %+v, %v", resp, err)
	}
	if resp.Reusable() {
		t.Error("reusable after the request asked to close")
	}
	want := "POST /mcp HTTP/1.1\r\nHost: h:1\r\nAccept: */*\r\nAccept-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}" +
		"POST /mcp HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nAccept-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"
	if got := link.wrote.String(); got != want {
		t.Errorf("wrote %q", got)
	}
}

func isLimit(err error, what string) bool {
	var limit *LimitError
	return errors.As(err, &limit) && limit.What == what
}

func TestRequestsThatCannotBeWritten(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"CR in a value":       func(q *Request) { q.Fields = []Field{{"A", "b\rc"}} },
		"LF in a value":       func(q *Request) { q.Fields = []Field{{"A", "b\nC: d"}} },
		"NUL in a value":      func(q *Request) { q.Fields = []Field{{"A", "\x00"}} },
		"space in a name":     func(q *Request) { q.Fields = []Field{{"A b", "c"}} },
		"colon in a name":     func(q *Request) { q.Fields = []Field{{"A:", "c"}} },
		"no name":             func(q *Request) { q.Fields = []Field{{"", "c"}} },
		"field twice":         func(q *Request) { q.Fields = []Field{{"Accept", "a"}, {"B", "b"}, {"accept", "a"}} },
		"length of one's own": func(q *Request) { q.Fields = []Field{{"content-length", "5"}} },
		"chunks":              func(q *Request) { q.Fields = []Field{{"Transfer-Encoding", "chunked"}} },
		"second host":         func(q *Request) { q.Fields = []Field{{"Host", "x"}} },
		"space in the target": func(q *Request) { q.Target = "/a b" },
		"no target":           func(q *Request) { q.Target = "" },
		"line end in host":    func(q *Request) { q.Host = "h\r\nX: y" },
		"no host":             func(q *Request) { q.Host = "" },
		"HEAD":                func(q *Request) { q.Method = "HEAD" },
		"no method":           func(q *Request) { q.Method = "" },
	} {
		t.Run(name, func(t *testing.T) {
			link := &script{}
			q := get()
			change(q)
			if _, err := NewConn(link, Limits{}).RoundTrip(q); !errors.Is(err, ErrRequest) || link.wrote.Len() > 0 {
				t.Errorf("%v, wrote %q", err, link.wrote.String())
			}
		})
	}
}

func TestEndsOfTheLink(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, text string
		link, want error
	}{
		{"FIN before a head", "", nil, io.EOF},
		{"FIN inside a head", "HTTP/1.1 2", nil, io.ErrUnexpectedEOF},
		{"FIN between heads", "HTTP/1.1 100 C\r\n\r\n", nil, io.ErrUnexpectedEOF},
		{"FIN inside a chunk", head + "9\r\nid: 1\n", nil, io.ErrUnexpectedEOF},
		{"FIN before a chunk", head, nil, io.ErrUnexpectedEOF},
		{"FIN inside a chunk size", head + "1", nil, io.ErrUnexpectedEOF},
		{"FIN inside a body of known length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata: a\n", nil, io.ErrUnexpectedEOF},
		{"FIN ends a body of unknown length", "HTTP/1.1 200 OK\r\n\r\ndata: a\n\n", nil, io.EOF},
		{"FIN inside an event of such a body", "HTTP/1.1 200 OK\r\n\r\ndata: a\n", nil, ErrMidEvent},
		{"RST before a head", "", reset, syscall.ECONNRESET},
		{"RST inside a head", "HTTP/1.1 2", reset, syscall.ECONNRESET},
		{"RST inside a chunk", head + "9\r\nid: 1\n", reset, syscall.ECONNRESET},
		{"RST in a body of unknown length", "HTTP/1.1 200 OK\r\n\r\ndata: a\n", reset, syscall.ECONNRESET},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewConn(&script{pieces: pieces{parts: []string{tt.text}, err: tt.link}}, Limits{})
			resp, err := c.RoundTrip(get())
			if err == nil {
				err = drain(new(Reader), resp, "").err
				if resp.Reusable() {
					t.Error("reusable")
				}
			}
			if !errors.Is(err, tt.want) || IllegalOf(err) != 0 {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if _, err := c.RoundTrip(get()); err != ErrBusy {
				t.Errorf("another exchange: %v", err)
			}
		})
	}
}

func TestRequestNotWritten(t *testing.T) {
	link := &script{writeErr: syscall.EPIPE}
	_, err := NewConn(link, Limits{}).RoundTrip(get())
	var send *SendError
	if !errors.As(err, &send) || send.Sent >= send.Size || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

func TestNextGoesOnAfterATimeout(t *testing.T) {
	in := &pieces{parts: []string{"id: 1\ndata: a\n\nid: 2\nda"}, err: os.ErrDeadlineExceeded}
	var r Reader
	r.Reset(in, nil)
	var ev Event
	if err := r.Next(&ev); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Next(&ev); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	in.parts, in.err = []string{"ta: b\n\n"}, nil
	if err := r.Next(&ev); err != nil || string(ev.Data) != "b" || string(ev.ID) != "2" {
		t.Errorf("%q, %v", ev.Data, err)
	}
}
