package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/chaos"
)

// randomResponse writes a response to a method.
func randomResponse(rng *rand.Rand, method string) (raw []byte, last bool) {
	var w bytes.Buffer
	body := make([]byte, rng.IntN(9000))
	for i := range body {
		body[i] = "ab:\r\n id"[rng.IntN(8)]
	}
	w.WriteString("HTTP/1.1 200 OK\r\n")
	if rng.IntN(2) == 0 {
		w.WriteString("Content-Type: text/event-stream\r\n")
	}
	framing := rng.IntN(8)
	if method == "HEAD" {
		framing = 1
	}
	switch framing {
	case 0:
		w.WriteString("Connection: close\r\n\r\n")
		w.Write(body)
		return w.Bytes(), true
	case 1, 2, 3:
		fmt.Fprintf(&w, "Content-Length: %d\r\n\r\n", len(body))
		if method != "HEAD" {
			w.Write(body)
		}
	default:
		w.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		cw := httputil.NewChunkedWriter(&w)
		for len(body) > 0 {
			n := 1 + rng.IntN(len(body))
			_, _ = cw.Write(body[:n])
			body = body[n:]
		}
		_ = cw.Close()
		w.WriteString("\r\n")
	}
	return w.Bytes(), false
}

// Without faults both sides get the other's bytes, whatever they are and however they
// are cut.
func TestRandomTrafficPassesUnchanged(t *testing.T) {
	none := func(Role, uint64, net.Addr) *chaos.Victim { return nil }
	late := plan(t, 1, chaos.Fault{Kind: chaos.ChunkEnd, At: []chaos.Place{chaos.MidResponse}, PerStream: 1})
	for seed := range uint64(60) {
		cfg := Config{VictimOf: none}
		if seed%2 == 1 { // followed, but never struck: there is no response
			cfg = Config{VictimOf: func(Role, uint64, net.Addr) *chaos.Victim { return late.Victim(1) }}
		}
		bubble(t, cfg, func(b *bench) { randomTraffic(b, rand.New(rand.NewPCG(seed, 1)), seed%2 == 1) })
	}
}

func randomTraffic(b *bench, rng *rand.Rand, reframed bool) {
	c := b.dial()
	var s net.Conn
	for range 8 {
		request, _ := randomRequest(rng)
		method, _, _ := strings.Cut(string(request), " ")
		response, last := randomResponse(rng, method)
		wrote := make(chan struct{})
		pieces := func(to net.Conn, p []byte, size int) {
			for len(p) > 0 {
				n := min(len(p), size)
				b.write(to, string(p[:n]))
				p = p[n:]
				synctest.Wait()
			}
		}
		go func() {
			pieces(c, request, 1+rng.IntN(2000))
			wrote <- struct{}{}
		}()
		if s == nil {
			s = b.accept()
		}
		b.expect(s, string(request))
		<-wrote
		go func() {
			pieces(s, response, 1+rng.IntN(2000))
			if last {
				s.Close()
			}
			wrote <- struct{}{}
		}()
		if !reframed {
			b.expect(c, string(response))
		} else if got, want := readBody(b, c, method), readBody(b, replay(response), method); got != want {
			b.t.Fatalf("body %q, want %q", got, want)
		}
		<-wrote
		if last {
			b.end(c, nil)
			return
		}
	}
}

// replay is a connection that says one thing.
func replay(p []byte) net.Conn {
	near, far := net.Pipe()
	go func() { _, _ = near.Write(p); near.Close() }()
	return far
}

func readBody(b *bench, c net.Conn, method string) string {
	b.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(body)
}
