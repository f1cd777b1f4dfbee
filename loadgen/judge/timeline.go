package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// Caps of the steps kept per stream.
const (
	maxSteps  = 96 // past it, steps without a mark are dropped from the middle
	keepFirst = 16 // how many of the first steps always stay
	maxMarks  = 24 // marks written out; further findings are only counted
)

// A step is one line of a timeline, packed: a healthy stream has a handful.
type step struct {
	at, until    time.Duration
	a, b         int64 // messages: first, last; request: asked, waited; fault: event, offset
	count        uint32
	link, cursor uint32
	omitted      uint32 // steps dropped before this one
	attempt      uint16
	code         uint16 // head: status; fault: strike; end: End; settled: Outcome
	mark         uint8  // index+1 in marks
	kind         stepKind
	note         note
	body         history.Body
	probe        history.ProbeName
	end          history.End
}

type stepKind uint8

const (
	stepRequest stepKind = iota
	stepHead
	stepPriming
	stepMessages
	stepOther
	stepResponse
	stepFault
	stepEnd
	stepSettled
	stepProbe
)

// A note says what is special about the messages of a step.
type note uint8

const (
	noteNone note = iota
	noteAgain
	noteBehind
	noteForeign
	noteLate
)

// A timeline is the compact story of a stream: runs of consecutive events are one
// step, so that its length follows the cuts, not the messages.
type timeline struct {
	steps []step
	marks []string
}

// event adds the event at hand, or lengthens the run that it continues.
func (t *timeline) event(s *Stream, r *history.Record) {
	e, n := &r.Event, &s.now
	st := step{at: r.At, until: r.At, count: 1, link: r.Link, attempt: r.Attempt, cursor: e.Cursor, kind: stepOther}
	switch {
	case e.Late:
		st.note = noteLate
	case !n.own:
		st.note = noteForeign
	case n.standing == repeated:
		st.note = noteAgain
	case n.standing == behind:
		st.note = noteBehind
	}
	switch {
	case n.response:
		st.kind = stepResponse
	case e.Class == history.ClassEmpty, e.Class == history.ClassCreate:
		st.kind = stepPriming
	case e.Seq > 0:
		st.kind, st.a, st.b = stepMessages, e.Seq, e.Seq
	}
	if n.jumped > 0 {
		n.mark = joinMark(expectedMark(n.jumped), n.mark)
	}
	if t.lengthen(&st, n.mark) {
		return
	}
	t.add(st, n.mark)
}

// lengthen joins st to the last step where it continues its run: a mark begins a new
// one, unless the run already bears it.
func (t *timeline) lengthen(st *step, mark string) bool {
	if len(t.steps) == 0 || st.kind == stepResponse {
		return false
	}
	last := &t.steps[len(t.steps)-1]
	if last.kind != st.kind || last.link != st.link || last.attempt != st.attempt || last.note != st.note {
		return false
	}
	if mark != "" && (last.mark == 0 || t.marks[last.mark-1] != mark) || st.kind == stepMessages && st.a != last.b+1 {
		return false
	}
	last.b, last.until, last.cursor = st.b, st.at, st.cursor
	last.count++
	return true
}

// fact adds what is not an event.
func (t *timeline) fact(s *Stream, r *history.Record) {
	st := step{at: r.At, until: r.At, count: 1, link: r.Link, attempt: r.Attempt, cursor: s.cursor}
	switch r.Kind {
	case history.KindAttempt:
		st.kind, st.a, st.b = stepRequest, int64(r.Exchange.Asked), int64(r.Exchange.Waited)
		st.cursor = r.Exchange.Cursor
	case history.KindHead:
		st.kind, st.code, st.body = stepHead, uint16(r.Head.Status), r.Head.Body
		st.a = int64(r.Head.Missed)
	case history.KindInjection:
		st.kind, st.code = stepFault, s.faults.last
		st.a, st.b = int64(r.Injection.Event), int64(r.Injection.Offset)
	case history.KindEnd:
		st.kind, st.code = stepEnd, uint16(r.End)
	case history.KindSettled:
		st.kind, st.code = stepSettled, uint16(r.Outcome)
	case history.KindProbe:
		p := &r.Probe
		if !p.Offered {
			return
		}
		st.kind, st.code, st.probe, st.end = stepProbe, uint16(p.Status), p.Name, p.End
		st.a, st.b, st.until = int64(p.Messages), int64(p.Want), r.At
		st.at = r.At - p.Took
	default:
		t.markLast(s.now.mark)
		return
	}
	t.add(st, s.now.mark)
}

func (t *timeline) add(st step, mark string) {
	if len(t.steps) >= maxSteps {
		t.drop()
	}
	if mark != "" && len(t.marks) < maxMarks {
		t.marks = append(t.marks, mark)
		st.mark = uint8(len(t.marks))
	}
	t.steps = append(t.steps, st)
}

