package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func idempotentResumeInvariant() invariant {
	return invariant{
		name:   "idempotent-resume",
		claim:  "the same cursor gives the same, however often it is presented",
		source: "derived from 2025-11-25 transports, Resumability 2 (the id is a cursor); RFC 9110, 9.2.2 (GET)",
		level:  LevelDerived,
		role:   replayRole,
		fact: func(s *Stream, r *history.Record) {
			p := s.asked(r, history.ProbeAgain)
			if p == nil || !s.probes.told || untellable(p) {
				return
			}
			if silent, _ := silence(p); silent || unfinished(p) || unfinished(&s.probes.first) {
				return // slow once is not different
			}
			if a := &s.probes.first; a.Status != p.Status || a.Messages != p.Messages || a.Wrong != p.Wrong ||
				a.Foreign != p.Foreign || a.Response != p.Response {
				s.deviates(idempotentResume, finding{what: "the second replay from one cursor differs from the first"})
				return
			}
			s.conforms(idempotentResume)
		},
	}
}
