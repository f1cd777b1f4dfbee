package export

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// A track follows one stream from its records alone and measures it as the load
// generator does.
type track struct {
	e  *Exporter
	of loadgen.Arrival

	begun, answered bool          // a message came; the response did
	complained      bool          // which was an error
	doneAt          time.Duration // when
	messages, bytes int64
	ended           time.Duration // the last exchange
	cut             time.Duration // end of the exchange since which the stream is behind; 0 if it is not
	x               exchange
	lines           []byte // of k6, not written yet
}

// An exchange is the current one, or the last.
type exchange struct {
	attempt  uint16
	resume   bool
	began    time.Duration // the attempt
	from     time.Duration // the end of the wait before it
	head     time.Duration // 0: none came
	status   int
	missed   int32
	events   int32
	bytes    int64
	fault    history.Injection // the first that ended it, or else the first
	hurtAt   time.Duration     // when one ended it
	finished history.End
}

// Observe implements loadgen.StreamObserver.
func (t *track) Observe(r *history.Record) {
	switch r.Kind {
	case history.KindAttempt:
		t.attempt(r)
	case history.KindHead:
		t.x.head, t.x.status, t.x.missed = r.At, r.Head.Status, r.Head.Missed
		if t.x.attempt > 0 && !t.x.fault.Ends { // else our own link made it up
			t.trend(loadgen.ResumeConnect, r.At, r.At-t.x.from)
		}
		if r.Head.Status/100 == 2 && r.Head.Body == history.BodySSE {
			t.caughtUp(r.At)
		}
	case history.KindEvent:
		t.event(r)
	case history.KindInjection:
		t.struck(r)
	case history.KindEnd:
		t.end(r)
	case history.KindSettled:
		t.settle(r)
	}
}

func (t *track) attempt(r *history.Record) {
	t.x = exchange{attempt: r.Attempt, resume: r.Exchange.Resume, began: r.At, from: r.At, missed: -1}
	if r.Attempt > 0 {
		t.x.from = t.ended + r.Exchange.Waited
		t.trend(loadgen.ResumeBackoff, r.At, r.Exchange.Waited)
	}
}

func (t *track) struck(r *history.Record) {
	if x := &t.x; x.fault.Kind == "" || r.Injection.Ends && !x.fault.Ends {
		x.fault = r.Injection
	}
	if r.Injection.Ends {
		t.x.hurtAt = r.At
	}
}

func (t *track) event(r *history.Record) {
	x, e := &t.x, &r.Event
	x.events++
	x.bytes += int64(e.Bytes)
	if x.attempt > 0 && x.events == 1 {
		t.trend(loadgen.ResumeFirstEvent, r.At, r.At-x.head)
	}
	t.caughtUp(r.At)
	switch e.Class {
	case history.ClassEmpty, history.ClassOther, history.ClassJunk:
		return
	case history.ClassResponse, history.ClassError:
		if e.Owner == history.OwnerSelf && !t.answered {
			t.answered, t.doneAt, t.complained = true, r.At, e.Class == history.ClassError
			t.trend(loadgen.Completion, r.At, r.At-t.of.Due)
		}
	}
	t.messages++
	if !t.begun {
		t.begun = true
		t.trend(loadgen.FirstEvent, r.At, r.At-t.of.Due)
	}
}

// caughtUp notes when everything missed has come.
func (t *track) caughtUp(at time.Duration) {
	x := &t.x
	if x.attempt == 0 || t.cut == 0 {
		return
	}
	if x.missed == x.events || x.missed < 0 && x.events == 1 {
		t.trend(loadgen.ResumeCaughtUp, at, at-t.cut)
		t.cut = 0
	}
}

func (t *track) end(r *history.Record) {
	t.x.finished, t.ended = r.End, r.At
	t.bytes += t.x.bytes
	if t.x.fault.Ends {
		t.trend(loadgen.ResumeDetect, r.At, r.At-t.x.hurtAt)
	}
	if t.cut == 0 {
		t.cut = r.At
	}
	if k := t.e.k6; k != nil {
		k.exchange(t, r.At)
		t.spill(spillAt)
	}
}

// trend notes a latency. A GET stream has no call that begins and ends on it.
func (t *track) trend(p loadgen.Phase, at, d time.Duration) {
	ofCall := p == loadgen.FirstEvent || p == loadgen.Completion
	if k := t.e.k6; k != nil && !(ofCall && t.of.Kind == history.StreamGet) {
		k.trend(t, p, at, d)
	}
}

func (t *track) settle(r *history.Record) {
	if t.of.Kind == history.StreamLoad {
		if v := t.e.vegeta; v != nil {
			v.settle(t, r)
		}
		if k := t.e.k6; k != nil {
			k.settle(t, r)
		}
	}
	t.spill(0)
	t.lines = nil
}

// spillAt bounds what a stream keeps of its lines.
const spillAt = 16 << 10

// spill writes the lines if there are more than so many bytes.
func (t *track) spill(over int) {
	if len(t.lines) > over {
		_, _ = t.e.k6.out.Write(t.lines) // its first error is final and surfaces at Close
		t.lines = t.lines[:0]
	}
}

func outcome(o history.Outcome) string {
	words := [...]string{"none", "completed", "indeterminate", "not sent", "refused", "cancelled", "undecided", "failed"}
	if int(o) < len(words) {
		return words[o]
	}
	return "other"
}

func ending(e history.End) string {
	words := [...]string{"none", "clean", "mid-event", "truncated", "reset", "idle", "deadline", "status", "frame", "unreachable", "open", "stopped"}
	if int(e) < len(words) {
		return words[e]
	}
	return "other"
}