// drop removes the older half of the middle, except for steps with a mark.
func (t *timeline) drop() {
	middle := t.steps[keepFirst : maxSteps-keepFirst]
	kept := keepFirst
	omitted := uint32(0)
	for i := range middle {
		if middle[i].mark == 0 && i < len(middle)/2 {
			omitted += 1 + middle[i].omitted
			continue
		}
		t.steps[kept] = middle[i]
		t.steps[kept].omitted += omitted
		omitted = 0
		kept++
	}
	kept += copy(t.steps[kept:], t.steps[maxSteps-keepFirst:])
	if kept == maxSteps { // every step is marked: let the newest go
		kept--
	}
	t.steps = t.steps[:kept]
}

// markLast adds a mark to the last step.
func (t *timeline) markLast(mark string) {
	if mark == "" || len(t.steps) == 0 || len(t.marks) >= maxMarks {
		return
	}
	last := &t.steps[len(t.steps)-1]
	if last.mark > 0 {
		mark = joinMark(t.marks[last.mark-1], mark)
	}
	t.marks = append(t.marks, mark)
	last.mark = uint8(len(t.marks))
}

const (
	markSep   = "; "
	markTimes = " ×"
)

// joinMark writes marks one after the other, the same ones once, with their number.
func joinMark(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	marks := strings.Split(a, markSep)
	for _, mark := range strings.Split(b, markSep) {
		name, n := countedMark(mark)
		i := slices.IndexFunc(marks, func(m string) bool { other, _ := countedMark(m); return other == name })
		if i < 0 {
			marks = append(marks, mark)
			continue
		}
		_, before := countedMark(marks[i])
		marks[i] = name + markTimes + strconv.Itoa(before+n)
	}
	return strings.Join(marks, markSep)
}

// countedMark divides a mark into its name and how often it was made.
func countedMark(mark string) (name string, n int) {
	name, times, found := strings.Cut(mark, markTimes)
	if n, err := strconv.Atoi(times); found && err == nil {
		return name, n
	}
	return mark, 1
}

// A Step is one line of a stream's timeline.
type Step struct {
	// Kind is request, head, priming, messages, other, response, fault, end, settled or
	// probe.
	Kind string
	// At is when the step began, Until when the last event of a run came.
	At, Until time.Duration
	Link      uint32
	Attempt   int
	// Cursor is the ordinal of the last committed id after the step, for a request the
	// one it was sent with.
	Cursor uint32
	// Omitted counts steps that were dropped before this one.
	Omitted int

	// Request. Resume tells a GET with a cursor from the POST; Asked is the
	// reconnection time that the server announced, Waited how long the client waited.
	// Get tells that the stream began with a GET as well.
	Resume, Get   bool
	Asked, Waited time.Duration
	// Head. Body is none, sse, json or other; Missed is -1 when the target does not
	// say what it will replay. Retry is what it was found to ask for, when a later
	// request shows it.
	Status int
	Body   string
	Missed int
	Retry  time.Duration
	// Messages, other, response, priming. First and Last are message numbers, 0 without
	// a numbering; Note is "", again, behind, foreign or late.
	First, Last int64
	Count       int
	Note        string
	// Fault. Event is the ordinal on the link of the event that was struck, Offset the
	// number of its bytes that were delivered.
	Fault, Place  string
	Event, Offset int64
	// End and Outcome name how the exchange and the stream ended.
	End, Outcome string
	// Probe names an extra exchange; Status and End are its own, Count the messages that
	// came as they had to, Want those that had to come.
	Probe string
	Want  int
	// Mark says what is wrong here, "" when nothing is.
	Mark string
}

// export renders the steps as plain values.
func (t *timeline) export(s *Stream) []Step {
	out := make([]Step, 0, len(t.steps))
	head := -1
	for i := range t.steps {
		st := &t.steps[i]
		x := Step{Kind: st.kind.String(), At: st.at, Until: st.until, Link: st.link, Attempt: int(st.attempt),
			Cursor: st.cursor, Omitted: int(st.omitted), Count: int(st.count)}
		if st.mark > 0 {
			x.Mark = t.marks[st.mark-1]
		}
		switch st.kind {
		case stepRequest:
			x.Resume, x.Get = st.attempt > 0, s.hears()
			x.Asked, x.Waited = time.Duration(st.a), time.Duration(st.b)
			if head >= 0 {
				out[head].Retry = x.Asked
			}
		case stepHead:
			x.Status, x.Body, x.Missed = int(st.code), bodyName(st.body), int(st.a)
			head = len(out)
		case stepFault:
			k := &s.faults.kinds[st.code-1]
			x.Fault, x.Place, x.Event, x.Offset = k.kind, k.place, st.a, st.b
		case stepEnd:
			x.End = endName(history.End(st.code))
		case stepProbe:
			x.Probe, x.Status, x.End = probeName(st.probe), int(st.code), endName(st.end)
			x.Count, x.Want = int(st.a), int(st.b)
		case stepSettled:
			x.Outcome = outcomeName(history.Outcome(st.code))
		default:
			x.First, x.Last, x.Note = st.a, st.b, st.note.String()
		}
		out = append(out, x)
	}
	return slices.Clip(out)
}
