package refserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// secure serves a fixture over TLS, and makes a client that speaks HTTP/1.1 or HTTP/2.
func secure(t testing.TB, cfg refserver.Config, h2 bool) *rig {
	t.Helper()
	pair := httptest.NewTLSServer(nil) // for its certificate, and a client that trusts it
	trust := pair.Client().Transport.(*http.Transport).TLSClientConfig
	server := &tls.Config{Certificates: pair.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	pair.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	r := serve(t, cfg, tls.NewListener(refserver.Bounded(ln, 100), server), dial)
	r.url = strings.Replace(r.url, "http://", "https://", 1)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust.RootCAs}, ForceAttemptHTTP2: h2}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport}
	return r
}

// eachTLS runs a test over each way that TLS leads through the server.
func eachTLS(t *testing.T, cfg refserver.Config, test func(t *testing.T, r *rig)) {
	for _, way := range []struct {
		name     string
		keep, h2 bool
	}{{"HTTP/1.1, taken over", false, false}, {"HTTP/1.1, kept", true, false}, {"HTTP/2", false, true}} {
		t.Run(way.name, func(t *testing.T) {
			cfg := cfg
			cfg.KeepConnections = way.keep
			cfg.Store = newStore(t, store.Limits{Events: 50_000})
			r := secure(t, cfg, way.h2)
			resp := r.do(ask{method: "POST", body: ping})
			resp.Body.Close()
			if (resp.ProtoMajor == 2) != way.h2 {
				t.Fatalf("speaks %s", resp.Proto)
			}
			test(t, r)
		})
	}
}

func TestTLS_CutsAndResumes_LoseNothing(t *testing.T) {
	eachTLS(t, refserver.Config{Retry: time.Millisecond}, func(t *testing.T, r *rig) {
		p := r.open(latest)
		whole := p.emit(1, "a", `{"messages":50,"interval_ms":1}`).rest()
		if got := numbers(t, whole); !slices.Equal(got, upTo(50)) {
			t.Errorf("uncut: %v", got)
		}
		s := p.emit(2, "b", `{"messages":50,"interval_ms":2,"polling_closes":2}`)
		var all []event
		cuts := 0
		for len(all) == 0 || numbers(t, all[len(all)-1:])[0] != 0 {
			e, err := s.next()
			switch {
			case err == nil:
				all = append(all, e)
				if len(all)%10 == 0 && e.id != "" {
					s.cut()
					cuts++
					s = p.resume(e.id)
				}
			case errors.Is(err, io.EOF):
				s = p.resume(lastID(all))
			default:
				t.Fatalf("after %d events: %v", len(all), err)
			}
		}
		all = slices.DeleteFunc(all, func(e event) bool { return !e.hasData }) // the farewells
		if got := numbers(t, all); !slices.Equal(got, upTo(50)) || cuts < 3 {
			t.Errorf("%d cuts: %v", cuts, got)
		}
	})
}

func lastID(events []event) string {
	for _, e := range slices.Backward(events) {
		if e.id != "" {
			return e.id
		}
	}
	return ""
}

// The old connection of a stream that is taken over does not look complete.
func TestTLS_Takeover_CutsTheOldConnection(t *testing.T) {
	eachTLS(t, refserver.Config{}, func(t *testing.T, r *rig) {
		p := r.open(latest)
		old := p.emit(1, "a", `{"messages":3,"interval_ms":200}`)
		cursor := old.take(2)[1].id
		fresh := p.resume(cursor)
		if _, err := io.Copy(io.Discard, old.r); err == nil {
			t.Error("the old connection came to a clean end")
		}
		if got := numbers(t, fresh.rest()); !slices.Equal(got, []int{2, 3, 0}) {
			t.Errorf("the new connection got %v", got)
		}
		stalled := p.emit(2, "b", `{"messages":8000,"bytes":1000}`)
		cursor = stalled.take(1)[0].id // and no more: the server is in the middle of a write
		begun := time.Now()
		if got := numbers(t, p.resume(cursor).rest()); !slices.Equal(got, upTo(8000)[1:]) {
			t.Errorf("after a stalled reader the new connection got %d events", len(got))
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("a stalled reader kept its stream for %s", took)
		}
	})
}

