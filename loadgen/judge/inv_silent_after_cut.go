package judge

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func silentAfterCutInvariant() invariant {
	return invariant{
		name:  "silent-after-cut",
		claim: "after its stream was closed no message of the call comes",
		under: func(s Setup) string {
			switch { // its own stream is closed: nothing can be seen there
			case s.modern() && s.Ledger:
				return "a cut cancels the call, and no message of it comes on the stream of its re-issue"
			case s.modern():
				return "no message of a cut call comes on the stream of its re-issue"
			}
			return ""
		},
		source: "2026-07-28 transports, Streamable HTTP (closing the response stream is cancellation; the server MUST NOT send further messages for it)",
		level:  LevelMust,
		role: func(s Setup) (Role, string) {
			switch {
			case !s.modern():
				return NotApplicable, "before 2026-07-28 a cut cancels nothing"
			case s.Faults > 0:
				return Demanded, ""
			}
			return Watched, ""
		},
		fact: func(s *Stream, r *history.Record) {
			p := s.asked(r, history.ProbeReissue)
			if p == nil || p.Status/100 != 2 { // nothing could come
				return
			}
			s.check(silentAfterCut, 1)
			if p.Foreign > 0 {
				s.find(silentAfterCut, finding{count: int64(p.Foreign), what: "messages of the call came beside those of its re-issue"})
			}
		},
		settle: ranOn,
	}
}

// cancelTime is how long a target may take to notice that a link is gone, at least.
const cancelTime = 500 * time.Millisecond

// ranOn finds a handler that was not cancelled although its call was cut long before it
// could end: the control calls tell how long it runs.
func ranOn(s *Stream) {
	l := s.ledger
	if l == nil || !l.done || !l.known || s.fate != fateSevered || s.call.Longest == 0 || !s.end.linkEnded {
		return
	}
	left := s.begunAt + s.call.Longest - s.end.linkEndedAt
	if left < max(cancelTime, s.call.Longest/2) {
		return
	}
	switch {
	case l.call.Cancelled:
		s.check(silentAfterCut, 1)
	case l.call.Responses > 0:
		s.find(silentAfterCut, finding{what: "the handler of a cut call ran on to its end, and was not cancelled", pending: true})
	}
}
