package umcp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/refserver/umcp"
)

// FuzzRequest sends any bytes, a request behind them, and the end of the connection.
// Whatever the bytes are, what comes back is whole responses, and none behind one that
// says "Connection: close"; only refusals say so if the client does not. The request
// behind is never served after an unsafe one, and none is handled without an answer.
func FuzzRequest(f *testing.F) {
	for _, text := range unsafe() {
		f.Add([]byte(text))
	}
	post := request("POST", "/mcp", initBody(newer))
	for _, text := range []string{
		"", "\r\n", post, post + post, post[:len(post)-1], asHTTP10(post), post + "x",
		request("GET", "/x", ""), request("HEAD", "/x", ""), request("OPTIONS", "*", ""),
		request("GET", "/x", "", "Connection: close"), request("POST", "/x", "0123456789", "Expect: 100-continue"),
		request("GET", "http://localhost/x?y", "", "X: y:z"), request("DELETE", "/mcp", "a", "Mcp-Session-Id: x"),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) > 64<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) { fuzzed(t, sent) })
	})
}

func fuzzed(t *testing.T, sent []byte) {
	var handled, last atomic.Int64
	r := virtual(t, umcp.Config{Limits: umcp.Limits{Body: 1000, HeaderBytes: 2000}, Other: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		if r.URL.Path == "/canary" {
			last.Add(1)
		}
	})})
	l := r.link()
	behind := request("OPTIONS", "/canary", "")
	go func() {
		_, _ = io.WriteString(l, string(sent)+behind) // the server may have left
		_ = l.Conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	all, err := io.ReadAll(l)
	if err != nil {
		t.Fatalf("the connection ended with %v", err)
	}
	replies, err := split(string(all), strings.Contains(string(sent), "HEAD"))
	if err != nil {
		t.Fatalf("%v in %q", err, all)
	}
	finals := 0
	for i, re := range replies {
		if re.status == 100 {
			continue
		}
		finals++
		if re.closes() && i < len(replies)-1 {
			t.Fatalf("response %d of %d says that it is the last", i+1, len(replies))
		}
	}
	if finals == 0 || handled.Load() > int64(finals) || last.Load() > 1 {
		t.Fatalf("%d responses, %d requests handled, the last one %d times", finals, handled.Load(), last.Load())
	}
	asked := strings.Contains(strings.ToLower(string(sent)), "close") || strings.Contains(string(sent), "HTTP/1.0")
	if end := replies[len(replies)-1]; end.closes() && !asked && (end.status < 400 || last.Load() > 0) {
		t.Fatalf("the connection ended with a %d, which nobody asked for; the request behind was handled %d times", end.status, last.Load())
	}
}

// split reads all responses of a connection. Those to HEAD have no body though they name
// its length.
func split(all string, heads bool) ([]reply, error) {
	in := bufio.NewReader(strings.NewReader(all))
	var out []reply
	for {
		if _, err := in.Peek(1); err != nil {
			return out, nil
		}
		l := &link{in: in}
		r, err := l.readHead()
		if err != nil {
			return nil, err
		}
		if next, err := in.Peek(1); heads && (err != nil || next[0] != '{') {
			out = append(out, r) // all bodies are JSON objects
			continue
		}
		if err := l.readBody(&r); err != nil {
			return nil, fmt.Errorf("response %d: %w", len(out)+1, err)
		}
		out = append(out, r)
	}
}
