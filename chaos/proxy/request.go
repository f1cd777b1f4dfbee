package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
)

// request is what the proxy keeps of one request: how long it is, and what kind of
// exchange it opens. Values that identify anybody are kept as hashes only.
type request struct {
	// head is the length of the head, blank line included.
	head int
	body framer
	// headOnly: the response has no body (HEAD); upgrade: the client offers to speak
	// something else than HTTP from then on.
	headOnly, upgrade bool
	// waits: the client sends its body only after a 100 (Continue).
	waits bool
	// length is the Content-Length, -1 without one.
	length int64
	get    bool
	post   bool
	// resume: a GET with Last-Event-ID, and the hash of session and id.
	resume  bool
	session []byte
	cursor  uint64
	// host is where the value of Host lies in the head.
	host [2]int
}

var (
	errHTTP2   = errors.New("the request is not HTTP/1.x")
	errLongish = fmt.Errorf("the request head is longer than %d bytes", maxHead)
)

// headEnd returns the length of the head at the front of b, 0 while it is not
// complete. Empty lines before the request line are part of it.
func headEnd(b []byte) int {
	at := 0
	for at < len(b) && (b[at] == '\r' || b[at] == '\n') {
		at++
	}
	for at < len(b) {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return 0
		}
		at += i + 1
		switch {
		case at < len(b) && b[at] == '\n':
			return at + 1
		case at+1 < len(b) && b[at] == '\r' && b[at+1] == '\n':
			return at + 2
		}
	}
	return 0
}

// parseRequest reads a complete head. What could be framed in two ways is refused: the
// proxy and the upstream would follow different requests.
func parseRequest(head []byte, seed maphash.Seed) (*request, error) {
	r := &request{head: len(head), length: -1}
	text := bytes.TrimLeft(head, "\r\n")
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	method, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	r.get, r.post, r.headOnly = method == "GET", method == "POST", method == "HEAD"
	if method == "CONNECT" {
		return nil, errors.New("CONNECT is not relayed: the upstream is fixed")
	}
	var cursor []byte
	chunked, coded := false, false
	for len(rest) > 0 {
		at := len(head) - len(rest)
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return nil, errors.New("a header line is not of the form Name: value")
		}
		value = bytes.Trim(value, " \t")
		switch strings.ToLower(string(name)) {
		case "content-length":
			n, err := strconv.ParseUint(string(value), 10, 62)
			if err != nil || r.length >= 0 && r.length != int64(n) {
				return nil, errors.New("the Content-Length is not one number")
			}
			r.length = int64(n)
		case "transfer-encoding":
			if coded || !bytes.EqualFold(value, []byte("chunked")) {
				return nil, errors.New("the Transfer-Encoding of a request can only be chunked")
			}
			chunked, coded = true, true
		case "host":
			from := at + bytes.IndexByte(line, ':') + 1
			r.host = [2]int{from, at + len(line)}
		case "expect":
			r.waits = true
		case "upgrade":
			r.upgrade = true
		case "mcp-session-id":
			r.session = value
		case "last-event-id":
			r.resume = r.get && len(value) > 0
			cursor = value
		}
	}
	if chunked && r.length >= 0 {
		return nil, errors.New("the request has both a Content-Length and a Transfer-Encoding")
	}
	if r.resume {
		r.cursor = cursorHash(seed, r.session, cursor)
	}
	switch {
	case chunked:
		r.body.state = bodySize
	case r.length > 0:
		r.body.left = r.length
	default:
		r.body.state = bodyDone
	}
	return r, nil
}

// requestLine checks the version and returns the method.
func requestLine(line []byte) (string, error) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	method, rest, _ := bytes.Cut(line, []byte(" "))
	i := bytes.LastIndexByte(rest, ' ')
	if len(method) == 0 || i < 0 || !bytes.HasPrefix(rest[i+1:], []byte("HTTP/1.")) {
		return "", errHTTP2
	}
	return string(method), nil
}

// cursorHash names an event id of a session without keeping either.
func cursorHash(seed maphash.Seed, session, id []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(session) // a hash never fails to be written to
	_ = h.WriteByte(0)
	_, _ = h.Write(id)
	return h.Sum64()
}

// opensSession tells an initialize request by its body.
func opensSession(body []byte) bool {
	if !bytes.Contains(body, []byte("initialize")) {
		return false
	}
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m) == nil && m.Method == "initialize"
}

// framer follows the body of a request to its end.
type framer struct {
	state  bodyState
	digits bool // the size line has one
	left   int64
}

type bodyState uint8

const (
	bodyLength bodyState = iota
	bodySize
	bodyChunk
	bodyExt
	bodyChunkEnd
	bodyTrailer
	bodyTrailerLine
	bodyDone
	bodyBroken
)

// next returns how many bytes at the front of p belong to the body.
func (f *framer) next(p []byte) int {
	for i := 0; i < len(p); {
		switch {
		case f.state >= bodyDone:
			return i
		case f.state == bodyLength || f.state == bodyChunk:
			n := int(min(f.left, int64(len(p)-i)))
			i += n
			f.left -= int64(n)
			if f.left == 0 && f.state == bodyChunk {
				f.state = bodyChunkEnd
			} else if f.left == 0 {
				f.state = bodyDone
			}
		default:
			f.framing(p[i])
			i++
		}
	}
	return len(p)
}

func (f *framer) done() bool   { return f.state == bodyDone }
func (f *framer) broken() bool { return f.state == bodyBroken }

func (f *framer) framing(c byte) {
	switch f.state {
	case bodySize:
		f.sizeByte(c)
	case bodyExt:
		if c == '\n' {
			f.sizeDone()
		}
	case bodyChunkEnd:
		if c == '\n' {
			f.state, f.digits, f.left = bodySize, false, 0
		} else if c != '\r' {
			f.state = bodyBroken
		}
	case bodyTrailer:
		if c == '\n' {
			f.state = bodyDone
		} else if c != '\r' {
			f.state = bodyTrailerLine
		}
	case bodyTrailerLine:
		if c == '\n' {
			f.state = bodyTrailer
		}
	}
}

func (f *framer) sizeByte(c byte) {
	d := int64(-1)
	switch {
	case c >= '0' && c <= '9':
		d = int64(c - '0')
	case c >= 'a' && c <= 'f':
		d = int64(c-'a') + 10
	case c >= 'A' && c <= 'F':
		d = int64(c-'A') + 10
	case f.digits && c == '\n':
		f.sizeDone()
		return
	case f.digits && (c == ';' || c == '\r' || c == ' ' || c == '\t'):
		f.state = bodyExt
		return
	}
	if d < 0 || f.left >= 1<<58 {
		f.state = bodyBroken
		return
	}
	f.left, f.digits = f.left<<4|d, true
}

func (f *framer) sizeDone() {
	f.state = bodyChunk
	if f.left == 0 {
		f.state = bodyTrailer
	}
}
