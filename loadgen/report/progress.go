package report

import (
	"fmt"
	"time"
)

// Progress is the state of a run at one moment.
type Progress struct {
	Elapsed       time.Duration
	Phase         string // such as control, load, drain; "" shows none
	Open, Planned int64  // streams
	Messages      int64  // delivered
	Cuts, Resumes int64
	Violations    int64
}

// String renders one line without a line break. Its parts keep their place as
// the numbers grow, so that a redrawn line does not dance.
func (p Progress) String() string {
	phase := clean(cut(p.Phase, 12))
	if phase != "" {
		phase += "  "
	}
	return fmt.Sprintf("%s  %s%s of %s open  %s messages  %s cuts  %s resumes  %s violations",
		padLeft(span(p.Elapsed.Round(100*time.Millisecond).Seconds()), 6), phase,
		padLeft(count(p.Open), 5), count(p.Planned), padLeft(count(p.Messages), 9),
		padLeft(count(p.Cuts), 5), padLeft(count(p.Resumes), 5), count(p.Violations))
}

// Fit cuts a line of progress to the width of the terminal: one that wraps
// cannot be redrawn. 0 or less leaves it whole.
func Fit(line string, width int) string {
	if width <= 0 || columns(line) <= width {
		return line
	}
	return cut(line, max(width-1, 1))
}
