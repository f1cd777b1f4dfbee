package judge

import "github.com/gapless-dev/gapless/loadgen/history"

func intactInvariant() invariant {
	return invariant{
		name:   "intact",
		claim:  "each message arrives byte for byte (canonical JSON), and none that was never sent",
		source: "2025-11-25 transports, Resumability 3: the messages that would have been sent",
		level:  LevelContract,
		role: func(s Setup) (Role, string) {
			if s.Oracle == OracleLedger || s.told() && compared(s) {
				return Demanded, ""
			}
			return Watched, "" // without a reference only a repeat can be compared
		},
		event: func(s *Stream, r *history.Record) {
			e := &r.Event
			digest := s.now.own && e.Digest != history.DigestNone && (e.Seq > 0 || s.call.Twin == 0 || s.now.response) // else see compare
			alike := s.call.Twin > 0 && s.now.numbered
			if s.now.standing != repeated && !digest && !alike {
				return
			}
			s.check(intact, 1)
			switch {
			case digest && e.Digest == history.DigestWrong:
				s.msgs.Corrupt++
				s.findMessage(intact, e.Seq, "the digest that the message carries does not fit its payload")
			case s.now.altered:
				s.msgs.Corrupt++
				s.findMessage(intact, e.Seq, "repeated with other bytes")
			}
		},
		settle: settleIntact,
	}
}

// compared tells that each message of every call can be checked: by its digest, or by
// comparison with those of the control calls.
func compared(s Setup) bool {
	for _, c := range s.calls() {
		if !c.Digests && c.Twin == 0 && !s.mute(&c) {
			return false
		}
	}
	return true
}

// settleIntact finds numbers that were never sent, and compares the sums of what lies
// past the hash cap. Differences message by message were found with the ledger's
// records.
func settleIntact(s *Stream) {
	l := s.ledger
	if s.judge.setup.Oracle == OracleLedger && l != nil && l.done && !l.broken {
		s.check(intact, l.arrived)
		if l.corrupt > 0 {
			s.find(intact, finding{count: l.corrupt, ranges: l.corruptAt, what: "the bytes differ from what was emitted"})
		}
		if l.sum != s.hashSum && s.acct.highest <= l.emitted {
			s.msgs.Corrupt++
			s.find(intact, finding{first: maxHashes + 1, last: l.emitted, what: "one of these differs from what was emitted"})
		}
	}
	if s.call.Twin > 0 && !s.mute && s.kind != history.StreamControl {
		if n := s.foreignTo.came; n > 0 {
			s.find(intact, finding{count: n, what: "equal to no message of the control calls", pending: true})
		}
	}
	if n := s.expected(); n > 0 && s.acct.highest > n && !s.blind() && !s.surplus() {
		phantoms := s.acct.distinct - s.acct.within(n)
		s.msgs.Corrupt += phantoms
		s.check(intact, phantoms)
		s.find(intact, finding{first: n + 1, last: s.acct.highest, count: phantoms, what: "was never sent: the call has fewer messages"})
	}
}
