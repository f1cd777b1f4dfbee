package export

import (
	"testing"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// Whoever did not measure has seen nothing, so no limit is kept.
func TestNothingMeasuredIsNothingSeen(t *testing.T) {
	if got := Latency(nil); got != (result.Latency{}) {
		t.Errorf("latency %+v", got)
	}
	limits := []result.Limit{
		{Figure: "first_event", Aggregation: "p", Quantile: 99, Operator: "<", Value: 1},
		{Figure: "completion", Aggregation: "avg", Operator: "<", Value: 1},
		{Figure: "failed", Aggregation: "rate", Operator: "<", Value: 1},
		{Figure: "late", Aggregation: "rate", Operator: "<", Value: 1},
		{Figure: "no such figure", Aggregation: "max", Operator: "<", Value: 1},
	}
	for _, from := range []result.Source{Finished(nil, &result.Result{}), Going(new(loadgen.Live), 0)} {
		for i, got := range result.Evaluate(limits, from) {
			if got.OK || got.Why == "" {
				t.Errorf("%s: %+v", limits[i].Figure, got)
			}
		}
	}
}

func TestCountsOfARunThatGoesOn(t *testing.T) {
	from := Going(new(loadgen.Live), 200)
	for _, figure := range []string{"indeterminate", "not_sent", "refused", "undecided", "failed", "dropped_arrivals"} {
		if n, of := from.Count(figure); n != 0 || of != 200 {
			t.Errorf("%s: %d of %d", figure, n, of)
		}
	}
}
