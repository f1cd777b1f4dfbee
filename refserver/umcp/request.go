package umcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// Header names of Streamable HTTP, in the spelling that http.Header has for them.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerCursor  = "Last-Event-Id"
)

// singletons are the headers of which a request has at most one, equal or not ("HTTP
// connections": "ambiguous singleton headers"; "Reverse proxies" lists them).
func singletons() []string {
	return []string{
		"Host", "Authorization", "Origin", "Accept", "Content-Type", headerVersion, headerSession, headerCursor,
		"Content-Length", "Transfer-Encoding",
	}
}

// request is a request whose head was read.
type request struct {
	*http.Request
	length  int64           // of the body
	persist bool            // the client leaves the connection open
	old     bool            // HTTP/1.0
	token   *auth.TokenInfo // verified; nil when nobody is asked for one
}

// unreadable is why a request cannot be read to its end. It is answered, and then the
// connection is closed.
type unreadable struct {
	status int
	text   string
}

func (u *unreadable) Error() string { return u.text }

func malformed(text string) error { return &unreadable{http.StatusBadRequest, text} }

// reader reads requests from one connection. It takes only what cannot be misunderstood:
// another program on the way might draw another conclusion.
type reader struct {
	in     *bufio.Reader
	limits Limits
	left   int // bytes that the head may still have
}

func newReader(in io.Reader, limits Limits) *reader {
	return &reader{in: bufio.NewReaderSize(in, 4<<10), limits: limits}
}

// head reads a request line and the headers. The error is *[unreadable] or that of the
// connection, which may have ended.
func (r *reader) head() (*request, error) {
	r.left = r.limits.HeaderBytes
	line, err := r.line()
	if err == nil && line == "" {
		line, err = r.line() // RFC 9112, 2.2: some clients send one line end too many
	}
	if err != nil {
		return nil, err
	}
	req, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	for lines := 0; ; lines++ {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		if lines == r.limits.HeaderLines {
			return nil, &unreadable{http.StatusRequestHeaderFieldsTooLarge, "too many header lines"}
		}
		if err := addField(req.Header, line); err != nil {
			return nil, err
		}
	}
	return req, r.frame(req)
}

// line reads one line of the head, without its end.
func (r *reader) line() (string, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if r.left -= len(part); r.left < 0 {
			return "", &unreadable{http.StatusRequestHeaderFieldsTooLarge, "the head is too large"}
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return "", err
		}
		break
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok {
		return "", malformed("a line of the head does not end with CR LF")
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", malformed("a control character in the head")
		}
	}
	return text, nil
}

// requestLine reads "METHOD target HTTP/1.x".
func requestLine(line string) (*request, error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !isToken(parts[0]) {
		return nil, malformed("the request line is not: method, target, version")
	}
	req := &request{Request: &http.Request{Method: parts[0], RequestURI: parts[1], Proto: parts[2], ProtoMajor: 1, Header: make(http.Header)}}
	switch {
	case parts[2] == "HTTP/1.1":
		req.ProtoMinor = 1
	case parts[2] == "HTTP/1.0":
		req.old = true
	case strings.HasPrefix(parts[2], "HTTP/"):
		return nil, &unreadable{http.StatusHTTPVersionNotSupported, "only HTTP/1.1 and HTTP/1.0 are served"}
	default:
		return nil, malformed("the request line does not end with a version of HTTP")
	}
	if parts[1] == "*" && parts[0] == http.MethodOptions {
		req.URL = &url.URL{Path: "*"}
		return req, nil
	}
	var err error
	if req.URL, err = url.ParseRequestURI(parts[1]); err != nil || strings.ContainsAny(parts[1], "#\t") || req.URL.Opaque != "" {
		return nil, malformed("the target is neither a path nor a URL")
	}
	return req, nil
}

// addField reads "name: value". A value has no blanks around it.
func addField(h http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) { // so no blanks before the colon, and no continued lines
		return malformed("a header line is not: name, colon, value")
	}
	key := textproto.CanonicalMIMEHeaderKey(name)
	if h[key] != nil && slices.Contains(singletons(), key) {
		return malformed("more than one " + key + " header")
	}
	h[key] = append(h[key], strings.Trim(value, " \t"))
	return nil
}

// isToken reports whether s is a token of RFC 9110, 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// frame finds out where the request ends and whether another may follow.
func (r *reader) frame(req *request) error {
	if req.Header["Transfer-Encoding"] != nil {
		return malformed("a request with Transfer-Encoding")
	}
	hosts := req.Header["Host"]
	if len(hosts) == 0 && !req.old || len(hosts) == 1 && strings.ContainsAny(hosts[0], " \t,/@") {
		return malformed("exactly one Host is needed")
	}
	if len(hosts) == 1 {
		req.Host = hosts[0]
	}
	if req.URL.Host != "" && len(hosts) == 1 && !strings.EqualFold(req.URL.Host, req.Host) {
		return malformed("the target and Host name two hosts")
	}
	req.persist = !hasToken(req.Header, "close") && (!req.old || hasToken(req.Header, "keep-alive"))
	lengths := req.Header["Content-Length"]
	if len(lengths) == 0 {
		if req.Method == http.MethodPost {
			return &unreadable{http.StatusLengthRequired, "a POST needs a Content-Length"}
		}
		return nil
	}
	digits := lengths[0]
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return malformed("Content-Length is not a number")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > r.limits.Body {
		return &unreadable{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	req.length, req.ContentLength = n, n
	return nil
}

// hasToken reports whether the Connection header has an option.
func hasToken(h http.Header, option string) bool {
	for _, line := range h["Connection"] {
		for item := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(item), option) {
				return true
			}
		}
	}
	return false
}

// body reads the body of a request. It is thrown away unless it is to be kept.
func (r *reader) body(req *request, keep bool) ([]byte, error) {
	var body bytes.Buffer
	var to io.Writer = io.Discard
	if keep {
		to = &body // which grows with what comes, not with what was announced
	}
	if _, err := io.CopyN(to, r.in, req.length); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}
