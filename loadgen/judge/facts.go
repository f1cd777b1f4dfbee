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

// Facts are what the control calls teach, all of them together.
type Facts struct {
	// Calls were made; Answered of them got a result, Complete of those showed their
	// messages in order, each once, before it.
	Calls, Answered, Complete int
	// InSequence: every call numbered all its messages from 1 upwards without a hole.
	InSequence bool
	// Numbered: InSequence, with the same last number Messages in every call.
	Numbered bool
	Messages int64
	// Silent: every call was answered, and showed no message that could be numbered or
	// compared.
	Silent bool
	// Totals: each message names the number of messages, and truly.
	Totals bool
	// IDs: every call committed an event id. Primed: its first event was one with an
	// id and empty data. SSE: every answer was an event stream.
	IDs, Primed, SSE bool
	// Longest is the time from the request to the end of the longest call.
	Longest time.Duration
	// ByCall are the facts of each call of the profile, by history.Exchange.Call.
	ByCall []CallFacts
}

// CallFacts are what the control calls teach of one call of the profile. The fields are
// those of [Facts].
type CallFacts struct {
	Calls, Answered, Complete    int
	InSequence, Numbered, Silent bool
	Messages                     int64
	Totals                       bool
	Longest                      time.Duration
}

// Call returns the facts of one call of the profile; without a control call of it
// all are false.
func (f Facts) Call(i int) CallFacts {
	if i < 0 || i >= len(f.ByCall) {
		return CallFacts{}
	}
	return f.ByCall[i]
}

// Learn turns the histories of the control calls into facts. Without any call
// all facts are false.
func Learn(calls []ControlStream) Facts {
	f := Facts{Calls: len(calls)}
	if len(calls) == 0 {
		return f
	}
	f.IDs, f.Primed, f.SSE = true, true, true
	var all CallFacts
	for _, c := range calls {
		l := learnCall(c.Records)
		f.IDs = f.IDs && l.ids
		f.Primed = f.Primed && l.primed
		f.SSE = f.SSE && l.sse
		all.add(&l)
		for len(f.ByCall) <= int(l.call) {
			f.ByCall = append(f.ByCall, CallFacts{})
		}
		f.ByCall[l.call].add(&l)
	}
	f.Answered, f.Complete, f.InSequence, f.Numbered, f.Silent = all.Answered, all.Complete, all.InSequence, all.Numbered, all.Silent
	f.Messages, f.Totals, f.Longest = all.Messages, all.Totals, all.Longest
	return f
}

// add takes one more control call into account.
func (f *CallFacts) add(l *learnt) {
	numbered := l.numbered() && l.answered && l.last > 0
	if f.Calls == 0 {
		*f = CallFacts{InSequence: true, Numbered: true, Silent: true, Totals: true, Messages: l.last}
	}
	f.Calls++
	if l.answered {
		f.Answered++
	}
	if numbered {
		f.Complete++
	}
	f.InSequence = f.InSequence && numbered
	f.Numbered = f.Numbered && numbered && l.last == f.Messages
	f.Silent = f.Silent && l.answered && l.silent()
	f.Totals = f.Totals && numbered && l.total == l.last && !l.unsteady
	f.Longest = max(f.Longest, l.took)
	if !f.Numbered {
		f.Messages = 0
	}
}

type learnt struct {
	call                  uint8
	answered, broken, ids bool // broken: no numbering, or not of this call
	primed, sse           bool
	bare                  bool // progress came that carries no number
	unsteady              bool // the total changed from message to message
	other                 bool // numbers came in notifications other than progress
	last, total           int64
	took                  time.Duration
}

// numbered tells that the messages number themselves. A message without a number could
// be lost without a trace, but it does not spoil the numbering of the others: a server
// may log beside its progress, or report progress beside numbered log messages.
func (l *learnt) numbered() bool { return !l.broken && (!l.bare || l.other) }

// silent tells that no message came; log messages that nothing numbers are none.
func (l *learnt) silent() bool { return !l.broken && !l.bare && l.last == 0 }

func learnCall(records []history.Record) learnt {
	var (
		l     learnt
		began time.Duration
	)
	events := 0
	for i := range records {
		r := &records[i]
		switch r.Kind {
		case history.KindAttempt:
			if r.Attempt == 0 {
				began, l.call = r.At, r.Exchange.Call
			}
		case history.KindHead:
			l.sse = l.sse || r.Head.Body == history.BodySSE
		case history.KindEvent:
			e := &r.Event
			if events == 0 {
				l.primed = (e.Class == history.ClassEmpty || e.Class == history.ClassCreate) && e.HasID
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
		l.broken = true
	case e.Class == history.ClassResponse:
		l.answered = true
	case e.Seq > 0:
		l.broken = l.broken || e.Seq != l.last+1 || l.answered
		l.unsteady = l.unsteady || l.last > 0 && e.Total != l.total
		l.last, l.total = e.Seq, e.Total
		l.other = l.other || e.Class != history.ClassProgress
	case e.Class == history.ClassProgress:
		l.bare = true
	}
}
