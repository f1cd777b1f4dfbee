package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func primedInvariant() invariant {
	return invariant{
		name:   "primed",
		claim:  "the first event of a stream has an id and empty data",
		source: "2025-11-25 transports, Sending Messages 6 (SHOULD immediately send an event with an id and empty data)",
		level:  LevelShould,
		under: func(s Setup) string {
			if s.drafted() {
				return "the first event of a call is notifications/stream/create"
			}
			return ""
		},
		role: func(s Setup) (Role, string) {
			if s.drafted() {
				return Watched, ""
			}
			if s.Revision < revisionPolling {
				return NotApplicable, "priming came with revision " + revisionPolling
			}
			return whenResumed(s, Watched)
		},
		event: func(s *Stream, r *history.Record) {
			if s.hears() || s.ex.resume || s.ex.events != 1 || s.ex.body != history.BodySSE {
				return
			}
			s.check(primed, 1)
			if s.judge.setup.drafted() {
				if r.Event.Class != history.ClassCreate {
					s.find(primed, finding{what: "the first event creates no stream"})
				}
				return
			}
			if r.Event.Class != history.ClassEmpty || !r.Event.HasID {
				s.find(primed, finding{what: "the first event is no priming event"})
			}
		},
	}
}
