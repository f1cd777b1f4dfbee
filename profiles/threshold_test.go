package profiles

import (
	"strings"
	"testing"
)

func TestThresholdIsUnderstood(t *testing.T) {
	for _, tc := range []struct {
		figure, text string
		want         Limit
	}{
		{"first_event", "p(99)<1s", Limit{Aggregation: "p", Quantile: 99, Operator: "<", Value: 1}},
		{"first_event", " p(99.9) <= 1m30s ", Limit{Aggregation: "p", Quantile: 99.9, Operator: "<=", Value: 90}},
		{"first_event", "p(0)>1µs", Limit{Aggregation: "p", Operator: ">", Value: 1e-6}},
		{"event_gap", "avg < 200ms", Limit{Aggregation: "avg", Operator: "<", Value: 0.2}},
		{"event_gap", "med!=1.5s", Limit{Aggregation: "med", Operator: "!=", Value: 1.5}},
		{"event_gap", "min===1ms", Limit{Aggregation: "min", Operator: "==", Value: 0.001}},
		{"completion", "max == 10s", Limit{Aggregation: "max", Operator: "==", Value: 10}},
		{"completion", "count>=100", Limit{Aggregation: "count", Operator: ">=", Value: 100}},
		{"failed", "count<1", Limit{Aggregation: "count", Operator: "<", Value: 1}},
		{"failed", "rate<1%", Limit{Aggregation: "rate", Operator: "<", Value: 0.01}},
		{"late", "rate<=0.05", Limit{Aggregation: "rate", Operator: "<=", Value: 0.05}},
	} {
		got, err := Threshold{Is: tc.text}.limit(tc.figure)
		tc.want.Figure, tc.want.Expression = tc.figure, tc.text
		if err != nil || got != tc.want {
			t.Errorf("%s: got %+v, %v\nwant %+v", tc.text, got, err, tc.want)
		}
	}
}

func TestThresholdSaysWhereItIsWrong(t *testing.T) {
	for _, tc := range []struct {
		figure, text string
		abort        bool
		want         string
	}{
		{"first_event", "", false, `character 1: one of avg, min, med, max, p(N) or count comes first; write it like p(99)<1s`},
		{"first_event", "<1s", false, `character 1: one of`},
		{"first_event", "p99<1s", false, `character 2: after p comes the quantile`},
		{"first_event", "p(99<1s", false, `character 8: the bracket is not closed`},
		{"first_event", "p(101)<1s", false, `character 3: "101" is not a quantile`},
		{"first_event", "p(0x1)<1s", false, `character 3: "0x1" is not a quantile`},
		{"first_event", "mean<1s", false, `did you mean "avg"?`},
		{"first_event", "rate<1%", false, `character 1: "rate" of first_event cannot be had; known: avg, min, med, max, p(N) or count`},
		{"first_event", "p(99)1s", false, `character 6: an operator is missing`},
		{"first_event", "p(99)=<1s", false, `character 6: unknown operator "=<"`},
		{"first_event", "p(99) < ", false, `the value is missing`},
		{"first_event", "p(99)<200", false, `character 7: the unit of 200 is missing; did you mean 200ms or 200s?`},
		{"first_event", "p(99)<0", false, `no run is so fast`},
		{"first_event", "p(99)<-1s", false, `character 7: "-1s" is not a time`},
		{"first_event", "p(99)<1%", false, `"1%" is not a time`},
		{"first_event", "p(99)<1s && p(50)<1s", false, `character 10: "&& p(50)<1s" comes after its end`},
		{"first_event", "µ<1s", false, `character 1: one of`},
		{"failed", "p(99)<1s", false, `character 1: "p" of failed cannot be had; known: count or rate; write it like count<5 or rate<1%`},
		{"failed", "count<1s", false, `character 7: "1s" is not a number`},
		{"failed", "count<-1", false, `"-1" is not a number`},
		{"failed", "rate<5", false, `a share of 5 is above 1; did you mean 5%?`},
		{"failed", "rate<101%", false, `above 100%`},
		{"failed", "count>1", true, `abort goes with < and <= only`},
		{"late", "count<1", true, `late is known only at the end`},
	} {
		_, err := Threshold{Is: tc.text, Abort: tc.abort}.limit(tc.figure)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q: error %v does not say %q", tc.figure, tc.text, err, tc.want)
		}
	}
}

func TestLimitsComeInTheOrderOfTheFigures(t *testing.T) {
	p := Profile{Thresholds: Thresholds{
		"late": {{Is: "count<1"}}, "first_event": {{Is: "p(99)<1s"}, {Is: "max<2s", Abort: true}},
	}}
	for range 20 {
		got, err := p.Limits()
		if err != nil || len(got) != 3 || got[0].Expression != "p(99)<1s" || !got[1].Abort || got[2].Figure != "late" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	p.Thresholds["failed"] = []Threshold{{Is: "no"}}
	if _, err := p.Limits(); err == nil || !strings.Contains(err.Error(), "thresholds.failed") {
		t.Errorf("error %v does not say where", err)
	}
}

func FuzzThreshold(f *testing.F) {
	f.Add("p(99)<1s")
	f.Add("count<\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, figure := range []string{"first_event", "failed"} {
			l, err := Threshold{Is: text}.limit(figure)
			if err == nil && (l.Operator == "" || l.Aggregation == "" || l.Value < 0) {
				t.Errorf("%q: %+v", text, l)
			}
		}
	})
}
