package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func resumeProgressInvariant() invariant {
	return invariant{
		name:   "resume-progress",
		claim:  "a resume leads on: no hang, no loop, no endless refusal",
		source: "derived from 2025-11-25 transports, Resumability 2 and 3",
		level:  LevelDerived,
		role: func(s Setup) (Role, string) {
			if s.umcp() { // its streams are asked for again, without a cursor
				return Watched, ""
			}
			if s.Faults > 0 && s.Contract != NoPromise {
				return whenResumed(s, Demanded)
			}
			return whenResumed(s, Watched) // a polling server may close links by itself
		},
		event: func(s *Stream, r *history.Record) {
			s.checkStall(r)
			after := s.hears() || s.judge.setup.drafted() // more is due after the response
			if s.ex.resume && !s.ex.ledOn && !s.now.posted && (!s.now.before || after) && r.Event.Class != history.ClassRefusal {
				s.ex.ledOn = true
				s.check(resumeProgress, 1)
			}
		},
		fact:   conflictTooLong,
		settle: settleResumeProgress,
	}
}

// conflictTooLong convicts a target that answers 409 long after the old link ended.
func conflictTooLong(s *Stream, r *history.Record) {
	if r.Kind != history.KindHead || r.Head.Status != 409 || !s.ex.resume || s.ex.injected || s.end.conflictLong {
		return
	}
	if s.end.linkEnded && r.At-s.end.linkEndedAt > conflictLimit {
		s.end.conflictLong = true
		s.check(resumeProgress, 1)
		s.find(resumeProgress, finding{what: "409 for more than 60 s after the old link's end"})
	}
}

// settleResumeProgress looks at streams that did not get on. Attempts that we cut
// ourselves have already made the fate undecided.
func settleResumeProgress(s *Stream) {
	switch {
	case s.end.unfounded:
		s.check(resumeProgress, 1)
		s.find(resumeProgress, finding{what: "the stream ended before its first committed id, without a fault of ours"})
	case (s.fate == fateFailed || s.fate == fateTooLate) && s.end.lastResume && !s.end.conflictLong &&
		s.outcome != history.OutcomeCompleted:
		if s.fate != fateTooLate {
			s.check(resumeProgress, 1)
		}
		what := "the last resume led to nothing: " + endName(s.end.last)
		if s.empty >= emptyLimit {
			what = plural(int64(s.empty), "resume", "resumes") + " in a row were accepted and brought nothing"
		}
		s.find(resumeProgress, finding{what: what,
			mark: "resume-progress: " + endName(s.end.last), pending: s.fate == fateTooLate})
	}
}
