package loadgen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

func TestCallWaitsForABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		was := g.call
		g.call = func(v *visit) {
			switch len(g.of(MethodTool)) {
			case 1:
				v.status(429, "Retry-After: 7")
			case 2:
				v.status(503)
			case 3: // what its clock says is its own affair
				v.status(503, "Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Sunday, 06-Nov-94 08:49:49 GMT")
			default:
				was(v)
			}
		}
		cfg := g.config(one)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes[history.OutcomeCompleted], 1)
		has(t, "opened, most at once, throttled", fmt.Sprint(rep.Opened, rep.MaxOpen, rep.Throttled), "1 1 3")
		var waits []time.Duration
		var ids []string
		for i, v := range g.of(MethodTool) {
			ids = append(ids, v.id)
			if i > 0 {
				waits = append(waits, v.at.Sub(g.of(MethodTool)[i-1].at))
			}
		}
		has(t, "waits", waits, "[7s 200ms 12s]")
		has(t, "ids", ids, "[1 2 3 4]")
		for _, rec := range seen.kind(history.KindAttempt) {
			has(t, "attempt", fmt.Sprint(rec.Attempt, rec.Exchange.Resume), "0 false")
		}
		has(t, "complaints", rep.Complaints.Count, 0)
	})
}

func TestResumeForgetsThatTheTargetWasBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		var token, call string
		g.call = func(v *visit) {
			if len(g.of(MethodTool)) <= 6 {
				v.status(503)
				return
			}
			token, call = v.token, v.id
			primed(v)
		}
		g.resume = func(v *visit, n int) {
			if n == 1 {
				v.status(429)
				return
			}
			rest(v, token, call)
		}
		cfg := g.config(one)
		cfg.Observer, cfg.Resume.Attempts = seen, 1 // a single failure of the target would end it
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "throttled calls, completed", fmt.Sprint(rep.Throttled, rep.Outcomes[history.OutcomeCompleted]), "6 1")
		all := seen.kind(history.KindAttempt)
		has(t, "the wait that was announced", all[7].Exchange.Waited, 250*time.Millisecond)
		if d := rep.Latencies.Quantile(ResumeCaughtUp, 100); d > 600*time.Millisecond {
			t.Errorf("caught up %v after the cut", d)
		}
	})
}

func TestCallThatNeverGetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = func(v *visit) { v.status(429) }
		cfg := g.config(one)
		cfg.Observer, cfg.Calls[0].Deadline = seen, 30*time.Second
		began := time.Now()
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 1 0 0 0 0]")
		has(t, "took", time.Since(began).Round(time.Second), 30*time.Second)
		n := len(g.of(MethodTool))
		if n < 5 || n > 15 {
			t.Errorf("%d tries in 30 s", n)
		}
		has(t, "throttled", rep.Throttled, n)
		has(t, "complaint", rep.Complaints.First, "no call got through: the target answers 429 (too many requests)")
		has(t, "taken back", len(g.of("notifications/cancelled")), 0)
	})
}

func TestStopEndsAWaitForABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		halt := make(chan struct{})
		g.call = func(v *visit) { v.status(503, "Retry-After: 3600") }
		cfg := g.config(one)
		cfg.Halt, cfg.Drain = halt, 5*time.Second
		time.AfterFunc(time.Second, func() { close(halt) })
		began := time.Now()
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 1 0 0 0 0]")
		has(t, "took", time.Since(began), 6*time.Second)
	})
}

func TestHandshakeWaitsForABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		n := 0
		g.special = func(v *visit) bool {
			if v.method != "POST" {
				return false
			}
			if n++; n == 1 || n == 3 { // initialize, then notifications/initialized
				v.status(503, "Retry-After: 4")
				return true
			}
			return false
		}
		began := time.Now()
		rep, err := g.run(g.config(one))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcome", rep.Outcomes[history.OutcomeCompleted], 1)
		has(t, "throttled", rep.Throttled, 2)
		has(t, "took", time.Since(began), 8*time.Second)
	})
}

func TestHandshakeThatNeverGetsThrough(t *testing.T) {
	for _, c := range []struct{ name, after, want string }{
		{"without a word", "", "the target answers 429 (too many requests): no initialize got through in 5"},
		{"for longer than a call may take", "3600", "in 1 tries; it asks to come back after 1h0m0s; a lower rate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				g.special = func(v *visit) bool { v.status(429, "Retry-After: "+c.after); return true }
				began := time.Now()
				_, err := g.run(g.config(one))
				var bad *HandshakeError
				if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took > 61*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestHaltEndsAWaitForAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.special = func(v *visit) bool { v.status(503, "Retry-After: 50"); return true }
		halt := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(halt) })
		cfg := g.config(one)
		cfg.Halt = halt
		began := time.Now()
		_, err := g.run(cfg)
		var bad *HandshakeError
		if took := time.Since(began); !errors.As(err, &bad) || took != 3*time.Second {
			t.Errorf("error %v after %v", err, took)
		}
	})
}

func TestBusyHandshakeOfALaterSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.special = func(v *visit) bool {
			if v.rpc == "initialize" && len(g.of("initialize")) > 1 {
				v.status(429, "Retry-After: 86400")
				return true
			}
			return false
		}
		began := time.Now()
		rep, err := g.run(g.config(PlanConfig{Seed: 1, Streams: 6, Sessions: 2}))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 3 0 3 0 0 0 0]")
		has(t, "handshakes: those who ask for peace are left in it", len(g.of("initialize")), 2)
		has(t, "took", time.Since(began), time.Minute)
		has(t, "throttled", rep.Throttled, 1)
	})
}

func TestGetStreamsCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		emitted := make(chan string, 1)
		g.call = func(v *visit) {
			if len(g.of(MethodTool)) == 1 {
				v.status(429, "Retry-After: 9")
				return
			}
			v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{}}`)
			if v.id != "3" { // the call of the load
				emitted <- v.token
			}
		}
		g.resume = func(v *visit, _ int) {
			v.sse()
			token := <-emitted
			for k := 1; k <= 3; k++ {
				v.send(v.progress(fmt.Sprint("e", k), token, k, 3))
			}
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Ramp: time.Hour, Sessions: 1, GetStreams: 1})
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "GET streams", rep.Gets[history.OutcomeCompleted], 1)
		has(t, "throttled", rep.Throttled, 1)
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight, 1 January 2000
		for value, want := range map[string]time.Duration{
			"": 0, "0": 0, "17": 17 * time.Second, " 3 ": 3 * time.Second, "-5": 0, "soon": 0, "1.5": 0, "99999999999": 0,
			"Sat, 01 Jan 2000 00:00:30 GMT":    30 * time.Second,
			"Saturday, 01-Jan-00 00:01:00 GMT": time.Minute,
			"Sat Jan  1 00:00:05 2000":         5 * time.Second,
			"Fri, 31 Dec 1999 23:00:00 GMT":    0,
			"Sat, 01 Jan 2022 00:00:00 GMT":    longest,
		} {
			g := newTarget(t)
			g.special = func(v *visit) bool { v.status(429, "Retry-After: "+value); return true }
			g.serve()
			conn, err := g.ln.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			resp, err := wire.NewConn(conn, wire.Limits{}).RoundTrip(&wire.Request{Method: "DELETE", Target: "/", Host: "x"})
			if err != nil {
				t.Fatal(err)
			}
			has(t, "Retry-After: "+value, retryAfter(resp), want)
			_, _ = conn.Close(), g.ln.Close()
			g.wg.Wait()
		}
	})
}
