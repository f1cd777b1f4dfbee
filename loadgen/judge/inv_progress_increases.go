package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func progressIncreasesInvariant() invariant {
	return invariant{
		name:   "progress-increases",
		claim:  "progress increases with each notification, on first deliveries",
		source: "2025-11-25 progress, Progress Flow (the value MUST increase with each notification)",
		level:  LevelMust,
		role: func(s Setup) (Role, string) {
			for _, c := range s.calls() {
				if !c.progress() || s.mute(&c) {
					return Watched, "" // its messages are no progress
				}
			}
			return whenTold(s)
		},
		event: func(s *Stream, r *history.Record) {
			e := &r.Event
			if !s.now.own || !e.Ordered || e.Class != history.ClassProgress || s.now.standing == repeated {
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
