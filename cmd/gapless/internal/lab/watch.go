package lab

import (
	"context"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/report"
)

// accompany runs what goes on beside the load until the returned function is called:
// the run-wide faults, the end of all faults at an interrupt, and the progress. Its
// error is a panic on the way, which also stops the load.
func (x *experiment) accompany(ctx context.Context, cancel func(), n *chaos.Nemesis, live *loadgen.Live, c *court, plan loadgen.Plan) (stop func() error) {
	ctx, done := context.WithCancel(ctx)
	group := guard.Group{OnPanic: cancel}
	group.Go(func() { n.Run(ctx) })
	group.Go(func() {
		select {
		case <-x.c.Halt:
		case <-ctx.Done():
		}
		n.Heal()
	})
	group.Go(func() { x.watch(ctx, cancel, live, plan.Total()) })
	if x.c.Progress != nil {
		group.Go(func() { x.tell(ctx, live, c, plan) })
	}
	return func() error {
		done()
		return group.Wait()
	}
}

// tell tells Progress where the load is.
func (x *experiment) tell(ctx context.Context, live *loadgen.Live, c *court, plan loadgen.Plan) {
	x.every(ctx, func() {
		p := live.Progress()
		x.c.Progress(report.Progress{
			Elapsed: time.Since(x.began), Phase: "load", Open: p.Open, Planned: int64(plan.Open()),
			Messages: p.Delivered, Cuts: c.cuts.Load(), Resumes: p.Resumes, Violations: c.judge.Violations(),
		})
	})
}

// every calls f once per interval of the progress, until ctx is done.
func (x *experiment) every(ctx context.Context, f func()) {
	interval := x.c.Interval
	if interval == 0 {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}
