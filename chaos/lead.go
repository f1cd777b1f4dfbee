package chaos

import "slices"

// leads tells that a resume can follow a fault of the kind at the place: what ends a
// link that had ids, before the response is complete.
func leads(k Kind, p Place) bool {
	return k.ends() && !places[p].resumed && !places[p].fatal && p != AfterResponse
}

// early tells that messages are still to come behind the place, so that the resume
// that follows has something to replay.
func early(p Place) bool { return p == AfterPriming || p == BetweenEvents || p == MidEvent }

// led tells whether every resume place among the faults of a stream has a cut that can
// come before it.
func led(faults []drawn) bool {
	var need, have struct{ cut, early bool }
	for _, f := range faults {
		need.cut = need.cut || places[f.place].resumed
		need.early = need.early || places[f.place].replayed
		if leads(f.fault.Kind, f.place) {
			have.cut = true
			have.early = have.early || early(f.place)
		}
	}
	return (have.cut || !need.cut) && (have.early || !need.early)
}

// lead moves one fault of a stream whose resume places no cut leads to: to a place of
// its own item where it comes first, or needs none. Where the item has none, an opening
// cut has to be added (see arrange).
func (p *Plan) lead(n uint32, faults []drawn) {
	if led(faults) {
		return
	}
	type move struct {
		fault int
		to    Place
	}
	var moves []move
	trial := slices.Clone(faults)
	for i, f := range faults {
		for _, to := range p.load.items[f.item].places {
			once := places[to].once && slices.ContainsFunc(faults, func(g drawn) bool { return g.place == to })
			if places[to].resumed || once || places[to].fatal && f.fault.Kind.ends() && len(faults) > 1 {
				continue
			}
			if trial[i].place = to; led(trial) {
				moves = append(moves, move{i, to})
			}
		}
		trial[i] = f
	}
	if len(moves) > 0 {
		m := moves[draw(p.cfg.Seed, drawLead, uint64(n))%uint64(len(moves))]
		faults[m.fault].place = m.to
	}
}

// leaveOut takes resume places from the items when no stream meets two faults: each
// would need a cut before it that nobody asked for. An item that names nothing else
// keeps them.
func (p *Plan) leaveOut() {
	most := 0
	for _, it := range p.load.items {
		most += it.most()
	}
	if most > 1 {
		return
	}
	for i := range p.load.items {
		it := &p.load.items[i]
		if !slices.ContainsFunc(it.places, func(place Place) bool { return !places[place].resumed }) {
			continue
		}
		it.places = slices.DeleteFunc(it.places, func(place Place) bool {
			if !places[place].resumed {
				return false
			}
			p.skipped = append(p.skipped, Skip{it.fault.Kind, place, "a stream has one fault at most, and a resume needs a cut before it; ask for two per stream, or for nothing but resume places"})
			return true
		})
	}
}
