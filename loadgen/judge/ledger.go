package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// A ledgerAccount compares the target's own account of a call with what was
// delivered, message by message.
type ledgerAccount struct {
	next      int64  // number of the last message record
	sum       uint64 // of the accepted or delivered messages past the hash cap
	broken    bool   // the account has holes or is out of order
	done      bool   // the call record came
	known     bool
	emitted   int64
	call      history.Ledger
	arrived   int64 // delivered messages
	unarrived int64 // missing for which an unknown fate allows it
	lost      int64
	allowed   int64 // lost, as the contract allows it
	lostAt    []Range
	degraded  int64
	tail      int64 // missing above everything delivered
	corrupt   int64 // found when the account has proved to be whole
	corruptAt []Range
}

// audit folds the records of the ledger.
func (s *Stream) audit(r *history.Record) {
	if s.ledger == nil {
		s.ledger = &ledgerAccount{}
		if !s.settled {
			s.fate, s.end = s.decideFate()
		}
	}
	l := s.ledger
	if r.Kind == history.KindLedgerCall {
		l.call, l.known, l.emitted = r.Ledger, r.Ledger.Known, r.Ledger.Emitted
		l.broken = l.broken || l.done || l.known && l.emitted != l.next
		l.done = true
		return
	}
	seq := r.Ledger.Seq
	if seq != l.next+1 || l.done {
		l.broken = true
		return
	}
	l.next = seq
	if s.acct.has(seq) {
		l.arrived++
		if seq > maxHashes {
			l.sum += blend(seq, r.Ledger.Hash)
		} else if !s.sameHash(seq, r.Ledger.Hash) {
			l.corrupt++
			l.corruptAt = addRange(l.corruptAt, seq, seq)
		}
		return
	}
	switch {
	case r.Ledger.Fate == history.FateUnknown:
		l.unarrived++
	case r.Ledger.Fate == history.FateUnstored && s.judge.setup.StoreFaults:
		l.degraded++
	case s.lossAllowed(seq):
		l.allowed++
	case seq < s.acct.highest || s.tailDue():
		l.lost++
		l.lostAt = addRange(l.lostAt, seq, seq)
	default:
		l.tail++
	}
}

// blind tells that the ledger oracle has no usable account of this call.
func (s *Stream) blind() bool {
	if s.judge.setup.Oracle != OracleLedger {
		return false
	}
	l := s.ledger
	if l == nil || !l.done || l.broken {
		return s.fate != fateNotSent && s.fate != fateCallRefused
	}
	if l.known {
		return false
	}
	// A call that never reached the handler has no account, and needs none.
	return s.fate.judged() && s.fate != fateSevered || s.acct.distinct > 0
}
