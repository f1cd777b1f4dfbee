package lab

import (
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/report"
)

// watch tells Progress where the load is until the returned function is called,
// whose error is a panic on the way.
func (x *experiment) watch(live *loadgen.Live, c *court, plan loadgen.Plan) (stop func() error) {
	if x.c.Progress == nil {
		return func() error { return nil }
	}
	interval := x.c.Interval
	if interval == 0 {
		interval = time.Second
	}
	done := make(chan struct{})
	var group guard.Group
	group.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			p := live.Progress()
			x.c.Progress(report.Progress{
				Elapsed: time.Since(x.began), Phase: "load", Open: p.Open, Planned: int64(plan.Open()),
				Messages: p.Delivered, Cuts: c.cuts.Load(), Resumes: p.Resumes, Violations: c.judge.Violations(),
			})
		}
	})
	return func() error {
		close(done)
		return group.Wait()
	}
}
