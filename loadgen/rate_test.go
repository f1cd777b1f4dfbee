package loadgen

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestMaxRateBoundsEveryModel(t *testing.T) {
	for _, c := range []struct {
		name string
		plan PlanConfig
		took time.Duration // from the first start to the last
	}{
		{"closed, all at once", PlanConfig{Seed: 1, Streams: 11, Sessions: 1}, 2 * time.Second},
		{"closed, each call makes room at once", PlanConfig{Seed: 1, Streams: 1, Calls: 11, Sessions: 1}, 2 * time.Second},
		{"closed, a canary besides", PlanConfig{Seed: 1, Streams: 10, Sessions: 1, Canary: 12}, 2 * time.Second},
		{"open, planned faster", PlanConfig{Seed: 1, Rate: 11, Duration: time.Second, Sessions: 1}, 2 * time.Second},
		{"open, planned slower", PlanConfig{Seed: 1, Rate: 2, Duration: 5500 * time.Millisecond, Sessions: 1}, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				cfg := g.config(c.plan)
				cfg.MaxRate = 5
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				calls := g.of(MethodTool)
				has(t, "calls", len(calls), 11)
				for i := range calls[1:] {
					if d := calls[i+1].at.Sub(calls[i].at); d < 200*time.Millisecond {
						t.Errorf("call %d came %v after the one before", i+2, d)
					}
				}
				has(t, "took", calls[10].at.Sub(calls[0].at), c.took)
				has(t, "a wait for the rate is no delay of ours", rep.Shortfall(), "")
				has(t, "latest start", rep.Latencies.Quantile(StartDelay, 100) < 10*time.Millisecond, true)
			})
		})
	}
}

func TestHaltEndsAWaitForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		halt := make(chan struct{})
		cfg := g.config(PlanConfig{Seed: 1, Streams: 3, Sessions: 1})
		cfg.MaxRate, cfg.Halt = 0.01, halt
		time.AfterFunc(150*time.Second, func() { close(halt) })
		began := time.Now()
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "completed, took", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], time.Since(began)), "2 2m30s")
	})
}

// TestNobodyMakesUpForALateStart: after a start that this machine was late with, the next
// one is as far away as after any other.
func TestNobodyMakesUpForALateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newTarget(t).config(one)
		cfg.MaxRate = 5
		r := newRunner(cfg.withDefaults())
		timer := time.NewTimer(0)
		defer timer.Stop()
		time.Sleep(10 * time.Second)
		for n, want := range []time.Duration{10 * time.Second, 10200 * time.Millisecond, 10400 * time.Millisecond} {
			due, ok := r.paced(t.Context(), timer, time.Duration(n)*time.Second)
			has(t, "may start, at", fmt.Sprint(ok, r.now()), fmt.Sprint(true, want))
			if n == 0 {
				has(t, "the delay is ours", due, time.Duration(0))
			}
		}
	})
}
