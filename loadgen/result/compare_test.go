package result_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// figures are those of samples; more of them make their intervals narrower.
func figures(samples []float64) result.Figures {
	slices.Sort(samples)
	n := int64(len(samples))
	rank := func(k int64) float64 { return samples[max(k, 1)-1] }
	at := func(q float64) (float64, result.Range) {
		return rank(int64(q/100*float64(n) + 0.5)), result.Interval(n, q, rank)
	}
	f := result.Figures{Count: n}
	f.P50, f.P50Interval = at(50)
	f.P90, f.P90Interval = at(90)
	f.P99, f.P99Interval = at(99)
	return f
}

func draw(rng *rand.Rand, n int, scale float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = scale * (0.1 + rng.ExpFloat64())
	}
	return s
}

func run(f result.Figures) *result.Result {
	r := &result.Result{Verdict: result.Holds, Load: result.Load{Model: result.Closed}}
	r.Streams = result.Streams{Planned: 200, Completed: 200}
	r.Messages = result.Messages{Expected: 10000, Delivered: 10000}
	r.Invariants = []result.Invariant{{Name: "no-loss", Level: "contract", Verdict: result.Holds}, {Name: "primed", Level: "SHOULD", Verdict: result.Holds}}
	r.Thresholds = []result.Threshold{{Figure: "first_event", Expression: "p(99)<1s", OK: true}}
	r.Latency.ResumeCaughtUp = f
	return r
}

func TestCompareWithItself(t *testing.T) {
	r := full(t)
	c := result.Compare(r, r)
	if c.Different() || len(c.Regressions) > 0 || len(c.NotTheSame) > 0 || len(c.Latencies) == 0 {
		t.Errorf("a result differs from itself: %+v", c)
	}
}

func TestCompareLatencies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	base := figures(draw(rng, 2000, 0.1))
	for _, tc := range []struct {
		name          string
		before, after result.Figures
		word          string // of p(50)
		worse         bool
	}{
		{"twice as slow – a regression", base, figures(draw(rng, 2000, 0.2)), result.Slower, true},
		{"twice as fast", base, figures(draw(rng, 2000, 0.05)), result.Faster, false},
		{"the same again", base, figures(draw(rng, 2000, 0.1)), result.WithinNoise, false},
		{"twice as slow, eight samples", base, figures(draw(rng, 8, 0.2)), result.TooFew, false},
		{"twice as slow, under a millisecond", figures(draw(rng, 2000, 0.0001)), figures(draw(rng, 2000, 0.0002)), result.Slower, false},
		{"5 % slower, very surely", figures(draw(rng, 200000, 0.1)), figures(draw(rng, 200000, 0.105)), result.Slower, false},
		{"none before", result.Figures{}, base, result.TooFew, false},
	} {
		c := result.Compare(run(tc.before), run(tc.after))
		i := slices.IndexFunc(c.Latencies, func(l result.LatencyChange) bool { return l.Quantile == 50 })
		if i < 0 || c.Latencies[i].Word != tc.word || c.Latencies[i].Worse != tc.worse || tc.worse != (len(c.Regressions) > 0) {
			t.Errorf("%s: got %+v, regressions %q", tc.name, c.Latencies, c.Regressions)
		}
	}
}

// What a busy machine, or this side alone, makes slower is not the target's.
func TestCompareBlamesTheTargetAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	base := figures(draw(rng, 2000, 0.1))
	late := run(result.Figures{})
	late.Latency.StartDelay = figures(draw(rng, 2000, 0.1))
	later := run(result.Figures{})
	later.Latency.StartDelay = figures(draw(rng, 2000, 0.2))
	if c := result.Compare(late, later); len(c.Regressions) > 0 || c.Latencies[0].Word != result.Slower || c.Doubt != "" {
		t.Errorf("the generator's own delay is blamed on the target: %+v", c)
	}
	late.Latency.Completion, later.Latency.Completion = base, figures(draw(rng, 2000, 0.2))
	if c := result.Compare(late, later); len(c.Regressions) > 0 || !strings.Contains(c.Doubt, "started calls later") {
		t.Errorf("what a busy machine slows down is blamed on the target: %+v", c)
	}
	late.Latency.StartDelay, later.Latency.StartDelay, later.Generator.Saturated = result.Figures{}, result.Figures{}, true
	if c := result.Compare(late, later); len(c.Regressions) > 0 || !strings.Contains(c.Doubt, "keep up") {
		t.Errorf("what a saturated generator measures is blamed on the target: %+v", c)
	}
	even, bunched := run(result.Figures{}), run(result.Figures{})
	bunched.Latency.EventGap, even.Latency.EventGap = figures(make([]float64, 2000)), base
	soon, tardy := run(result.Figures{}), run(result.Figures{})
	soon.Latency.ResumeDetect, tardy.Latency.ResumeDetect = base, figures(draw(rng, 2000, 0.2))
	if c := result.Compare(soon, tardy); len(c.Regressions) > 0 || c.Doubt != "" {
		t.Errorf("how soon this side sees its own faults is blamed on the target: %+v", c)
	}
	for _, l := range result.Compare(bunched, even).Latencies {
		if l.Worse != (l.Quantile == 99) {
			t.Errorf("gap of p(%v) worse: %v", l.Quantile, l.Worse)
		}
	}
	zero := run(figures(make([]float64, 2000)))
	if c := result.Compare(zero, run(base)); c.Latencies[0].Word != result.Slower {
		t.Errorf("2000 times nothing are few samples: %+v", c.Latencies[0])
	}
}

