package profiles

import (
	"fmt"
	"regexp"
)

// Thresholds are limits by the name of the figure they are about.
type Thresholds map[string][]Threshold

// A Threshold is a limit on a figure in k6's grammar, such as p(99)<1s.
type Threshold struct {
	Is string `yaml:"is"`
	// Abort ends the run as soon as the limit is passed.
	Abort bool `yaml:"abort"`
}

// UnmarshalText reads the short form: the expression alone.
func (t *Threshold) UnmarshalText(text []byte) error {
	*t = Threshold{Is: string(text)}
	return nil
}

// figures are the names that a threshold can be about: the latencies and the
// counts of a result.
func figures() []string {
	return []string{
		"first_event", "event_gap", "completion", "start_delay", "resume_detect", "resume_backoff",
		"resume_connect", "resume_first_event", "resume_caught_up",
		"indeterminate", "not_sent", "refused", "undecided", "failed", "dropped_arrivals", "late",
	}
}

func thresholdShape() *regexp.Regexp {
	return regexp.MustCompile(`^(p\(\d{1,2}(\.\d+)?\)|p\(100\)|avg|mean|med|min|max|count|rate)\s*(<=|>=|==|<|>)\s*` +
		`\d+(\.\d+)?(ns|us|µs|ms|s|m|h|%)?$`)
}

func (t Threshold) check() error {
	if !thresholdShape().MatchString(t.Is) {
		return fmt.Errorf("bad threshold %s; write it like p(99)<1s", quote(t.Is))
	}
	return nil
}
