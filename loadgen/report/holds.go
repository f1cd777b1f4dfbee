package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Columns of the summary: numbers end at wanted and got, details begin at detail.
const (
	wantedColumn = 18
	gotColumn    = 25
	detailColumn = 28
)

// maxKinds of faults are named in a summary without -v.
const maxKinds = 4

func holds(p *page, r *result.Result) {
	p.lines = append(p.lines, padLeft("wanted", wantedColumn)+padLeft("got", gotColumn-wantedColumn))
	faults(p, r)
	places, wanted := reached(r, "places")
	p.compare("places", places.Want, wanted, placesSeen(r), fewest(r))
	if r.Run.Target.Dialect == dialectModern {
		again, wanted := reached(r, "reissues")
		p.compare("re-issued", again.Want, wanted, r.Drops.ReissuesAnswered, reissued(r))
	} else {
		resumes, wanted := reached(r, "resumes")
		p.compare("resumes", resumes.Want, wanted, r.Resumes.Succeeded, replayed(r))
	}
	storms(p, r)
	if r.LossBound95 > 0 && r.CutsAtRisk > 0 {
		p.row(detailColumn, "bound")
		p.text(detailColumn, fmt.Sprintf("at most %s loss per cut at 95 %% (0 of %s resumed cuts)", percent(r.LossBound95), count(r.CutsAtRisk)))
	}
	arrivals(p, r)
	p.numbers("streams", r.Streams.Planned, true, r.Streams.Judged())
	p.lines[len(p.lines)-1] += " "
	p.text(detailColumn, outcomes(r))
	control(p, r)
	latencies(p, r)
	p.row(15, "invariants")
	t := tally(r)
	p.text(15, fmt.Sprintf("%d hold, %d violated, %d inconclusive, %s (-v lists them)",
		t[kept], t[broken], t[unsure], deviations(r)))
}

// numbers begins a line with what was wanted and what was got in their columns.
func (p *page) numbers(label string, want int64, wanted bool, got int64) {
	w := ""
	if wanted {
		w = count(want)
	}
	left := pad("  "+label, 12)
	left += padLeft(w, wantedColumn-columns(left))
	p.lines = append(p.lines, left+" "+padLeft(count(got), gotColumn-1-columns(left)))
}

func (p *page) compare(label string, want int64, wanted bool, got int64, detail string) {
	p.numbers(label, want, wanted, got)
	if detail != "" {
		p.lines[len(p.lines)-1] = pad(p.lines[len(p.lines)-1], detailColumn)
		p.text(detailColumn, detail)
	}
}

// kinds lists the kinds of faults, most frequent first, and where they came from
// when that was not the client's own end.
func (p *page) kinds(r *result.Result) string {
	var parts []string
	names := byCount(r.Faults.ByKind, -1)
	for i, k := range names {
		if i == maxKinds && len(names) > i+1 && !p.o.Verbose {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(names)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s", k, count(r.Faults.ByKind[k])))
	}
	text := strings.Join(parts, ", ")
	if r.Faults.Seat == "proxy" && text != "" {
		text += "; by proxy"
	}
	if r.Faults.Approximate > 0 {
		text += fmt.Sprintf(" (%s approximate)", count(r.Faults.Approximate))
	}
	return text
}

// byCount sorts the names that were counted at all; sign 1 puts the rarest first.
func byCount(m map[string]int64, sign int) []string {
	names := slices.Collect(maps.Keys(m))
	names = slices.DeleteFunc(names, func(n string) bool { return m[n] == 0 })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(sign*cmp.Compare(m[a], m[b]), cmp.Compare(a, b))
	})
	return names
}

func placesSeen(r *result.Result) int64 { return int64(len(byCount(r.Faults.ByPlace, 1))) }

func fewest(r *result.Result) string {
	names := byCount(r.Faults.ByPlace, 1)
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return fmt.Sprintf("fewest: %s (%s)", names[0], count(r.Faults.ByPlace[names[0]]))
}

