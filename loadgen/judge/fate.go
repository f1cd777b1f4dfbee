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
	fateSevered // cut by us, under a contract that lets the response be missing then
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
	return f == fateAnswered || f == fateFailed || f == fateTooLate || f == fateRefused || f == fateSevered
}

// decideFate compares the claimed outcome with the records.
func (s *Stream) decideFate() (fate, fateFacts) {
	end := s.end
	switch {
	case s.outcome == history.OutcomeCancelled:
		return fateCancelled, end
	case s.responses > 0 && (!s.hears() || s.outcome == history.OutcomeCompleted):
		return fateAnswered, end // the response of a GET stream's call says nothing of its messages
	}
	f, unfounded := s.claim()
	end.unfounded = unfounded
	if s.responses == 0 {
		f = s.huge.excuse(s.sever(f))
		end.unfounded = end.unfounded && f == fateFailed
	}
	return f, end
}

// claim holds the claimed outcome against the records. unfounded tells a call that is
// said to be indeterminate without a fault of ours.
func (s *Stream) claim() (f fate, unfounded bool) {
	early := (s.faults.early || s.faults.vague && !s.hasID) && !s.judge.setup.umcp() // no cut there leaves the call unknown
	switch s.outcome {
	case history.OutcomeNotSent:
		return fateNotSent, false
	case history.OutcomeIndeterminate:
		if early || s.unheard() {
			return fateIndeterminate, false
		}
		return fateFailed, true
	case history.OutcomeRefused:
		return s.refusal(), false
	case history.OutcomeCompleted: // no record shows the response
		return fateFailed, false
	case history.OutcomeFailed:
		if early && !s.hasID {
			return fateIndeterminate, false
		}
		return s.failure(), false
	case history.OutcomeUndecided:
		if s.loops() && !s.polls() {
			return fateFailed, false
		}
	}
	return fateUndecided, false
}

// unheard tells a call whose link ended before any answer. Where that link had rested
// between two exchanges the target may close it at any time (RFC 9112, 9.3.1), and nobody
// can tell whether the call ran; on a fresh one the call is said to have failed.
func (s *Stream) unheard() bool {
	return s.resumes.attempted == 0 && s.end.linkEnded && s.end.lastStatus == 0
}

// refusal tells a refused call from a refused cursor.
func (s *Stream) refusal() fate {
	if s.resumes.attempted == 0 {
		return fateCallRefused
	}
	switch {
	case s.refused == 405:
		return fateNotResumable
	case s.refused == 401, s.refused == 403, s.refused == 407:
		return fateUndecided
	case s.refused/100 == 3:
		return fateUndecided // it is gapless that follows no redirect
	}
	if s.resumes.refused == 0 || s.throttled() {
		return fateUndecided // claimed, but no head shows a refusal for good
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
	case s.throttled(), s.bidden():
		return fateUndecided
	}
	switch s.end.last {
	case history.EndDeadline, history.EndIdle, history.EndOpen:
		if s.silentFor() < silenceLimit {
			return fateUndecided
		}
		return fateTooLate
	}
	if s.polls() {
		return fateUndecided
	}
	return fateFailed
}

// polls tells a target that closes its links on purpose, and says when to come back, while
// the call may still run: for as long as the control calls ran, or as its time lasts.
func (s *Stream) polls() bool {
	age := s.settledAt - s.begunAt
	switch limit := s.stallLimit(); {
	case s.empty < emptyLimit || s.pause.asked <= 0 || s.end.last != history.EndClean:
		return false
	case limit > 0:
		return age <= limit
	}
	return age < s.call.Deadline*9/10
}

// throttled tells that the last answer says to come back later: the target limits the
// rate, and lost nothing by that.
func (s *Stream) throttled() bool {
	return (s.end.lastStatus == 429 || s.end.lastStatus == 503) && !s.end.lastInjected
}

// emptyLimit is the number of resumes in a row, each accepted and at once ended by the
// target without any event, from which on they are a loop.
const emptyLimit = 5

// countEmpty counts them. What we ended ourselves tells nothing.
func (s *Stream) countEmpty(end history.End) {
	switch {
	case s.ex.injected:
	case s.ex.resume && s.ex.status/100 == 2 && s.ex.events == 0 && (end == history.EndClean || end == history.EndTruncated || end == history.EndReset):
		s.empty++
	default:
		s.empty = 0
	}
}

// loops tells a call whose time is over from one that we left early, where the target
// answers its resumes with nothing: too short a time to call it silent, but a loop.
func (s *Stream) loops() bool {
	return s.empty >= emptyLimit && s.call.Deadline > 0 && s.settledAt-s.begunAt >= s.call.Deadline*9/10
}
