package judge

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A fate is how the judge sees the end of a stream. The generator's outcome is a
// claim: it has to be borne out by the records.
type fate uint8

// Fates.
const (
	fateUndecided     fate = iota // ended by our own stop, our own cut, or before the target was silent for long
	fateAnswered                  // the response was dispatched
	fateFailed                    // the target broke its promise
	fateTooLate                   // as failed, provided that the generator was well
	fateRefused                   // the target refused the cursor of a stream that lived
	fateNotResumable              // the target does not resume at all, or not for us
	fateCallRefused               // the call itself was refused
	fateIndeterminate             // our own fault struck at or before the first committed id
	fateNotSent
	fateCancelled
)

// fateFacts is what the fate rests on.
type fateFacts struct {
	last         history.End
	lastInjected bool
	lastResume   bool
	lastStatus   int32
	linkEnded    bool
	linkEndedAt  time.Duration // end of the last link that carried the stream
	conflictLong bool          // 409 for more than conflictLimit
	unfounded    bool          // indeterminate without a fault of ours
}

// Limits of VERDICT §3.
const (
	silenceLimit  = 10 * time.Second // a target that was silent for less is not yet too late
	conflictLimit = 60 * time.Second // 409 after the old link's end
)

// judged tells the fates in which the target's promise was put to the test.
func (f fate) judged() bool {
	return f == fateAnswered || f == fateFailed || f == fateTooLate || f == fateRefused
}

// decideFate compares the claimed outcome with the records.
func (s *Stream) decideFate() (fate, fateFacts) {
	end := s.end
	if s.responses > 0 {
		return fateAnswered, end
	}
	early := s.faults.early && !s.hasID
	switch s.outcome {
	case history.OutcomeNotSent:
		return fateNotSent, end
	case history.OutcomeCancelled:
		return fateCancelled, end
	case history.OutcomeIndeterminate:
		if s.faults.early {
			return fateIndeterminate, end
		}
		end.unfounded = true
		return fateFailed, end
	case history.OutcomeRefused:
		return s.refusal(), end
	case history.OutcomeCompleted: // no record shows the response
		return fateFailed, end
	case history.OutcomeFailed:
		if early {
			return fateIndeterminate, end
		}
		return s.failure(), end
	}
	return fateUndecided, end
}

// refusal tells a refused call from a refused cursor.
func (s *Stream) refusal() fate {
	if s.resumes.attempted == 0 {
		return fateCallRefused
	}
	switch s.refused {
	case 405:
		return fateNotResumable
	case 401, 403:
		return fateUndecided
	}
	if s.resumes.refused == 0 {
		return fateUndecided // claimed, but no head shows a refusal
	}
	return fateRefused
}

// failure tells a target that broke its promise from one that may only be slow, and
// from attempts that we cut ourselves.
func (s *Stream) failure() fate {
	switch {
	case s.end.conflictLong:
		return fateFailed
	case s.end.lastInjected, s.end.last == history.EndStopped, s.end.last == history.EndNone:
		return fateUndecided
	case s.end.lastResume && s.end.lastStatus == 409:
		return fateUndecided // still within the time a conflict may take
	}
	switch s.end.last {
	case history.EndDeadline, history.EndIdle, history.EndOpen:
		since := max(s.lastEventAt, s.faults.lastAt)
		if s.settledAt-since < silenceLimit {
			return fateUndecided
		}
		return fateTooLate
	}
	return fateFailed
}
