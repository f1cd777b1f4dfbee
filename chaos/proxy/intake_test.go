package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/chaos"
)

// A buffer is given away only when the chaos link has taken all that was read into it:
// here every buffer that is free is overwritten at once.
func TestABufferIsKeptUntilItIsTaken(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + strings.Repeat(strings.Join(call()[:6], ""), 20)
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, text)
	}))
	for _, f := range []chaos.Fault{
		{Kind: chaos.Slice, At: []chaos.Place{chaos.BetweenEvents}, PerStream: 1, For: time.Hour},
		{Kind: chaos.RST, At: []chaos.Place{chaos.MidResponse}, PerStream: 1}, // there is no response
	} {
		p, err := New(Config{Upstream: up})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", up)
		if err != nil {
			t.Fatal(err)
		}
		r := &relay{p: p, server: newPort(conn, p, new(atomic.Int64))}
		r.link = chaos.NewLink(r.server, 1)
		r.link.Begin(chaos.Exchange{Victim: plan(t, 1, f).Victim(1)})
		if _, err := io.WriteString(r.link, callRequest); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		in := intake{r: r}
		for err == nil {
			var b []byte
			b, err = in.next()
			got.Write(b)
			free := p.getBuffer()
			clear(free[:])
			p.putBuffer(free)
		}
		in.done()
		_ = r.link.Close()
		if got.String() != text || err != io.EOF {
			t.Errorf("%v: %d bytes, want %d, or others; %v", f, got.Len(), len(text), err)
		}
	}
}
