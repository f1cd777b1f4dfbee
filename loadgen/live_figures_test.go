package loadgen

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestLiveFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, live := newTarget(t), new(Live)
		if d, n := live.Quantile(FirstEvent, 50); d != 0 || n != 0 {
			t.Errorf("before the run: %v of %d", d, n)
		}
		if d, n := live.Mean(FirstEvent); d != 0 || n != 0 {
			t.Errorf("before the run: mean %v of %d", d, n)
		}
		if live.Outcomes() != [history.OutcomeFailed + 1]int64{} {
			t.Error("outcomes before the run")
		}
		calls := 0
		g.call = func(v *visit) {
			if calls++; calls == 2 { // the first one has settled by then
				near(t, live, FirstEvent, time.Second, 1)
				near(t, live, Completion, 2*time.Second, 1)
				if got := live.Outcomes()[history.OutcomeCompleted]; got != 1 {
					t.Errorf("%d completed while the second call is open, want 1", got)
				}
			}
			time.Sleep(time.Second)
			v.sse()
			v.send(v.progress("e1", v.token, 1, 1))
			time.Sleep(time.Second)
			near(t, live, FirstEvent, time.Second, int64(calls)) // though the call is still open
			v.send(result("r", v.id))
			v.end()
		}
		cfg := g.config(PlanConfig{Streams: 1, Calls: 2, Sessions: 1})
		cfg.Live = live
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		near(t, live, FirstEvent, time.Second, 2)
		if calls != 2 || live.Outcomes()[history.OutcomeCompleted] != 2 {
			t.Errorf("%d calls, outcomes %v", calls, live.Outcomes())
		}
	})
}

func near(t *testing.T, l *Live, p Phase, want time.Duration, count int64) {
	t.Helper()
	median, n := l.Quantile(p, 50)
	mean, m := l.Mean(p)
	if n != count || m != count || max(median-want, want-median, mean-want, want-mean) > want/500 {
		t.Errorf("%v: median %v of %d, mean %v of %d; want %v of %d", p, median, n, mean, m, want, count)
	}
}

func TestPhaseNamed(t *testing.T) {
	for p := range phases {
		if got, ok := PhaseNamed(p.String()); !ok || got != p {
			t.Errorf("%v: %v, %v", p, got, ok)
		}
	}
	if _, ok := PhaseNamed("late"); ok {
		t.Error("a count is no phase")
	}
}
