package chaos

// Impossible says in a sentence why a kind cannot strike at a place in runs like cfg;
// "" when it can. Of cfg it looks at Priming, IDs, Head and Messages.
func Impossible(k Kind, p Place, cfg PlanConfig) string {
	if why := misfit(k, p); why != "" {
		return why
	}
	spec := places[p]
	switch {
	case p == AfterPriming && (!cfg.Priming || !cfg.IDs):
		return "the target sends no priming event"
	case (p == BetweenEvents || p == MidEvent) && cfg.Messages == 0:
		return "the call sends no message before its response"
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

// misfit is the part of Impossible that holds in every run.
func misfit(k Kind, p Place) string {
	inside := p == MidEvent || p == MidResponse
	switch {
	case k == None:
		return "none strikes nowhere"
	case kinds[k].insideOnly && !inside:
		return "outside an event a legal end of the body is what the target may do itself"
	}
	return ""
}
