package report

import (
	"fmt"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// details are the tables of -v.
func details(p *page, r *result.Result) {
	invariants(p, r)
	bounds(p, r)
	probes(p, r)
	drops(p, r)
	if h := r.History; h.Dir != "" {
		p.line(fmt.Sprintf("  history: %s kept in %s, %s dropped", some(h.Records, "records"), cut(h.Dir, 200), count(h.Dropped)))
		p.blank()
	}
}

// invariants lists every invariant.
func invariants(p *page, r *result.Result) {
	name := 14
	for _, inv := range r.Invariants {
		name = max(name, columns(cut(inv.Name, 40))+2)
	}
	p.blank()
	for _, inv := range r.Invariants {
		became := stateOf(inv)
		mark := map[state]string{kept: "+", broken: p.paint(red, "x"), unsure: "?", deviation: "-"}[became]
		line := clean(pad(cut(inv.Name, 40), name) + pad(inv.Level, 10) + pad(string(became), 16))
		p.lines = append(p.lines, "  "+pad(mark, 1)+" "+line)
		p.text(name+30, checked(inv))
	}
	p.blank()
}

func checked(inv result.Invariant) string {
	switch {
	case !applies(inv):
		return cut(inv.Why, 120)
	case inv.Verdict == result.Violated:
		return fmt.Sprintf("%s %s in %s; %s", count(inv.Violations), unit(inv), some(inv.Streams, "streams"), inv.Claim)
	case inv.Why != "" && inv.Why != string(stateOf(inv)): // which stands beside it
		return cut(inv.Why, 120)
	}
	return fmt.Sprintf("%s checked; %s", count(inv.Checked), inv.Claim)
}

// Widths of the columns of numbers.
const (
	nameWidth  = 26
	countWidth = 13
)

// bounds shows for each place how often loss could have happened there, since one
// number for all places hides those that were hardly struck.
func bounds(p *page, r *result.Result) {
	if len(r.LossBound95ByPlace) == 0 {
		return
	}
	p.lines = append(p.lines, pad("  place", nameWidth+2)+padLeft("resumed cuts", countWidth)+"   loss per cut at 95 %")
	for _, b := range r.LossBound95ByPlace {
		p.lines = append(p.lines, "  "+pad(clean(cut(b.Place, nameWidth-2)), nameWidth)+padLeft(count(b.CutsAtRisk), countWidth)+"   ")
		p.text(nameWidth+countWidth+5, chance(b))
	}
	p.blank()
}

func chance(b result.PlaceBound) string {
	switch {
	case b.CutsAtRisk <= 0:
		return "cannot be told: no cut was resumed"
	case b.Bound <= 0:
		return "not bounded: something was lost"
	}
	return "at most " + percent(b.Bound)
}

// probes shows what was asked of the sample. An answer that could not be told is in
// neither column, so the asked ones stand beside.
func probes(p *page, r *result.Result) {
	if len(r.Probes) == 0 {
		return
	}
	p.lines = append(p.lines, pad("  probe", nameWidth+2)+padLeft("asked", countWidth)+padLeft("conforming", countWidth)+padLeft("deviating", countWidth))
	for _, x := range r.Probes {
		p.lines = append(p.lines, "  "+pad(clean(cut(x.Name, nameWidth-2)), nameWidth)+
			padLeft(count(x.Asked), countWidth)+padLeft(count(x.Conforming), countWidth)+padLeft(count(x.Deviating), countWidth))
	}
	p.blank()
}

// drops shows what a cut cost, where it cost a response.
func drops(p *page, r *result.Result) {
	d := r.Drops
	if d.Unanswered == 0 && d.Reissued == 0 {
		return
	}
	row := func(what string, got int64, more string) {
		p.lines = append(p.lines, "  "+pad(what, nameWidth)+padLeft(count(got), countWidth)+"   ")
		p.text(nameWidth+countWidth+5, more)
	}
	p.line("  what a cut costs")
	row("cut calls", d.Cut, fmt.Sprintf("%s never answered, %s of all calls", count(d.Unanswered), percent(d.Share)))
	row("uncut calls", d.Uncut, count(d.UncutComplete)+" complete")
	if handlers := d.HandlersFinished + d.HandlersCancelled + d.HandlersRunning; handlers > 0 {
		row("their handlers", handlers, fmt.Sprintf("%s ran to the end, %s cancelled, %s still running (ledger)",
			count(d.HandlersFinished), count(d.HandlersCancelled), count(d.HandlersRunning)))
	}
	if d.Reissued > 0 {
		more := fmt.Sprintf("%s answered, with %s", count(d.ReissuesAnswered), some(d.ReissuedMessages, "messages"))
		if d.ReissuesAnswered > 0 {
			more += fmt.Sprintf("; p50 %s, p95 %s", span(d.ReissueP50Seconds), span(d.ReissueP95Seconds))
		}
		row("calls made again", d.Reissued, more)
	}
	p.blank()
}
