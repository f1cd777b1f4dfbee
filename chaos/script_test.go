package chaos

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// scripted is a connection whose peer has already said everything it will say. It
// hands it out in pieces of a given size and notes what is done to it.
type scripted struct {
	rest   string
	piece  int
	end    error
	closed bool
	linger int
}

func (c *scripted) Read(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.rest == "" {
		return 0, c.end
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scripted) Close() error                     { c.closed = true; return nil }
func (c *scripted) SetLinger(sec int) error          { c.linger = sec; return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

// outcome is what the reader of a link and its observer saw.
type outcome struct {
	got        string
	err        error
	injections []Injection
	// atInjection is how much had been delivered when the first injection was told.
	atInjection int
	conn        *scripted
	link        *Link
	reusable    bool
}

// play reads a scripted response through a link, in reads of a given size.
func play(response string, piece, read int, ex Exchange) *outcome {
	o := &outcome{conn: &scripted{rest: response, piece: piece, end: io.EOF, linger: -1}}
	o.link = NewLink(o.conn, 7)
	var got strings.Builder
	ex.OnInjection = func(in *Injection) {
		o.injections = append(o.injections, *in)
		o.atInjection = got.Len()
	}
	o.link.Begin(ex)
	_, o.err = o.link.Write([]byte(requestText))
	buf := make([]byte, read)
	for o.err == nil {
		var n int
		n, o.err = o.link.Read(buf)
		got.Write(buf[:n])
	}
	o.reusable = o.link.End()
	o.got = got.String()
	return o
}

// victim makes a stream's state from hand-written faults.
func victim(faults ...Planned) *Victim {
	v := &Victim{left: len(faults)}
	for _, f := range faults {
		v.faults = append(v.faults, pending{Planned: f})
	}
	return v
}

const (
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	closeHead   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	priming     = "id: a-0\nretry: 100\ndata:\n\n"
	response    = `id: a-9` + "\n" + `data: {"id":1,"jsonrpc":"2.0","result":{"content":[]}}` + "\n\n"
)

func message(n int) string {
	return fmt.Sprintf("id: a-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":%d}}\n\n", n, n)
}

// missedHead is the head of a resumed stream that announces its replay.
func missedHead(n int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nGapless-Missed: %d\r\n\r\n", n)
}

// chunked frames every part as one chunk, without the last chunk.
func chunked(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String()
}

// dechunk returns the payload of complete and begun chunks, and whether the last
// chunk came.
func dechunk(s string) (payload string, ended bool, err error) {
	for s != "" {
		line, rest, ok := strings.Cut(s, "\r\n")
		if !ok {
			return payload, false, nil
		}
		var n int
		if _, err := fmt.Sscanf(line, "%x", &n); err != nil {
			return payload, false, errors.New("bad chunk size " + line)
		}
		if n == 0 {
			if rest != "\r\n" {
				return payload, false, errors.New("bytes behind the last chunk: " + rest)
			}
			return payload, true, nil
		}
		if len(rest) <= n {
			return payload + rest, false, nil
		}
		payload += rest[:n]
		s = strings.TrimPrefix(rest[n:], "\r\n")
		if len(rest[n:]) < 2 {
			return payload, false, nil
		}
	}
	return payload, false, nil
}
