package judge

import (
	"cmp"
	"slices"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// This file says what each contract allows: loss and repeats that it allows are
// counted apart, and violate nothing.

// repeatAllowed tells whether the event at hand may come again. last is the attempt that
// brought it before. Without a resume between, no contract allows it.
func (s *Stream) repeatAllowed(last uint16) bool {
	return s.judge.setup.Contract == AtLeastOnce && s.ex.resume && s.ex.attempt > last
}

// lastAttempt is the attempt that last delivered a number. Past the cap it is taken for
// an earlier one where the number was not above all others when this exchange began.
func (s *Stream) lastAttempt(seq int64) uint16 {
	if seq <= int64(len(s.attempts)) && s.attempts[seq-1] > 0 {
		return s.attempts[seq-1] - 1
	}
	if seq <= s.ex.above && s.ex.attempt > 0 {
		return s.ex.attempt - 1
	}
	return s.ex.attempt
}

// place notes on which link a number came, as far as the contract cares.
func (s *Stream) place(seq int64) {
	switch s.judge.setup.Contract {
	case AtLeastOnce:
		if seq > maxHashes {
			break
		}
		for int64(len(s.attempts)) < seq {
			s.attempts = append(s.attempts, 0)
		}
		s.attempts[seq-1] = min(s.ex.attempt, 1<<16-2) + 1
	case NoPromise:
		if s.now.jumped > 0 && !s.ex.numbered && s.ex.attempt > 0 {
			s.gaps = append(s.gaps, Range{s.now.jumped, seq - 1}) // one per link at most
		}
	}
	s.ex.numbered = true
}

// lossAllowed tells whether the contract allows that an accepted message never came.
func (s *Stream) lossAllowed(seq int64) bool {
	tail := seq > s.acct.highest
	switch s.judge.setup.Contract {
	case Bounded:
		return tail && s.purged()
	case NoPromise:
		if tail {
			return s.fate == fateSevered || s.fate == fateAnswered && (s.tailGap || s.hears() && s.parted())
		}
		_, in := slices.BinarySearchFunc(s.gaps, seq, func(r Range, seq int64) int {
			if seq >= r.First && seq <= r.Last {
				return 0
			}
			return cmp.Compare(r.First, seq)
		})
		return in
	}
	return false
}

// holesAllowed counts the missing numbers from 1 to n, all below a delivered one, that
// the contract allows.
func (s *Stream) holesAllowed(n int64) (count int64) {
	for _, r := range s.gaps {
		if last := min(r.Last, n); last >= r.First {
			count += last - r.First + 1 - s.acct.within(last) + s.acct.within(r.First-1)
		}
	}
	return count
}

// purged tells that the target said in so many words that it no longer has what follows
// the cursor.
func (s *Stream) purged() bool {
	return s.fate == fateRefused && (s.refused == 400 || s.refused == 404 || s.refused == refusedByError)
}

// responseAllowed tells whether the contract allows that the response never came.
func (s *Stream) responseAllowed() bool {
	return s.fate == fateSevered || s.judge.setup.Contract == Bounded && s.purged()
}

// sever takes a call that we cut for settled under NoPromise, whatever became of it
// afterwards: its response may be missing. Where the target uses ids, a call that was
// cut before its first one stays indeterminate.
func (s *Stream) sever(f fate) fate {
	if s.judge.setup.Contract != NoPromise || s.faults.cuts == 0 || s.judge.setup.umcp() { // there the response has a link of its own
		return f
	}
	switch f {
	case fateFailed, fateTooLate, fateRefused, fateNotResumable:
		if s.outcome != history.OutcomeCompleted {
			return fateSevered
		}
	case fateIndeterminate:
		if s.judge.setup.Modern || !s.judge.setup.IDs && !s.hasID {
			return fateSevered
		}
	case fateUndecided:
		if s.outcome == history.OutcomeFailed || s.outcome == history.OutcomeRefused || s.outcome == history.OutcomeUndecided && s.over() {
			return fateSevered
		}
	}
	return f
}

// over tells that a call which is said to be undecided ended by itself, or that nothing
// came for so long that our stop took nothing from it. Where its response may be missing
// nothing is left to decide then.
func (s *Stream) over() bool {
	switch s.end.last {
	case history.EndNone:
		return false
	case history.EndStopped:
		return s.settledAt-max(s.lastEventAt, s.faults.lastAt) >= silenceLimit
	}
	return true
}
