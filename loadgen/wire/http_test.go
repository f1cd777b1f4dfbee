package wire

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// reading is what became of one response.
type reading struct {
	status int
	body   string
	left   string // bytes behind the body
	where  string // "", "head" or "body": where err came
	err    error
}

// bodyLimit bounds the bodies that are read here, in bytes.
const bodyLimit = 1 << 20

func readOurs(raw string, parts []string) reading {
	c := NewConn(&script{pieces: pieces{parts: parts}}, Limits{})
	resp, err := c.RoundTrip(get())
	if err != nil {
		return reading{where: "head", err: err}
	}
	r := reading{status: resp.Status}
	body, err := resp.ReadAll(bodyLimit)
	r.body = string(body)
	if err != nil {
		r.where, r.err = "body", err
		return r
	}
	rest, _ := io.ReadAll(io.MultiReader(strings.NewReader(string(c.win.raw())), c.link))
	r.left = string(rest)
	if r.left != "" && resp.Reusable() && len(c.win.raw()) > 0 {
		r.where, r.err = "body", errors.New("reusable with bytes behind the body")
	}
	return r
}

func readTheirs(raw string) reading {
	br := bufio.NewReaderSize(strings.NewReader(raw), 1<<16)
	req, _ := http.NewRequest("GET", "http://h/mcp", nil)
	for {
		resp, err := http.ReadResponse(br, req)
		if err != nil {
			return reading{where: "head", err: err}
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != 101 {
			continue
		}
		r := reading{status: resp.StatusCode}
		body, err := io.ReadAll(resp.Body)
		r.body = string(body)
		if err != nil {
			r.where, r.err = "body", err
			return r
		}
		rest, _ := io.ReadAll(br)
		r.left = string(rest)
		return r
	}
}

// stricter names what we refuse and net/http lets pass. For each there is a clause that
// makes it an error of the sender.
func stricter(err error) bool {
	var frame *FrameError
	if !errors.As(err, &frame) {
		return false
	}
	switch frame.What {
	case "malformed status line", // HTTP/2.0 on an HTTP/1.1 link; control bytes in the reason (RFC 9112 §4)
		"malformed header field",                               // continued lines (RFC 9112 §5.2)
		"both Transfer-Encoding and Content-Length",            // RFC 9112 §6.3
		"Transfer-Encoding in HTTP/1.0",                        // RFC 9112 §6.1
		"more than 8 interim responses",                        // our bound
		"switch of protocols that nobody asked for",            // RFC 9110 §15.2.2
		"bad chunk size",                                       // control bytes in extensions (RFC 9112 §7.1.1)
		"malformed trailer field", "trailer not ended by CRLF", // RFC 9112 §7.1.2
		"a Content-Encoding that nobody asked for": // RFC 9110 §12.5.3; net/http leaves it to its caller
		return true
	}
	return false
}

// checkResponse compares one response with what net/http makes of it, read whole and in the
// pieces that seed draws.
func checkResponse(t *testing.T, raw string, seed uint64) {
	t.Helper()
	got := readOurs(raw, []string{raw})
	cut := readOurs(raw, split(raw, seed))
	if got.status != cut.status || got.body != cut.body || got.left != cut.left || !sameError(got.err, cut.err) {
		t.Fatalf("%q:\nwhole   %+v\nin bits %+v", raw, got, cut)
	}
	want := readTheirs(raw)
	switch {
	case got.err == nil && want.err != nil && looser(raw, want.err):
	case got.err == nil && want.err == nil:
		if got != want {
			t.Fatalf("%q:\ngot  %+v\nwant %+v", raw, got, want)
		}
	case got.err == nil || want.err == nil && !stricter(got.err):
		t.Fatalf("%q:\ngot  %+v\nwant %+v", raw, got, want)
	case want.err != nil && got.where != want.where && !stricter(got.err):
		t.Fatalf("%q: error elsewhere:\ngot  %+v\nwant %+v", raw, got, want)
	case got.err != nil && got.err.Error() == (&FrameError{What: "chunk longer than announced"}).Error():
		// One byte is enough to tell; net/http waits for a second one.
	case got.err != nil && got.err.Error() == (&LimitError{What: "body", Limit: bodyLimit}).Error():
		// What is announced as too long is not read to its end.
	case want.err == io.ErrUnexpectedEOF && got.where == "body" && got.err != io.ErrUnexpectedEOF && !stricter(got.err):
		t.Fatalf("%q: not told as truncated:\ngot  %+v\nwant %+v", raw, got, want)
	}
}

// looser names what net/http refuses and we let pass: its bound on chunk overhead, and the
// white space before a chunk extension that a recipient has to accept (RFC 9112 §7.1.1).
func looser(raw string, err error) bool {
	return strings.Contains(err.Error(), "too much non-data") ||
		strings.Contains(err.Error(), "invalid byte in chunk length") && (strings.Contains(raw, " ;") || strings.Contains(raw, "\t;"))
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}

// responses is a corpus of heads and bodies that belong together, or do not.
func responses() []string {
	heads := []string{
		"HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n", "HTTP/1.1 204 No Content\r\n",
		"HTTP/1.1 304 Not Modified\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\n",
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 409 Conflict\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000 OK\r\n",
		"http/1.1 200 OK\r\n", "HTTP/1.1  200 OK\r\n", "\r\nHTTP/1.1 200 OK\r\n", "HTTP/1.1 101 Switching\r\n", "",
	}
	fields := []string{
		"", "Content-Length: 5\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n",
		"Content-Length: +5\r\n", "Content-Length: 5, 5\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 99999999999\r\n", "content-length:5\n", "Content-Length: 0\r\n",
		"Content-Length: \r\n", "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n", "transfer-encoding: CHUNKED\r\n",
		"Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Transfer-Encoding : chunked\r\n", "X: a\r\n b\r\n", "X\r\n", ": x\r\n", "X: a\x00b\r\n",
		"Connection: close\r\n", "Connection: keep-alive, X\r\n", "Content-Encoding: Identity\r\nContent-Length: 5\r\n", "Content-Encoding: gzip\r\n", "X: \x80\r\nContent-Length: 5\r\n",
	}
	bodies := []string{
		"", "hello", "hello, and more", "5\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\nsurplus", "2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n", "5;a=b\r\nhello\r\n0;c\r\n\r\n",
		"5 ;a\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "A\r\n0123456789\r\n00\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhello!\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n",
		"0x5\r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "ffffffffffffffff\r\nhello", "10000000000000000\r\nhello",
		"5\r\r\nhello\r\n0\r\n\r\n", "5;\x01\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nbad\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\n\r\n\r\n",
	}
	var all []string
	for i, head := range heads {
		for j, f := range fields {
			for k, b := range bodies {
				// All pairs, not all triples.
				if i == 0 || j <= 1 && k < 4 || j == 11 || (i+j+k)%7 == 0 {
					all = append(all, head+f+"\r\n"+b)
				}
			}
		}
	}
	return all
}

func TestResponseAgreesWithNetHTTP(t *testing.T) {
	all := responses()
	for i, raw := range all {
		checkResponse(t, raw, uint64(i))
	}
	t.Logf("%d responses", len(all))
}

// TestRefusals names what each kind of broken framing is told as.
func TestRefusals(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct{ raw, what string }{
		{ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "both Transfer-Encoding and Content-Length"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding in HTTP/1.0"},
		{ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "a Transfer-Encoding other than chunked"},
		{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "a Transfer-Encoding other than chunked"},
		{ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "conflicting Content-Length"},
		{ok + "Content-Length: 0x1\r\n\r\nhi", "bad Content-Length"},
		{ok + "Content-Length: 9223372036854775808\r\n\r\nhi", "bad Content-Length"},
		{ok + "A: b\r\n c\r\n\r\n", "malformed header field"},
		{ok + "A : b\r\n\r\n", "malformed header field"},
		{"HTTP/1.2 200 OK\r\n\r\n", "malformed status line"},
		{"HTTP/1.1 200OK\r\n\r\n", "malformed status line"},
		{"HTTP/1.1 099 OK\r\n\r\n", "malformed status line"},
		{"HTTP/1.1 101 Switching Protocols\r\n\r\n", "switch of protocols that nobody asked for"},
		{chunked + "10000000000000000\r\n\r\n", "bad chunk size"},
		{chunked + ";a\r\n\r\n", "bad chunk size"},
		{chunked + "\r\n", "bad chunk size"},
		{chunked + "5 a\r\nhello\r\n0\r\n\r\n", "bad chunk size"},
		{chunked + "5;\x00\r\nhello\r\n0\r\n\r\n", "bad chunk size"},
		{chunked + "55\nhello\r\n0\r\n\r\n", "chunk header not ended by CRLF"},
		{chunked + "5\r\nhellohello", "chunk longer than announced"},
		{chunked + "5\r\nhello\n\r", "chunk longer than announced"},
		{chunked + "0\r\nA: b\n\r\n", "trailer not ended by CRLF"},
		{chunked + "0\r\nA b\r\n\r\n", "malformed trailer field"},
		{ok + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", "a Content-Encoding that nobody asked for"},
		{ok + "content-encoding: identity\r\nContent-Encoding: , BR\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "a Content-Encoding that nobody asked for"},
		{ok + "Content-Encoding: deflate\r\n\r\nhello", "a Content-Encoding that nobody asked for"},
	} {
		got := readOurs(tt.raw, []string{tt.raw})
		var frame *FrameError
		if !errors.As(got.err, &frame) || frame.What != tt.what {
			t.Errorf("%q: %v, want %q", tt.raw, got.err, tt.what)
		}
	}
}
