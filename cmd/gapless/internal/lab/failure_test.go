package lab

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

func TestPanicsOfGoroutinesAreErrors(t *testing.T) {
	for name, plant := range map[string]func(*Config){
		"in a stream": func(c *Config) {
			c.Observer = eachRecord(func(r *history.Record) {
				if r.Stream == 7 && r.Kind == history.KindEvent {
					panic("boom")
				}
			})
		},
		"while progress is told": func(c *Config) {
			c.Interval, c.Progress = time.Millisecond, func(report.Progress) { panic("boom") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := smallRun(t, nil)
				plant(&c)
				r, err := Run(t.Context(), c)
				var p *guard.PanicError
				if r != nil || !errors.As(err, &p) || p.Value != "boom" {
					t.Fatalf("result %v, error %v; want no result and the panic", r, err)
				}
			})
		})
	}
}

func TestTargetThatIsNotThere(t *testing.T) {
	c := smallRun(t, nil)
	c.Start = func(context.Context) (*Endpoint, error) {
		return &Endpoint{
			URL:  "http://127.0.0.1:1/mcp",
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
			Stop: func() error { return nil },
		}, nil
	}
	_, err := Run(t.Context(), c)
	var none *UnreachableError
	if !errors.As(err, &none) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v, want an UnreachableError", err)
	}
}

// TestServerThatDied: the reference server is part of the tool, so its death is a
// failure of the tool and never a verdict on the server.
func TestServerThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, nil)
		start := c.Start
		c.Start = func(ctx context.Context) (*Endpoint, error) {
			e, err := start(ctx)
			if err == nil {
				stop := e.Stop
				e.Stop = func() error { return errors.Join(errors.New("exit status 2"), stop()) }
			}
			return e, err
		}
		r, err := Run(t.Context(), c)
		if r != nil || err == nil || !strings.Contains(err.Error(), "exit status 2") {
			t.Fatalf("result %v, error %v; want no result and how the server died", r, err)
		}
	})
}

// TestLedgerThatFails: without the target's own account a green run would rest on
// nothing.
func TestLedgerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, nil)
		start := c.Start
		var dials atomic.Int32
		c.Start = func(ctx context.Context) (*Endpoint, error) {
			e, err := start(ctx)
			if err != nil {
				return nil, err
			}
			dial := e.Dial
			e.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if strings.HasSuffix(addr, ":2") && err == nil && dials.Add(1) == 1 {
					// The account of the control calls comes through, those of the load do not.
					time.AfterFunc(500*time.Millisecond, func() { _ = conn.Close() })
				} else if strings.HasSuffix(addr, ":2") {
					return nil, syscall.ECONNREFUSED
				}
				return conn, err
			}
			return e, nil
		}
		r := mustRun(t, c)
		if r.Verdict != result.Inconclusive || !strings.Contains(strings.Join(r.Why, "\n"), "ledger") {
			t.Fatalf("%s: %v; want inconclusive for want of the ledger", r.Verdict, r.Why)
		}
	})
}

func TestStoppedRunIsInconclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1800*time.Millisecond, cancel) // after the control calls, amid the load
		r, err := Run(ctx, smallRun(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != result.Inconclusive || r.Streams.Undecided == 0 || r.Streams.Failed != 0 {
			t.Fatalf("%s, %+v; want inconclusive, with streams undecided and none failed", r.Verdict, r.Streams)
		}
	})
}

// TestHaltedRunDrains: what is open at an interrupt is finished and judged, and the
// rest of the plan is said to be missing.
func TestHaltedRunDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		halt := make(chan struct{})
		time.AfterFunc(1800*time.Millisecond, func() { close(halt) })
		c := smallRun(t, nil)
		c.Halt = halt
		r := mustRun(t, c)
		s := r.Streams
		if r.Verdict != result.Inconclusive || s.Opened == 0 || s.Opened == 50 || s.Completed != s.Opened {
			t.Fatalf("%s, %+v; want inconclusive with a part of the streams opened, all of them complete", r.Verdict, s)
		}
		if !strings.Contains(strings.Join(r.Why, "\n"), "never opened") {
			t.Errorf("nothing says what is missing: %q", r.Why)
		}
	})
}

// TestWithoutStoreTheServerOffersNoResumption: the judge must not blame a server
// that promised nothing, nor clear it.
func TestWithoutStoreTheServerOffersNoResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, smallRun(t, func(p *profiles.Profile) { p.Server.Store = "none" }))
		if r.Verdict != result.Inconclusive || !strings.Contains(r.Sentence, "offers no resumption") {
			t.Fatalf("%s: %s", r.Verdict, r.Sentence)
		}
	})
}
