package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func silentAfterResponseInvariant() invariant {
	return invariant{
		name:   "silent-after-response",
		claim:  "nothing for the call arrives after its response",
		source: "derived from 2025-11-25 transports, Sending Messages 6 (messages before the response); progress (MUST stop after completion)",
		level:  LevelDerived,
		role: func(s Setup) (Role, string) {
			if s.umcp() {
				return NotApplicable, "the response comes on a link of its own"
			}
			return Demanded, ""
		},
		event: func(s *Stream, r *history.Record) {
			n := &s.now
			if !n.before || !n.own || !n.message || n.response || r.Event.Class == history.ClassJunk || s.hears() {
				return
			}
			if n.allowed && s.ex.attempt > s.answeredAt {
				return // the contract lets a resume bring it again
			}
			// A response that is not the call's answers something else of its batch.
			switch e := &r.Event; {
			case e.Owner == history.OwnerSelf, e.Seq > 0:
				s.findMessage(silentAfterResponse, e.Seq, "came after the response")
			case e.Class != history.ClassResponse && e.Class != history.ClassError:
				// Nothing tells that it is for the call; the stream should have ended.
				s.find(silentAfterResponse, finding{soft: true, what: "something came after the response"})
			}
		},
		settle: func(s *Stream) {
			if s.responses > 0 && !s.hears() { // its response comes on the POST
				s.check(silentAfterResponse, 1)
			}
		},
	}
}
