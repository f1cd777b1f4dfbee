package loadgen

import (
	"context"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// reissues reports whether a call of this arrival is made again if it is cut and cannot be
// resumed: always where the revision says so (2026-07-28 changelog 9), else for a sample.
func (r *runner) reissues(a Arrival) bool {
	if r.c.Modern {
		return a.Kind == history.StreamLoad
	}
	return r.drawn(a, r.c.Reissue, drawReissue)
}

// sever notes that the call was cut and cannot be resumed.
func (s *stream) sever(o history.Outcome) history.Outcome {
	s.severed = true
	return o
}

// reissue makes the call of a stream again that was cut for good, under a new id and a new
// token, on a link of its own on which nothing is hurt. The stream's outcome stays what it
// was: nothing makes good what was cut.
func (s *stream) reissue(ctx context.Context) {
	if s.sess.gone.Load() {
		return
	}
	s.cut = &cutCall{id: s.id}
	s.token, s.id = s.r.marks.Again(s.a.Session, s.a.Stream), s.sess.nextID()
	s.a.Again = true
	s.examine(ctx, history.ProbeReissue, true, s.request())
}

// cutCall is the call that was cut and made again.
type cutCall struct {
	id       string
	numbered int32 // messages of the new call that have a number
	all      int32
}

// recount takes a message that came for the new call.
func (s *stream) recount(e *history.Event) {
	p := &s.rec.Probe
	switch {
	case e.Owner == history.OwnerOtherStream && e.OwnerStream == s.a.Stream, string(s.msg.ID) == s.cut.id && s.msg.Method == nil:
		p.Foreign++
	case e.Owner > history.OwnerSelf:
	case e.Class == history.ClassResponse:
		p.Response = true
	case s.num.own:
		s.cut.all++
		if e.Seq > 0 {
			s.cut.numbered++
		}
		if p.Messages = s.cut.numbered; p.Messages == 0 {
			p.Messages = s.cut.all
		}
	}
}
