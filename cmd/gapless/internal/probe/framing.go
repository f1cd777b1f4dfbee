package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// settle is how long a server may take to close a link behind an answer.
const settle = 100 * time.Millisecond

// framing asks at the level of HTTP/1.1.
func framing(ctx context.Context, x *run) error {
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	if err := x.secondRequest(ctx, s); err != nil {
		return err
	}
	for _, q := range []struct {
		row    string
		forge  func([]byte) []byte
		refuse bool // 400 is demanded
	}{
		{"chunked-request", chunked, false},
		{"duplicate-session", twice("Mcp-Session-Id"), false},
		{"duplicate-host", insert("Host: " + elsewhere), true},
		{"duplicate-length", insert("Content-Length: 7"), true},
	} {
		if q.row == "duplicate-session" && !x.sessions {
			x.sheet.set(q.row, NotOffered, "no session ids")
			continue
		}
		st, err := x.reply(ctx, s, "ping", nil, func(r *client.Request) { r.Forge = q.forge })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case x.spared(err, q.row):
		case err != nil && q.refuse: // by whom, nobody can tell: there may be something between
			x.sheet.set(q.row, Unsure, "refused without a 400: %s", client.Words(err))
		case err != nil:
			x.sheet.set(q.row, Open, "%s", client.Words(err))
		default:
			x.sheet.yes(q.row, st.status == 400, "%s", st.short())
		}
	}
	return nil
}

// secondRequest asks whether a link that an answer left open carries another request.
func (x *run) secondRequest(ctx context.Context, s *client.Session) error {
	st, err := x.request(ctx, s, "ping", nil)
	if err != nil {
		return err
	}
	defer st.close()
	st.drain(x.Quiet, st.began.Add(2*x.Quiet))
	if st.ended != io.EOF {
		return fmt.Errorf("ping: %s", st.short())
	}
	if !st.a.Reusable() {
		x.sheet.set("close-announced", Conforming, "closed, as announced")
		return nil
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	body, fields, err := s.Request(strconv.FormatInt(x.ids.Add(1)+100, 10), "ping", nil)
	if err != nil {
		return err
	}
	err = st.a.Again(client.Request{Fields: fields, Body: body})
	x.sheet.yes("close-announced", err == nil, "%s", map[bool]string{
		true: "kept: a second request on the link is answered", false: "closed without a word: no second request"}[err == nil])
	return nil
}

// head cuts a request into its head, with the empty line, and its body.
func head(request []byte) (head, body []byte) {
	at := bytes.Index(request, []byte("\r\n\r\n")) + 4
	return request[:at], request[at:]
}

// insert adds a line behind the first header.
func insert(line string) func([]byte) []byte {
	return func(request []byte) []byte {
		at := bytes.Index(request, []byte("\r\nHost: ")) + 2
		at += bytes.Index(request[at:], []byte("\r\n")) + 2
		return bytes.Join([][]byte{request[:at], []byte(line + "\r\n"), request[at:]}, nil)
	}
}

// twice repeats a header with its value.
func twice(name string) func([]byte) []byte {
	return func(request []byte) []byte {
		h, _ := head(request)
		for line := range bytes.Lines(h) {
			if bytes.HasPrefix(line, []byte(name+": ")) {
				return insert(string(bytes.TrimSpace(line)))(request)
			}
		}
		return request
	}
}

// chunked sends the body in two chunks instead of with a length.
func chunked(request []byte) []byte {
	h, b := head(request)
	var out []byte
	for line := range bytes.Lines(h) {
		if bytes.HasPrefix(line, []byte("Content-Length: ")) {
			line = []byte("Transfer-Encoding: chunked\r\n")
		}
		out = append(out, line...)
	}
	half := len(b) / 2
	return fmt.Appendf(out, "%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, b[:half], len(b)-half, b[half:])
}

// took writes a duration for a cell.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