func TestTLS_DeadClient_IsNoticed_AndAStalledOneIsCut(t *testing.T) {
	var mu sync.Mutex
	left := map[refserver.Reason]int{}
	count := func(r refserver.Reason) int {
		mu.Lock()
		defer mu.Unlock()
		return left[r]
	}
	cfg := refserver.Config{WriteTimeout: 300 * time.Millisecond, OnEvent: func(e refserver.Event) {
		if e.Kind == refserver.Detached {
			mu.Lock()
			left[e.Reason]++
			mu.Unlock()
		}
	}}
	eachTLS(t, cfg, func(t *testing.T, r *rig) {
		gone, stalled := count(refserver.ReasonClient), count(refserver.ReasonTimeout)
		p := r.open(latest)
		s := p.emit(1, "a", `{"messages":2,"interval_ms":600000}`)
		s.take(2)
		s.cut()
		eventually(t, "the dead client was noticed", func() bool { return count(refserver.ReasonClient) > gone })
		p.emit(2, "b", `{"messages":20000,"bytes":4000}`) // megabytes, and nobody reads
		eventually(t, "the stalled client was cut", func() bool { return count(refserver.ReasonTimeout) > stalled })
		if code, _ := p.post(ping); code != 200 {
			t.Errorf("afterwards: %d", code)
		}
	})
}

func TestTLS_FailedHandshakes_AreNotLogged_PanicsAre(t *testing.T) {
	var mu sync.Mutex
	var logged bytes.Buffer
	cfg := refserver.Config{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, nil)), Nonce: sometimes()}
	r := secure(t, cfg, false)
	for range 5 {
		conn, err := r.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	r.open(latest)
	if resp, err := r.client.Post(r.url, "application/json", strings.NewReader("")); err == nil {
		resp.Body.Close()
	}
	req, err := http.NewRequest("POST", r.url, strings.NewReader(initBody(latest)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	if resp, err := r.client.Do(req); err == nil {
		t.Errorf("the planted panic was answered with %d", resp.StatusCode)
		resp.Body.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if text := logged.String(); strings.Contains(text, "handshake") || !strings.Contains(text, "planted") {
		t.Errorf("logged: %s", text)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// sometimes is a source of names that panics the second time.
func sometimes() func() string {
	n := 0
	return func() string {
		if n++; n > 1 {
			panic("planted")
		}
		return "a-name"
	}
}

// Above the limit a connection is closed at once; below it there is room again as soon
// as one has gone, however it went.
func TestBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, refserver.Config{Store: newStore(t, store.Limits{})}, refserver.Bounded(ln, 3), func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	})
	p := r.open(latest)
	s := p.emit(1, "a", `{"messages":2,"interval_ms":600000}`) // hijacked
	cursor := s.take(2)[1].id
	half := r.half(t)
	waiting := r.half(t)
	refused := r.half(t)
	if err := refused.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var late net.Error
	if _, err := refused.Read(make([]byte, 1)); err == nil || errors.As(err, &late) && late.Timeout() {
		t.Errorf("one more connection: %v", err)
	}
	half.Close()
	p.resumeSoon(cursor) // takes the stream over, so that the old one's place is free
	eventually(t, "there is room again", func() bool {
		conn := r.half(t)
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		_, err := conn.Read(make([]byte, 1))
		return errors.As(err, &timeout) && timeout.Timeout()
	})
	waiting.Close()
}

// half opens a connection and sends half a request.
func (r *rig) half(t testing.TB) net.Conn {
	t.Helper()
	conn, err := r.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n") // it may be closed already
	return conn
}

// resumeSoon resumes as soon as there is a connection to be had.
func (p *peer) resumeSoon(cursor string) {
	p.t.Helper()
	eventually(p.t, "the stream was resumed", func() bool {
		req, err := http.NewRequest("GET", p.url, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", p.id)
		req.Header.Set("Last-Event-ID", cursor)
		resp, err := p.client.Do(req)
		if err != nil {
			return false
		}
		p.t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode == 200
	})
}
