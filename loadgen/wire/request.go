package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// A Field is one header field.
type Field struct{ Name, Value string }

// A Request is what [Conn.RoundTrip] writes. Host and the framing fields are added by
// us and refused among Fields; Accept-Encoding is added unless it is there.
type Request struct {
	Method string // a token; "POST" also with an empty body announces its length
	Target string // origin form: "/mcp", with the query if there is one
	Host   string // value of the Host field
	Fields []Field
	Body   []byte
}

// append writes the request behind dst: head first, then the body. The body always
// has a Content-Length, never chunks: some servers refuse those (WIRE §5).
func (q *Request) append(dst []byte) []byte {
	dst = append(dst, q.Method...)
	dst = append(dst, ' ')
	dst = append(dst, q.Target...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, q.Host...)
	dst = append(dst, "\r\n"...)
	coding := false
	for i := range q.Fields {
		coding = coding || strings.EqualFold(q.Fields[i].Name, "Accept-Encoding")
		dst = append(dst, q.Fields[i].Name...)
		dst = append(dst, ": "...)
		dst = append(dst, q.Fields[i].Value...)
		dst = append(dst, "\r\n"...)
	}
	if !coding { // without the field any coding is welcome (RFC 9110 §12.5.3)
		dst = append(dst, "Accept-Encoding: identity\r\n"...)
	}
	if len(q.Body) > 0 || q.Method == "POST" || q.Method == "PUT" || q.Method == "PATCH" {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(q.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, q.Body...)
}

// check refuses what would not arrive as it was meant: a line end in a value would
// begin another field, a field given twice is refused by strict servers, and a HEAD or
// CONNECT answer has no body whatever its fields say.
func (q *Request) check() error {
	switch {
	case !isToken(q.Method), q.Method == "HEAD", q.Method == "CONNECT":
		return fmt.Errorf("%w: method %q", ErrRequest, q.Method)
	case q.Target == "" || !isVisible(q.Target):
		return fmt.Errorf("%w: target %q", ErrRequest, q.Target)
	case q.Host == "" || !isVisible(q.Host):
		return fmt.Errorf("%w: host %q", ErrRequest, q.Host)
	}
	for i := range q.Fields {
		name := q.Fields[i].Name
		switch {
		case !isToken(name):
			return fmt.Errorf("%w: field name %q", ErrRequest, name)
		case strings.EqualFold(name, "Host"), strings.EqualFold(name, "Content-Length"),
			strings.EqualFold(name, "Transfer-Encoding"):
			return fmt.Errorf("%w: field %s is not the caller's", ErrRequest, name)
		case !isFieldValue(q.Fields[i].Value):
			return fmt.Errorf("%w: value of field %s", ErrRequest, name)
		}
		for j := range i {
			if strings.EqualFold(name, q.Fields[j].Name) {
				return fmt.Errorf("%w: field %s given twice", ErrRequest, name)
			}
		}
	}
	return nil
}

// closes tells whether the request itself asks for the end of the link.
func (q *Request) closes() bool {
	for i := range q.Fields {
		if strings.EqualFold(q.Fields[i].Name, "Connection") && hasToken(q.Fields[i].Value, "close") {
			return true
		}
	}
	return false
}

// isTokenByte tells the bytes of a token (RFC 9110 §5.6.2).
func isTokenByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isToken[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isFieldValue tells whether s holds no control byte but tabs (RFC 9110 §5.5).
func isFieldValue[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
