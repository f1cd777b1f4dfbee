package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// count writes n with separators between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// some writes n with the noun, in the singular for 1.
func some(n int64, word string) string {
	return count(n) + " " + noun(n, word)
}

// noun returns word, a plural, in the number that goes with n.
func noun(n int64, word string) string {
	if n == 1 {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// span writes seconds as people say them: 0.1ms, 104ms, 1.2s, 2m05s, 1h02m.
func span(seconds float64) string {
	ms := seconds * 1000
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0:
		return "?"
	case seconds == 0:
		return "0ms"
	case ms < 0.05:
		return "<0.1ms"
	case ms < 9.95:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	case seconds < 59.95:
		return fmt.Sprintf("%.1fs", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// percent writes a share of one: 0.70 %, 12 %.
func percent(share float64) string {
	p := math.Min(share*100, 100)
	switch {
	case p >= 10:
		return fmt.Sprintf("%.0f %%", p)
	case p >= 0.01:
		return fmt.Sprintf("%.2f %%", p)
	}
	return fmt.Sprintf("%.1g %%", p)
}
