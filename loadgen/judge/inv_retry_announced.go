package judge

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// longestRetry is what a client can be asked to wait before it counts as absurd.
const longestRetry = time.Hour

func retryAnnouncedInvariant() invariant {
	return invariant{
		name:   "retry-announced",
		claim:  "before the target closes a link of a living stream, it says how long to wait",
		source: "2025-11-25 transports, Sending Messages 6 (SHOULD send retry before closing)",
		level:  LevelShould,
		role: func(s Setup) (Role, string) {
			if s.Revision < revisionPolling && !s.drafted() { // there it is resumeInterval.min
				return NotApplicable, "polling came with revision " + revisionPolling
			}
			return whenResumed(s, Watched)
		},
		fact: func(s *Stream, r *history.Record) {
			switch {
			case s.endedByTarget(r):
				s.polled = s.responses == 0 || s.hears()
			case r.Kind == history.KindAttempt && s.polled:
				// What was asked for shows in the attempt that follows.
				s.polled = false
				s.check(retryAnnounced, 1)
				switch asked := r.Exchange.Asked; {
				case asked <= 0:
					s.find(retryAnnounced, finding{what: "closed without a retry"})
				case asked > longestRetry:
					s.find(retryAnnounced, finding{what: "asked to wait for " + asked.String()})
				}
			}
		},
	}
}
