package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func sessionStatusInvariant() invariant {
	return invariant{
		name:   "session-status",
		claim:  "a session that ended is answered 404, a missing session id 400",
		source: "2025-11-25 transports, Session Management 2 (SHOULD 400) and 3 (MUST 404)",
		level:  LevelMust,
		role: func(s Setup) (Role, string) {
			if s.modern() {
				return NotApplicable, "2026-07-28 has no sessions"
			}
			if s.Probes > 0 && s.Sessions {
				return Demanded, ""
			}
			return Watched, ""
		},
		fact: func(s *Stream, r *history.Record) {
			if p := s.asked(r, history.ProbeDeadSession); p != nil && s.judgeStatus(sessionStatus, p) {
				if p.Status == 404 {
					s.conforms(sessionStatus)
				} else {
					s.deviates(sessionStatus, finding{what: "after the session's end: " + statusText(p.Status) + ", not 404"})
				}
			}
			if p := s.asked(r, history.ProbeMissingSession); p != nil && p.Status != 0 {
				s.conforms(sessionStatus)
				if p.Status != 400 {
					s.now.probe = probeDeviates
					s.find(sessionStatus, finding{soft: true, what: "without a session id: " + statusText(p.Status) + ", not 400"})
				}
			}
		},
	}
}
