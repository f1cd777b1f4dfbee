package chaos

// hit resets the link in a storm, from the goroutine of the [Nemesis]; false when it
// carries nothing or was ended already. Its reader reports the injection.
func (l *Link) hit(unplanned bool) bool {
	struck := false
	l.life.change(func() {
		f := &l.life
		if struck = f.carries && f.fate == alive && !f.closed && !f.healed; struck {
			f.fate, f.unplanned = stormFate, unplanned
		}
	})
	if struck {
		kinds[Storm].end.close(l.conn)
		l.leave()
	}
	return struck
}

// struckByStorm tells that a storm has ended the link, and where that was. What had been
// decided to be delivered has been, what was held back is lost.
func (l *Link) struckByStorm() bool {
	if l.nemesis == nil || l.cut != nil || !l.life.stormed() {
		return false
	}
	l.stormCut(l.where())
	return true
}

// stormWrites is the same for a writer, who is told at once.
func (l *Link) stormWrites() {
	place := l.where()
	if place == BeforeFirstID && !l.begun {
		place = Request
	}
	l.stormCut(place)
	l.announce()
}

func (l *Link) stormCut(at Place) {
	in := Injection{
		Kind: Storm, Place: at, Link: l.id, Attempt: l.ex.Attempt, Planned: RunWide,
		AfterID: l.ex.Resume || l.ex.Victim.committed, Ends: true, RunWide: true,
	}
	if l.life.stormedUnplanned() {
		in.Planned = Unplanned
	}
	e, whole := l.scan.Event(), int(l.scan.Events())
	switch {
	case int(e.Ordinal) > whole && l.holding: // none of it is delivered
		in.Event = e.Ordinal
	case int(e.Ordinal) >= whole:
		in.Event, in.Offset = e.Ordinal, uint32(e.Bytes)
	default:
		in.Event = uint32(whole)
	}
	in.InReplay = l.ex.Resume && l.now.missed > 0 && whole < l.now.missed
	l.cut = &cut{injection: in, err: l.cutError(kinds[Storm].end)}
	l.watching, l.holding, l.heading, l.held = false, false, false, nil
}

// where names the position that the link has come to.
func (l *Link) where() Place {
	e, whole := l.scan.Event(), int(l.scan.Events())
	open := int(e.Ordinal) > whole && !l.holding && e.Bytes > 0
	switch {
	case l.ex.Get:
		return GetStream
	case !l.headed && l.ex.Resume:
		return ResumeBeforeHeaders
	case !l.headed:
		return BeforeFirstID
	case open && e.Response:
		return MidResponse
	case open:
		return MidEvent
	case l.now.answered:
		return AfterResponse
	case whole == 0 && l.ex.Resume:
		return ResumeBeforeFirstEvent
	case whole == 0:
		return BeforeFirstID
	case !l.ex.Resume && whole == 1 && int(e.Ordinal) == 1 && e.Priming():
		return AfterPriming
	case l.ex.Resume && whole < l.now.missed:
		return MidReplay
	case l.ex.Expected > 0 && l.ex.Delivered+l.messages >= l.ex.Expected:
		return BeforeResponse
	}
	return BetweenEvents
}
