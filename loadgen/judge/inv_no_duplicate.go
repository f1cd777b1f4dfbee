package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func noDuplicateInvariant() invariant {
	return invariant{
		name:   "no-duplicate",
		claim:  "no message arrives twice; under at-least-once, not without a resume between",
		source: "2025-11-25 transports, Resumability 3: only what follows the cursor is replayed",
		level:  LevelContract,
		role:   ofMessages,
		event: func(s *Stream, r *history.Record) {
			if !s.now.numbered {
				return
			}
			s.check(noDuplicate, 1)
			if s.now.standing == repeated && !s.now.allowed {
				s.findMessage(noDuplicate, r.Event.Seq, "came again")
			}
		},
	}
}
