package loadgen

import (
	"context"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// read reads an event stream to its end, or until its time is over. The cursor moves
// inside rd and nowhere else; Reset with its own cursor says that it stays.
func (s *stream) read(ctx context.Context, resp *wire.Response) history.End {
	s.commits += uint32(s.rd.Committed())
	s.rd.Reset(resp, s.rd.Cursor())
	resp.DropHead()
	var ev wire.Event
	for {
		err := s.rd.Next(&ev)
		if s.rd.Committed() > 0 {
			s.gained = true
		}
		if err != nil {
			s.back.announced(s.rd.Retry())
			return s.broken(err)
		}
		s.event(ctx, &ev, string(ev.Type) == "message", s.l.at)
	}
}

// readJSON takes a body that is one message.
func (s *stream) readJSON(ctx context.Context, resp *wire.Response) history.End {
	data, err := resp.ReadAll(s.r.eventLimit())
	if err != nil {
		return s.broken(err)
	}
	s.event(ctx, &wire.Event{Data: data}, true, s.l.at)
	return history.EndClean
}

// event takes one dispatched event: what it is, whose, and what follows from it.
func (s *stream) event(ctx context.Context, ev *wire.Event, message bool, at time.Duration) {
	e := &s.rec.Event
	*e = history.Event{
		Illegal: history.Illegal(ev.Illegal), Bytes: uint32(len(ev.Data)),
		HasID: ev.HasID, Cursor: s.ordinal(),
	}
	if ev.HasID {
		e.IDHash = xxhash.Sum64(ev.ID)
	}
	s.num.own = false
	switch {
	case len(ev.Data) == 0 && (message || ev.HasID):
		e.Class = history.ClassEmpty // a priming event, whatever its type (2025-11-25 transports, Sending Messages 6)
	case !message:
		e.Class = history.ClassOther
	default:
		s.scan(e, ev.Data)
		if s.sess.batches && e.Illegal == history.IllegalBatch {
			s.elements(ctx, ev.Data, at)
			return
		}
		s.show(ev.Data)
	}
	s.tell(ctx, at)
}

// tell reports the event as it was scanned and does what it asks for.
func (s *stream) tell(ctx context.Context, at time.Duration) {
	e := &s.rec.Event
	if !s.drops(e.Class) {
		s.report(history.KindEvent, at)
	}
	if s.sample != nil {
		s.sample.note(s, e)
	}
	*e = history.Event{Class: e.Class} // what follows needs no more of it
	s.follow(ctx, e.Class, at)
	*e = history.Event{}
}

// elements takes the messages of a batch one by one. The first of them stands for the
// event id: an id names one event.
func (s *stream) elements(ctx context.Context, batch []byte, at time.Duration) {
	e := &s.rec.Event
	next := history.Event{HasID: e.HasID, IDHash: e.IDHash, Cursor: e.Cursor}
	none := true
	s.several = true
	defer func() { s.several = false }()
	for data := range wire.Elements(batch) {
		none = false
		*e, next = next, history.Event{Cursor: next.Cursor}
		e.Bytes = uint32(len(data))
		s.scan(e, data)
		s.show(data)
		s.tell(ctx, at)
	}
	if none { // JSON-RPC 2.0 §6: an empty array is no batch
		e.Illegal = history.IllegalRPC
		s.tell(ctx, at)
	}
}

// scan fills in what the message says.
func (s *stream) scan(e *history.Event, data []byte) {
	m := &s.msg
	if f := s.num.found; f != nil {
		s.num.paths.Scan(data, m, f)
	} else {
		wire.Scan(data, m)
	}
	s.num.own, s.num.seq = false, 0
	e.Illegal |= history.Illegal(m.Illegal)
	e.Hash = wire.Hash(data, m)
	switch m.Kind {
	case wire.KindRequest:
		e.Class = history.ClassRequest
	case wire.KindNotification:
		if s.frames(e, data) {
			return
		}
		e.Class = history.ClassNotification
	case wire.KindResult, wire.KindError:
		if s.answersResume(e, data) {
			return
		}
		if s.ours(m.ID) {
			e.Class, e.Owner = history.ClassOther, history.OwnerSelf
			return
		}
		e.Class = history.ClassResponse
		if m.Kind == wire.KindError {
			e.Class = history.ClassError
		}
		e.Owner, e.OwnerStream = s.ownerOfResponse(m)
		if s.a.Kind != history.StreamCanary {
			s.r.complaints.hear(m, data)
		}
		return
	default:
		e.Class = history.ClassJunk
		return
	}
	if len(m.Token) > 0 {
		e.Owner, e.OwnerStream = s.ownerOfMark(m.Token)
	}
	if m.IsProgress() {
		e.Class = history.ClassProgress
		e.Ordered, e.Progress = m.HasProgress, m.Progress
	}
	if m.Kind == wire.KindNotification {
		s.number(e, data)
	}
}

// ours reports whether a request that is no call has this id: its answer is nobody's
// message, wherever it comes. It notes that of the ping that was sent along with the call.
func (s *stream) ours(id []byte) bool {
	switch string(id) {
	case `"init"`:
		return !s.r.c.Modern
	case `"discover"`:
		return s.r.c.Modern
	case `"probe"`:
		return s.r.asked.Load()
	}
	if !s.r.c.Batches || !s.sess.batches || len(id) < 4 || string(id[:2]) != `"p` {
		return false
	}
	call := string(id[2 : len(id)-1])
	if s.pinged && call == s.id {
		s.ponged = true
		return true
	}
	n, err := strconv.ParseUint(call, 10, 64)
	return err == nil && 0 < n && n <= s.sess.requests.Load() // the ping of a sibling
}

func (s *stream) ownerOfMark(mark []byte) (history.Owner, uint32) {
	if string(mark) == s.token {
		return history.OwnerSelf, 0
	}
	return s.r.marks.owner(mark, s.a.Session)
}

// ownerOfResponse goes by the mark in the result, which is worth more than the id
// since all sessions use the same ids; without one by the id.
func (s *stream) ownerOfResponse(m *wire.Message) (history.Owner, uint32) {
	if len(m.Mark) > 0 {
		owner, stream := s.ownerOfMark(m.Mark)
		if owner != history.OwnerSelf || string(m.ID) == s.id {
			return owner, stream
		}
	}
	switch n, ok := m.IDInt(); {
	case m.ID == nil:
		return history.OwnerUnmarked, 0
	case string(m.ID) == s.id:
		return history.OwnerSelf, 0
	case ok && n > 0 && uint64(n) <= s.sess.requests.Load():
		return history.OwnerOtherStream, 0
	}
	return history.OwnerNobody, 0
}

// drops reports whether the canary loses this event: parsed and never reported. It
// loses one, the first time that it comes.
func (s *stream) drops(c history.Class) bool {
	if s.dropAt == 0 || s.dropped {
		return false
	}
	switch c {
	case history.ClassProgress, history.ClassNotification:
		s.dropped = s.num.own && s.dropAt == s.seen+1
	case history.ClassResponse, history.ClassError:
		s.dropped = s.dropAt < 0
	}
	return s.dropped
}

// follow does what an event asks for, after it was reported.
func (s *stream) follow(ctx context.Context, c history.Class, at time.Duration) {
	s.arm()
	s.events++
	if s.attempt > 0 && s.events == 1 {
		s.measure(ResumeFirstEvent, at-s.headAt)
	}
	s.caughtUp(at)
	if s.framed(c, at) {
		return
	}
	was := s.done()
	switch c {
	case history.ClassEmpty, history.ClassOther, history.ClassJunk:
		return
	case history.ClassRequest:
		s.respond(ctx)
	case history.ClassProgress, history.ClassNotification:
		if s.num.own { // a stream carries what it likes besides
			s.advance()
			s.heardOn = true
		}
	case history.ClassResponse, history.ClassError:
		if string(s.msg.ID) == s.id && !s.responded {
			s.responded = true
			s.refusedCall = c == history.ClassError
			s.measure(Completion, at-s.a.Due)
		}
	}
	s.heard = at
	if s.l != nil {
		if !was && s.done() {
			s.l.limit(limits{until: at + s.r.c.Tail, end: history.EndOpen})
		}
		s.l.lim.since = at
	}
	s.gained, s.mattered = true, true
	switch {
	case !s.begun:
		s.measure(FirstEvent, at-s.a.Due)
	case s.lastEvent > 0:
		s.measure(EventGap, at-s.lastEvent)
	}
	s.begun, s.lastEvent = true, at
	if s.cancelAt > 0 && s.seen >= s.cancelAt && !s.responded {
		s.cancel(ctx)
	}
	if at != s.noted {
		s.note()
		s.noted = at
	}
	s.delivered++
}

// arm brings the deadline of the link forward to the idle limit, once there is a cursor to
// resume from. Later the limit moves with every message, and the deadline of the link
// only when it has passed.
func (s *stream) arm() {
	if s.l == nil || s.r.c.UMCP {
		return
	}
	lim := &s.l.lim
	if lim.idle == 0 && !s.done() && !s.cancelled && len(s.rd.Cursor()) > 0 {
		lim.idle, lim.since = s.r.c.Idle, s.r.now()
		s.l.limit(*lim)
	}
}

// caughtUp notes when everything missed has come.
func (s *stream) caughtUp(at time.Duration) {
	if s.attempt == 0 || s.back.cut == 0 {
		return
	}
	if s.missed == s.events || s.missed < 0 && s.events == 1 {
		s.measure(ResumeCaughtUp, at-s.back.cut)
		s.back.cut = 0
	}
}

// note adds what was delivered to the live counters: once for each read.
func (s *stream) note() {
	if s.delivered > 0 && s.a.Kind != history.StreamCanary {
		s.r.c.Live.delivered.Add(s.delivered)
	}
	s.delivered = 0
}

// respond answers a request of the target: a ping with an empty result, all others
// with "method not found", since this client offers nothing.
func (s *stream) respond(ctx context.Context) {
	b := append([]byte(nil), `{"jsonrpc":"2.0","id":`...)
	b = append(b, s.msg.ID...)
	if string(s.msg.Method) == "ping" {
		b = append(b, `,"result":{}}`...)
	} else {
		b = append(b, `,"error":{"code":-32601,"message":"method not found"}}`...)
	}
	s.sess.answer(ctx, s.deadline, s.msg.ID, b)
}
