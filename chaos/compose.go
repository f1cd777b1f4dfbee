package chaos

import (
	"cmp"
	"slices"
)

// drawn is a fault of one stream before it has its position.
type drawn struct {
	kind  Kind
	place Place
	// item and slot are its key for all further draws.
	item, slot uint64
}

// Stream returns the faults of one stream, in the order in which they are meant to be
// met; none for streams that are not part of the load.
func (p *Plan) Stream(n uint32) []Planned {
	if n == 0 || int(n) > p.cfg.Streams || len(p.items) == 0 {
		return nil
	}
	faults := p.choose(n)
	p.separate(n, faults)
	p.lead(n, faults)
	if !p.cfg.IDs && len(faults) > 1 {
		// Without ids nothing follows a cut.
		i := draw(p.cfg.Seed, drawOnly, uint64(n)) % uint64(len(faults))
		faults = faults[i : i+1]
	}
	return p.arrange(n, faults)
}

// choose decides how many faults of each item the stream gets and where. Slot k of an
// item deals the streams out in an order of its own; dealing place after place along
// that order spreads them evenly over the run, and a share of the streams is the
// front of the order.
func (p *Plan) choose(n uint32) []drawn {
	var faults []drawn
	streams := uint64(p.cfg.Streams)
	for i, it := range p.items {
		for slot := uint64(0); slot <= it.base; slot++ {
			key := draw(p.cfg.Seed, drawSlot, uint64(i), slot)
			rank := permute(key, uint64(n-1), streams)
			if slot == it.base && rank >= it.extra {
				break
			}
			place := it.places[(slot*streams+rank)%uint64(len(it.places))]
			faults = append(faults, drawn{it.kind, place, uint64(i), slot})
		}
	}
	return faults
}

// separate redraws what would strike twice at a position that a stream has once. Faults
// with the fewest alternatives choose first.
func (p *Plan) separate(n uint32, faults []drawn) {
	order := make([]int, len(faults))
	for i := range order {
		order[i] = i
	}
	choices := func(i int) int { return len(p.items[faults[i].item].places) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(choices(a), choices(b)) })
	var taken [len(places)]bool
	for _, i := range order {
		f := &faults[i]
		if !places[f.place].once {
			continue
		}
		if taken[f.place] {
			f.place = p.redraw(n, *f, &taken)
		}
		taken[f.place] = true
	}
}

func (p *Plan) redraw(n uint32, f drawn, taken *[len(places)]bool) Place {
	var free []Place
	for _, place := range p.items[f.item].places {
		if !taken[place] || !places[place].once {
			free = append(free, place)
		}
	}
	if len(free) == 0 {
		return f.place // without ids only one fault is kept anyway; else checkOnce has refused
	}
	return free[draw(p.cfg.Seed, drawPlace, uint64(n), f.item, f.slot)%uint64(len(free))]
}

// arrange gives every fault its position and puts them in order: the priming event,
// cuts among the messages with the resumes that follow them, cuts at the response,
// the end.
func (p *Plan) arrange(n uint32, faults []drawn) []Planned {
	var first, body, tail, last, resumes []Planned
	for _, d := range faults {
		f := p.position(n, d)
		switch {
		case places[d.place].resumed:
			resumes = append(resumes, f)
		case d.place == AfterPriming:
			first = append(first, f)
		case d.place == AfterResponse:
			last = append(last, f)
		case d.place == BeforeResponse || d.place == MidResponse:
			tail = append(tail, f)
		default:
			body = append(body, f)
		}
	}
	if opening, ok := p.opening(n, resumes, len(first)+len(body), len(tail)); ok {
		if opening.Place == AfterPriming {
			first = append(first, opening)
		} else {
			body = append(body, opening)
		}
	}
	p.spread(n, body, len(first) == 0, len(resumes))
	cuts := slices.Concat(first, body, tail)
	out := p.attach(n, cuts, resumes)
	return append(out, last...)
}

// position draws where in its stream a fault lies. For cuts among the messages After
// is a first draw, in order of size, that spread makes room between.
func (p *Plan) position(n uint32, d drawn) Planned {
	at := func(why purpose) float64 { return unit(draw(p.cfg.Seed, why, uint64(n), d.item, d.slot)) }
	f := Planned{Kind: d.kind, Place: d.place, K: at(drawK), Offset: at(drawOffset)}
	switch d.place {
	case BetweenEvents, MidEvent:
		f.After = p.message(at(drawAfter), p.cfg.Messages)
	case BeforeResponse, MidResponse, AfterResponse:
		f.After = p.cfg.Messages
	}
	return f
}

// message maps a draw to one of the messages 1…most.
func (p *Plan) message(u float64, most int) int { return 1 + int(u*float64(most)) }

// opening returns the cut that has to be added for the resume places of a stream to be
// reachable at all: a replay needs a cut with messages still to come, any resume some
// cut before the end.
func (p *Plan) opening(n uint32, resumes []Planned, early, late int) (Planned, bool) {
	if len(resumes) == 0 || early > 0 {
		return Planned{}, false
	}
	replay := slices.ContainsFunc(resumes, func(f Planned) bool { return places[f.Place].replayed })
	if late > 0 && !replay {
		return Planned{}, false
	}
	f := Planned{Kind: resumes[0].Kind, Place: BetweenEvents, Opening: true}
	if p.cfg.Messages == 0 {
		f.Place = AfterPriming
		return f, true
	}
	f.After = p.message(unit(draw(p.cfg.Seed, drawAfter, uint64(n))), p.cfg.Messages)
	return f, true
}

// spread orders the cuts among the messages and keeps them apart as far as there are
// messages. When resumes hang on the first of them, it comes early: each of those
// costs a reconnection during which the target goes on sending.
func (p *Plan) spread(n uint32, body []Planned, leads bool, resumes int) {
	if len(body) == 0 {
		return
	}
	messages := p.cfg.Messages
	slices.SortStableFunc(body, func(a, b Planned) int { return cmp.Compare(a.After, b.After) })
	if leads && resumes > 0 {
		u := unit(draw(p.cfg.Seed, drawOrder, uint64(n)))
		body[0].After = min(body[0].After, p.message(u, max(1, messages/(1+max(1, resumes)))))
	}
	for i := 1; i < len(body); i++ {
		body[i].After = max(body[i].After, body[i-1].After+1)
	}
	for i := len(body) - 1; i >= 0; i-- {
		body[i].After = max(1, min(body[i].After, messages-(len(body)-1-i)))
	}
}

// attach puts every resume place behind a cut it can follow: a replay behind the first
// one, any other behind one drawn.
func (p *Plan) attach(n uint32, cuts, resumes []Planned) []Planned {
	if len(resumes) == 0 {
		return cuts
	}
	slices.SortStableFunc(resumes, func(a, b Planned) int { return cmp.Compare(a.Place, b.Place) })
	behind := make([][]Planned, len(cuts))
	for i, f := range resumes {
		at := 0
		if !places[f.Place].replayed {
			at = int(draw(p.cfg.Seed, drawAnchor, uint64(n), uint64(i)) % uint64(len(cuts)))
		}
		f.After = cuts[at].After
		if cuts[at].Place == MidEvent {
			f.After-- // the message it cuts is not delivered
		}
		behind[at] = append(behind[at], f)
	}
	var out []Planned
	for i, c := range cuts {
		out = append(append(out, c), behind[i]...)
	}
	return out
}
