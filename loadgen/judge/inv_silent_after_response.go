package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func silentAfterResponseInvariant() invariant {
	return invariant{
		name:   "silent-after-response",
		claim:  "nothing for the call arrives after its response",
		source: "derived from 2025-11-25 transports, Sending Messages 6 (messages before the response); progress (MUST stop after completion)",
		level:  LevelDerived,
		role:   always,
		event: func(s *Stream, r *history.Record) {
			if s.now.before && s.now.own && s.now.message && !s.now.response {
				s.findMessage(silentAfterResponse, r.Event.Seq, "came after the response")
			}
		},
		settle: func(s *Stream) {
			if s.responses > 0 {
				s.check(silentAfterResponse, 1)
			}
		},
	}
}
