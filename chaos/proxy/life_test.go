package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/internal/memnet"
)

// bench is a proxy between a client and an upstream that a test plays itself, in virtual
// time.
type bench struct {
	*Proxy
	t      *testing.T
	front  *memnet.Listener
	back   *memnet.Listener
	cancel context.CancelFunc
	done   chan error
	ended  []*Account
}

// bubble runs f with a proxy; when f returns nothing of the proxy may be left.
func bubble(t *testing.T, cfg Config, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, front: memnet.Listen(), back: memnet.Listen(), done: make(chan error, 1)}
		cfg.Upstream = "upstream:80"
		if cfg.Dial == nil {
			cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return b.back.Dial(ctx) }
		}
		cfg.OnEnd = func(a *Account) { b.ended = append(b.ended, a) }
		var err error
		if b.Proxy, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.cancel = cancel
		go func() { b.done <- b.Serve(ctx, b.front) }()
		f(b)
		cancel()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
		b.back.Close()
	})
}

func (b *bench) dial() net.Conn {
	b.t.Helper()
	c, err := b.front.Dial(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) accept() net.Conn {
	b.t.Helper()
	c, err := b.back.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) write(c net.Conn, text string) {
	b.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		b.t.Fatal(err)
	}
}

// expect reads exactly this.
func (b *bench) expect(c net.Conn, want string) {
	b.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		b.t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

// silent checks that nothing arrives for a while.
func (b *bench) silent(c net.Conn) {
	b.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	var one [1]byte
	if n, err := c.Read(one[:]); n > 0 || err == nil || !isTimeout(err) {
		b.t.Fatalf("read %q, %v; want nothing", one[:n], err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// end checks how a connection ends: nil is a FIN.
func (b *bench) end(c net.Conn, want error) {
	b.t.Helper()
	rest, err := io.ReadAll(c)
	if len(rest) > 0 || !errors.Is(err, want) {
		b.t.Fatalf("read %q, %v; want the end %v", rest, err, want)
	}
}

const (
	get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	ok  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

func TestNextRequestWaitsForTheResponse(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, get+"POST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"+get[:5])
		s := b.accept()
		b.expect(s, get)
		b.silent(s)
		b.write(s, ok[:len(ok)-1])
		b.silent(s)
		b.write(s, "k")
		b.expect(c, ok)
		b.expect(s, "POST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
		b.silent(s)
		b.write(s, "HTTP/1.1 204 No Content\r\n\r\n")
		b.expect(c, "HTTP/1.1 204 No Content\r\n\r\n")
		b.write(c, get[5:])
		b.expect(s, get)
	})
}

func TestAnAnswerBeforeTheEndOfTheBody(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n")
		s := b.accept()
		b.expect(s, "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n")
		b.write(s, "HTTP/1.1 100 Continue\r\n\r\n")
		b.expect(c, "HTTP/1.1 100 Continue\r\n\r\n")
		b.write(c, "abc")
		b.expect(s, "abc")
		b.write(s, ok)
		b.expect(c, ok)
		b.write(c, "def"+get)
		b.expect(s, "def"+get)
		b.write(s, ok)
		b.expect(c, ok)
	})
}

func TestEndsAreMirrored(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*memnet.Conn).SetLinger(0); c.Close() }
	finish := func(c net.Conn) { c.Close() }
	head := "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	for _, tc := range []struct {
		name   string
		answer string // what the upstream says first
		end    func(net.Conn)
		client bool // the client ends it, not the server
		want   error
		by     End
	}{
		{"server finishes without an answer", "", finish, false, nil, EndServer},
		{"server finishes in the response", head, finish, false, nil, EndServer},
		{"server finishes between exchanges", ok, finish, false, nil, EndServer},
		{"server resets without an answer", "", reset, false, syscall.ECONNRESET, EndServer},
		{"server resets in the response", head, reset, false, syscall.ECONNRESET, EndServer},
		{"server resets between exchanges", ok, reset, false, syscall.ECONNRESET, EndServer},
		{"client finishes in the response", head, finish, true, nil, EndClient},
		{"client finishes between exchanges", ok, finish, true, nil, EndClient},
		{"client resets in the response", head, reset, true, syscall.ECONNRESET, EndClient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, Config{}, func(b *bench) {
				c := b.dial()
				b.write(c, get)
				s := b.accept()
				b.expect(s, get)
				b.write(s, tc.answer)
				b.expect(c, tc.answer)
				from, to := s, c
				if tc.client {
					from, to = c, s
				}
				tc.end(from)
				b.end(to, tc.want)
				to.Close()
				synctest.Wait()
				if len(b.ended) != 1 || b.ended[0].End != tc.by {
					t.Errorf("ended %+v, want by the %s", b.ended, tc.by)
				}
				if snap := b.Snapshot(); snap.Open != 0 {
					t.Errorf("%d links are open", snap.Open)
				}
			})
		})
	}
}

// A client that will send nothing more still gets its answer.
func TestHalfClosedClient(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, get)
		_ = c.(*memnet.Conn).CloseWrite()
		s := b.accept()
		b.expect(s, get)
		b.end(s, nil)
		b.silent(c)
		b.write(s, ok)
		s.Close()
		b.expect(c, ok)
		b.end(c, nil)
	})
}

