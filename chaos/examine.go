package chaos

import (
	"strconv"

	"github.com/gapless-dev/gapless/chaos/scan"
)

// examine looks at bytes that have just arrived and returns how many at the front of
// p may be delivered in place. The others have been queued in out, are held back, or
// lie behind a cut and are forgotten.
func (l *Link) examine(p []byte) (direct int) {
	if !l.begun {
		l.begun = true
		if l.ask(l.view(firstByte)) {
			return 0
		}
	}
	queued := l.holding || l.heading || l.reframe
	for i := 0; i < len(p); {
		n, payload, mark := l.scan.Next(p[i:l.lookTo(i, len(p))])
		b := p[i : i+n]
		i += n
		if queued {
			l.queue(b, payload)
		} else {
			direct += n
		}
		if mark != scan.None && l.marked(mark) || l.holding && l.full() {
			return direct
		}
		queued = queued || l.holding || l.reframe || len(l.pauses) > 0
		if !l.watching {
			return direct + l.rest(p[i:], queued)
		}
	}
	return direct
}

// lookTo ends a look at the byte that fills the hold, so that an oversized event is
// decided on the same bytes however it arrives.
func (l *Link) lookTo(from, to int) int {
	if l.holding {
		return min(to, from+maxHold-l.scan.Event().Bytes)
	}
	return to
}

// queue keeps bytes that cannot be delivered in place.
func (l *Link) queue(b []byte, payload bool) {
	switch {
	case l.reframe && !payload:
	case l.holding || l.heading:
		l.held = append(l.held, b...)
	case l.reframe:
		l.out = appendChunk(l.out, b)
	default:
		l.out = append(l.out, b...)
	}
}

// rest passes on what follows the last position at which a fault could strike.
func (l *Link) rest(p []byte, queued bool) int {
	if !queued {
		return len(p)
	}
	l.out = append(l.out, p...)
	return 0
}

// marked acts on a mark and tells whether the link was cut there.
func (l *Link) marked(m scan.Mark) bool {
	switch m {
	case scan.HeadDone:
		if l.heading && l.headHeld() {
			return true
		}
		head := l.scan.Head()
		l.now.missed, l.headed = head.Missed, true
		l.reframe = head.SSE && head.Framing == scan.FramingChunked && l.ex.Victim.wantsLegalEnd()
		l.settle(l.view(headDone))
	case scan.EventStart:
		v := l.view(eventStart)
		if l.ask(v) {
			return true
		}
		if l.ex.Victim.holds(v) {
			l.holding, l.heldFrom = true, l.scan
		}
	case scan.BlockEnd:
		l.release()
	case scan.EventEnd:
		return l.eventEnded()
	case scan.BodyEnd, scan.Broken:
		l.bodyEnded(m)
	}
	if l.scan.Done() {
		l.bodyEnded(scan.BodyEnd)
	}
	return false
}

// full decides on an event that is too long to be held until it is complete.
func (l *Link) full() bool {
	if l.scan.Event().Bytes < maxHold {
		return false
	}
	if l.ask(l.view(insideEvent)) {
		return true
	}
	l.release()
	return false
}

func (l *Link) eventEnded() bool {
	if l.holding {
		if l.ask(l.view(insideEvent)) {
			return true
		}
		l.release()
	}
	v := l.view(eventEnd)
	if v.event.HasID {
		l.ex.Victim.committed = !v.event.EmptyID
	}
	if v.event.Message() {
		l.messages++
		v.delivered++
	}
	if l.ask(v) {
		return true
	}
	v.answered = v.answered || v.event.Response
	if l.others > 0 && l.scan.Event().Response {
		l.others--
	}
	l.settle(v)
	if l.scan.Done() {
		l.bodyEnded(scan.BodyEnd)
	}
	return false
}

// settle stops watching when nothing can strike in this exchange any more. A body
// that is being re-framed has to be followed to its end.
func (l *Link) settle(v *view) {
	idle := v.moment == headDone && !l.scan.Head().SSE || l.ex.Victim.over(v)
	l.watching = l.reframe || l.following || !idle
}

// bodyEnded ends a re-framed body the way the real one ended. Broken framing must
// stay broken: a byte that no chunk may begin with goes before what follows.
func (l *Link) bodyEnded(m scan.Mark) {
	l.release()
	if l.reframe {
		if m == scan.Broken {
			l.out = append(l.out, '!')
		} else {
			l.out = append(l.out, lastChunk...)
		}
		// What follows is not ours to frame; it is queued behind, as it is.
		l.reframe = false
	}
	l.watching = false
}

// release queues the held event, or the held head, for delivery.
func (l *Link) release() {
	if !l.holding && !l.heading {
		return
	}
	l.holding, l.heading = false, false
	if l.reframe {
		l.out = appendChunk(l.out, l.held)
	} else {
		l.out = append(l.out, l.held...)
	}
	l.held = l.held[:0]
}

