package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func noEarlyCloseInvariant() invariant {
	return invariant{
		name:   "no-early-close",
		claim:  "the target does not close a link before the response, unless an event id was sent",
		source: "2025-11-25 transports, Sending Messages 6 (MAY close after an event with an id); before, SHOULD NOT close",
		level:  LevelShould,
		under: func(s Setup) string {
			if s.drafted() {
				return "the target does not close a link before the response, unless it has created a stream"
			}
			return ""
		},
		role: func(Setup) (Role, string) { return Watched, "" },
		fact: func(s *Stream, r *history.Record) {
			if !s.endedByTarget(r) || s.hears() { // a GET stream may be closed at any time
				return
			}
			s.check(noEarlyClose, 1)
			switch {
			case s.responses > 0, s.created:
			case s.judge.setup.drafted():
				s.find(noEarlyClose, finding{what: "closed before the response and before a stream was created: " + endName(r.End)})
			case s.judge.setup.Revision < revisionPolling:
				s.find(noEarlyClose, finding{what: "closed before the response: " + endName(r.End)})
			case !s.hasID:
				s.find(noEarlyClose, finding{what: "closed before the response and before any event id: " + endName(r.End)})
			}
		},
	}
}

// endedByTarget tells that r ends an event stream, and that nobody but the target did it.
func (s *Stream) endedByTarget(r *history.Record) bool {
	if r.Kind != history.KindEnd || s.ex.injected || s.ex.body != history.BodySSE {
		return false
	}
	switch r.End {
	case history.EndClean, history.EndMidEvent, history.EndTruncated, history.EndReset:
		return true
	}
	return false
}
