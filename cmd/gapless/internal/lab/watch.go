package lab

import (
	"sync"
	"time"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/report"
)

// watch tells Progress where the load is until the returned function is called.
func (x *experiment) watch(live *loadgen.Live, c *court, plan loadgen.Plan) (stop func()) {
	if x.c.Progress == nil {
		return func() {}
	}
	interval := x.c.Interval
	if interval == 0 {
		interval = time.Second
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
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
	return func() {
		close(done)
		wg.Wait()
	}
}
