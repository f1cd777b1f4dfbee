package loadgen

import (
	"math"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/twin"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// methodProgress is the method of the messages where a Numbering names none.
const methodProgress = "notifications/progress"

// numbering is a [Numbering] made ready: shared by all streams of a call.
type numbering struct {
	method string
	paths  *wire.Paths
	twin   *twin.Twin
	digest bool // the messages carry one
	plain  bool // nothing but the progress of progress notifications counts
}

// compile makes the numbering ready, or says what is wrong with it.
func (n Numbering) compile() (numbering, error) {
	c := numbering{method: n.Method, twin: n.Twin, digest: n.Digest != ""}
	sequence, total := n.Sequence, n.Total
	if c.method == "" || c.method == methodProgress {
		c.method = methodProgress
		sequence, total = or(sequence, wire.PathProgress), or(total, wire.PathTotal)
	}
	var err error
	c.paths, err = wire.ParsePaths(sequence, total, n.Digest, n.Payload)
	c.plain = c.twin == nil && !c.digest && sequence == wire.PathProgress && total == wire.PathTotal
	return c, err
}

// numbers is what a stream keeps to number its messages.
type numbers struct {
	*numbering
	counter *twin.Counter // nil without a twin
	found   *wire.Found   // nil where the numbers lie where every scan reads them
	own     bool          // the message at hand is one of the call
	seq     int64         // its number, 0 if it has none
}

// begin forgets an earlier stream.
func (n *numbers) begin(of *numbering) {
	*n = numbers{numbering: of}
	if of.twin != nil {
		n.counter = &twin.Counter{Twin: of.twin}
	}
	if !of.plain {
		n.found = new(wire.Found)
	}
}

// number says which message of the call a notification is. A log message carries no mark
// (2025-11-25 logging, Log Message Notifications), so it belongs to the call on whose
// exchanges it comes; on a GET stream nothing tells that.
func (s *stream) number(e *history.Event, data []byte) {
	n, m := &s.num, &s.msg
	if string(m.Method) != n.method || e.Owner == history.OwnerUnmarked && s.hears() {
		return
	}
	n.own = e.Owner <= history.OwnerSelf
	switch f := n.found; {
	case n.twin != nil:
		n.compare(e, data)
	case f == nil:
		e.Seq, e.Total = whole(m.Progress), whole(m.Total)
	default:
		e.Seq, e.Total = whole(f.Sequence), whole(f.Total)
	}
	if n.digest && n.found.HasDigest && e.Digest != history.DigestWrong {
		e.Digest = history.DigestWrong
		if n.found.HasPayload && fits(n.found.Digest, n.found.Payload) {
			e.Digest = history.DigestRight
		}
	}
	n.seq = e.Seq
}

// compare numbers a message by those of the control calls. What equals none of them has
// other content than the call's messages have. A message of another stream, whose call
// may be another one, has a number where one look tells it.
func (n *numbers) compare(e *history.Event, data []byte) {
	if !n.own {
		if n.twin.Distinct() {
			e.Seq, _ = (&twin.Counter{Twin: n.twin}).Number(data)
		}
		return
	}
	seq, same := n.counter.Number(data)
	if !same {
		e.Digest = history.DigestWrong
		return
	}
	e.Seq, e.Total, e.Digest = seq, int64(n.twin.N()), history.DigestRight
}

// show hands a message of the call to whoever learns from it.
func (s *stream) show(data []byte) {
	if s.num.own && s.r.c.Raw != nil {
		s.r.c.Raw(s.a, data)
	}
}

// advance counts the message of the call at hand: by its number as long as the messages
// come as 1, 2, 3 …, so that a repeat does not count; else one by one.
func (s *stream) advance() {
	seq := s.num.seq
	s.last = max(s.last, seq)
	switch {
	case seq == 0 && s.num.twin != nil: // none of the call's
		return
	case !s.numbered, seq == int64(s.seen)+1:
	case 0 < seq && seq <= int64(s.seen):
		return
	default:
		s.numbered = false
	}
	s.seen++
}

// whole returns a value that counts, 0 for one that does not.
func whole(v float64) int64 {
	if v < 1 || v > 1<<53 || v != math.Trunc(v) {
		return 0
	}
	return int64(v)
}
