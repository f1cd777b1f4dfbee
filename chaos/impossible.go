package chaos

// Impossible says in a sentence why a kind cannot strike at a place from a seat in runs
// like cfg; "" when it can. Of cfg it looks at Priming, IDs, Head, Messages, Sessions
// and GetStreams. Of streams that make different calls it looks at the one with the most
// messages.
func Impossible(k Kind, p Place, seat Seat, cfg PlanConfig) string {
	if why := misfit(k, p); why != "" {
		return why
	}
	if seat == SeatProxy && k == Refuse {
		return "a proxy has accepted the client's connection before it knows what it is for"
	}
	spec := places[p]
	switch {
	case cfg.OnGet && p != GetStream && p != Initialize:
		return "the messages of the load come on GET streams"
	case p == AfterPriming && (!cfg.Priming || !cfg.IDs):
		return "the target sends no priming event"
	case (p == BetweenEvents || p == MidEvent || p == GetStream) && cfg.Messages == 0:
		return "the call sends no message before its response"
	case p == GetStream && cfg.GetStreams == 0 && !cfg.OnGet:
		return "the load has no standalone GET streams"
	case p == Initialize && cfg.Sessions == 0:
		return "it is not known how many sessions there are"
	case spec.resumed && !cfg.IDs:
		return "the target gives no event ids, so there is no resume"
	case spec.resumed && !cfg.Priming && cfg.Messages == 0:
		return "no event id comes before the response, so there is no resume"
	case spec.replayed && !cfg.Head:
		return "the target does not name the head of its log, so the caught-up point cannot be seen"
	case p == MidReplay && cfg.Messages < 2:
		return "a replay needs two events, and the call sends fewer messages"
	}
	return ""
}

// misfit is the part of Impossible that holds in every run and from every seat.
func misfit(k Kind, p Place) string {
	switch {
	case k == None:
		return "none strikes nowhere"
	case kinds[k].runWide:
		return "a storm strikes all links at one instant, wherever each of them is"
	case k.fits(p):
		return ""
	}
	return kinds[k].elsewhere
}

// Row is one cell of the table of everything: a kind at a place from a seat.
type Row struct {
	Kind  Kind
	Place Place
	Seat  Seat
	// Drawn: a fault that names no place may strike here. Possible without Drawn: only
	// one that names this place.
	Drawn, Possible bool
	// Says is the same in a sentence, with the reason if it is impossible.
	Says string
}

// Cells returns the table kind × place × seat, none aside, for a target that shows
// everything and a load that has everything.
func Cells() []Row {
	all := PlanConfig{Priming: true, IDs: true, Head: true, Messages: 2, Sessions: 1, GetStreams: 1}
	var rows []Row
	for _, k := range AllKinds()[1:] {
		for _, p := range AllPlaces() {
			for _, s := range AllSeats() {
				row := Row{Kind: k, Place: p, Seat: s}
				switch why := Impossible(k, p, s, all); {
				case why != "":
					row.Says = "Impossible: " + why + "."
				case places[p].drawn:
					row.Possible, row.Drawn, row.Says = true, true, "Drawn by default."
				default:
					row.Possible, row.Says = true, "Only when named."
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}
