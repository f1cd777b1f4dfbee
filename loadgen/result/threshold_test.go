package result_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// A bench gives the same figures whenever it is asked.
type bench struct {
	seconds float64
	samples int64
	n, of   int64
	asked   *float64
}

func (b bench) Quantile(figure string, q float64) (float64, int64) {
	if b.asked != nil {
		*b.asked = q
	}
	if figure != "first_event" {
		return 0, 0
	}
	return b.seconds, b.samples
}
func (b bench) Mean(figure string) (float64, int64) { return b.Quantile(figure, -1) }
func (b bench) Count(figure string) (int64, int64) {
	if figure != "failed" {
		return 0, 0
	}
	return b.n, b.of
}

func TestEvaluate(t *testing.T) {
	some := bench{seconds: 0.5, samples: 40, n: 3, of: 200}
	for _, tc := range []struct {
		name  string
		limit result.Limit
		from  bench
		want  result.Threshold
	}{
		{"below – kept", result.Limit{Figure: "first_event", Aggregation: "p", Quantile: 99, Operator: "<", Value: 1}, some, result.Threshold{Value: 0.5, OK: true, Unit: result.Seconds}},
		{"equal to < – not kept", result.Limit{Figure: "first_event", Aggregation: "avg", Operator: "<", Value: 0.5}, some, result.Threshold{Value: 0.5, Unit: result.Seconds}},
		{"equal to <= – kept", result.Limit{Figure: "first_event", Aggregation: "max", Operator: "<=", Value: 0.5}, some, result.Threshold{Value: 0.5, OK: true, Unit: result.Seconds}},
		{"> – not kept", result.Limit{Figure: "first_event", Aggregation: "min", Operator: ">", Value: 0.5}, some, result.Threshold{Value: 0.5, Unit: result.Seconds}},
		{">= – kept", result.Limit{Figure: "first_event", Aggregation: "med", Operator: ">=", Value: 0.5}, some, result.Threshold{Value: 0.5, OK: true, Unit: result.Seconds}},
		{"== – kept", result.Limit{Figure: "first_event", Aggregation: "med", Operator: "==", Value: 0.5}, some, result.Threshold{Value: 0.5, OK: true, Unit: result.Seconds}},
		{"!= – not kept", result.Limit{Figure: "first_event", Aggregation: "med", Operator: "!=", Value: 0.5}, some, result.Threshold{Value: 0.5, Unit: result.Seconds}},
		{"unknown operator – not kept", result.Limit{Figure: "first_event", Aggregation: "med", Operator: "~", Value: 0.5}, some, result.Threshold{Value: 0.5, Unit: result.Seconds}},
		{"nothing seen – not kept", result.Limit{Figure: "event_gap", Aggregation: "p", Quantile: 99, Operator: "<", Value: 1}, some, result.Threshold{Unit: result.Seconds, Why: "nothing was seen to measure it on"}},
		{"no number – not kept", result.Limit{Figure: "first_event", Aggregation: "avg", Operator: "!=", Value: 1}, bench{seconds: math.NaN(), samples: 1}, result.Threshold{Unit: result.Seconds, Why: "nothing was seen to measure it on"}},
		{"samples of a latency – counted", result.Limit{Figure: "first_event", Aggregation: "count", Operator: ">=", Value: 40}, some, result.Threshold{Value: 40, OK: true, Unit: result.Times}},
		{"none, and none wanted – kept", result.Limit{Figure: "failed", Aggregation: "count", Operator: "<", Value: 1}, bench{of: 200}, result.Threshold{OK: true, Unit: result.Times}},
		{"count – not kept", result.Limit{Figure: "failed", Aggregation: "count", Operator: "<", Value: 3}, some, result.Threshold{Value: 3, Unit: result.Times}},
		{"share – kept", result.Limit{Figure: "failed", Aggregation: "rate", Operator: "<", Value: 0.02}, some, result.Threshold{Value: 0.015, OK: true, Unit: result.Share}},
		{"share of nothing – not kept", result.Limit{Figure: "failed", Aggregation: "rate", Operator: "<", Value: 0.02}, bench{}, result.Threshold{Unit: result.Share, Why: "nothing was seen to measure it on"}},
	} {
		tc.limit.Expression, tc.want.Expression, tc.want.Figure = tc.name, tc.name, tc.limit.Figure
		if got := result.Evaluate([]result.Limit{tc.limit}, tc.from); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestEvaluateAsksForTheQuantile(t *testing.T) {
	for aggregation, want := range map[string]float64{"min": 0, "med": 50, "max": 100, "p": 99.9} {
		var asked float64
		result.Evaluate([]result.Limit{{Figure: "first_event", Aggregation: aggregation, Quantile: 99.9, Operator: "<"}}, bench{samples: 1, asked: &asked})
		if asked != want {
			t.Errorf("%s: asked for %v, want %v", aggregation, asked, want)
		}
	}
}

func TestWatch(t *testing.T) {
	p99 := result.Limit{Figure: "first_event", Expression: "p(99)<1s", Aggregation: "p", Quantile: 99, Operator: "<", Value: 1, Abort: true}
	slow := func(samples int64) bench { return bench{seconds: 2, samples: samples} }
	most := p99
	most.Aggregation = "max"
	patient := p99
	patient.Abort = false
	count := result.Limit{Figure: "failed", Expression: "count<2", Aggregation: "count", Operator: "<", Value: 2, Abort: true}
	for _, tc := range []struct {
		name  string
		limit result.Limit
		from  bench
		stops bool
	}{
		{"passed – stops", p99, slow(100), true},
		{"passed on few samples – goes on", p99, slow(99), false},
		{"nothing seen yet – goes on", p99, slow(0), false},
		{"a maximum needs one", most, slow(1), true},
		{"kept – goes on", p99, bench{seconds: 0.5, samples: 1000}, false},
		{"without abort – goes on", patient, slow(1000), false},
		{"count passed – stops", count, bench{n: 2, of: 10}, true},
		{"count kept – goes on", count, bench{n: 1, of: 10}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				failed, stops := result.Watch(ctx, time.Second, []result.Limit{tc.limit}, tc.from)
				if stops != tc.stops || stops && (failed.Expression != tc.limit.Expression || time.Since(began) != time.Second) {
					t.Errorf("stops %v after %v with %+v, want %v", stops, time.Since(began), failed, tc.stops)
				}
			})
		})
	}
}

func TestCount(t *testing.T) {
	r := result.Result{Streams: result.Streams{Planned: 10, Indeterminate: 1, NotSent: 2, Refused: 3, Undecided: 4, Failed: 5, DroppedArrivals: 6},
		Messages: result.Messages{Delivered: 90, Late: 7}}
	for figure, want := range map[string][2]int64{
		"indeterminate": {1, 10}, "not_sent": {2, 10}, "refused": {3, 10}, "undecided": {4, 10}, "failed": {5, 10},
		"dropped_arrivals": {6, 10}, "late": {7, 97}, "first_event": {0, 0},
	} {
		if n, of := r.Count(figure); n != want[0] || of != want[1] {
			t.Errorf("%s: %d of %d, want %v", figure, n, of, want)
		}
	}
}
