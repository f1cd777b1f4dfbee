package judge

import (
	"strconv"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func (k stepKind) String() string {
	return [...]string{"request", "head", "priming", "messages", "other", "response", "fault", "end", "settled", "probe"}[k]
}

func (n note) String() string {
	return [...]string{"", "again", "behind", "foreign", "late"}[n]
}

func bodyName(b history.Body) string {
	return pick(int(b), "none", "sse", "json", "other")
}

func endName(e history.End) string {
	return pick(int(e), "none", "clean", "mid-event", "truncated", "reset", "idle", "deadline", "status", "frame",
		"unreachable", "open", "stopped")
}

func outcomeName(o history.Outcome) string {
	return pick(int(o), "none", "completed", "indeterminate", "not sent", "refused", "cancelled", "undecided", "failed")
}

// pick names a value of an enumeration, and survives one that it does not know.
func pick(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return "unknown " + strconv.Itoa(i)
	}
	return names[i]
}

func expectedMark(seq int64) string { return "expected " + strconv.FormatInt(seq, 10) }

// numbers writes up to eight numbers one by one, more of them as ranges.
func numbers(ranges []Range, count int64) string {
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case r.First == r.Last:
			b.WriteString(strconv.FormatInt(r.First, 10))
		case count <= 8:
			for n := r.First; n <= r.Last; n++ {
				if n > r.First {
					b.WriteByte(' ')
				}
				b.WriteString(strconv.FormatInt(n, 10))
			}
		default:
			b.WriteString(r.String())
		}
	}
	if shown := total(ranges); shown < count {
		b.WriteString(" and " + thousands(count-shown) + " more")
	}
	return b.String()
}

// String writes "23-25", or "23" for a single number.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.FormatInt(r.First, 10)
	}
	return strconv.FormatInt(r.First, 10) + "-" + strconv.FormatInt(r.Last, 10)
}

// joinRanges writes "23-25, 40".
func joinRanges(ranges []Range) string {
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}

func total(ranges []Range) (n int64) {
	for _, r := range ranges {
		n += r.Last - r.First + 1
	}
	return n
}

// thousands writes 10000 as "10,000".
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes "1 stream" or "2 streams".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

func probeName(p history.ProbeName) string {
	return pick(int(p), "none", "replay", "again", "unknown-cursor", "malformed-cursor", "foreign-cursor",
		"missing-session", "dead-session", "origin", "reissue")
}

func statusText(status int) string { return strconv.Itoa(status) }
