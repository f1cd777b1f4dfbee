package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func progressIncreasesInvariant() invariant {
	return invariant{
		name:   "progress-increases",
		claim:  "progress increases with each notification, on first deliveries",
		source: "2025-11-25 progress, Progress Flow (the value MUST increase with each notification)",
		level:  LevelMust,
		role:   whenTold,
		event: func(s *Stream, r *history.Record) {
			e := &r.Event
			if !s.now.own || !e.Ordered || s.now.standing == repeated {
				return
			}
			s.check(progressIncreases, 1)
			if s.progressed && e.Progress <= s.lastProgress {
				s.find(progressIncreases, finding{first: e.Seq, last: e.Seq, what: "progress does not increase",
					quiet: s.now.standing == behind}) // in-order marks it
			}
		},
	}
}
