package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func oneResponseInvariant() invariant {
	return invariant{
		name:  "one-response",
		claim: "every accepted call gets exactly one response",
		under: func(s Setup) string {
			switch {
			case s.umcp(): // nothing hurts its POST
				return ""
			case s.Contract == NoPromise:
				return "every call that met no cut gets exactly one response, and none gets two"
			case s.Contract == Bounded:
				return "every accepted call gets exactly one response, unless its cursor was refused"
			}
			return ""
		},
		source: "2025-11-25 transports, Sending Messages 6 (SHOULD eventually include); JSON-RPC 2.0, 5",
		level:  LevelContract,
		role:   always,
		event: func(s *Stream, _ *history.Record) {
			if s.now.response && s.responses > 1 && !s.now.allowed {
				s.find(oneResponse, finding{what: "a second response"})
			}
		},
		settle: func(s *Stream) {
			if !s.fate.judged() && s.fate != fateCancelled {
				return
			}
			if s.fate.judged() && (s.fate != fateTooLate || s.responses > 0) && (s.responses > 0 || !s.responseAllowed()) {
				s.check(oneResponse, 1)
			}
			switch {
			case s.responses == 0 && (s.fate == fateCancelled || s.responseAllowed()):
			case s.responses == 0:
				s.find(oneResponse, finding{what: s.missingResponse(), mark: "one-response: no response came",
					pending: s.fate == fateTooLate})
			case s.ledger != nil && s.ledger.call.Responses > 1 && s.responses == 1:
				s.find(oneResponse, finding{what: "the ledger shows more than one response"})
			}
		},
	}
}

// missingResponse says how the call ended without its response.
func (s *Stream) missingResponse() string {
	switch {
	case s.fate == fateRefused:
		return "no response: the cursor was refused"
	case s.outcome == history.OutcomeCompleted:
		return "no record shows the response of a completed call"
	case s.fate == fateTooLate:
		return "no response before the deadline, and silence since"
	}
	return "no response"
}
