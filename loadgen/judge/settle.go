package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// settleMessages fills the message counts of the stream, so that
//
//	Expected = Delivered + Lost + LostAllowed + Degraded + Undecided
//
// holds for every stream. What cannot be told is Undecided, never lost.
func (s *Stream) settleMessages() {
	switch s.judge.setup.Oracle {
	case OracleLedger:
		s.settleByLedger()
	case OracleNumbered, OracleTwin:
		if s.call.Twin == 0 || s.kind != history.StreamControl || s.acct.distinct > 0 {
			s.settleByNumber()
			s.settleUnlike()
		} else if s.plain {
			s.msgs.Undecided = s.call.Twin
		} else if s.fate == fateAnswered {
			// It came before there was anything to compare it with, and all agreed.
			s.msgs.Delivered = s.call.Twin
		}
	}
	m := &s.msgs
	if s.huge.any() || s.plain {
		m.Undecided += m.Lost
		m.Lost = 0
	}
	m.Expected = m.Delivered + m.Lost + m.LostAllowed + m.Degraded + m.Undecided
}

func (s *Stream) settleByLedger() {
	m, l := &s.msgs, s.ledger
	if l == nil || !l.done || l.broken {
		// Only what lies below a delivered number is known to be due.
		m.Delivered = s.acct.distinct
		m.Undecided = s.acct.highest - s.acct.distinct
		return
	}
	m.Delivered, m.Lost, m.LostAllowed, m.Degraded = l.arrived, l.lost, l.allowed, l.degraded
	if s.tailUndecided() {
		m.Undecided = l.tail
	}
	m.Corrupt += l.corrupt
}

// settleByNumber knows the numbers from 1 to the expected count.
func (s *Stream) settleByNumber() {
	m := &s.msgs
	n := s.expected()
	below := s.acct.highest
	if n > 0 {
		below = min(below, n)
	}
	m.Delivered = s.acct.within(below)
	m.LostAllowed = s.holesAllowed(below)
	m.Lost = below - m.Delivered - m.LostAllowed
	tail := max(0, n-below)
	switch {
	case s.vagueError():
		m.Undecided = tail
	case tail > 0 && s.lossAllowed(below+1):
		m.LostAllowed += tail
	case s.tailDue():
		m.Lost += tail
	case s.tailUndecided():
		m.Undecided = tail
	}
}

// expected is the number of messages of this call, 0 when nothing tells.
func (s *Stream) expected() int64 {
	switch {
	case s.judge.setup.Oracle == OracleLedger:
		if s.ledger != nil && s.ledger.done && s.ledger.known {
			return s.ledger.emitted
		}
		return 0
	case s.mute:
		return 0
	case s.call.Twin > 0:
		return s.call.Twin
	case s.call.Expected > 0 && !s.saysTotal():
		return s.call.Expected
	case s.call.NoTotals:
		return 0
	}
	return s.total
}

// saysTotal tells that the messages of the call themselves say how many there are, which
// is worth more than what the control calls brought.
func (s *Stream) saysTotal() bool {
	return s.call.ExpectedFrom == fromControls && s.total > 0 && !s.unsteady && !s.call.NoTotals
}

// surplus tells that the call brought more messages than the control calls did, so that
// those do not tell how many were due.
func (s *Stream) surplus() bool {
	return s.judge.setup.Oracle != OracleLedger && s.call.ExpectedFrom == fromControls && s.call.Twin == 0 && !s.saysTotal() && !s.mute &&
		s.acct.highest > s.call.Expected
}

// vagueError tells that the call was answered with an error which says nothing about
// how many messages were due. In a call that met a cut it says enough: a target that
// gives up what it could not deliver has lost it.
func (s *Stream) vagueError() bool { return s.errors > 0 && s.faults.cuts == 0 }

// tailDue tells that everything that was accepted had to come, up to the last message.
// The missing end of an unanswered call is no loss: its response is missing too.
func (s *Stream) tailDue() bool {
	return s.fate == fateAnswered || s.fate == fateRefused ||
		s.hears() && s.fate == fateFailed && s.responses > 0
}

// lateTail counts the missing end of a GET stream that stayed silent although its call
// was answered: lost, if the generator has an alibi.
func (s *Stream) lateTail() int64 {
	if s.hears() && s.fate == fateTooLate && s.responses > 0 {
		return s.msgs.Undecided
	}
	return 0
}

// tailUndecided tells that the missing end of the call is counted, as undecided. For
// a call that we cut before it could be resumed, or that never ran, it is not due.
func (s *Stream) tailUndecided() bool {
	switch s.fate {
	case fateIndeterminate, fateNotSent, fateCancelled, fateCallRefused:
		return false
	}
	return true
}

// lostRanges names the lost messages, as far as they are kept.
func (s *Stream) lostRanges() []Range {
	if s.judge.setup.Oracle == OracleLedger {
		if s.ledger == nil {
			return nil
		}
		return s.ledger.lostAt
	}
	n := s.acct.highest
	if e := s.expected(); e > 0 && (n > e || s.tailDue() && !s.vagueError()) {
		n = e
	}
	return s.acct.missing(n, s.lossAllowed)
}
