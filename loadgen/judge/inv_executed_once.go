package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func executedOnceInvariant() invariant {
	return invariant{
		name:   "executed-once",
		claim:  "a call runs its tool once; a resume never runs it again",
		source: "derived from 2025-11-25 transports, Sending Messages 6 (a disconnection is no cancellation)",
		level:  LevelDerived,
		role: func(s Setup) (Role, string) {
			if s.Ledger {
				return Demanded, ""
			}
			return NotApplicable, "no ledger"
		},
		settle: func(s *Stream) {
			l := s.ledger
			if l == nil || !l.done || !l.known {
				return
			}
			if (l.call.Executions > 0 || s.responses > 0) && (s.fate != fateTooLate || !l.call.Cancelled || l.call.CancelSeen) {
				s.check(executedOnce, 1)
			}
			switch {
			case l.call.Executions > 1:
				s.find(executedOnce, finding{what: "the tool ran more than once", count: int64(l.call.Executions) - 1})
			case l.call.Executions == 0 && s.responses > 0 && s.outcome != history.OutcomeCancelled:
				s.find(executedOnce, finding{what: "a response without an execution"})
			case l.call.Cancelled && !l.call.CancelSeen && s.outcome != history.OutcomeCancelled && s.fate.judged() && s.fate != fateSevered:
				s.find(executedOnce, finding{what: "the execution was cancelled, by nobody of ours", pending: s.fate == fateTooLate})
			}
		},
	}
}
