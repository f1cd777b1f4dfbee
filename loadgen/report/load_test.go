package report_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// storming is a run at the proxy with every kind of fault, storms and probes.
func storming() *result.Result {
	r := holding()
	r.Run.Profile = "cut-everywhere"
	r.Faults.Seat, r.Faults.Planned, r.Faults.Injected, r.Faults.Cuts, r.Faults.Storms, r.Faults.Approximate = "proxy", 1100, 1080, 700, 4, 3
	r.Faults.ByKind = map[string]int64{
		"rst": 200, "fin": 199, "chunk-end": 98, "storm": 203, "stall": 95, "delay": 94, "throttle": 93, "slice": 98, "blackhole": 0,
	}
	r.Reached = append(r.Reached, result.Reached{Name: "storms", Want: 3, Got: 4, OK: true}, result.Reached{Name: "injections", Want: 880, Got: 1080, OK: true})
	r.Reached[0].Got = 700
	r.LossBound95ByPlace = []result.PlaceBound{
		{Place: "between-events", CutsAtRisk: 60, Bound: 0.05}, {Place: "mid-event", CutsAtRisk: 80}, {Place: "after-response"},
	}
	r.Probes = []result.Probe{
		{Name: "replay-after-response", Asked: 20, Conforming: 20}, {Name: "unknown-cursor", Asked: 1200, Conforming: 1190, Deviating: 7},
	}
	r.History = result.History{Dir: "out", Records: 123456}
	return r
}

// flowing is a run of the open model.
func flowing() *result.Result {
	r := holding()
	r.Run.Command = "gapless run --rate 200/s --duration 20s --seed 7"
	r.Load = result.Load{Model: result.Open, Seconds: 20, WantedPerSecond: 200, StartedPerSecond: 197.5, MaxOpen: 300}
	r.Streams = result.Streams{Planned: 4000, Opened: 3950, MaxOpen: 300, Completed: 3948, Cancelled: 2, DroppedArrivals: 50}
	return r
}

func drowning() *result.Result {
	r := unsure()
	r.Sentence = "This run cannot say whether messages survive: the load generator could not keep up."
	r.Why, r.Seen, r.Next = []string{"streams started up to 12.4s late"}, nil, []string{"ask for a lower --rate"}
	r.Load = result.Load{Model: result.Open, Seconds: 20, WantedPerSecond: 50000, StartedPerSecond: 1211.4, MaxOpen: 20000}
	r.Streams = result.Streams{Planned: 1_000_000, Opened: 24_228, DroppedArrivals: 975_772}
	r.Latency.StartDelay = result.Figures{Count: 24_228, P99: 11.2, Max: 12.4}
	r.Generator.Saturated = true
	return r
}

func TestSummariesOfEveryShapeOfLoad(t *testing.T) {
	halted := violating()
	halted.Run.Stopped, halted.Run.DurationSeconds, halted.Streams.Opened, halted.Streams.Planned = result.AtViolation, 12.34, 291, 4000
	halted.Load = flowing().Load
	broken := holding()
	broken.Run.Stopped, broken.Run.DurationSeconds, broken.Streams.Opened = result.Interrupted, 3.2, 120
	lasting := storming()
	lasting.Faults.Cuts, lasting.Faults.Seat, lasting.Faults.Storms, lasting.Faults.Approximate = 0, "client", 0, 0
	lasting.Faults.ByKind = map[string]int64{"stall": 120}
	lasting.Reached = nil
	wide := storming()
	wide.Reached = append(wide.Reached, result.Reached{Name: "max_open", Want: 1000, Got: 1200, OK: true})
	for _, tc := range []struct {
		name string
		r    *result.Result
		o    report.Options
	}{
		{"holds-open", flowing(), report.Options{}},
		{"holds-storm", storming(), report.Options{}},
		{"holds-storm-wide", wide, report.Options{}},
		{"holds-storm-verbose", storming(), report.Options{Verbose: true}},
		{"holds-lasting", lasting, report.Options{}},
		{"holds-stopped", broken, report.Options{}},
		{"inconclusive-open", drowning(), report.Options{}},
		{"violated-stopped", halted, report.Options{Saved: "out"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := text(t, tc.r, tc.o)
			golden(t, tc.name, got)
			if lines := strings.Count(got, "\n"); lines > 25 && !tc.o.Verbose {
				t.Errorf("%d lines; a summary has 25 at most", lines)
			}
		})
	}
}

// A summary with everything in it still fits.
func TestTheLongestSummariesFit(t *testing.T) {
	full := storming()
	full.Load, full.Streams.Planned, full.Streams.DroppedArrivals, full.Run.Stopped = flowing().Load, 4000, 50, result.Interrupted
	full.Resumes.Conflicts, full.Resumes.Refused, full.Streams.Cancelled = 3, 4, 5
	full.Thresholds = []result.Threshold{{Figure: "resume_caught_up", Expression: "p(99)<1s", OK: true}}
	lost := drowning()
	lost.Run.Stopped = result.Interrupted
	bad := violating()
	bad.Load, bad.Run.Stopped = flowing().Load, result.AtViolation
	for range 50 {
		lost.Why, lost.Seen, lost.Next = append(lost.Why, "a reason"), append(lost.Seen, "a sight"), append(lost.Next, "a step")
		bad.Invariants = append(bad.Invariants, bad.Invariants[0], bad.Invariants[3])
		bad.Damage.After = append(bad.Damage.After, result.After{Fault: "fin@at-live", Streams: 1})
	}
	for _, r := range []*result.Result{full, lost, bad} {
		if got := text(t, r, report.Options{Saved: "out"}); strings.Count(got, "\n") > 25 {
			t.Errorf("more than 25 lines:\n%s", got)
		}
	}
}

