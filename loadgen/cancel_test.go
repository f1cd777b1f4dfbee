package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// cancelled returns the request ids that were cancelled, in order.
func (g *target) cancelled() (ids []string) {
	for _, v := range g.of("notifications/cancelled") {
		var m struct {
			Params struct{ RequestID json.RawMessage }
		}
		if err := json.Unmarshal(v.body, &m); err != nil {
			g.t.Errorf("%q: %v", v.body, err)
		}
		ids = append(ids, string(m.Params.RequestID))
	}
	return ids
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(v *visit)
		ends string
		seqs string
		took time.Duration
	}{
		{"no response, ended – cancelled", func(v *visit) { v.end() }, "[1]", "[1 2]", 0},
		{"one response – cancelled", func(v *visit) { v.send(result("r", v.id)); v.end() }, "[1]", "[1 2 0]", 0},
		{"open for ever – left after two seconds", func(v *visit) { v.hang() }, "[10]", "[1 2]", 2 * time.Second},
		{"cut – not taken up again", func(v *visit) { v.reset() }, "[4]", "[1 2]", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				told := make(chan struct{})
				g.special = func(v *visit) bool {
					if v.rpc == "notifications/cancelled" {
						v.status(202)
						close(told)
						return true
					}
					return false
				}
				g.call = func(v *visit) {
					primed(v)
					v.send(v.progress("e2", v.token, 2, 3))
					<-told
					time.Sleep(time.Millisecond) // so that what was sent before has been read
					c.then(v)
				}
				g.resume = func(v *visit, n int) { t.Error("resumed"); v.status(400) }
				cfg := g.config(one)
				cfg.Observer, cfg.Cancel = seen, 1
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				has(t, "outcome", rep.Outcomes[history.OutcomeCancelled], 1)
				has(t, "cancelled", g.cancelled(), "[1]")
				has(t, "ends", seen.ends(), c.ends)
				has(t, "messages", seen.seqs(), c.seqs)
				if rep.Took < c.took || rep.Took > c.took+10*time.Millisecond {
					t.Errorf("took %v", rep.Took)
				}
			})
		})
	}
}

func TestCancelIsDrawnForItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		cfg := g.config(PlanConfig{Seed: 2, Streams: 200, Sessions: 1, Canary: 201})
		cfg.Cancel, cfg.Calls[0].Expected = 0.25, 1
		g.call = func(v *visit) {
			v.sse()
			v.send(v.progress("e1", v.token, 1, 1))
			time.Sleep(time.Second)
			v.send(result("r", v.id))
			v.end()
		}
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := rep.Outcomes[history.OutcomeCancelled]
		if n < 30 || n > 70 || n+rep.Outcomes[history.OutcomeCompleted] != 200 || rep.Canary != history.OutcomeCompleted {
			t.Errorf("%d of 200 were cancelled: %v, canary %v", n, rep.Outcomes, rep.Canary)
		}
	})
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		cfg := newTarget(t).config(one)
		if cfg.Cancel = share; cfg.Validate() == nil {
			t.Errorf("a share of %g is accepted", share)
		}
	}
}

func TestCallsGivenUpAreCancelled(t *testing.T) {
	hang := func(v *visit) { v.sse(); v.send(prime("p")); v.hang() }
	for _, c := range []struct {
		name    string
		stop    bool
		call    func(v *visit)
		outcome history.Outcome
		want    string
	}{
		{"deadline", false, hang, history.OutcomeFailed, "[1]"},
		{"stop", true, hang, history.OutcomeUndecided, "[1]"},
		{"answered – not cancelled", false, func(v *visit) { v.sse(); v.send(result("r", v.id)); v.hang() }, history.OutcomeCompleted, "[]"},
		{"refused – not cancelled", false, func(v *visit) { v.status(500) }, history.OutcomeRefused, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				g.call = c.call
				cfg := g.config(one)
				cfg.Idle = time.Hour
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.stop {
					time.AfterFunc(3*time.Second, cancel)
				}
				g.serve()
				rep, err := Run(ctx, cfg)
				_ = g.ln.Close()
				g.wg.Wait()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				has(t, "outcome", rep.Outcomes[c.outcome], 1)
				has(t, "cancelled", g.cancelled(), c.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a target that takes nothing more must not hold up the end
		g := newTarget(t)
		g.call = hang
		g.special = func(v *visit) bool {
			if v.rpc != "notifications/cancelled" {
				return false
			}
			v.hang()
			return true
		}
		cfg := g.config(one)
		cfg.Idle, cfg.Calls[0].Deadline = time.Hour, 20*time.Second
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "took", fmt.Sprint(rep.Took), "21s")
	})
}
