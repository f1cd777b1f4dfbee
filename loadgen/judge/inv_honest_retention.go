package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// leastSkip is the number of messages directly behind the cursor from which on their
// absence is taken for an overrun. A single one is more likely to be miscounted than
// purged; no-loss finds it.
const leastSkip = 2

func honestRetentionInvariant() invariant {
	return invariant{
		name:   "honest-retention",
		claim:  "what is no longer kept is refused, not skipped",
		source: "derived from 2025-11-25 transports, Resumability 3 (replay what would have been sent after the cursor)",
		level:  LevelDerived,
		role: func(s Setup) (Role, string) {
			if s.Contract == NoPromise && !s.modern() {
				return NotApplicable, `the contract "none" promises no retention`
			}
			return whenResumed(s, Watched) // whether anything is purged in time is not ours to plan
		},
		event:  replayBegins,
		fact:   judgeRetention,
		settle: settleRetention,
	}
}

// replayBegins notes a replay whose first message is not the one behind the cursor.
// Of one that says how much it replays, or has to replay all of it, it can be told from one
// that is live again.
func replayBegins(s *Stream, r *history.Record) {
	n := &s.now
	if !n.first || n.jumped == 0 || !s.ex.resume {
		return
	}
	// A stream/resume brings what is undelivered first, whether it is live again or not.
	if !s.judge.setup.drafted() && (s.ex.missed <= 0 || s.ex.events > uint32(s.ex.missed)) {
		return
	}
	if r.Event.Seq-n.jumped >= leastSkip && len(s.skipped) < maxRanges {
		s.skipped = append(s.skipped, Range{n.jumped, r.Event.Seq - 1})
	}
}

func judgeRetention(s *Stream, r *history.Record) {
	p := s.asked(r, history.ProbeReplay)
	if p == nil {
		return
	}
	switch {
	case p.Status == 400 || p.Status == 404 || p.Status == 410:
		s.check(honestRetention, 1)
	case s.counts && p.Status == 200 && p.Response && p.Foreign == 0 && p.Messages == 0 && p.Wrong+leastSkip <= p.Want:
		// What is purged is what lies directly behind the cursor. That alone is no proof: a
		// store that sorts wrongly skips some too, and replay-after-response says so.
		s.check(honestRetention, 1)
		s.find(honestRetention, finding{count: int64(p.Want - p.Wrong), what: "a replay of a settled stream skipped messages instead of being refused"})
	}
}

// settleRetention counts honest refusals, and the skipped runs that nothing filled.
func settleRetention(s *Stream) {
	if s.refused == 400 || s.refused == 404 || s.refused == 410 || s.refused == refusedByError {
		s.check(honestRetention, 1)
	}
	for _, r := range s.skipped {
		missing := r.Last - r.First + 1 - s.acct.within(r.Last) + s.acct.within(r.First-1)
		if missing < leastSkip {
			continue
		}
		s.check(honestRetention, 1)
		s.find(honestRetention, finding{first: r.First, last: r.Last, what: "the replay began behind them, without a refusal"})
	}
}
