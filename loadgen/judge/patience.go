package judge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A client waits before a resume for as long as the target asked (2025-11-25 transports,
// Sending Messages 6: MUST respect retry). Whatever did not come meanwhile is not the
// target's silence, and a call whose time runs out so is undecided.

// A pause is what one stream knows of the waits that the target asked for.
type pause struct {
	asked  time.Duration // before the last resume, or the one that its deadline forbade
	ended  time.Duration // end of the last exchange
	asleep time.Duration // waited as asked, since the last event or fault
}

// waited notes a resume.
func (p *pause) waited(x *history.Exchange) {
	p.asked = x.Asked
	p.asleep += max(0, min(x.Asked, x.Waited))
}

// bidden tells a call whose time ran out while we waited as the target had asked. Links
// that fail, or that bring nothing again and again, no wait explains.
func (s *Stream) bidden() bool {
	p := &s.pause
	gap := s.settledAt - p.ended
	switch {
	case s.responses > 0 || p.asked <= 0 || p.ended == 0 || s.end.lastStatus/100 != 2 && !s.end.lastInjected || s.empty >= emptyLimit:
		return false
	case s.end.last == history.EndDeadline, s.end.last == history.EndOpen, s.end.last == history.EndStopped:
		return false // we were not waiting
	case gap <= 0 || gap-p.asked > p.asked/2: // with jitter
		return false
	case s.call.Deadline > 0:
		return s.settledAt-s.begunAt >= s.call.Deadline*9/10
	}
	return gap >= time.Second
}

// silentFor is the time for which the target said nothing though it could.
func (s *Stream) silentFor() time.Duration {
	return s.settledAt - max(s.lastEventAt, s.faults.lastAt) - s.pause.asleep
}

// patience counts the undecided calls of the load that a wait explains which the target
// asked for, and keeps the longest.
type patience struct {
	Calls           int64
	Asked, Deadline time.Duration // Deadline of the call that was asked, 0 if not known
}

func (p *patience) add(s *Stream) {
	asked, limit := s.pause.asked, s.call.Deadline
	if s.fate != fateUndecided || s.responses > 0 || !s.bidden() && (limit <= 0 || asked <= limit) {
		return
	}
	p.Calls++
	if c := cmp.Compare(asked, p.Asked); c > 0 || c == 0 && limit > p.Deadline {
		p.Asked, p.Deadline = asked, limit
	}
}

// String says what was asked.
func (p patience) String() string {
	text := fmt.Sprintf("the server asks to wait %s before a resume, longer than ", p.Asked)
	if p.Deadline > 0 && p.Asked > p.Deadline {
		return text + fmt.Sprintf("the calls may take (%s)", p.Deadline)
	}
	return text + plural(p.Calls, "call had left", "calls had left")
}
