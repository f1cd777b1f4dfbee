package lab

import (
	"fmt"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/export"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// An Injector is what can be asked of a load, from any goroutine, while it goes on and
// after it.
type Injector struct {
	nemesis *chaos.Nemesis
	live    *loadgen.Live
	court   *court
	limits  []result.Limit
	planned int64
}

// armed hands out the injector of the load that is about to begin.
func (x *experiment) armed(n *chaos.Nemesis, live *loadgen.Live, c *court, plan loadgen.Plan) {
	if x.c.Armed != nil {
		x.c.Armed(&Injector{nemesis: n, live: live, court: c, limits: x.limits, planned: int64(plan.Total())})
	}
}

// Strike resets a share (0 to 1) of the links that carry a stream, at one instant, and
// returns how many; none once the faults have healed.
func (i *Injector) Strike(share float64) int { return i.nemesis.Strike(share) }

// Status is where a load is.
type Status struct {
	Planned, Opened, Open, Settled int64 // streams
	Delivered                      int64 // messages
	// Cuts are injections that ended their link, Storms those of the plan, Strikes those
	// that were asked for, and Struck the links of both.
	Cuts, Resumes, Storms, Strikes, Struck int64
	Violations                             int64
}

// Status returns where the load is.
func (i *Injector) Status() Status {
	p, n := i.live.Progress(), i.nemesis.Counts()
	return Status{
		Planned: i.planned, Opened: p.Opened, Open: p.Open, Settled: p.Settled, Delivered: p.Delivered,
		Cuts: i.court.cuts.Load(), Resumes: p.Resumes, Storms: n.Storms, Strikes: n.Strikes, Struck: n.Struck,
		Violations: i.court.judge.Violations(),
	}
}

// Thresholds compares the limits of the run with the figures so far.
func (i *Injector) Thresholds() []result.Threshold {
	return result.Evaluate(i.limits, export.Going(i.live, i.planned))
}

// unplanned says that the run met storms that its seed does not repeat, "" if it did not.
func unplanned(n chaos.Counts) string {
	switch n.Strikes {
	case 0:
		return ""
	case 1:
		return "1 storm was asked for while the run went on: the seed does not repeat it"
	}
	return fmt.Sprintf("%d storms were asked for while the run went on: the seed does not repeat them", n.Strikes)
}
