package loadgen

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func openPlan(t *testing.T, c PlanConfig) Plan {
	t.Helper()
	p, err := NewPlan(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// area is how many arrivals the rates of a plan ask for until d.
func area(c PlanConfig, d time.Duration) (hits float64) {
	rate, left := c.Rate, d
	part := func(took time.Duration, to float64) {
		t := max(min(left, took), 0)
		end := rate
		if took > 0 {
			end = rate + (to-rate)*t.Seconds()/took.Seconds()
		}
		hits += (rate + end) / 2 * t.Seconds()
		left, rate = left-took, to
	}
	part(c.Duration, c.Rate)
	for _, s := range c.Stages {
		part(s.For, s.Rate)
	}
	return hits
}

func TestOpenPlanFollowsItsRates(t *testing.T) {
	for _, c := range []struct {
		name  string
		plan  PlanConfig
		total int
		lasts time.Duration
	}{
		{"constant", PlanConfig{Rate: 200, Duration: 20 * time.Second}, 4000, 20 * time.Second},
		{"constant, no whole nanoseconds apart", PlanConfig{Rate: 7001, Duration: 100 * time.Second}, 700_100, 100 * time.Second},
		{"less than one in a second", PlanConfig{Rate: 0.3, Duration: 100 * time.Second}, 30, 100 * time.Second},
		{"up from nothing", PlanConfig{Stages: []Stage{{10 * time.Second, 100}}}, 500, 10 * time.Second},
		{"down to nothing", PlanConfig{Rate: 100, Stages: []Stage{{10 * time.Second, 0}}}, 500, 10 * time.Second},
		{"hold, up, hold, rest, step, down", PlanConfig{Rate: 10, Duration: 5 * time.Second, Stages: []Stage{
			{5 * time.Second, 200}, {5 * time.Second, 200}, {0, 0}, {time.Minute, 0}, {0, 50}, {time.Second, 50}, {3 * time.Second, 1},
		}}, 50 + 525 + 1000 + 50 + 77, 79 * time.Second},
		{"fast", PlanConfig{Rate: maxRate, Duration: 2 * time.Second}, 2_000_000, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPlan(t, c.plan)
			has(t, "total", p.Total(), c.total)
			has(t, "lasts", p.Lasts(), c.lasts)
			last := time.Duration(-1)
			step := max(p.Len()/20_000, 1)
			for n := 0; n < p.Len(); n += step {
				due := p.Arrival(n).Due
				if due < last || due > c.lasts {
					t.Fatalf("arrival %d is due at %v after %v", n, due, last)
				}
				// At its instant as many arrivals must be due as the rates ask for; each of
				// the segments begins with one, which may come early by less than one.
				if want := area(c.plan, due); math.Abs(want-float64(n)) > 0.1+float64(len(c.plan.Stages)) {
					t.Fatalf("arrival %d is due at %v, when the rates ask for %.2f", n, due, want)
				}
				last = due
			}
		})
	}
}

func TestRampFromNothingRampsFromNothing(t *testing.T) {
	// To the pacers a rate of 0 means without limit.
	p := openPlan(t, PlanConfig{Stages: []Stage{{10 * time.Second, 100}}})
	for n, want := range map[int]time.Duration{0: 0, 1: 447 * time.Millisecond, 4: 894 * time.Millisecond, 125: 5 * time.Second, 499: 9990 * time.Millisecond} {
		if got := p.Arrival(n).Due; got < want-2*time.Millisecond || got > want+2*time.Millisecond {
			t.Errorf("arrival %d is due at %v, want %v", n, got, want)
		}
	}
}

func TestOpenPlanText(t *testing.T) {
	p := openPlan(t, PlanConfig{Seed: 4, Rate: 2, Duration: time.Second, Stages: []Stage{{time.Second, 0}}, Canary: 9, GetStreams: 1, Sessions: 2})
	var b strings.Builder
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	want := "arrivals: 3 calls, 2/s for 1s, to 0/s in 1s, at most 20000 open, 2 sessions, 2 GET streams, seed 4\n" +
		"stream 9 session 1 due 0s canary\n" +
		"stream 10 session 1 due 0s get\n" +
		"stream 11 session 2 due 0s get\n" +
		"stream 1 session 1 due 0s\n" +
		"stream 2 session 2 due 500ms\n" +
		"stream 3 session 1 due 1s\n"
	has(t, "text", b.String(), want)
	other := openPlan(t, PlanConfig{Seed: 4, Rate: 2, Duration: time.Second, Stages: []Stage{{time.Second, 1}}, Canary: 9, GetStreams: 1, Sessions: 2})
	if other.Hash() == p.Hash() || len(p.Hash()) != 64 {
		t.Errorf("hashes %s and %s", p.Hash(), other.Hash())
	}
}

func TestGetStreamsAreNumberedBehindAllOthers(t *testing.T) {
	p := openPlan(t, PlanConfig{Streams: 10, First: 101, Sessions: 4, GetStreams: 2})
	perSession := make(map[uint32]int)
	for n := range p.Gets() {
		a := p.Arrival(n)
		has(t, "kind", a.Kind, history.StreamGet)
		has(t, "number", a.Stream, 111+n)
		perSession[a.Session]++
	}
	has(t, "in each session", perSession, map[uint32]int{1: 2, 2: 2, 3: 2, 4: 2})
	has(t, "load behind them", p.Arrival(8).Stream, 101)
}

func TestOpenPlanRefusals(t *testing.T) {
	for name, c := range map[string]PlanConfig{
		"both models":        {Streams: 5, Rate: 1, Duration: time.Second},
		"no duration":        {Rate: 5},
		"no rate":            {Duration: time.Second},
		"negative rate":      {Rate: -1, Duration: time.Second},
		"not a number":       {Rate: math.NaN(), Duration: time.Second},
		"too fast":           {Rate: maxRate * 1.01, Duration: time.Second},
		"stage too fast":     {Stages: []Stage{{time.Second, math.Inf(1)}}},
		"stage backwards":    {Stages: []Stage{{-time.Second, 1}}},
		"nothing":            {Stages: []Stage{{time.Hour, 0}}},
		"more than numbers":  {Rate: maxRate, Duration: 2 * time.Hour},
		"negative max open":  {Rate: 1, Duration: time.Second, MaxOpen: -1},
		"closed with a cap":  {Streams: 1, MaxOpen: 1},
		"negative GETs":      {Streams: 1, GetStreams: -1},
		"negative length":    {Rate: 1, Duration: -time.Second},
		"ramp in open model": {Rate: 1, Duration: time.Second, Ramp: time.Second},
	} {
		if _, err := NewPlan(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOpenModelDropsInsteadOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		was := g.call
		g.call = func(v *visit) { time.Sleep(time.Second); was(v) } // ten a second, for a second each
		live := new(Live)
		cfg := g.config(PlanConfig{Rate: 10, Duration: 4 * time.Second, MaxOpen: 4, Sessions: 2})
		cfg.Observer, cfg.Live = seen, live
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "planned = opened + dropped", fmt.Sprint(rep.Planned, rep.Opened, rep.DroppedArrivals, rep.MaxOpen), "40 16 24 4")
		has(t, "live", live.Progress().Dropped, 24)
		has(t, "outcomes", rep.Outcomes[history.OutcomeCompleted], 16)
		has(t, "streams with records", len(seen.of), 16)
		if rep.Took > 5*time.Second {
			t.Errorf("took %v", rep.Took)
		}
		if !rep.Behind() || !strings.Contains(rep.Shortfall(), "24 of 40 arrivals were dropped") {
			t.Errorf("shortfall %q", rep.Shortfall())
		}
		for n, s := range seen.of {
			due := time.Duration(n-1) * 100 * time.Millisecond
			if at := s.all[0].At; at != due {
				t.Errorf("stream %d began at %v, due at %v", n, at, due)
			}
		}
	})
}

func TestOpenModelMeasuresFromDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		was := g.call
		g.call = func(v *visit) { time.Sleep(time.Second); was(v) } // so that each needs a link of its own
		cfg := g.config(PlanConfig{Rate: 10, Duration: time.Second, Sessions: 1})
		dial := cfg.Dial
		cfg.Dial = ctxDial(dial, func(l Link) Link { time.Sleep(1500 * time.Millisecond); return l })
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "opened", fmt.Sprint(rep.Planned, rep.Opened, rep.DroppedArrivals), "10 10 0")
		if late := rep.Latencies.Quantile(StartDelay, 99); late < 1500*time.Millisecond {
			t.Errorf("start delay %v", late)
		}
		if !rep.Behind() || !strings.Contains(rep.Shortfall(), "started 1.5") {
			t.Errorf("shortfall %q", rep.Shortfall())
		}
	})
}

func TestOpenModelHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		halt := make(chan struct{})
		time.AfterFunc(1050*time.Millisecond, func() { close(halt) })
		cfg := g.config(PlanConfig{Rate: 10, Duration: time.Hour, Sessions: 1})
		cfg.Halt = halt
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "planned, opened, dropped", fmt.Sprint(rep.Planned, rep.Opened, rep.DroppedArrivals, rep.Took), "36000 11 0 1.05s")
	})
}

func TestShortfall(t *testing.T) {
	rep := func(delay time.Duration, cpu time.Duration, dropped int64) Report {
		l := newLatencies()
		_ = l.Of(StartDelay).RecordValue(delay.Microseconds())
		return Report{Planned: 100, DroppedArrivals: dropped, Latencies: l, Took: 10 * time.Second, CPU: cpu, Cores: 2}
	}
	for _, c := range []struct {
		name string
		r    Report
		want string
	}{
		{"on time – none", rep(50*time.Millisecond, 19*time.Second, 10), ""},
		{"late, idle – none below a second", rep(900*time.Millisecond, 17*time.Second, 0), ""},
		{"a second late", rep(time.Second, 0, 0), "started"},
		{"late without processor", rep(200*time.Millisecond, 18*time.Second, 0), "1.8 of 2 cores"},
		{"eleven of a hundred dropped", rep(0, 0, 11), "11 of 100"},
	} {
		if got := c.r.Shortfall(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || c.r.Behind() != (c.want != "") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestAbsurdRateEndsOnTime is in real time: a million arrivals in a second, of which one
// machine starts as many as it can.
func TestAbsurdRateEndsOnTime(t *testing.T) {
	g := newTarget(t)
	hold := make(chan struct{})
	g.call = func(v *visit) { <-hold; v.status(500) }
	time.AfterFunc(1100*time.Millisecond, func() { close(hold) })
	cfg := g.config(PlanConfig{Rate: maxRate, Duration: time.Second, MaxOpen: 50, Sessions: 1})
	rep, err := g.run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Took > 10*time.Second || rep.Planned != rep.Opened+rep.DroppedArrivals || rep.DroppedArrivals < 900_000 || !rep.Behind() {
		t.Errorf("took %v, %d planned, %d opened, %d dropped: %s", rep.Took, rep.Planned, rep.Opened, rep.DroppedArrivals, rep.Shortfall())
	}
}
