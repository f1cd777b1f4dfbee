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
	queued := l.holding || l.reframe
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
		queued = queued || l.holding || l.reframe
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
	case l.holding:
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
		head := l.scan.Head()
		l.now.missed = head.Missed
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
	l.watching = l.reframe || !idle
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

// release queues the held event for delivery.
func (l *Link) release() {
	if !l.holding {
		return
	}
	l.holding = false
	if l.reframe {
		l.out = appendChunk(l.out, l.held)
	} else {
		l.out = append(l.out, l.held...)
	}
	l.held = l.held[:0]
}

// view is what the faults are asked about. What stays the same during an exchange is
// set by Begin, what the head says by marked.
func (l *Link) view(m moment) *view {
	v := &l.now
	v.moment = m
	v.event = l.scan.Event()
	v.delivered = l.ex.Delivered + l.messages
	return v
}

// ask lets the faults decide and cuts the link if one of them strikes.
func (l *Link) ask(v *view) bool {
	d, ok := l.ex.Victim.decide(v, l.reframe || l.scan.Head().Framing == scan.FramingClose)
	if !ok {
		return false
	}
	end := kinds[d.fault.Kind].end
	if v.moment == insideEvent {
		l.keep(d.at)
	}
	c := &cut{injection: l.injection(v, d), err: l.cutError(end)}
	if end.Legal && l.reframe {
		c.tail = []byte(lastChunk)
	}
	l.ex.Victim.strike(d.fault)
	l.cut, l.watching, l.holding, l.held = c, false, false, nil
	end.close(l.conn)
	return true
}

// keep queues the first n bytes of the held event. Where the framing is the target's
// own, they may be spread over several chunks: the saved scanner finds them again.
func (l *Link) keep(n int) {
	if l.reframe {
		if n > 0 {
			l.out = appendChunk(l.out, l.held[:n])
		}
		return
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
}

func (l *Link) injection(v *view, d decision) Injection {
	in := Injection{
		Kind: d.fault.Kind, Place: d.fault.Place, Link: l.id, Attempt: l.ex.Attempt, Planned: d.index,
		Event: v.event.Ordinal, Opening: d.fault.Opening,
		AfterID: l.ex.Resume || l.ex.Victim.committed,
	}
	whole := int(in.Event) // events delivered whole on this link
	switch v.moment {
	case eventEnd:
		in.Offset = uint32(v.event.Bytes)
	case insideEvent:
		in.Offset = uint32(d.at)
		whole--
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
