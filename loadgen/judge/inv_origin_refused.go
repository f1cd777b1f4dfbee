package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func originRefusedInvariant() invariant {
	return invariant{
		name:   "origin-refused",
		claim:  "a request from somebody else's origin is refused, from 2025-11-25 on with 403",
		source: "2025-11-25 transports, Security Warning 1 (MUST validate the Origin header, MUST answer 403)",
		level:  LevelMust,
		role: func(s Setup) (Role, string) {
			if s.Probes > 0 && !s.modern() { // the other probes are of sessions and cursors
				return Demanded, ""
			}
			return Watched, ""
		},
		fact: func(s *Stream, r *history.Record) {
			p := s.asked(r, history.ProbeOrigin)
			if p == nil || !s.judgeStatus(originRefused, p) {
				return
			}
			switch {
			case p.Status < 400:
				s.deviates(originRefused, finding{what: "served: " + statusText(p.Status)})
			case p.Status != 403 && s.judge.setup.Revision >= revisionPolling:
				s.deviates(originRefused, finding{what: "refused with " + statusText(p.Status) + ", not 403"})
			default:
				s.conforms(originRefused)
			}
		},
	}
}
