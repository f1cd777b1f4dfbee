package judge

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A ControlStream is the history of one control call: a call without faults, made
// before the load, that shows what a call looks like when nothing happens to it.
type ControlStream struct {
	Records []history.Record
}

// Facts are what the control calls teach.
type Facts struct {
	// Calls were made; Answered of them got a result, Complete of those showed their
	// messages in order, each once, before it.
	Calls, Answered, Complete int
	// InSequence: every call numbered all its messages from 1 upwards without a hole.
	InSequence bool
	// Numbered: InSequence, with the same last number Messages in every call.
	Numbered bool
	Messages int64
	// Totals: the messages name the number of messages, and truly.
	Totals bool
	// IDs: every call committed an event id. Primed: its first event was one with an
	// id and empty data. SSE: every answer was an event stream.
	IDs, Primed, SSE bool
	// Longest is the time from the request to the end of the longest call.
	Longest time.Duration
}

// Learn turns the histories of the control calls into facts. Without any call
// all facts are false.
func Learn(calls []ControlStream) Facts {
	f := Facts{Calls: len(calls)}
	if len(calls) == 0 {
		return f
	}
	f.InSequence, f.Numbered, f.Totals, f.IDs, f.Primed, f.SSE = true, true, true, true, true, true
	for i, c := range calls {
		l := learnCall(c.Records)
		if l.answered {
			f.Answered++
		}
		sequence := l.sequence && l.answered && l.last > 0
		if sequence {
			f.Complete++
		}
		if i == 0 {
			f.Messages = l.last
		}
		f.InSequence = f.InSequence && sequence
		f.Numbered = f.Numbered && sequence && l.last == f.Messages
		f.Totals = f.Totals && sequence && l.total == l.last
		f.IDs = f.IDs && l.ids
		f.Primed = f.Primed && l.primed
		f.SSE = f.SSE && l.sse
		f.Longest = max(f.Longest, l.took)
	}
	if !f.Numbered {
		f.Messages = 0
	}
	return f
}

type learnt struct {
	answered, sequence, ids, primed, sse bool
	last, total                          int64
	took                                 time.Duration
}

func learnCall(records []history.Record) learnt {
	l := learnt{sequence: true}
	var began time.Duration
	events := 0
	for i := range records {
		r := &records[i]
		switch r.Kind {
		case history.KindAttempt:
			if r.Attempt == 0 {
				began = r.At
			}
		case history.KindHead:
			l.sse = l.sse || r.Head.Body == history.BodySSE
		case history.KindEvent:
			e := &r.Event
			if events == 0 {
				l.primed = e.Class == history.ClassEmpty && e.HasID
			}
			events++
			l.ids = l.ids || e.HasID
			l.event(e)
			l.took = r.At - began
		}
	}
	return l
}

func (l *learnt) event(e *history.Event) {
	switch {
	case e.Owner != history.OwnerSelf && e.Owner != history.OwnerUnmarked:
		l.sequence = false
	case e.Class == history.ClassResponse:
		l.answered = true
	case e.Seq > 0:
		if e.Seq != l.last+1 || l.answered {
			l.sequence = false
		}
		l.last, l.total = e.Seq, e.Total
	case e.Class == history.ClassProgress || e.Class == history.ClassNotification:
		// A message without a number could be lost without a trace, but it does not
		// spoil the numbering of the others: a server may log beside its progress.
		if e.Class == history.ClassProgress {
			l.sequence = false
		}
	}
}