// headHeld lets the faults decide on a head that is complete and tells whether the link
// was cut in it.
func (l *Link) headHeld() bool {
	v := l.view(insideHead)
	v.head = len(l.held)
	if l.ask(v) {
		return true
	}
	l.release()
	return false
}

// view is what the faults are asked about. What stays the same during an exchange is
// set by Begin, what the head says by marked.
func (l *Link) view(m moment) *view {
	v := &l.now
	v.moment = m
	v.event = l.scan.Event()
	if v.event.Response && l.others > 0 {
		v.event.Response, v.event.Named = false, true // it carries nothing of the call
	}
	v.delivered = l.ex.Delivered + l.messages
	return v
}

// ask lets the faults decide and tells whether the link was cut by one of them.
func (l *Link) ask(v *view) bool {
	d, ok := l.ex.Victim.decide(v, l.reframe || l.scan.Head().Framing == scan.FramingClose)
	if !ok || !l.active() {
		return false
	}
	if kinds[d.fault.Kind].lasts != nil {
		l.interrupt(v, d)
		return false
	}
	l.sever(v, d)
	return true
}

// active tells whether faults may strike now.
func (l *Link) active() bool {
	return !l.life.isHealed() && (l.nemesis == nil || l.nemesis.active())
}

// interrupt notes where among the bytes that wait a lasting fault begins.
func (l *Link) interrupt(v *view, d decision) {
	in := l.injection(v, d)
	l.ex.Victim.strike(d.fault)
	if v.moment == insideEvent || v.moment == insideHead {
		n := l.keep(d.at)
		l.held = append(l.held[:0], l.held[n:]...)
	}
	l.pauses = append(l.pauses, pause{at: len(l.out), fault: d.fault.Planned, injection: in})
}

// sever cuts the link at the position. Behind what waits for a lasting fault the
// connection lives on until the reader gets there.
func (l *Link) sever(v *view, d decision) {
	end := kinds[d.fault.Kind].end
	mine := l.life.claim() // else a storm was first, and has its position from the scanner
	if mine {
		if v.moment == insideEvent || v.moment == insideHead {
			l.keep(d.at)
		}
		c := &cut{injection: l.injection(v, d), err: l.cutError(end), silent: end.Silent, swallows: end.Silent}
		if end.Legal && l.reframe {
			c.tail = []byte(lastChunk)
		}
		l.ex.Victim.strike(d.fault)
		l.cut, l.holding, l.heading, l.held = c, false, false, nil
	}
	l.watching = false
	switch {
	case mine && len(l.pauses) > 0:
		l.cut.end = &end
	case mine:
		l.finish(end)
	}
}

// finish does to the connection what its cut demands.
func (l *Link) finish(end End) {
	if end.Silent {
		l.silence(l.cut.injection.For)
		return
	}
	end.close(l.conn)
	l.leave()
}

// keep queues the first n bytes of the held event. Where the framing is the target's
// own, they may be spread over several chunks: the saved scanner finds them again. It
// returns how many of the held bytes that took.
func (l *Link) keep(n int) int {
	if l.reframe {
		l.out = appendChunk(l.out, l.held[:n])
		return n
	}
	if l.heading {
		l.out = append(l.out, l.held[:n]...)
		return n
	}
	s, raw := l.heldFrom, 0
	for n > 0 && raw < len(l.held) {
		k, payload, _ := s.Next(l.held[raw:])
		if payload && k > n {
			k = n
		}
		if payload {
			n -= k
		}
		raw += k
	}
	l.out = append(l.out, l.held[:raw]...)
	return raw
}

func (l *Link) injection(v *view, d decision) Injection {
	in := Injection{
		Kind: d.fault.Kind, Place: d.fault.Place, Link: l.id, Attempt: l.ex.Attempt, Planned: d.index,
		Event: v.event.Ordinal, Opening: d.fault.Opening,
		AfterID: l.ex.Resume || l.ex.Victim.committed,
		For:     d.fault.For, Ends: d.fault.Kind.ends(),
	}
	whole := int(in.Event) // events delivered whole on this link
	switch v.moment {
	case eventEnd:
		in.Offset = uint32(v.event.Bytes)
	case insideEvent:
		in.Offset = uint32(d.at)
		whole--
	case insideHead:
		in.Offset = uint32(d.at)
	case firstByte, eventStart:
		whole--
	}
	if places[d.fault.Place].early {
		in.Event = 0
	}
	in.InReplay = l.ex.Resume && v.missed > 0 && whole < v.missed
	return in
}

// appendChunk appends b as one chunk; nothing for nothing, which would end the body.
func appendChunk(out, b []byte) []byte {
	if len(b) == 0 {
		return out
	}
	out = strconv.AppendInt(out, int64(len(b)), 16)
	out = append(out, "\r\n"...)
	out = append(out, b...)
	return append(out, "\r\n"...)
}
