package chaos

import (
	"cmp"
	"slices"
)

// drawn is a fault of one stream before it has its position.
type drawn struct {
	fault *Fault
	place Place
	// item says which of the population's items it is, whose number and the slot are its
	// key for all further draws.
	item int
	slot uint64
}

// Stream returns the faults of one stream, in the order in which they are meant to be
// met; none for streams that are not part of the load.
func (p *Plan) Stream(n uint32) []Planned {
	switch {
	case p.load.has(n):
	case p.gets.has(n):
		return p.beside(&p.gets, n)
	default:
		return nil
	}
	faults := p.choose(&p.load, n)
	if len(faults) == 0 {
		return nil
	}
	faults = p.survive(n, faults)
	p.separate(n, faults)
	p.lead(n, faults)
	if !p.cfg.IDs && len(faults) > 1 {
		// Without ids nothing follows a cut.
		i := draw(p.cfg.Seed, drawOnly, uint64(n)) % uint64(len(faults))
		faults = faults[i : i+1]
	}
	return p.arrange(n, p.fit(n, faults))
}

// messages is how many messages the call of a stream sends.
func (p *Plan) messages(n uint32) int {
	if p.cfg.MessagesOf == nil {
		return p.cfg.Messages
	}
	return p.cfg.MessagesOf(n)
}

// fit moves the faults that the call of the stream has no place for, since it sends
// fewer messages than others, to another place of their item. Where there is none, the
// stream is spared.
func (p *Plan) fit(n uint32, faults []drawn) []drawn {
	if p.cfg.MessagesOf == nil {
		return faults
	}
	cfg := p.cfg
	cfg.Messages = p.messages(n)
	var kept []drawn
	for _, f := range faults {
		var free []Place
		for _, to := range p.load.items[f.item].places {
			once := places[to].once && slices.ContainsFunc(kept, func(g drawn) bool { return g.place == to })
			if !once && Impossible(f.fault.Kind, to, cfg.Seat, cfg) == "" {
				free = append(free, to)
			}
		}
		switch {
		case slices.Contains(free, f.place):
		case len(free) == 0:
			continue
		default:
			f.place = free[p.key(drawFit, n, f)%uint64(len(free))]
		}
		kept = append(kept, f)
	}
	return kept
}

// Session returns the faults of the handshake of a session, numbered from 1.
func (p *Plan) Session(n uint32) []Planned { return p.beside(&p.sessions, n) }

// beside returns the faults of a GET stream or a handshake: they have one place.
func (p *Plan) beside(o *population, n uint32) []Planned {
	if !o.has(n) {
		return nil
	}
	var all []Planned
	for _, d := range p.choose(o, n) {
		all = append(all, p.position(o, n, d))
	}
	if p.cfg.OnGet && o == &p.gets && len(all) > 1 {
		// What is lost behind a cut may be what another would have waited for.
		i := draw(p.cfg.Seed, drawOnly, uint64(n)) % uint64(len(all))
		all = all[i : i+1]
	}
	p.spread(n, all, false, 0)
	return all
}

// choose decides how many faults of each item the stream gets and where. Slot k of an
// item deals the streams out in an order of its own; dealing place after place along
// that order spreads them evenly over the run, and a share of the streams is the
// front of the order.
func (p *Plan) choose(o *population, n uint32) []drawn {
	var faults []drawn
	streams := uint64(o.count)
	for i, it := range o.items {
		for slot := uint64(0); slot <= it.base; slot++ {
			key := draw(p.cfg.Seed, drawSlot, it.number, slot)
			rank := permute(key, uint64(n-o.first), streams)
			if slot == it.base && rank >= it.extra {
				break
			}
			place := it.places[(slot*streams+rank)%uint64(len(it.places))]
			faults = append(faults, drawn{it.fault, place, i, slot})
		}
	}
	return faults
}

// survive sees to it that a stream with several faults lives to meet them: one that
// nobody can resume after is moved to another place of its item. Where there is none,
// the stream keeps that fault alone.
func (p *Plan) survive(n uint32, faults []drawn) []drawn {
	if len(faults) < 2 {
		return faults
	}
	for i := range faults {
		f := &faults[i]
		if !f.fatal() {
			continue
		}
		var free []Place
		for _, to := range p.load.items[f.item].places {
			if !places[to].fatal {
				free = append(free, to)
			}
		}
		if len(free) == 0 {
			return faults[i : i+1]
		}
		f.place = free[p.key(drawSurvive, n, *f)%uint64(len(free))]
	}
	return faults
}

// fatal tells that the stream cannot be resumed after the fault.
func (d drawn) fatal() bool { return places[d.place].fatal && d.fault.Kind.ends() }

// key draws for one fault of one stream.
func (p *Plan) key(why purpose, n uint32, d drawn) uint64 {
	return draw(p.cfg.Seed, why, uint64(n), p.load.items[d.item].number, d.slot)
}