func replayed(r *result.Result) string {
	var parts []string
	if r.Resumes.ReplayedMessages > 0 || r.Run.Target.Store != "" { // only our own server says what it replays
		parts = append(parts, some(r.Resumes.ReplayedMessages, "messages")+" replayed")
	}
	later := r.Resumes.ByStatus["429"] + r.Resumes.ByStatus["503"]
	refused := r.Resumes.Refused - later
	for _, x := range []struct {
		n    int64
		what string
	}{
		{r.Resumes.CutsInReplay, some(r.Resumes.CutsInReplay, "cuts") + " during replay"},
		{r.Resumes.Conflicts, some(r.Resumes.Conflicts, "conflicts") + " (409)"},
		{refused, count(refused) + " refused"},
		{later, count(later) + " asked to come back later (429, 503)"},
	} {
		if x.n > 0 {
			parts = append(parts, x.what)
		}
	}
	return strings.Join(parts, "; ")
}

// dialectModern is the revision in which a cut call is made again, not resumed.
const dialectModern = "modern"

// reissued says how cut calls went that were made again.
func reissued(r *result.Result) string {
	d := r.Drops
	text := "answered, of " + some(d.Unanswered, "cut calls") + " without a response"
	if d.ReissuesAnswered > 0 {
		text += fmt.Sprintf("; p50 %s, p95 %s", span(d.ReissueP50Seconds), span(d.ReissueP95Seconds))
	}
	return text
}

func outcomes(r *result.Result) string {
	s, lost := r.Streams, r.Streams.DroppedArrivals
	if r.Load.Model == result.Open {
		lost = 0 // said in a row of its own
	}
	out := fmt.Sprintf("judged, %s indeterminate", count(s.Indeterminate))
	for _, x := range []struct {
		n    int64
		what string
	}{
		{s.Failed, "failed"}, {s.Refused, "refused"}, {s.Cancelled, "cancelled"}, {s.Undecided, "undecided"},
		{s.NotSent, "not sent"}, {lost, "arrivals dropped"},
	} {
		if x.n > 0 {
			out += fmt.Sprintf(", %s %s", count(x.n), x.what)
		}
	}
	return out
}

func control(p *page, r *result.Result) {
	c := r.Control
	p.row(wantedColumn-len(count(c.Calls)), "control")
	p.lines[len(p.lines)-1] += count(c.Calls) + "    "
	text := "complete without cuts"
	switch {
	case c.Calls == 0:
		text = "no control calls were made"
	case c.Complete < c.Calls:
		text = fmt.Sprintf("only %s complete without cuts", count(c.Complete))
	}
	if r.Canary.Convicted {
		text += "; canary convicted"
	} else {
		text += "; canary not convicted"
	}
	p.text(22, text)
}

func latencies(p *page, r *result.Result) {
	l := r.Latency
	asked, pace := "", "generator kept up"
	if r.Resumes.AskedSeconds > 0 {
		asked = "server asked to wait " + span(r.Resumes.AskedSeconds)
	}
	if r.Generator.Saturated {
		pace = "generator could not keep up"
	}
	rows := []struct {
		name   string
		f      result.Figures
		detail string
	}{
		{"first event", l.FirstEvent, ""}, {"resume to caught up", l.ResumeCaughtUp, asked}, {"start delay", l.StartDelay, pace},
	}
	header := false
	for _, row := range rows {
		if row.f.Count == 0 {
			continue
		}
		if !header {
			p.lines = append(p.lines, padLeft("p50", 29)+padLeft("p99", 8)+padLeft("max", 8))
			header = true
		}
		line := pad("  "+row.name, 21) + padLeft(span(row.f.P50), 8) + padLeft(span(row.f.P99), 8) + padLeft(span(row.f.Max), 8)
		p.lines = append(p.lines, line)
		if row.detail != "" {
			p.lines[len(p.lines)-1] += "   "
			p.text(48, row.detail)
		}
	}
}
