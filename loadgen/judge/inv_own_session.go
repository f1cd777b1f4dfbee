package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func ownSessionInvariant() invariant {
	return invariant{
		name:   "own-session",
		claim:  "nothing of another session arrives",
		source: "2025-11-25 basic, Requests (ids belong to a session); security best practices, Session Hijacking",
		level:  LevelMust,
		role:   whenTold,
		event: func(s *Stream, r *history.Record) {
			if !s.now.message || r.Event.Owner == history.OwnerUnmarked {
				return
			}
			s.check(ownSession, 1)
			switch r.Event.Owner {
			case history.OwnerOtherSession:
				s.findMessage(ownSession, r.Event.Seq, "belongs to another session")
			case history.OwnerNobody:
				s.findMessage(ownSession, r.Event.Seq, "carries a mark that this run never gave out")
			}
		},
	}
}