// Whatever state its links are in, a proxy ends at once and leaves nothing behind: the
// bubble would not end.
func TestCloseInEveryState(t *testing.T) {
	stuck := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for _, tc := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
		do   func(b *bench, c net.Conn)
	}{
		{"nothing was sent", nil, func(*bench, net.Conn) {}},
		{"half a head", nil, func(b *bench, c net.Conn) { b.write(c, get[:9]) }},
		{"dialling", stuck, func(b *bench, c net.Conn) { b.write(c, get) }},
		{"half a body", nil, func(b *bench, c net.Conn) {
			b.write(c, "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\nx")
			b.expect(b.accept(), "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\nx")
		}},
		{"waiting for an answer", nil, func(b *bench, c net.Conn) { b.write(c, get); b.expect(b.accept(), get) }},
		{"a request waits", nil, func(b *bench, c net.Conn) { b.write(c, get+get); b.expect(b.accept(), get) }},
		{"half a response", nil, func(b *bench, c net.Conn) {
			b.write(c, get)
			b.write(b.accept(), ok[:20])
			b.expect(c, ok[:20])
		}},
		{"idle", nil, func(b *bench, c net.Conn) {
			b.write(c, get)
			b.write(b.accept(), ok)
			b.expect(c, ok)
		}},
		{"client does not read", nil, func(b *bench, c net.Conn) {
			b.write(c, get)
			s := b.accept()
			b.write(s, "HTTP/1.1 200 OK\r\n\r\n")
			go func() { _, _ = s.Write(make([]byte, 1<<20)) }()
		}},
		{"upstream does not read", nil, func(b *bench, c net.Conn) {
			go func() {
				_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"+strings.Repeat("x", 1<<20))
			}()
			b.accept()
		}},
		{"client lingers", nil, func(b *bench, c net.Conn) {
			b.write(c, get)
			b.accept().Close()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, Config{Dial: tc.dial, DialTimeout: time.Hour, Linger: time.Hour}, func(b *bench) {
				tc.do(b, b.dial())
				synctest.Wait()
				start := time.Now()
				b.cancel()
				err := <-b.done
				b.done <- err
				if took := time.Since(start); took > 0 || err != nil {
					t.Errorf("closing took %v, %v", took, err)
				}
				if len(b.ended) != 1 || b.Snapshot().Open != 0 {
					t.Errorf("%d links ended, %d open", len(b.ended), b.Snapshot().Open)
				}
			})
		})
	}
}

func TestSlowUpstreamIsGivenUp(t *testing.T) {
	stuck := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	bubble(t, Config{Dial: stuck}, func(b *bench) {
		c, start := b.dial(), time.Now()
		b.write(c, get)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 502 || time.Since(start) != 10*time.Second {
			t.Fatalf("%+v, %v after %v", resp, err, time.Since(start))
		}
	})
}

// What follows the switch to another protocol is nobody's business.
func TestSwitchingProtocols(t *testing.T) {
	const upgrade = "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, upgrade)
		s := b.accept()
		b.expect(s, upgrade)
		b.write(s, "HTTP/1.1 1")
		b.write(s, "01 Switching Protocols\r\n\r\n\x00")
		b.expect(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n\x00")
		b.write(c, "\xff\r\n\r\n\r\n")
		b.expect(s, "\xff\r\n\r\n\r\n")
		b.write(s, "\x01\x02")
		b.expect(c, "\x01\x02")
		b.write(c, "more")
		b.expect(s, "more")
	})
	bubble(t, Config{}, func(b *bench) { // declined
		c := b.dial()
		b.write(c, upgrade)
		s := b.accept()
		b.expect(s, upgrade)
		b.write(s, ok)
		b.expect(c, ok)
		b.write(c, get)
		b.expect(s, get)
	})
}

func TestUnaskedBytesPass(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, get)
		s := b.accept()
		b.write(s, ok+"HTTP/1.1 408")
		b.expect(c, ok+"HTTP/1.1 408")
		b.write(s, " Request Timeout\r\n\r\n")
		s.Close()
		b.expect(c, " Request Timeout\r\n\r\n")
		b.end(c, nil)
	})
}

// A panic of the caller's ends the proxy, and is told.
func TestPanicEndsTheProxy(t *testing.T) {
	p := plan(t, 1, chaos.Fault{Kind: chaos.RST, At: []chaos.Place{chaos.AfterPriming}, PerStream: 1})
	bubble(t, Config{Plan: p, OnInjection: func(*Injection) { panic("boom") }}, func(b *bench) {
		c := b.dial()
		b.write(c, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
		b.write(b.accept(), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+strings.Join(call(), ""))
		err := <-b.done
		var panicked *guard.PanicError
		if !errors.As(err, &panicked) {
			t.Errorf("%v is no panic", err)
		}
		b.done <- nil
	})
}

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
	none := func(uint64, net.Addr) *chaos.Victim { return nil }
	late := plan(t, 1, chaos.Fault{Kind: chaos.ChunkEnd, At: []chaos.Place{chaos.MidResponse}, PerStream: 1})
	for seed := range uint64(60) {
		cfg := Config{VictimOf: none}
		if seed%2 == 1 { // followed, but never struck: there is no response
			cfg = Config{VictimOf: func(uint64, net.Addr) *chaos.Victim { return late.Victim(1) }}
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
