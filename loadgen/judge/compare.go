package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// An unlikeness counts the messages of one stream that are equal to none of the control
// calls'. One that came instead of an expected one was altered; any other was never sent.
type unlikeness struct {
	came    int64
	early   bool  // one came before any fault: it is not the resume that changes messages
	instead int64 // of an expected message
}

// compare notes a message that the load generator could not number by comparison. Only
// those of the method that carries the messages are compared.
func (s *Stream) compare(e *history.Event) {
	if s.kind == history.StreamControl {
		return // there was nothing yet to compare it with
	}
	if s.call.progress() {
		if e.Class != history.ClassProgress || e.Owner != history.OwnerSelf {
			return
		}
	} else if e.Class != history.ClassNotification {
		return
	}
	s.foreignTo.came++
	s.foreignTo.early = s.foreignTo.early || s.faults.injected == 0
}

// settleUnlike takes messages that are equal to none for those that are missing. What is
// over was never sent; but log messages of another kind are no messages of the call, and
// nothing tells them from those that are.
func (s *Stream) settleUnlike() {
	m, u := &s.msgs, &s.foreignTo
	u.instead = min(u.came, m.Lost)
	m.Lost -= u.instead
	m.Delivered += u.instead
	m.Corrupt += s.altered()
}

// altered counts the messages that arrived otherwise than they were sent, or were never
// sent.
func (s *Stream) altered() int64 {
	if s.call.progress() {
		return s.foreignTo.came
	}
	return s.foreignTo.instead
}

// unasked notes a message of a call that was to send none. Nothing tells which others
// should have come with it.
func (s *Stream) unasked(e *history.Event) {
	switch {
	case !s.call.ResponseOnly:
		return // the profile wants nothing but the response to be judged
	case e.Seq > 0, e.Class == history.ClassProgress && e.Owner == history.OwnerSelf:
		s.uncalled++
	case s.responses == 0:
		s.unnumbered++
	}
}