func TestWhatIsSaidOfTheLoad(t *testing.T) {
	closed := holding()
	closed.Load.Model, closed.Streams.DroppedArrivals = result.Closed, 3
	mixed := storming()
	mixed.Faults.Cuts = 0 // not filled in: what the judge counted against the wish stands
	calm := holding()
	calm.Reached = append(calm.Reached, result.Reached{Name: "storms", Want: 3})
	for _, tc := range []struct {
		name      string
		r         *result.Result
		want, not string
	}{
		{"closed model – no rate", closed, ", 3 arrivals dropped", "started"},
		{"open model – dropped arrivals are said once", flowing(), "50 dropped at 300 open; started 198/s of 200/s for 20.0s", "arrivals dropped"},
		{"no storm where some were wanted – said", calm, "  storms         3      0   0 links cut", "stopped"},
		{"no storm – no line about storms", holding(), "HOLDS", "storms"},
		{"all faults are cuts – one row", holding(), "  cuts         400    441   rst 244", "faults "},
		{"cuts not counted – those that were wanted", mixed, "  cuts         400    700   links ended", "441"},
		{"ran to its end – not stopped", holding(), "HOLDS", "stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := text(t, tc.r, report.Options{})
			if !strings.Contains(got, tc.want) || strings.Contains(strings.ReplaceAll(got, tc.r.Sentence, ""), tc.not) {
				t.Errorf("want %q and no %q in\n%s", tc.want, tc.not, got)
			}
		})
	}
}

func TestRatesThatAreNoNumbers(t *testing.T) {
	for value, want := range map[float64]string{
		math.NaN(): "?/s", math.Inf(1): "?/s", -1: "?/s", 0: "0/s", 0.04: "0.0/s", 9.9: "9.9/s", 9.96: "10/s", 12345.6: "12,346/s", 1e300: "?/s",
	} {
		r := flowing()
		r.Load.StartedPerSecond = value
		if got := text(t, r, report.Options{}); !strings.Contains(got, "started "+want+" of 200/s") {
			t.Errorf("%v is no %s in\n%s", value, want, got)
		}
	}
}

// steps is a timeline of n lines; every tenth has a finding.
func steps(n int) *result.Timeline {
	tl := guilty()
	tl.Steps = nil
	for i := range n {
		s := result.Step{AtSeconds: float64(i), Link: 1, Mark: "<", Text: fmt.Sprintf("step %d of it", i+1), Cursor: int64(i)}
		if (i+1)%10 == 0 {
			s.Finding = "in-order"
		}
		tl.Steps = append(tl.Steps, s)
	}
	return tl
}

func TestLongTimelinesShowBeginningAndEnd(t *testing.T) {
	for n, want := range map[int]string{40: "step 25 of it", 41: "… 5 more;", 60: "… 24 more, with 2 findings;", 10_000: "… 9,964 more, with 996 findings;"} {
		var buf bytes.Buffer
		if err := report.Timeline(&buf, steps(n), report.Options{}); err != nil {
			t.Fatal(err)
		}
		got := buf.String()
		for _, s := range []string{want, "step 1 of it", "step 24 of it", fmt.Sprintf("step %d of it", n-11), fmt.Sprintf("step %d of it", n)} {
			if !strings.Contains(got, s) {
				t.Errorf("%d steps: no %q in\n%s", n, s, got)
			}
		}
		if n > 40 && (strings.Contains(got, "step 25 of it") || strings.Contains(got, fmt.Sprintf("step %d of it", n-12))) {
			t.Errorf("%d steps: the middle is shown\n%s", n, got)
		}
	}
	var buf bytes.Buffer
	if err := report.Timeline(&buf, steps(60), report.Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "timeline-sixty", buf.String())
}

func TestAFindingStandsApartFromItsText(t *testing.T) {
	for n := range 130 {
		for _, mark := range []string{"<", "x"} {
			tl := guilty()
			tl.Steps = []result.Step{{Link: uint32(1 + n*n), Mark: mark, Text: strings.Repeat("t", n), Finding: "no-loss", Cursor: int64(n)}}
			var buf bytes.Buffer
			if err := report.Timeline(&buf, tl, report.Options{}); err != nil {
				t.Fatal(err)
			}
			if got := buf.String(); !strings.Contains(got, "  ! no-loss ") {
				t.Errorf("a text of %d characters and its finding in\n%s", n, got)
			}
		}
	}
}

func TestHostileNamesAndNumbers(t *testing.T) {
	huge := strings.Repeat(hostile, 10_000)
	r := storming()
	r.Run.Stopped, r.History.Dir, r.Load, r.Faults.Seat = huge, huge, flowing().Load, huge
	r.Faults.ByKind[huge], r.Faults.ByPlace[huge] = 1, 1
	r.LossBound95ByPlace[0] = result.PlaceBound{Place: huge, CutsAtRisk: 1, Bound: math.Inf(1)}
	r.LossBound95ByPlace[1].Bound, r.Probes[0].Name = math.NaN(), hostile
	r.Load.Seconds, r.Load.WantedPerSecond = math.NaN(), math.Inf(1)
	tl := steps(50)
	tl.Steps[1].Text, tl.Steps[1].Finding = hostile, hostile
	var buf bytes.Buffer
	for _, verdict := range []string{result.Holds, result.Violated, result.Inconclusive} {
		r.Verdict = verdict
		buf.WriteString(text(t, r, report.Options{Verbose: true}))
	}
	if err := report.Timeline(&buf, tl, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > 60_000 {
		t.Errorf("%d bytes; huge text has to be cut", buf.Len())
	}
	for _, c := range buf.String() {
		if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == '\u2028') {
			t.Fatalf("control character %U reached the terminal", c)
		}
	}
}
