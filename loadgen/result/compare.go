package result

import (
	"cmp"
	"fmt"
	"slices"
)

// ComparisonFormat is the value of the field gapless of every comparison.
const ComparisonFormat = "comparison/1"

// A latency that is slower beyond chance is a regression only from leastShare and
// leastSeconds on: two runs of one target differ more than the samples of one run do.
const (
	leastShare   = 0.10
	leastSeconds = 0.001
)

// Words of a change.
const (
	Same         = "same"
	WithinNoise  = "within noise"
	BeyondChance = "beyond chance"
	Slower       = "slower, beyond chance"
	Faster       = "faster, beyond chance"
	TooFew       = "too few samples to tell"
	OfOthers     = "of other calls"
)

// A Comparison says how one run differs from an earlier one.
type Comparison struct {
	Gapless string `json:"gapless"` // ComparisonFormat
	Before  Run    `json:"before"`
	After   Run    `json:"after"`
	// NotTheSame says what else differs than the target: then the runs are not the
	// same experiment.
	NotTheSame []string `json:"not_the_same"`
	// Changes holds what became of the verdict, invariants and thresholds, where it differs.
	Changes   []Change        `json:"changes"`
	Counts    []CountChange   `json:"counts"` // where they differ
	Latencies []LatencyChange `json:"latencies"`
	// Regressions say in words what got worse; empty: nothing did.
	Regressions []string `json:"regressions"`
	// Doubt says why latencies that are slower prove nothing; "": they do, or none is.
	Doubt string `json:"doubt"`
}

// A Change is a word that differs.
type Change struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
	Worse  bool   `json:"worse"`
}

// A CountChange is a count that differs: so many of so many. Of is 0 for a plain number.
type CountChange struct {
	Name     string `json:"name"`
	Before   int64  `json:"before"`
	BeforeOf int64  `json:"before_of"`
	After    int64  `json:"after"`
	AfterOf  int64  `json:"after_of"`
	Word     string `json:"word"` // WithinNoise or BeyondChance; "" for a plain number
}

