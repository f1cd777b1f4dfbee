package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/internal/memnet"
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
		b.silent(s)
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

// A client that has gone after it said that it will send nothing more is noticed when
// there is something to tell it.
func TestGoneClient(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, get)
		_ = c.(*memnet.Conn).CloseWrite()
		s := b.accept()
		b.expect(s, get)
		b.end(s, nil)
		c.Close()
		b.write(s, ok[:20])
		synctest.Wait()
		if len(b.ended) != 1 || b.ended[0].End != EndClient || b.Snapshot().Open != 0 {
			t.Errorf("%+v", b.ended)
		}
		if _, err := s.Write([]byte(ok[20:])); err == nil {
			t.Error("the upstream can still write")
		}
	})
}

// A client that does not close its side is waited for, but not for ever.
func TestClientThatDoesNotLeave(t *testing.T) {
	bubble(t, Config{Linger: 3 * time.Second}, func(b *bench) {
		c, start := b.dial(), time.Now()
		b.write(c, get)
		b.accept().Close()
		b.end(c, nil)
		for b.Snapshot().Open > 0 && time.Since(start) < time.Minute {
			b.write(c, "x")
			b.pass(100 * time.Millisecond)
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("the link was open for %v", took)
		}
	})
}

// When OnInjection is called the client has all that comes before the position, and no
// end.
func TestToldBeforeTheEnd(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	text := fmt.Sprintf("%s%x\r\n%s\r\n", head, len(priming+response), priming+response)
	for _, kind := range []chaos.Kind{chaos.RST, chaos.FIN, chaos.ChunkEnd} {
		told := 0
		var b *bench
		var c net.Conn
		cfg := Config{Plan: plan(t, 1, chaos.Fault{Kind: kind, At: []chaos.Place{chaos.MidResponse}, PerStream: 1})}
		cfg.OnInjection = func(in *Injection) {
			told++
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Error(err)
			}
			b.silent(c)
		}
		bubble(t, cfg, func(the *bench) {
			b, c = the, the.dial()
			b.write(c, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
			b.write(b.accept(), text)
			b.pass(time.Minute)
			if told != 1 || len(b.ended) != 1 || b.ended[0].End != EndCut {
				t.Errorf("%s: told %d times, %+v", kind, told, b.ended)
			}
		})
	}
}

func TestListenerThatFails(t *testing.T) {
	bubble(t, Config{}, func(b *bench) {
		c := b.dial()
		b.write(c, get)
		b.expect(b.accept(), get)
		b.front.Close()
		if err := <-b.done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		b.end(c, nil)
		b.done <- nil
	})
}

// Whatever state its links are in, a proxy ends at once and leaves nothing behind: the
// bubble would not end.
func TestCloseInEveryState(t *testing.T) {
	stuck := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	late := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		synctest.Wait() // the links have been closed
		near, _ := net.Pipe()
		return near, nil
	}
	for _, tc := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
		do   func(b *bench, c net.Conn)
	}{
		{"nothing was sent", nil, func(*bench, net.Conn) {}},
		{"half a head", nil, func(b *bench, c net.Conn) { b.write(c, get[:9]) }},
		{"dialling", stuck, func(b *bench, c net.Conn) { b.write(c, get) }},
		{"dialled too late", late, func(b *bench, c net.Conn) { b.write(c, get) }},
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

func TestStreamsAreHeldByOneLink(t *testing.T) {
	var s streams
	st := &stream{held: true}
	s.put(st, []uint64{1, 2})
	if s.take(1) != st || s.take(2) != nil || s.take(3) != nil {
		t.Error("a stream was given to two links")
	}
	s.put(st, nil)
	if s.take(2) != st {
		t.Error("a stream is lost")
	}
	for n := range uint64(2 * maxCursors) {
		s.put(&stream{}, []uint64{n + 10})
	}
	if len(s.known) != maxCursors || s.take(2) != nil || s.take(maxCursors+11) == nil {
		t.Errorf("%d cursors are known", len(s.known))
	}
}

func TestRingKeepsTheLatest(t *testing.T) {
	r := ring{keep: 3}
	for n := range uint64(5) {
		r.add(&Account{Link: n})
	}
	if all := r.all(); len(all) != 3 || all[0].Link != 2 || all[1].Link != 3 || all[2].Link != 4 {
		t.Errorf("%+v", all)
	}
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

// In a black hole the upstream is not told that the client has gone, neither before its
// time is over nor by the end of the client's link; but nothing outlives the proxy.
func TestBlackHole(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	for _, leaves := range []func(net.Conn){
		func(c net.Conn) { c.Close() },
		func(c net.Conn) { _ = c.(*memnet.Conn).SetLinger(0); c.Close() },
		func(net.Conn) {},
	} {
		for _, closed := range []bool{false, true} {
			hole := plan(t, 1, chaos.Fault{Kind: chaos.Blackhole, At: []chaos.Place{chaos.BetweenEvents}, PerStream: 1, For: time.Hour})
			told := 0
			bubble(t, Config{Plan: hole, OnInjection: func(*Injection) { told++ }}, func(b *bench) {
				c := b.dial()
				b.write(c, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
				s := b.accept()
				b.expect(s, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
				b.write(s, head+strings.Join(call(), ""))
				b.pass(time.Second)
				leaves(c)
				b.pass(time.Second)
				if told != 1 {
					t.Fatalf("told %d times", told)
				}
				b.silent(s)
				start := time.Now()
				if closed {
					b.cancel()
				}
				b.end(s, nil)
				if took := time.Since(start); closed && took > 0 || !closed && took < 50*time.Minute {
					t.Errorf("closed %v: the upstream noticed after %v", closed, took)
				}
				b.pass(time.Minute)
				if len(b.ended) != 1 || b.ended[0].End != EndCut || len(b.Proxy.silent) != 0 {
					t.Errorf("closed %v: %+v", closed, b.ended)
				}
			})
		}
	}
}
