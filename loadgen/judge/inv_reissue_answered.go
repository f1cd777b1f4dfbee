package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func reissueAnsweredInvariant() invariant {
	return invariant{
		name:   "reissue-answered",
		claim:  "a call that was cut and is made again under a new id is answered",
		source: "2026-07-28 changelog 9 (a client MUST re-issue a lost request under a new id); JSON-RPC 2.0, 5",
		level:  LevelDerived,
		role:   func(Setup) (Role, string) { return Watched, "" }, // only where calls cannot be taken up again
		fact: func(s *Stream, r *history.Record) {
			if p := s.asked(r, history.ProbeReissue); p != nil {
				s.judgeReissue(p)
			}
		},
	}
}

// judgeReissue wants the response, and nothing of the call that was cut: before
// 2026-07-28 that belongs to its own stream.
func (s *Stream) judgeReissue(p *history.Probe) {
	const inv = reissueAnswered
	if p.Foreign > 0 && !s.judge.setup.Modern {
		s.check(ownStream, int64(p.Foreign))
		s.find(ownStream, finding{count: int64(p.Foreign), what: "messages of a call that was cut came on the stream of its re-issue"})
	}
	switch {
	case p.Response:
		s.conforms(inv)
	case p.Status == 429 || p.Status == 503, !s.judgeStatus(inv, p):
	case p.Status/100 != 2:
		s.deviates(inv, finding{what: "refused: " + statusText(p.Status)})
	case leftByUs(p.End) && p.Took < silenceLimit:
		// It was given little time.
	case p.End == history.EndFrame:
		// It may be larger than we read; what is broken legal-frames finds in other calls.
	case leftByUs(p.End):
		s.deviates(inv, finding{what: "no response: " + endName(p.End), pending: true})
	case p.End == history.EndClean && s.judge.setup.IDs && !s.judge.setup.Modern:
		// A polling server may close it once an id was sent.
	default:
		s.deviates(inv, finding{what: "it ended without a response: " + endName(p.End)})
	}
}

// leftByUs tells an exchange that the target did not end.
func leftByUs(end history.End) bool {
	switch end {
	case history.EndDeadline, history.EndIdle, history.EndOpen, history.EndStopped:
		return true
	}
	return false
}
