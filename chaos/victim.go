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
		if f.struck || kinds[f.Kind].end.Legal && !legalEnd {
			continue
		}
		at, ok := places[f.Place].strikes(now, &f.Planned)
		if ok && (d.fault == nil || at < d.at) {
			d = decision{fault: f, index: i, at: at}
		}
	}
	return d, d.fault != nil
}

// holds tells whether any fault that is left needs the event that begins held back.
func (v *Victim) holds(now *view) bool {
	for i := range v.faults {
		f := &v.faults[i]
		if holds := places[f.Place].holds; !f.struck && holds != nil && holds(now, &f.Planned) {
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
		if over := places[f.Place].over; !f.struck && (over == nil || !over(now, &f.Planned)) {
			return false
		}
	}
	return true
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
