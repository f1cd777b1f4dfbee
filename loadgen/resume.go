package loadgen

import (
	"context"
	"strconv"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// floor is the shortest wait after an attempt without a message, whatever the target
// announced: retry 0 must not become a busy loop.
const floor = 10 * time.Millisecond

// backoff is what a stream remembers between its exchanges.
type backoff struct {
	asked    time.Duration // the last reconnection time that the target announced
	isAsked  bool
	after    time.Duration // Retry-After of the last answer
	ended    time.Duration // when the last exchange ended
	cut      time.Duration // end of the exchange since which the stream is behind; 0 if it is not
	failures int           // attempts in a row that led nowhere and were not ours
	conflict time.Duration // when the present row of 409 began; 0 outside one
}

// announced takes the reconnection time of the event stream, which stays until the
// target announces another.
func (b *backoff) announced(d time.Duration, ok bool) {
	if ok {
		b.asked, b.isAsked = d, true
	}
}

// wait returns how long to wait before the next attempt: what the target asked for,
// longer after failures, and a share of jitter on top (2025-11-25 transports,
// Resumability: the client MUST respect retry; WHATWG HTML §9.2.3 allows longer).
func (b *backoff) wait(p ResumePolicy, share float64, idle bool) time.Duration {
	d := b.asked
	if !b.isAsked {
		d = p.Backoff
	}
	if b.failures > 0 {
		d = max(d, min(p.BackoffMax, p.Backoff<<min(b.failures-1, 16)))
	}
	d = max(d, b.after)
	if idle {
		d = max(d, floor)
	}
	return d + time.Duration(float64(d)*p.Jitter*share)
}

// pause waits before the next attempt, at most until the deadline of the call.
func (s *stream) pause(ctx context.Context) history.Outcome {
	d := s.back.wait(s.r.c.Resume, draw(s.r.c.Seed, s.a.Stream, s.attempt, drawJitter), !s.mattered)
	s.mattered = false
	s.back.after = 0
	if s.draft.max > 0 {
		d = min(d, s.draft.max) // or it would count as abandoned
	}
	left := s.deadline - s.back.ended
	late := d >= left || d < 0
	if late {
		d, s.rec.Exchange.Asked = left, s.back.asked // the record of the outcome says why there was no resume
	}
	timer := time.NewTimer(s.back.ended + d - s.r.now())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if stopEnd(ctx) == history.EndStopped {
			return history.OutcomeUndecided
		}
		return s.tooLate()
	}
	if late {
		return s.tooLate()
	}
	return history.OutcomeNone
}

// tooLate is the outcome of a call whose time is over: the target's fault only if it
// was silent, not if we were slow to read.
func (s *stream) tooLate() history.Outcome {
	switch {
	case s.busy && s.attempt == 0 && !s.resumable():
		return history.OutcomeNotSent // it never took the call
	case s.busy:
		return history.OutcomeUndecided // it limits the rate, it lost nothing
	}
	if s.r.now()-s.heard >= s.r.c.Silence {
		return history.OutcomeFailed
	}
	return history.OutcomeUndecided
}

// next decides what follows an exchange that brought no response: another attempt
// (OutcomeNone) or the outcome.
func (s *stream) next(end history.End) history.Outcome {
	switch {
	case end == history.EndStopped:
		return history.OutcomeUndecided
	case end == history.EndDeadline:
		return s.tooLate()
	case end == history.EndStatus:
		if o := s.refused(); o != history.OutcomeNone {
			return o
		}
	}
	switch {
	case s.resumable():
		return s.another()
	case s.struck:
		return s.sever(history.OutcomeIndeterminate)
	}
	return s.sever(history.OutcomeFailed)
}

// resumable reports whether there is a way back: a cursor, a GET stream whose call is
// still to be made, or the event stream of a session.
func (s *stream) resumable() bool {
	if s.r.c.Draft {
		return s.created() && !s.draft.final
	}
	return !s.r.c.Modern && (len(s.rd.Cursor()) > 0 || s.hears() && !s.called || s.r.c.UMCP)
}

// refused tells a refusal for good from a status that another attempt may change.
func (s *stream) refused() history.Outcome {
	switch {
	case s.status == 404 && s.sess.hasID:
		// 2025-11-25 transports, Session Management 4: the session is over. Its cursors
		// are worth nothing in the next one.
		s.sess.lost()
		return history.OutcomeRefused
	case s.attempt == 0 && !s.hears():
		return history.OutcomeRefused // a call that may run is never sent twice
	case s.status == 409, s.status == 429, s.status >= 500:
		return history.OutcomeNone
	}
	return s.sever(history.OutcomeRefused)
}

// another allows one more attempt, within the bounds of the policy.
func (s *stream) another() history.Outcome {
	b := &s.back
	switch p := s.r.c.Resume; {
	case s.status == 409 && !s.struck:
		if b.conflict == 0 {
			b.conflict = b.ended
		}
		b.failures++
		if b.ended-b.conflict >= p.Conflict {
			return history.OutcomeFailed
		}
		// The target may take so long to notice the old link: the deadline of the call
		// must not end the row before that can be told.
		s.deadline = max(s.deadline, b.conflict+p.Conflict+2*p.BackoffMax)
		return history.OutcomeNone
	case s.gained:
		b.failures = 0
	case s.busy: // its patience is that of the call
		b.failures++
	case !s.struck && s.attempt > 0:
		if b.failures++; b.failures >= p.Attempts {
			return history.OutcomeFailed
		}
	}
	b.conflict = 0
	return history.OutcomeNone
}

// missed reads the number of events that a target says it will replay; -1 if it does
// not say.
func missed(value string) int32 {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int32(n)
}

// resume counts one attempt to resume.
func (t *tally) resume(status int, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.resumes
	r.Attempted++
	r.ByStatus[status]++
	switch {
	case status == 200:
		r.Succeeded++
	case status == 409:
		r.Conflicts++
	}
	if refused {
		r.Refused++
	}
}

// settle counts one outcome.
func (t *tally) settle(k history.StreamKind, o history.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch k {
	case history.StreamCanary:
		t.canary = o
	case history.StreamGet:
		t.gets[o]++
	default:
		t.outcomes[o]++
	}
}
