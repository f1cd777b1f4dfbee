package judge

import (
	"fmt"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func cursorVerdictInvariant() invariant {
	return invariant{
		name:   "cursor-verdict",
		claim:  "a cursor that cannot be resumed gets a prompt verdict, and never other data",
		source: "derived from 2025-11-25 transports, Resumability 3 (MUST NOT replay messages of a different stream)",
		level:  LevelDerived,
		role:   whenProbed,
		fact: func(s *Stream, r *history.Record) {
			p := s.asked(r, history.ProbeUnknownCursor, history.ProbeMalformedCursor, history.ProbeForeignCursor)
			if p == nil || p.Status == 405 || p.Status == 409 {
				return
			}
			s.judgeCursor(p)
		},
	}
}

// judgeCursor accepts 400 or another refusal, or 200 and the end. 404 tells the client
// that its whole session is gone: a verdict, but not a good one.
func (s *Stream) judgeCursor(p *history.Probe) {
	const inv = cursorVerdict
	if !s.judgeStatus(inv, p) {
		return
	}
	name := probeName(p.Name)
	switch other := int64(p.Messages) + int64(p.Wrong) + int64(p.Foreign); {
	case p.Foreign > 0:
		s.deviates(inv, finding{count: other, what: name + ": messages of another stream came"})
		if p.Name == history.ProbeForeignCursor {
			s.check(ownSession, int64(p.Foreign))
			s.find(ownSession, finding{count: int64(p.Foreign), what: "a cursor of another session brought its messages"})
		}
	case other > 0 || p.Response:
		s.deviates(inv, finding{count: max(1, other), what: name + ": other data came"})
	case p.Status == 404:
		s.conforms(inv)
		s.find(inv, finding{soft: true, what: name + ": 404, which says that the session is gone"})
	case p.Status >= 400:
		s.conforms(inv)
	case p.Status != 200:
		s.deviates(inv, finding{what: fmt.Sprintf("%s: answered %d", name, p.Status)})
	case p.End != history.EndClean:
		s.deviates(inv, finding{what: name + ": 200, then silence: " + endName(p.End), pending: true})
	default:
		s.conforms(inv)
	}
}
