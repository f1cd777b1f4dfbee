package wire

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// A Response is a response head and the body that follows it. It belongs to its
// [Conn].
type Response struct {
	Status int // 200 to 599, whatever three digits the peer sent

	body
	whole []byte // the last head as it came
	head  []byte // its field lines, up to and including the empty line
	minor byte   // of the HTTP version: '0' or '1'
	keep  bool   // both sides leave the link open
}

func (p *Response) begin(win *window) {
	p.body = body{win: win, limit: p.limit}
	p.Status, p.head, p.keep = 0, nil, false
}

// nextHead moves the next head out of the window and returns its size in bytes.
func (p *Response) nextHead(limit int) (int, error) {
	w := p.win
	for seen := 0; ; {
		raw := w.raw()
		if n := headEnd(raw, seen); n > 0 {
			if n > limit {
				return 0, &LimitError{What: "head", Limit: p.limit.Head}
			}
			p.whole = append(p.whole[:0], raw[:n]...)
			w.r += n
			return n, nil
		}
		if len(raw) > limit {
			return 0, &LimitError{What: "head", Limit: p.limit.Head}
		}
		// An end may have begun with the last three bytes.
		seen = max(0, len(raw)-3)
		if err := w.fill(); err != nil {
			if err == io.EOF && len(raw) == 0 && p.Status == 0 {
				return 0, io.EOF
			}
			return 0, truncated(err)
		}
	}
}

// headEnd returns the length of raw up to and including the empty line, 0 when that is
// not there yet. Lines end in LF or CRLF (RFC 9112 §2.2).
func headEnd(raw []byte, from int) int {
	for i := from; i < len(raw); i++ {
		n := bytes.IndexByte(raw[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n
		rest := raw[i+1:]
		switch {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 2
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 3
		}
	}
	return 0
}

// parseHead reads the status line and checks every field line. It leaves the field
// lines in head.
func (p *Response) parseHead() error {
	line, rest := cutLine(p.whole)
	status, minor, ok := parseStatus(line)
	if !ok {
		return &FrameError{What: "malformed status line"}
	}
	p.Status, p.minor, p.head = status, minor, rest
	for {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			return nil
		}
		if _, _, ok := cutField(line); !ok {
			return &FrameError{What: "malformed header field"}
		}
	}
}

// parseStatus reads "HTTP/1.x NNN[ reason]" (RFC 9112 §4).
func parseStatus(line []byte) (status int, minor byte, ok bool) {
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' {
		return 0, 0, false
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 || len(line) > 12 && line[12] != ' ' || !isFieldValue(line[12:]) {
		return 0, 0, false
	}
	return status, line[7], true
}

// frame decides how the body ends (RFC 9112 §6.3) and whether the link outlives it.
func (p *Response) frame() error {
	length, lengths, err := p.contentLength()
	if err != nil {
		return err
	}
	encoding, encodings := p.find("Transfer-Encoding")
	p.keep = p.minor == '1'
	p.eachToken("Connection", func(token []byte) {
		switch {
		case bytes.EqualFold(token, []byte("close")):
			p.keep = false
		case bytes.EqualFold(token, []byte("keep-alive")) && p.minor == '0':
			p.keep = true
		}
	})
	switch {
	case encodings > 0 && lengths > 0:
		return &FrameError{What: "both Transfer-Encoding and Content-Length"}
	case encodings > 0 && p.minor == '0':
		return &FrameError{What: "Transfer-Encoding in HTTP/1.0"}
	case encodings > 1 || encodings == 1 && !bytes.EqualFold(encoding, []byte("chunked")):
		return &FrameError{What: "a Transfer-Encoding other than chunked"}
	case p.Status == 204 || p.Status == 304:
		p.kind = framingNone
	case encodings > 0:
		p.kind = framingChunked
	case lengths > 0:
		p.kind, p.left = framingLength, length
	default:
		p.kind, p.keep = framingClose, false
	}
	switch {
	case p.kind == framingNone || p.kind == framingLength && p.left == 0:
		p.err = io.EOF
	case p.encoded():
		p.err = &FrameError{What: "a Content-Encoding that nobody asked for"}
	}
	return nil
}

// encoded tells whether the body would have to be decoded to be read. Requests say that
// nothing but identity is understood (RFC 9110 §12.5.3), and what was made small to become
// large is never unpacked.
func (p *Response) encoded() bool {
	encoded := false
	p.eachToken("Content-Encoding", func(token []byte) {
		encoded = encoded || len(token) > 0 && !bytes.EqualFold(token, []byte("identity"))
	})
	return encoded
}

// contentLength accepts repeated fields only when they agree to the letter (RFC 9110 §8.6).
func (p *Response) contentLength() (length uint64, fields int, err error) {
	var first []byte
	for rest := p.head; ; {
		line, next := cutLine(rest)
		if len(line) == 0 {
			return length, fields, nil
		}
		rest = next
		name, value, _ := cutField(line)
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		n, ok := parseDecimal(value)
		if !ok || n > 1<<63-1 {
			return 0, 0, &FrameError{What: "bad Content-Length"}
		}
		if fields > 0 && !bytes.Equal(value, first) {
			return 0, 0, &FrameError{What: "conflicting Content-Length"}
		}
		length, first = n, value
		fields++
	}
}

// find returns the first value of a field and how often the field occurs.
func (p *Response) find(name string) (value []byte, n int) {
	for rest := p.head; ; {
		line, next := cutLine(rest)
		if len(line) == 0 {
			return value, n
		}
		rest = next
		k, v, _ := cutField(line)
		if len(k) == len(name) && strings.EqualFold(string(k), name) {
			if n == 0 {
				value = v
			}
			n++
		}
	}
}

func (p *Response) eachToken(name string, yield func(token []byte)) {
	for rest := p.head; ; {
		line, next := cutLine(rest)
		if len(line) == 0 {
			return
		}
		rest = next
		k, v, _ := cutField(line)
		if len(k) != len(name) || !strings.EqualFold(string(k), name) {
			continue
		}
		for len(v) > 0 {
			var token []byte
			token, v, _ = bytes.Cut(v, []byte(","))
			yield(bytes.Trim(token, " \t"))
		}
	}
}

// Get returns the first value of a field, "" when it is absent. Names are compared
// without case.
func (p *Response) Get(name string) string {
	value, _ := p.find(name)
	return string(value)
}

// Count returns how often a field occurs.
func (p *Response) Count(name string) int {
	_, n := p.find(name)
	return n
}

// DropHead gives up the fields of the head, of which nobody needs to know more: a body may be
// read for long.
func (p *Response) DropHead() { p.whole, p.head = nil, nil }

// SSE tells whether the body is text/event-stream, whatever its parameters.
func (p *Response) SSE() bool { return p.mediaType("text/event-stream") }

// JSON tells whether the body is application/json, whatever its parameters.
func (p *Response) JSON() bool { return p.mediaType("application/json") }

func (p *Response) mediaType(want string) bool {
	value, _ := p.find("Content-Type")
	media, _, _ := bytes.Cut(value, []byte(";"))
	media = bytes.Trim(media, " \t")
	return len(media) == len(want) && strings.EqualFold(string(media), want)
}

// Read reads the decoded body. It returns io.EOF at the end that the framing announces,
// io.ErrUnexpectedEOF when the link ended before, and else as [Conn.RoundTrip].
func (p *Response) Read(dst []byte) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	w := p.win
	if w.a == w.b {
		if err := p.more(); err != nil {
			return 0, err
		}
	}
	n := copy(dst, w.buf[w.a:w.b])
	w.a += n
	return n, nil
}