// A LatencyChange compares one quantile of one latency, in seconds. Low and High are
// where the difference lies, both 0 where that cannot be told.
type LatencyChange struct {
	Figure   string  `json:"figure"`
	Quantile float64 `json:"quantile"` // in percent
	Before   float64 `json:"before"`
	After    float64 `json:"after"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Word     string  `json:"word"` // Same, WithinNoise, Slower, Faster, TooFew or OfOthers
	Worse    bool    `json:"worse"`
}

// Different reports whether anything that was measured differs.
func (c Comparison) Different() bool {
	return len(c.Changes) > 0 || len(c.Counts) > 0 ||
		slices.ContainsFunc(c.Latencies, func(l LatencyChange) bool { return l.Before != l.After })
}

// Compare says how after differs from before. What got worse is a regression: the
// verdict; an invariant above SHOULD that is violated and was not; a threshold that is
// not kept and was; a latency of the target that is slower beyond chance, by a tenth
// and a millisecond at least. Where gapless itself was slower to start calls, so was the
// machine, and whether the target was cannot be told: that is no regression, but a doubt.
// Calls say what differs in what was called, for a result does not hold it: latencies of
// other calls are not judged.
func Compare(before, after *Result, calls ...string) Comparison {
	c := Comparison{
		Gapless: ComparisonFormat, Before: before.Run, After: after.Run,
		NotTheSame: append(notTheSame(before, after), calls...), Changes: []Change{}, Counts: []CountChange{}, Latencies: []LatencyChange{}, Regressions: []string{},
	}
	c.words(before, after)
	c.counts(before, after)
	if len(calls) > 0 {
		c.Doubt = "the calls are not the same, so latencies prove nothing about the target"
	}
	busier := ""
	if after.Generator.Saturated {
		busier = "gapless itself could not keep up"
	}
	var slower []string
	for i, b := range before.Latency.All() {
		switch worse := c.latency(b, after.Latency.All()[i].Figures); {
		case worse == "":
		case b.Name == "start_delay":
			busier = "gapless itself started calls later: " + worse
		case b.Name == "resume_detect", b.Name == "resume_backoff": // how soon this side sees its own fault, and how long it waits
		default:
			slower = append(slower, b.Name+" slower: "+worse)
		}
	}
	if busier != "" && len(slower) > 0 {
		c.Doubt = busier + "; the machine was busier, so slower latencies prove nothing about the target"
		return c
	}
	c.Regressions = append(c.Regressions, slower...)
	return c
}

// notTheSame names what was decided before the runs and differs. The version of the
// target is not among it, since it is what most comparisons are made for, and neither is
// the seed, which is a new one each time: it moves the cuts, not the experiment.
func notTheSame(b, a *Result) []string {
	s, t := b.Run.Target, a.Run.Target
	if s.Store != "" && t.Store != "" { // our own server listens somewhere else each time
		s.URL, t.URL = "", ""
	}
	out := []string{}
	for _, x := range []struct{ name, before, after string }{
		{"profile", b.Run.Profile, a.Run.Profile},
		{"target", s.URL, t.URL}, {"server", s.Name, t.Name}, {"store", s.Store, t.Store}, {"protocol", s.Protocol, t.Protocol},
		{"dialect", s.Dialect, t.Dialect}, {"contract", s.Contract, t.Contract}, {"oracle", s.Oracle, t.Oracle},
		{"load", b.Load.Model, a.Load.Model}, {"planned streams", fmt.Sprint(b.Streams.Planned), fmt.Sprint(a.Streams.Planned)},
		{"seat", b.Faults.Seat, a.Faults.Seat}, {"gapless", b.Run.Version, a.Run.Version}, {"stopped", b.Run.Stopped, a.Run.Stopped},
	} {
		if x.before != x.after {
			out = append(out, fmt.Sprintf("%s %s, then %s", x.name, cmp.Or(x.before, "none"), cmp.Or(x.after, "none")))
		}
	}
	return out
}

// words compares the verdict, the invariants and the thresholds.
func (c *Comparison) words(before, after *Result) {
	gravity := []string{Holds, Inconclusive, Violated}
	worse := slices.Index(gravity, after.Verdict) > slices.Index(gravity, before.Verdict)
	c.change("verdict", before.Verdict, after.Verdict, worse)
	was := map[string]string{}
	for _, inv := range before.Invariants {
		was[inv.Name] = cmp.Or(inv.Verdict, "not applicable")
	}
	for _, inv := range after.Invariants {
		worse := inv.Verdict == Violated && was[inv.Name] != Violated && inv.Level != "SHOULD"
		c.change(inv.Name, cmp.Or(was[inv.Name], "not applicable"), cmp.Or(inv.Verdict, "not applicable"), worse)
	}
	kept := map[string]bool{}
	for _, t := range before.Thresholds {
		kept[t.Figure+" "+t.Expression] = t.OK
	}
	for _, t := range after.Thresholds {
		name := t.Figure + " " + t.Expression
		if was, there := kept[name]; there {
			c.change("threshold "+name, passed(was), passed(t.OK), !t.OK)
		}
	}
}

func passed(ok bool) string {
	if ok {
		return "passed"
	}
	return "failed"
}

func (c *Comparison) change(name, before, after string, worse bool) {
	if before == after {
		return
	}
	c.Changes = append(c.Changes, Change{Name: name, Before: before, After: after, Worse: worse})
	if worse {
		c.Regressions = append(c.Regressions, fmt.Sprintf("%s %s, was %s", name, after, before))
	}
}

// A tallied is a count, of so many; of 0 for a plain number.
type tallied struct {
	name  string
	n, of int64
}

func tallies(r *Result) []tallied {
	s, m, p, f := r.Streams, r.Messages, r.Resumes, r.Faults
	return []tallied{
		{"messages expected", m.Expected, 0}, {"delivered", m.Delivered, m.Expected}, {"lost", m.Lost, m.Expected},
		{"lost, allowed", m.LostAllowed, m.Expected}, {"repeated", m.Duplicated, m.Expected}, {"repeated, allowed", m.DuplicatedAllowed, m.Expected},
		{"out of order", m.Misordered, m.Expected}, {"foreign", m.Foreign, m.Expected}, {"corrupt", m.Corrupt, m.Expected}, {"late", m.Late, m.Expected},
		{"responses missing", r.Responses.Missing, r.Responses.Expected}, {"responses repeated", r.Responses.Repeated, r.Responses.Expected},
		{"streams completed", s.Completed, s.Planned}, {"failed", s.Failed, s.Planned}, {"refused", s.Refused, s.Planned},
		{"undecided", s.Undecided, s.Planned}, {"indeterminate", s.Indeterminate, s.Planned}, {"not sent", s.NotSent, s.Planned},
		{"severed", s.Severed, s.Planned}, {"arrivals dropped", s.DroppedArrivals, s.Planned},
		{"faults injected", f.Injected, f.Planned}, {"resumes attempted", p.Attempted, 0}, {"resumes succeeded", p.Succeeded, p.Attempted},
		{"resumes refused", p.Refused, p.Attempted}, {"conflicts", p.Conflicts, p.Attempted},
	}
}

func (c *Comparison) counts(before, after *Result) {
	then := tallies(before)
	for i, now := range tallies(after) {
		b := then[i]
		if b.n == now.n && (b.n == 0 || b.of == now.of) {
			continue
		}
		row := CountChange{Name: now.name, Before: b.n, BeforeOf: b.of, After: now.n, AfterOf: now.of}
		if b.of > 0 && now.of > 0 {
			row.Word = WithinNoise
			d := difference(float64(b.n)/float64(b.of), float64(now.n)/float64(now.of), share(b.n, b.of), share(now.n, now.of))
			if d.Low > 0 || d.High < 0 {
				row.Word = BeyondChance
			}
		}
		c.Counts = append(c.Counts, row)
	}
}

// A Named is the figures of one latency under its name in result.json.
type Named struct {
	Name string
	Figures
}

// All lists the latencies by name, in the order of result.json.
func (l Latency) All() []Named {
	return []Named{
		{"first_event", l.FirstEvent}, {"event_gap", l.EventGap}, {"completion", l.Completion}, {"start_delay", l.StartDelay},
		{"resume_detect", l.ResumeDetect}, {"resume_backoff", l.ResumeBackoff}, {"resume_connect", l.ResumeConnect},
		{"resume_first_event", l.ResumeFirstEvent}, {"resume_caught_up", l.ResumeCaughtUp},
	}
}

// latency compares the quantiles of one latency, and returns in words the first that got
// worse.
func (c *Comparison) latency(b Named, a Figures) (worse string) {
	if b.Count == 0 && a.Count == 0 {
		return ""
	}
	for _, x := range []struct {
		q             float64
		before, after float64
		b, a          Range
	}{
		{50, b.P50, a.P50, b.P50Interval, a.P50Interval},
		{90, b.P90, a.P90, b.P90Interval, a.P90Interval},
		{99, b.P99, a.P99, b.P99Interval, a.P99Interval},
	} {
		row := LatencyChange{Figure: b.Name, Quantile: x.q, Before: x.before, After: x.after, Word: TooFew}
		switch {
		case c.Doubt != "":
			row.Word = OfOthers
		case b.Count > 0 && a.Count > 0 && x.before == x.after:
			row.Word = Same
		case enough(b.Count, x.q) && enough(a.Count, x.q):
			row.judge(x.b, x.a)
		}
		if row.Worse && worse == "" {
			worse = fmt.Sprintf("p(%g) %.4gms, was %.4gms", x.q, 1000*x.after, 1000*x.before)
		}
		c.Latencies = append(c.Latencies, row)
	}
	return worse
}

func enough(n int64, q float64) bool {
	_, _, ok := ranks(n, q)
	return ok
}

// judge says what a difference is worth.
func (l *LatencyChange) judge(b, a Range) {
	d := difference(l.Before, l.After, b, a)
	l.Low, l.High, l.Word = d.Low, d.High, WithinNoise
	switch {
	case d.Low > 0:
		l.Word = Slower
		// Gaps between messages add up to the same time: only long ones are worse.
		l.Worse = l.After-l.Before >= max(leastShare*l.Before, leastSeconds) && (l.Figure != "event_gap" || l.Quantile == 99)
	case d.High < 0:
		l.Word = Faster
	}
}
