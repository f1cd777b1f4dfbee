package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		var mu sync.Mutex
		cfg.OnEnd = func(a *Account) {
			mu.Lock()
			defer mu.Unlock()
			b.ended = append(b.ended, a)
		}
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

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
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