// separate redraws what would strike twice at a position that a stream has once. Faults
// with the fewest alternatives choose first.
func (p *Plan) separate(n uint32, faults []drawn) {
	order := make([]int, len(faults))
	for i := range order {
		order[i] = i
	}
	choices := func(i int) int { return len(p.load.items[faults[i].item].places) }
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
	for _, place := range p.load.items[f.item].places {
		if (!taken[place] || !places[place].once) && !(places[place].fatal && f.fault.Kind.ends()) {
			free = append(free, place)
		}
	}
	if len(free) == 0 {
		return f.place // without ids only one fault is kept anyway; else checkOnce has refused
	}
	return free[p.key(drawPlace, n, f)%uint64(len(free))]
}

// arrange gives every fault its position and puts them in order: the priming event,
// cuts among the messages with the resumes that follow them, cuts at the response,
// the end.
func (p *Plan) arrange(n uint32, faults []drawn) []Planned {
	var first, body, tail, last, resumes []Planned
	for _, d := range faults {
		f := p.position(&p.load, n, d)
		switch {
		case places[d.place].resumed:
			resumes = append(resumes, f)
		case places[d.place].fatal:
			first = append([]Planned{f}, first...)
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
	if opening, ok := p.opening(n, resumes, slices.Concat(first, body), tail); ok {
		if opening.Place == AfterPriming {
			first = append(first, opening)
		} else {
			body = append(body, opening)
		}
	}
	p.spread(n, body, !slices.ContainsFunc(first, Planned.leads), len(resumes))
	cuts := slices.Concat(first, body, tail)
	out := p.attach(n, cuts, resumes)
	return append(out, last...)
}

// position draws where in its stream a fault lies. For cuts among the messages After
// is a first draw, in order of size, that spread makes room between.
func (p *Plan) position(o *population, n uint32, d drawn) Planned {
	number := o.items[d.item].number
	at := func(why purpose) float64 { return unit(draw(p.cfg.Seed, why, uint64(n), number, d.slot)) }
	f := Planned{
		Kind: d.fault.Kind, Place: d.place, K: at(drawK), Offset: at(drawOffset),
		For: d.fault.For, By: d.fault.By, Rate: d.fault.Rate,
	}
	if f.For == 0 {
		f.For = kinds[f.Kind].usual
	}
	if kinds[f.Kind].takes.code {
		f.Code = cmp.Or(d.fault.Code, defaultCode)
	}
	switch d.place {
	case BetweenEvents, MidEvent, GetStream:
		f.After = p.message(at(drawAfter), p.messages(n))
	case BeforeResponse, MidResponse, AfterResponse:
		f.After = p.messages(n)
	}
	return f
}

// message maps a draw to one of the messages 1…most.
func (p *Plan) message(u float64, most int) int { return 1 + int(u*float64(most)) }

// opening returns the cut that has to be added for the resume places of a stream to be
// reachable at all: a replay needs a cut with messages still to come, any resume some
// cut before the end.
func (p *Plan) opening(n uint32, resumes, first, late []Planned) (Planned, bool) {
	if len(resumes) == 0 || slices.ContainsFunc(first, Planned.leads) {
		return Planned{}, false
	}
	replay := slices.ContainsFunc(resumes, func(f Planned) bool { return places[f.Place].replayed })
	if slices.ContainsFunc(late, Planned.leads) && !replay {
		return Planned{}, false
	}
	f := Planned{Kind: RST, Place: BetweenEvents, Opening: true}
	if resumes[0].Kind == FIN {
		f.Kind = FIN
	}
	messages := p.messages(n)
	if messages == 0 {
		f.Place = AfterPriming
		return f, true
	}
	f.After = p.message(unit(draw(p.cfg.Seed, drawAfter, uint64(n))), messages)
	return f, true
}

// leads tells that a resume follows the fault.
func (f Planned) leads() bool { return leads(f.Kind, f.Place) }

// spread orders the cuts among the messages and keeps them apart as far as there are
// messages. When resumes hang on the first of them, it comes early: each of those
// costs a resume, during which the target goes on sending.
func (p *Plan) spread(n uint32, body []Planned, leads bool, resumes int) {
	if len(body) == 0 {
		return
	}
	messages := p.messages(n)
	slices.SortStableFunc(body, func(a, b Planned) int { return cmp.Compare(a.After, b.After) })
	if leads && resumes > 0 {
		if i := slices.IndexFunc(body, Planned.leads); i > 0 {
			after := body[0].After
			body[0].After, body[i].After = body[i].After, after
			body[0], body[i] = body[i], body[0]
			slices.SortStableFunc(body[1:], func(a, b Planned) int { return cmp.Compare(a.After, b.After) })
		}
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
	var lead []int // the cuts that a resume follows
	for i, c := range cuts {
		if c.leads() {
			lead = append(lead, i)
		}
	}
	behind := make([][]Planned, len(cuts))
	for i, f := range resumes {
		at := lead[0]
		if !places[f.Place].replayed {
			at = lead[int(draw(p.cfg.Seed, drawAnchor, uint64(n), uint64(i))%uint64(len(lead)))]
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
