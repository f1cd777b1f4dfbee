package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func streamEndsInvariant() invariant {
	return invariant{
		name:   "stream-ends",
		claim:  "the target ends the stream after the response",
		source: "2025-11-25 transports, Sending Messages 6 (after the response the server SHOULD terminate the stream)",
		level:  LevelShould,
		role:   func(Setup) (Role, string) { return Watched, "" },
		fact: func(s *Stream, r *history.Record) {
			if r.Kind != history.KindEnd || !s.ex.responded || s.ex.injected || s.ex.body != history.BodySSE ||
				r.End == history.EndStopped || s.huge.any() || s.hears() {
				return
			}
			if s.judge.setup.drafted() && s.created && !s.ex.ended { // it may disconnect at any time
				return
			}
			s.check(streamEnds, 1)
			if r.End != history.EndClean {
				s.find(streamEnds, finding{what: "after the response: " + endName(r.End)})
			}
		},
	}
}
