package judge

import (
	"slices"
	"strings"
	"time"
)

// methodProgress is the method of the notifications that carry the messages of a call
// whose setup names no other.
const methodProgress = "notifications/progress"

// fromControls is CallSetup.ExpectedFrom where the control calls tell.
const fromControls = "control calls"

// A CallSetup is what one call of a profile should bring.
type CallSetup struct {
	// Name is that of the tool, the prompt or the resource.
	Name string
	// Expected and ExpectedFrom are as in [Setup].
	Expected     int64
	ExpectedFrom string
	// Twin is the number of messages on which the control calls agreed, when they carry
	// no number; 0 when they did not. [Setup.With] sets it back to 0 where the messages are
	// not to be numbered by comparison.
	Twin int64
	// ResponseOnly: the control calls were answered and showed no message.
	ResponseOnly bool
	// Method is that of the notifications that carry the messages; "" means
	// notifications/progress.
	Method string
	// Digests: each message carries a digest of its payload.
	Digests bool
	// NoTotals: the control calls showed no total, or one that was not the number of
	// their messages.
	NoTotals bool
	// Longest is what the longest control call of it took, 0 when that is not known.
	Longest time.Duration
	// Deadline is the time that a call has, 0 when it is not known.
	Deadline time.Duration
}

// progress tells that the messages are progress notifications.
func (c *CallSetup) progress() bool { return c.Method == "" || c.Method == methodProgress }

// calls returns what each call should bring; there is at least one.
func (s Setup) calls() []CallSetup {
	if len(s.Calls) > 0 {
		return slices.Clone(s.Calls)
	}
	return []CallSetup{{Expected: s.Expected, ExpectedFrom: s.ExpectedFrom, Longest: s.Longest}}
}

// mute tells that nothing is known of the messages of a call, and that only its response
// is judged.
func (s Setup) mute(c *CallSetup) bool {
	switch s.Oracle {
	case OracleResponse:
		return true
	case OracleNumbered, OracleTwin:
		return c.ResponseOnly
	}
	return false
}

// With completes s by what the control calls taught: it resolves OracleAuto, says how
// many messages each call should bring where the profile does not, and fills IDs.
//
// Auto means the ledger if one is offered; else numbered, if each call numbers its
// messages or has none; else twin, if the others agree; else response, if no call
// has messages; else no oracle at all.
func (s Setup) With(f Facts) Setup {
	calls, ways := s.calls(), [wayCount]int{}
	for i := range calls {
		c, facts := &calls[i], f.Call(i)
		if c.Expected > 0 && c.ExpectedFrom == "" {
			c.ExpectedFrom = "--expect"
		}
		way := c.way(facts, s.Oracle)
		ways[way]++
		c.ResponseOnly = way == byResponse
		c.Longest = max(c.Longest, facts.Longest)
		c.NoTotals = facts.Calls > 0 && !facts.Totals
		if way != byTwin {
			c.Twin = 0
		}
	}
	if s.Oracle == OracleAuto {
		s.Oracle = s.resolve(ways, len(calls))
	}
	for i := range calls {
		c, facts := &calls[i], f.Call(i)
		if s.Oracle != OracleTwin {
			c.Twin = 0
		}
		if c.Expected == 0 && c.Twin == 0 && facts.Numbered && (s.Oracle == OracleNumbered || s.Oracle == OracleTwin) {
			c.Expected, c.ExpectedFrom = facts.Messages, fromControls
		}
	}
	if len(s.Calls) > 0 {
		s.Calls = calls
	} else {
		s.Expected, s.ExpectedFrom, s.Longest = calls[0].Expected, calls[0].ExpectedFrom, calls[0].Longest
	}
	s.IDs = s.IDs || f.IDs
	return s
}

// A way is how one can tell what a call should bring.
type way uint8

const (
	byNothing way = iota
	byNumber
	byTwin
	byResponse
	wayCount
)

// way prefers the numbers that messages carry, unless a comparison was asked for.
func (c *CallSetup) way(f CallFacts, asked Oracle) way {
	numbered := f.Numbered || c.Expected > 0 && f.InSequence
	switch {
	case c.Twin > 0 && (asked == OracleTwin || !numbered):
		return byTwin
	case numbered:
		return byNumber
	case c.Expected == 0 && (f.Silent || f.Calls == 0 && c.ResponseOnly):
		return byResponse
	}
	return byNothing
}

func (s Setup) resolve(ways [wayCount]int, calls int) Oracle {
	switch {
	case s.Ledger:
		return OracleLedger
	case ways[byResponse] == calls:
		return OracleResponse
	case ways[byNumber]+ways[byResponse] == calls:
		return OracleNumbered
	case ways[byNothing] == 0:
		return OracleTwin
	}
	return OracleNone
}

// named joins the names of the calls that f picks, each once: "a", "a and b", "a, b and c".
func (s Setup) named(pick func(*CallSetup) bool) string {
	var names []string
	for _, c := range s.calls() {
		if c.Name != "" && pick(&c) && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}
