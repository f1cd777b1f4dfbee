package result

import (
	"context"
	"math"
	"slices"
	"time"
)

// A Limit is what a profile wants of a figure.
type Limit struct {
	Figure string
	// Expression is the limit as it was written: p(99)<1s.
	Expression string
	// Aggregation is avg, min, med, max, p, count or rate; Quantile is the N of p(N),
	// in percent.
	Aggregation string
	Quantile    float64
	// Operator is <, <=, >, >=, == or !=.
	Operator string
	// Value is in seconds for a time, a number for count, a share of one for rate.
	Value float64
	// Abort ends the run as soon as the limit is passed.
	Abort bool
}

// A Source gives figures, of a finished run or of one that goes on. Names are those of
// [Latency] and of the counts of [Streams] and [Messages]; what it does not know has
// no samples.
type Source interface {
	// Quantile returns a quantile of a latency, q in percent, in seconds, and how many
	// samples there are; 0 is the smallest and 100 the largest.
	Quantile(figure string, q float64) (seconds float64, samples int64)
	// Mean returns the mean of a latency.
	Mean(figure string) (seconds float64, samples int64)
	// Count returns how often something happened, of how often it could have.
	Count(figure string) (n, of int64)
}

// Words of [Threshold.Unit].
const (
	Seconds = "seconds"
	Times   = "times"
	Share   = "share"
)

// Evaluate compares the limits with the figures. A limit on something that was never
// seen is not kept: a check that did not run must not look like one that passed.
func Evaluate(limits []Limit, s Source) []Threshold {
	all := make([]Threshold, 0, len(limits))
	for _, l := range limits {
		t, _ := l.evaluate(s)
		all = append(all, t)
	}
	return all
}

// FailedThresholds lists those that are not kept.
func (r *Result) FailedThresholds() []Threshold {
	return slices.DeleteFunc(slices.Clone(r.Thresholds), func(t Threshold) bool { return t.OK })
}

// evaluate also returns how many samples the value rests on.
func (l Limit) evaluate(s Source) (Threshold, int64) {
	t := Threshold{Figure: l.Figure, Expression: l.Expression, Unit: Seconds}
	var samples int64
	switch l.Aggregation {
	case "avg":
		t.Value, samples = s.Mean(l.Figure)
	case "count":
		return l.count(t, s)
	case "rate":
		n, of := s.Count(l.Figure)
		t.Unit, samples = Share, of
		if of > 0 {
			t.Value = float64(n) / float64(of)
		}
	default:
		t.Value, samples = s.Quantile(l.Figure, l.percent())
	}
	if samples == 0 || math.IsNaN(t.Value) || math.IsInf(t.Value, 0) {
		t.Value, t.Why = 0, "nothing was seen to measure it on"
		return t, 0
	}
	t.OK = l.keeps(t.Value)
	return t, samples
}

// count: a number of times may be 0.
func (l Limit) count(t Threshold, s Source) (Threshold, int64) {
	_, samples := s.Mean(l.Figure)
	n, _ := s.Count(l.Figure)
	t.Unit, t.Value = Times, float64(max(n, samples))
	t.OK = l.keeps(t.Value)
	return t, max(n, samples)
}

func (l Limit) percent() float64 {
	switch l.Aggregation {
	case "min":
		return 0
	case "med":
		return 50
	case "max":
		return 100
	}
	return l.Quantile
}

func (l Limit) keeps(v float64) bool {
	switch l.Operator {
	case "<":
		return v < l.Value
	case "<=":
		return v <= l.Value
	case ">":
		return v > l.Value
	case ">=":
		return v >= l.Value
	case "==":
		return v == l.Value
	case "!=":
		return v != l.Value
	}
	return false
}

// fewest is how many samples a live figure needs before it may end a run: 20, and for
// a quantile so many that one of them lies beyond it. A maximum or a count needs one.
func (l Limit) fewest() int64 {
	switch l.Aggregation {
	case "max", "count", "rate":
		return 1
	case "p":
		if beyond := 1 - l.Quantile/100; beyond > 0 {
			return max(20, int64(math.Ceil(1/beyond-1e-9)))
		}
		return 1
	}
	return 20
}

// Watching returns the limits that can end a run.
func Watching(limits []Limit) []Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool { return !l.Abort })
}

// Watch looks at the limits that can end a run, every so often, until one of them is
// passed or ctx is done. It returns the threshold that was passed and true, or false.
// A limit whose figure rests on few samples is not judged yet.
func Watch(ctx context.Context, every time.Duration, limits []Limit, s Source) (Threshold, bool) {
	limits = Watching(limits)
	if len(limits) == 0 {
		return Threshold{}, false
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return Threshold{}, false
		case <-tick.C:
		}
		for _, l := range limits {
			if t, samples := l.evaluate(s); !t.OK && samples >= l.fewest() {
				return t, true
			}
		}
	}
}

// Count returns a count that a limit can be about, of how many: of the planned streams,
// or of the messages that came.
func (r *Result) Count(figure string) (n, of int64) {
	s := r.Streams
	switch figure {
	case "indeterminate":
		n = s.Indeterminate
	case "not_sent":
		n = s.NotSent
	case "refused":
		n = s.Refused
	case "undecided":
		n = s.Undecided
	case "failed":
		n = s.Failed
	case "dropped_arrivals":
		n = s.DroppedArrivals
	case "late":
		return r.Messages.Late, r.Messages.Delivered + r.Messages.Late
	default:
		return 0, 0
	}
	return n, s.Planned
}
