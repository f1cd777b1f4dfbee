package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func endLastInvariant() invariant {
	return invariant{
		name:   "end-last",
		claim:  "a stream is ended exactly once, after its response, and nothing follows",
		source: "draft of streams (pull request 899), Termination (MUST send an end when a stream completes); Using Streams with Tool Calls 4",
		level:  LevelMust,
		role:   whenDrafted(Demanded),
		event: func(s *Stream, r *history.Record) {
			n := &s.now
			switch {
			case !n.own:
			case r.Event.Class != history.ClassEnd:
				if s.ends > 0 && n.message && r.Event.Class != history.ClassJunk {
					s.findMessage(endLast, r.Event.Seq, "came after the end of the stream")
				}
			case s.ends > 1:
				s.find(endLast, finding{what: "the stream was ended twice"})
			default:
				s.endedEarly = s.responses == 0
			}
		},
		settle: func(s *Stream) {
			if s.ends > 0 {
				s.check(endLast, 1)
			}
			if s.endedEarly && s.outcome != history.OutcomeCancelled { // a cancelled call has no response
				s.find(endLast, finding{what: "the stream was ended before its response"})
			}
			if s.responses == 0 || s.ends > 0 || !s.created {
				return
			}
			switch s.outcome {
			case history.OutcomeCompleted:
				s.check(endLast, 1)
				s.find(endLast, finding{what: "the stream was never ended"})
			case history.OutcomeFailed:
				silent := s.end.last == history.EndDeadline || s.end.last == history.EndIdle || s.end.last == history.EndOpen
				if s.end.lastInjected || s.end.last == history.EndStopped || s.throttled() {
					return
				}
				if !silent {
					s.check(endLast, 1)
				}
				s.find(endLast, finding{what: "the stream was never ended: " + endName(s.end.last), pending: silent})
			}
		},
	}
}
