package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func ownStreamInvariant() invariant {
	return invariant{
		name:   "own-stream",
		claim:  "nothing of another stream arrives",
		source: "2025-11-25 transports, Resumability 3 (MUST NOT replay messages of a different stream); Multiple Connections 2",
		level:  LevelMust,
		role:   whenTold,
		event: func(s *Stream, r *history.Record) {
			if !s.now.message || r.Event.Owner == history.OwnerUnmarked {
				return
			}
			s.check(ownStream, 1)
			if r.Event.Owner == history.OwnerOtherStream {
				s.findMessage(ownStream, r.Event.Seq, "belongs to another stream of the session")
			}
		},
	}
}
