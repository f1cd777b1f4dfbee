package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// thresholds says how many limits were kept, and what became of the others. It stands
// beside any verdict: a limit that is not kept changes the exit code of one that holds.
func thresholds(p *page, r *result.Result) {
	if len(r.Thresholds) == 0 {
		return
	}
	failed := r.FailedThresholds()
	text := fmt.Sprintf("%d of %d passed", len(r.Thresholds)-len(failed), len(r.Thresholds))
	var parts []string
	for i, t := range failed {
		if i == maxTexts {
			parts = append(parts, fmt.Sprintf("and %d more", len(failed)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s", t.Figure, cut(t.Expression, 40), got(t)))
	}
	if len(parts) > 0 {
		text += "; FAILED " + strings.Join(parts, "; ")
	}
	at := p.labelWidth(r)
	if at < len("  thresholds")+2 {
		at = len("  thresholds") + 2
	}
	p.row(at, "thresholds")
	last := len(p.lines) - 1
	p.text(at, text)
	p.lines[last] = strings.Replace(p.lines[last], "FAILED", p.paint(red, "FAILED"), 1)
}

// got is the value of a threshold, with as many digits as it takes to tell it from its
// limit.
func got(t result.Threshold) string {
	digits := func(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }
	switch {
	case t.Why != "":
		return t.Why
	case t.Unit == result.Times:
		return "got " + count(int64(t.Value))
	case t.Unit == result.Share:
		return "got " + digits(t.Value*100) + "%"
	case t.Value < 1:
		return "got " + digits(t.Value*1000) + "ms"
	}
	return "got " + digits(t.Value) + "s"
}
