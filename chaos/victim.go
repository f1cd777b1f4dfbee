package chaos

// A Victim is one stream's share of the plan: which of its faults are still to come.
// It belongs to the goroutine that reads the stream.
type Victim struct {
	faults []pending
	left   int
	// committed: an id of this stream has been delivered and its event completed.
	committed bool
}

type pending struct {
	Planned
	struck bool
}

// Planned returns how many faults were planned for the stream.
func (v *Victim) Planned() int {
	if v == nil {
		return 0
	}
	return len(v.faults)
}

// Left returns how many of them have not struck.
func (v *Victim) Left() int {
	if v == nil {
		return 0
	}
	return v.left
}

// decision is which fault strikes and after how many bytes of the current event.
type decision struct {
	fault *pending
	index int
	at    int
}

// decide asks every fault that is left. The earliest position wins, and at the same
// position the one planned first. legalEnd says whether the body can be ended legally
// at any byte.
func (v *Victim) decide(now *view, legalEnd bool) (decision, bool) {
	var d decision
	if now.answered {
		return d, false
	}
	for i := range v.faults {
		f := &v.faults[i]
		if !f.read() || !now.carries(f.Place) || kinds[f.Kind].end.Legal && !legalEnd {
			continue
		}
		at, ok := places[f.Place].strikes(now, &f.Planned)
		if ok && (d.fault == nil || at < d.at) {
			d = decision{fault: f, index: i, at: at}
		}
	}
	return d, d.fault != nil
}

// read tells that the fault is still to come and strikes while a response is read.
func (f *pending) read() bool {
	return !f.struck && !places[f.Place].written && kinds[f.Kind].answers == nil
}

// writing returns the fault, if any, that strikes while the request is written, after
// at of its size bytes: one inside it, or one that keeps it from being sent.
func (v *Victim) writing(now *view, size int) (decision, bool) {
	for i := range v.faults {
		f := &v.faults[i]
		switch {
		case f.struck || !now.carries(f.Place):
		case places[f.Place].written && !now.resume:
			return decision{f, i, int(f.Offset * float64(size))}, true
		case kinds[f.Kind].answers != nil && due(now, &f.Planned):
			return decision{f, i, 0}, true
		}
	}
	return decision{}, false
}

// holds tells whether any fault that is left needs the event that begins held back.
func (v *Victim) holds(now *view) bool {
	for i := range v.faults {
		f := &v.faults[i]
		if holds := places[f.Place].holds; f.read() && holds != nil && now.carries(f.Place) && holds(now, &f.Planned) {
			return true
		}
	}
	return false
}

// holdsHead tells whether any needs the head of the response held back.
func (v *Victim) holdsHead(now *view) bool {
	for i := range v.faults {
		if f := &v.faults[i]; f.read() && f.Place == Headers && now.carries(Headers) && !now.resume {
			return true
		}
	}
	return false
}

// over tells that nothing that is left can strike in this exchange any more.
func (v *Victim) over(now *view) bool {
	if v.left == 0 || now.answered {
		return true
	}
	for i := range v.faults {
		f := &v.faults[i]
		if !f.read() || !now.carries(f.Place) {
			continue
		}
		if over := places[f.Place].over; over == nil || !over(now, &f.Planned) {
			return false
		}
	}
	return true
}

// Stalls tells whether the stream's reader is still to stop reading, which bites only
// through small buffers. A [Link] makes those at our end.
func (v *Victim) Stalls() bool {
	if v == nil {
		return false
	}
	for i := range v.faults {
		if f := &v.faults[i]; !f.struck && f.Kind == Stall {
			return true
		}
	}
	return false
}

// wantsLegalEnd tells whether a fault that is left needs the body re-framed.
func (v *Victim) wantsLegalEnd() bool {
	for i := range v.faults {
		if f := &v.faults[i]; !f.struck && kinds[f.Kind].end.Legal {
			return true
		}
	}
	return false
}

func (v *Victim) strike(f *pending) {
	f.struck = true
	v.left--
}

// spare takes a strike back whose position nobody has come to.
func (v *Victim) spare(i int) {
	v.faults[i].struck = false
	v.left++
}
