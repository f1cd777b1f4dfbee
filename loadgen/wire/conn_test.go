package wire

import (
	"errors"
	"io"
	"net"
	"strings"
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

func TestChunkedEvents(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	const body = "e;x=\"y\"\r\nid: 1\ndata: a\n\r\n1\r\n\n\r\n9\r\nid: 2\ndat\r\n6\r\na: b\n\n\r\n"
	tests := []struct {
		name, tail string
		events     int
		cursor     string
		end        error
		reusable   bool
	}{
		{"whole – clean end", "0\r\n\r\n", 2, "2", io.EOF, true},
		{"trailer – ignored", "0\r\nX: y\r\n\r\n", 2, "2", io.EOF, true},
		{"surplus bytes – link not reusable", "0\r\n\r\nx", 2, "2", io.EOF, false},
		{"cut between chunks – truncated", "", 2, "2", io.ErrUnexpectedEOF, false},
		{"cut in the last chunk – truncated", "0\r\n", 2, "2", io.ErrUnexpectedEOF, false},
		{"clean end inside an event", "6\r\nid: 3\n\r\n0\r\n\r\n", 2, "2", ErrMidEvent, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := head + body + tt.tail
			for i := 1; i < len(whole); i++ {
				_, resp, err := answer(whole[:i], whole[i:])
				if err != nil || !resp.SSE() || resp.Status != 200 {
					t.Fatalf("cut at %d: head %+v, %v", i, resp, err)
				}
				got := drain(new(Reader), resp, "")
				if len(got.events) != tt.events || got.cursor != tt.cursor || !errors.Is(got.err, tt.end) {
					t.Fatalf("cut at %d: %v", i, got)
				}
				if tt.name != "surplus bytes – link not reusable" && resp.Reusable() != tt.reusable {
					t.Fatalf("cut at %d: reusable %v", i, resp.Reusable())
				}
			}
		})
	}
}
