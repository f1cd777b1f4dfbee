package judge

import (
	"fmt"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func replayAfterResponseInvariant() invariant {
	return invariant{
		name:   "replay-after-response",
		claim:  "a resume after the response brings the rest again, and the response",
		source: "derived from 2025-11-25 transports, Resumability 3 (probes of settled streams)",
		level:  LevelDerived,
		role:   replayRole,
		fact: func(s *Stream, r *history.Record) {
			p := s.asked(r, history.ProbeReplay)
			if p == nil {
				return
			}
			if !untellable(p) {
				s.probes.first, s.probes.told = *p, true
				s.judgeReplay(p)
			}
		},
		settle: settleReplay,
	}
}

// replayRole is that of the invariants about what a settled stream is still good for.
func replayRole(s Setup) (Role, string) {
	if s.drafted() {
		return NotApplicable, "a resume lets the target discard what came before its cursor"
	}
	if s.Contract == NoPromise && !s.modern() {
		return NotApplicable, `the contract "none" promises no replay`
	}
	return whenProbed(s)
}

// untellable tells the statuses that say nothing about a stream's log: no permission, no
// resuming at all, or somebody else still reads.
func untellable(p *history.Probe) bool {
	switch p.Status {
	case 401, 403, 405, 409:
		return true
	}
	return false
}

// unfinished tells a replay that ended before it was over in a way that says nothing of
// the log: we left it, or its link was lost, which may happen at any time (2025-11-25
// transports, Sending Messages 6).
func unfinished(p *history.Probe) bool {
	if p.Messages >= p.Want && p.Response {
		return false
	}
	switch p.End {
	case history.EndDeadline, history.EndIdle, history.EndOpen, history.EndStopped,
		history.EndTruncated, history.EndReset, history.EndMidEvent,
		history.EndFrame: // it may be larger than we read
		return true
	}
	return false
}

// settleReplay judges a replay that brought other messages than the first time, now that
// it is known what was lost then. What came garbled or is undecided tells nothing.
func settleReplay(s *Stream) {
	if !s.probes.more {
		return
	}
	p, m := s.probes.first, &s.msgs
	lost := m.Lost + m.LostAllowed + m.Misordered
	s.now.probe = probeUntold
	switch {
	case m.Corrupt > 0 || m.Undecided > 0 || s.acct.lost > 0:
		return
	case int64(p.Wrong) > lost:
		s.deviates(replayAfterResponse, finding{what: "other messages came than the first time"})
	default:
		p.Wrong = 0
		s.judgeReplay(&p)
	}
	s.probes.settle(history.ProbeReplay, s.now.probe)
	s.now.probe = probeUntold
}

func (s *Stream) judgeReplay(p *history.Probe) {
	const inv = replayAfterResponse
	if !s.judgeStatus(inv, p) {
		return
	}
	wrong := ""
	switch {
	case p.Status == 400 || p.Status == 404 || p.Status == 410:
		if s.judge.setup.Contract == Bounded {
			s.conforms(inv)
			return
		}
		wrong = fmt.Sprintf("refused with %d once the response had come", p.Status)
	case p.Status != 200:
		wrong = fmt.Sprintf("answered %d", p.Status)
	case p.Foreign > 0:
		wrong = "messages of another stream came"
	case p.Wrong > 0 && s.judge.setup.Contract != AtLeastOnce:
		s.probes.more = true // it may bring what was lost the first time
		return
	case unfinished(p):
		return // a probe has little time, and a slow target breaks no promise
	case p.Messages < p.Want:
		wrong = fmt.Sprintf("%d of %d messages came again", p.Messages, p.Want)
	case !p.Response:
		wrong = "the response did not come again"
	}
	if wrong != "" {
		s.deviates(inv, finding{what: wrong})
		return
	}
	s.conforms(inv)
	s.check(streamEnds, 1)
	if p.End != history.EndClean {
		s.find(streamEnds, finding{what: "after the replayed response: " + endName(p.End)})
	}
}