// Runs of one target must hardly ever be told apart by chance, and a real difference must be found.
func TestCompareIsHonest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alarms, found := 0, 0
	const runs = 500
	for range runs {
		a, b, slow := figures(draw(rng, 400, 0.1)), figures(draw(rng, 400, 0.1)), figures(draw(rng, 400, 0.15))
		if len(result.Compare(run(a), run(b)).Regressions) > 0 {
			alarms++
		}
		if len(result.Compare(run(a), run(slow)).Regressions) > 0 {
			found++
		}
	}
	t.Logf("of %d comparisons: %d false alarms, %d of the slow ones found", runs, alarms, found)
	if alarms > runs/100 || found < runs*9/10 {
		t.Errorf("%d false alarms, %d found", alarms, found)
	}
}

func TestCompareWords(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(before, after *result.Result)
		want   string // the regressions
		same   string // not the same experiment
	}{
		{"nothing", func(b, a *result.Result) {}, "", ""},
		{"verdict worse", func(b, a *result.Result) { a.Verdict = result.Inconclusive }, "verdict inconclusive, was holds", ""},
		{"verdict better", func(b, a *result.Result) { b.Verdict = result.Violated }, "", ""},
		{"newly violated", func(b, a *result.Result) { a.Invariants[0].Verdict = result.Violated }, "no-loss violated, was holds", ""},
		{"violated before", func(b, a *result.Result) {
			b.Invariants[0].Verdict, a.Invariants[0].Verdict = result.Violated, result.Violated
		}, "", ""},
		{"a new deviation", func(b, a *result.Result) { a.Invariants[1].Verdict = result.Violated }, "", ""},
		{"a new invariant, violated", func(b, a *result.Result) {
			a.Invariants = append(a.Invariants, result.Invariant{Name: "new", Level: "MUST", Verdict: result.Violated})
		}, "new violated, was not applicable", ""},
		{"threshold", func(b, a *result.Result) { a.Thresholds[0].OK = false }, "threshold first_event p(99)<1s failed, was passed", ""},
		{"another threshold", func(b, a *result.Result) { a.Thresholds[0] = result.Threshold{Figure: "failed"} }, "", ""},
		{"seed", func(b, a *result.Result) { b.Run.Seed = 7 }, "", ""},
		{"target", func(b, a *result.Result) { a.Run.Target.URL = "http://b" }, "", "target none, then http://b"},
		{"version of the target", func(b, a *result.Result) { a.Run.Target.Version = "2" }, "", ""},
		{"port of our own server", func(b, a *result.Result) {
			b.Run.Target, a.Run.Target = result.Target{Store: "memory", URL: "http://a"}, result.Target{Store: "memory", URL: "http://b"}
		}, "", ""},
	} {
		before, after := run(result.Figures{}), run(result.Figures{})
		tc.change(before, after)
		c := result.Compare(before, after)
		if got := strings.Join(c.Regressions, "; "); got != tc.want {
			t.Errorf("%s: regressions %q, want %q", tc.name, got, tc.want)
		}
		if got := strings.Join(c.NotTheSame, "; "); got != tc.same {
			t.Errorf("%s: not the same: %q, want %q", tc.name, got, tc.same)
		}
	}
}

// TestCompareOtherCalls: a tool that takes longer is no slower target.
func TestCompareOtherCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	before, after := run(figures(draw(rng, 2000, 0.1))), run(figures(draw(rng, 2000, 0.3)))
	if c := result.Compare(before, after); len(c.Regressions) == 0 || c.Doubt != "" {
		t.Errorf("the same calls, three times as slow: %+v", c)
	}
	c := result.Compare(before, after, "calls count, then echo")
	if len(c.Regressions) > 0 || !strings.Contains(c.Doubt, "not the same") || !slices.Contains(c.NotTheSame, "calls count, then echo") {
		t.Errorf("other calls: %+v", c)
	}
	for _, l := range c.Latencies {
		if l.Word != result.OfOthers || l.Worse {
			t.Errorf("judged: %+v", l)
		}
	}
}

func TestCompareCounts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		failed int64
		want   string
	}{
		{"one of 200 – noise", 1, result.WithinNoise},
		{"60 of 200 – no chance", 60, result.BeyondChance},
	} {
		before, after := run(result.Figures{}), run(result.Figures{})
		after.Streams.Failed = tc.failed
		c := result.Compare(before, after)
		if len(c.Counts) != 1 || c.Counts[0].Word != tc.want || c.Counts[0].AfterOf != 200 {
			t.Errorf("%s: %+v", tc.name, c.Counts)
		}
	}
}

func TestIntervalNeedsSamples(t *testing.T) {
	rank := func(k int64) float64 { return float64(k) }
	if got := result.Interval(10, 50, rank); got != (result.Range{}) {
		t.Errorf("ten samples: %+v", got)
	}
	if got := result.Interval(1000, 50, rank); got.Low >= 500 || got.High <= 501 || got.High-got.Low > 130 {
		t.Errorf("median of 1000: %+v", got)
	}
	if got := result.Interval(0, 50, rank); got != (result.Range{}) {
		t.Errorf("no samples: %+v", got)
	}
}
