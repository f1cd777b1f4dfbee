package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func silentAfterCutInvariant() invariant {
	return invariant{
		name:  "silent-after-cut",
		claim: "after its stream was closed no message of the call comes",
		under: func(s Setup) string {
			if s.modern() { // its own stream is closed: nothing can be seen there
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
	}
}