// ReadAll reads the rest of the body into memory of the caller's. A body longer than
// limit bytes is a *LimitError.
func (p *Response) ReadAll(limit int) ([]byte, error) {
	var all []byte
	err := p.each(limit, func(part []byte) {
		// An announced length is no reason to make room for what may never come.
		if need := len(all) + len(part); need > cap(all) {
			all = append(make([]byte, 0, max(need, min(2*cap(all), limit))), all...)
		}
		all = append(all, part...)
	})
	return all, err
}

// Drain reads the rest of the body away, so that the link may be reused. A body longer
// than limit bytes is a *LimitError.
func (p *Response) Drain(limit int) error { return p.each(limit, func([]byte) {}) }

func (p *Response) each(limit int, yield func(part []byte)) error {
	w := p.win
	if p.kind == framingLength && p.err == nil && p.left > uint64(limit) {
		return &LimitError{What: "body", Limit: limit}
	}
	for {
		part := w.buf[w.a:w.b]
		if len(part) > limit {
			return &LimitError{What: "body", Limit: limit}
		}
		limit -= len(part)
		yield(part)
		w.a = w.b
		if err := p.more(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// Reusable tells whether the link may carry another exchange: the body was read to the
// end that its framing announces, both sides keep the link, and nothing follows the body.
func (p *Response) Reusable() bool {
	return p.keep && p.err == io.EOF && p.win.r == p.win.w && p.win.err == nil
}

// cutLine splits off the first line without its LF or CRLF. A line is empty only at the
// end of a head.
func cutLine(head []byte) (line, rest []byte) {
	i := bytes.IndexByte(head, '\n')
	if i < 0 {
		return nil, nil
	}
	line, rest = head[:i], head[i+1:]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

// cutField splits a field line; ok is false when it is none. A line that continues the
// one before is refused: a server must not send it (RFC 9112 §5.2).
func cutField(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	if !ok || !isToken(name) || !isFieldValue(value) {
		return nil, nil, false
	}
	return name, bytes.Trim(value, " \t"), true
}

// hasToken tells whether a comma-separated list holds a token, without case.
func hasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(part, " \t"), token) {
			return true
		}
	}
	return false
}

func parseDecimal(s []byte) (uint64, bool) {
	if len(s) == 0 || len(s) > 20 {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(s), 10, 64)
	return n, err == nil
}
