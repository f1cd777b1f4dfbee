package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func inOrderInvariant() invariant {
	return invariant{
		name:   "in-order",
		claim:  "messages arrive in the order of their emitter",
		source: "2025-11-25 transports, Resumability 3: the stream resumes from that point",
		level:  LevelContract,
		role:   ofMessages,
		event: func(s *Stream, r *history.Record) {
			if !s.now.numbered || s.now.standing == repeated {
				return
			}
			s.check(inOrder, 1)
			if s.now.standing != behind {
				return
			}
			if len(s.order) < maxInversions {
				s.order = append(s.order, Inversion{Early: s.now.above, Late: r.Event.Seq})
			}
			s.findMessage(inOrder, r.Event.Seq, "came after a higher number")
		},
	}
}
