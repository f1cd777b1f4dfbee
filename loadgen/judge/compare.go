package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// An unlikeness counts the messages of one stream that are equal to none of the control
// calls'. One that came instead of an expected one was altered; any other was never sent.
type unlikeness struct {
	came    int64
	early   bool  // one came before any fault: it is not the resume that changes messages
	instead int64 // of an expected message
}

// compare notes a message that has no number because it equals none of the control calls'.
func (s *Stream) compare(e *history.Event) {
	if e.Digest != history.DigestWrong || s.kind == history.StreamControl {
		return // another notification, or one that came before there was anything to compare
	}
	s.foreignTo.came++
	s.foreignTo.early = s.foreignTo.early || s.faults.injected == 0
}

// settleUnlike takes messages that are equal to none for those that are missing: they
// were altered. What is over was never sent.
func (s *Stream) settleUnlike() {
	m, u := &s.msgs, &s.foreignTo
	u.instead = min(u.came, m.Lost)
	m.Lost -= u.instead
	m.Delivered += u.instead
	m.Corrupt += u.came
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
