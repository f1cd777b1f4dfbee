package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
)

// randomRequest writes a legal request and returns its head's length.
func randomRequest(rng *rand.Rand) (raw []byte, head int) {
	var b bytes.Buffer
	method := []string{"GET", "POST", "PUT", "DELETE", "HEAD"}[rng.IntN(5)]
	fmt.Fprintf(&b, "%s /mcp?x=%d HTTP/1.1\r\nHost: example\r\nX-Filler: %s\r\n", method, rng.IntN(99), strings.Repeat("f", rng.IntN(300)))
	body := bytes.Repeat([]byte("b\r\n\r\n0"), rng.IntN(400))
	switch rng.IntN(3) {
	case 0:
		body = nil
		b.WriteString("\r\n")
		head = b.Len()
	case 1:
		fmt.Fprintf(&b, "content-length: %d\r\n\r\n", len(body))
		head = b.Len()
		b.Write(body)
	case 2:
		b.WriteString("Transfer-Encoding: Chunked\r\n\r\n")
		head = b.Len()
		w := httputil.NewChunkedWriter(&b)
		for len(body) > 0 {
			n := 1 + rng.IntN(len(body))
			_, _ = w.Write(body[:n])
			body = body[n:]
		}
		_ = w.Close()
		if rng.IntN(2) == 0 {
			b.WriteString("X-Trailer: t\r\n")
		}
		b.WriteString("\r\n")
	}
	return b.Bytes(), head
}

// A second opinion: net/http has to find the same ends of the same requests, and the
// framer has to find them however the bytes arrive.
func TestRequestsEndWhereNetHTTPSaysSo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		raw, head := randomRequest(rng)
		following := []byte("GET /next HTTP/1.1\r\n\r\n")
		stream := append(bytes.Clone(raw), following...)
		for i := range head {
			if n := headEnd(stream[:i]); n != 0 {
				t.Fatalf("%q has a head of %d", stream[:i], n)
			}
		}
		if n := headEnd(stream); n != head {
			t.Fatalf("head of %d bytes, want %d: %q", n, head, stream)
		}
		req, err := parseRequest(stream[:head], maphash.MakeSeed())
		if err != nil {
			t.Fatalf("%v: %q", err, stream)
		}
		body := 0
		for at := head; at < len(stream) && !req.body.done(); {
			piece := stream[at:min(len(stream), at+1+rng.IntN(50))]
			n := req.body.next(piece)
			at += n
			body += n
		}
		if head+body != len(raw) || !req.body.done() {
			t.Fatalf("ends after %d bytes (%v), want %d: %q", head+body, req.body.done(), len(raw), raw)
		}
		r := bufio.NewReader(bytes.NewReader(stream))
		theirs, err := http.ReadRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, theirs.Body); err != nil {
			t.Fatal(err)
		}
		if rest, _ := io.ReadAll(r); !bytes.Equal(rest, following) {
			t.Fatalf("net/http leaves %q", rest)
		}
		if req.get != (theirs.Method == "GET") || req.post != (theirs.Method == "POST") || req.headOnly != (theirs.Method == "HEAD") {
			t.Fatalf("%+v is a %s", req, theirs.Method)
		}
	}
}

func TestWhatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	for _, head := range []string{
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nnothing\r\n\r\n",
		"POST /\r\n\r\n",
		"\x16\x03\x01\x02\n\n",
		"CONNECT a:1 HTTP/1.1\r\n\r\n",
	} {
		if req, err := parseRequest([]byte(head), maphash.MakeSeed()); err == nil {
			t.Errorf("%q is %+v", head, req)
		}
	}
	for _, body := range []string{"x", "\r\n", "-1\r\n", "fffffffffffffffff\r\n", "1\r\nab"} {
		f := framer{state: bodySize}
		if f.next([]byte(body)); !f.broken() {
			t.Errorf("body %q is not broken", body)
		}
	}
}

func TestWhatARequestSays(t *testing.T) {
	seed := maphash.MakeSeed()
	parse := func(lines ...string) *request {
		t.Helper()
		r, err := parseRequest([]byte(strings.Join(lines, "\r\n")+"\r\n\r\n"), seed)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := parse("GET / HTTP/1.1", "Mcp-Session-Id: s", "Last-Event-ID: a-7")
	if b := parse("GET / HTTP/1.1", "LAST-EVENT-ID:   a-7 ", "mcp-session-id: s"); !a.resume || a.cursor != b.cursor {
		t.Errorf("%+v and %+v", a, b)
	}
	if b := parse("GET / HTTP/1.1", "mcp-session-id: other", "Last-Event-ID: a-7"); a.cursor == b.cursor {
		t.Error("two sessions share a cursor")
	}
	for _, none := range []*request{
		parse("POST / HTTP/1.1", "Last-Event-ID: a-7"), parse("GET / HTTP/1.1", "Last-Event-ID:"), parse("GET / HTTP/1.1"),
	} {
		if none.resume {
			t.Errorf("%+v is no resume", none)
		}
	}
	host := parse("GET / HTTP/1.1", "X: Host: no", "host:here ", "A: b")
	r := &relay{p: &Proxy{cfg: Config{Host: "there:80"}}}
	in := "GET / HTTP/1.1\r\nX: Host: no\r\nhost:here \r\nA: b\r\n\r\nbody"
	if out := string(r.outgoing(host, []byte(in))); out != strings.Replace(in, "here ", " there:80", 1) {
		t.Errorf("%q", out)
	}
	for body, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`:                    true,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                        false,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"initialize"}}`: false,
		`[{"method":"initialize"}]`:                                                     false,
		`initialize`:                                                                    false,
	} {
		if opensSession([]byte(body)) != want {
			t.Errorf("%s: opens a session: %v", body, !want)
		}
	}
}

// Ids are found however the bytes arrive.
func TestIdsAreFoundInPassing(t *testing.T) {
	seed := maphash.MakeSeed()
	text := "id: a-1\r\ndata: id: no\n\nid:a-2\ndata\n\n:id: no\ndata:\tid: no\nid: " + strings.Repeat("x", 400) + "\r\ndata:"
	for size := 1; size <= len(text); size++ {
		c := cursors{seed: seed, session: []byte("s")}
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			c.feed(rest[:min(size, len(rest))])
		}
		c.commit()
		if want := cursorHash(seed, []byte("s"), []byte(strings.Repeat("x", 400))); c.kept()[0] != want {
			t.Fatalf("pieces of %d: %q", size, c.id)
		}
	}
	c := cursors{seed: seed}
	for n := range 2 * keptCursors {
		c.feed(fmt.Appendf(nil, "id: %d\n", n))
		c.commit()
	}
	for n := range 2 * keptCursors {
		kept := slices.Contains(c.kept(), cursorHash(seed, nil, fmt.Append(nil, n)))
		if kept != (n >= keptCursors) {
			t.Errorf("id %d is kept: %v", n, kept)
		}
	}
}
