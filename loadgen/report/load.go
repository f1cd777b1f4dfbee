package report

import (
	"fmt"
	"strconv"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// faults writes what struck. Faults that do not end their link are no cuts; where a
// run had some, both are counted in rows of their own.
func faults(p *page, r *result.Result) {
	struck := p.kinds(r)
	n := cuts(r)
	if n == r.Faults.Injected {
		want, wanted := reached(r, "cuts", "injections")
		p.compare("cuts", want.Want, wanted, n, struck)
		return
	}
	want, wanted := reached(r, "injections")
	p.compare("faults", want.Want, wanted, r.Faults.Injected, struck)
	if want, wanted = reached(r, "cuts"); wanted || n > 0 {
		p.compare("cuts", want.Want, wanted, n, "links ended")
	}
}

// cuts is the number of injections that ended their link. A result that does not
// say it may still have been asked.
func cuts(r *result.Result) int64 {
	if x, asked := reached(r, "cuts"); asked && r.Faults.Cuts == 0 {
		return x.Got
	}
	return r.Faults.Cuts
}

// storms is silent in runs that had none and wanted none.
func storms(p *page, r *result.Result) {
	want, wanted := reached(r, "storms")
	got := max(r.Faults.Storms, want.Got)
	if got == 0 && !wanted {
		return
	}
	detail := some(r.Faults.ByKind["storm"], "links") + " cut"
	if open, asked := reached(r, "max_open"); asked {
		detail += fmt.Sprintf("; wanted %s open at once, got %s", some(open.Want, "streams"), count(open.Got))
	} else {
		detail += fmt.Sprintf("; up to %s open at once", some(r.Streams.MaxOpen, "streams"))
	}
	p.compare("storms", want.Want, wanted, got, detail)
}

// arrivals puts the planned arrivals of the open model beside those that were opened.
func arrivals(p *page, r *result.Result) {
	if r.Load.Model == result.Open {
		p.compare("arrivals", r.Streams.Planned, true, r.Streams.Opened, dropped(r)+"; "+pace(r))
	}
}

// arrivalsLine says the same in one sentence, with the start delay, where there is no
// table: a generator that could not keep up has to say so beside any verdict.
func arrivalsLine(p *page, r *result.Result) {
	if r.Load.Model != result.Open {
		return
	}
	text := fmt.Sprintf("%s planned, %s opened, %s; %s", count(r.Streams.Planned), count(r.Streams.Opened), dropped(r), pace(r))
	if d := r.Latency.StartDelay; d.Count > 0 {
		text += fmt.Sprintf("; start delay p99 %s, max %s", span(d.P99), span(d.Max))
	}
	if r.Generator.Saturated {
		text += "; generator could not keep up"
	}
	p.row(p.labelWidth(r), "arrivals")
	p.text(p.labelWidth(r), text)
}

func dropped(r *result.Result) string {
	text := count(r.Streams.DroppedArrivals) + " dropped"
	if r.Streams.DroppedArrivals > 0 && r.Load.MaxOpen > 0 {
		text += fmt.Sprintf(" at %s open", count(r.Load.MaxOpen))
	}
	return text
}

// pace compares the rate of starts with the planned one.
func pace(r *result.Result) string {
	return fmt.Sprintf("started %s of %s for %s", rate(r.Load.StartedPerSecond), rate(r.Load.WantedPerSecond), span(r.Load.Seconds))
}

// rate writes starts per second.
func rate(perSecond float64) string {
	switch {
	case !(perSecond >= 0 && perSecond < 1e15): // NaN too
		return "?/s"
	case perSecond > 0 && perSecond < 9.95:
		return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
	}
	return count(int64(perSecond+0.5)) + "/s"
}

// stopped says that the run did not do all it had planned.
func stopped(p *page, r *result.Result) {
	if r.Run.Stopped == "" {
		return
	}
	p.row(p.labelWidth(r), "stopped")
	p.text(p.labelWidth(r), fmt.Sprintf("%s after %s, with %s of %s opened", cut(r.Run.Stopped, 60),
		span(r.Run.DurationSeconds), count(r.Streams.Opened), some(r.Streams.Planned, "streams")))
}
