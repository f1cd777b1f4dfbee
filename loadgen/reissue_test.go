package loadgen

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestReissueOfASample(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(g *target)
		reissue int
		want    string // calls made again, outcomes
	}{
		{"no ids – so many as are asked for", func(g *target) {
			g.call = func(v *visit) { v.sse(); v.send(v.progress("", v.token, 1, 3)[4:]) }
		}, 4, "4 [0 0 0 0 0 0 0 20]"},
		{"none are asked for", func(g *target) { g.call = func(v *visit) { v.sse() } }, 0, "0 [0 0 0 0 0 0 0 20]"},
		{"more than there are", func(g *target) { g.call = func(v *visit) { v.sse() } }, 100, "20 [0 0 0 0 0 0 0 20]"},
		{"ids, but no resume", func(g *target) {
			g.call = primed
			g.resume = func(v *visit, _ int) { v.status(405) }
		}, 5, "5 [0 0 0 0 20 0 0 0]"},
		{"nothing was cut", func(*target) {}, 5, "0 [0 20 0 0 0 0 0 0]"},
		{"refused, not cut", func(g *target) { g.call = func(v *visit) { v.status(400) } }, 5, "0 [0 0 0 0 20 0 0 0]"},
		{"hangs, not cut", func(g *target) { g.call = func(v *visit) { v.sse(); v.hang() } }, 5, "0 [0 0 0 0 0 0 0 20]"},
		{"the session is gone with it", func(g *target) {
			g.call = primed
			g.resume = func(v *visit, _ int) { v.status(404) }
		}, 5, "0 [0 0 0 0 20 0 0 0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				c.spoil(g)
				cfg := g.config(PlanConfig{Seed: 1, Streams: 2, Calls: 20, Sessions: 1})
				cfg.Observer, cfg.Reissue = seen, c.reissue
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var streams []uint32
				for n := uint32(1); n <= 20; n++ {
					for _, rec := range seen.of[n].all {
						if rec.Kind == history.KindProbe {
							streams = append(streams, n)
							has(t, "name", rec.Probe.Name, history.ProbeReissue)
						}
					}
				}
				has(t, "calls made again, outcomes", fmt.Sprint(len(streams), " ", rep.Outcomes), c.want)
				for i, n := range streams {
					if part := int(n-1) * len(streams) / 20; part != i {
						t.Errorf("streams %v are not spread over the plan", streams)
						break
					}
				}
			})
		})
	}
}

func TestNothingIsMadeAgainInALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = func(v *visit) {
			if v.id == "1" {
				primed(v)
				return
			}
			v.sse()
			time.Sleep(5 * time.Second)
		}
		g.resume = func(v *visit, _ int) { v.status(404) }
		cfg := g.config(PlanConfig{Seed: 1, Streams: 2, Sessions: 1})
		cfg.Reissue = 2
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "calls, probes, outcomes", fmt.Sprint(len(g.of(MethodTool)), rep.Probes, rep.Outcomes), "2 0 [0 0 0 0 1 0 0 1]")
	})
}

func TestStopIsNoReissue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		n := 0
		g.call = func(v *visit) {
			if n++; n == 1 {
				v.reset()
				return
			}
			v.sse()
			v.hang()
		}
		halt := make(chan struct{})
		cfg := g.config(one)
		cfg.Observer, cfg.Reissue, cfg.Halt, cfg.Drain = seen, 1, halt, time.Second
		time.AfterFunc(5*time.Second, func() { close(halt) })
		began := time.Now()
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		has(t, "probes, took", fmt.Sprint(len(seen.kind(history.KindProbe)), time.Since(began)), "0 6s")
	})
}

func TestMarksOfCallsMadeAgain(t *testing.T) {
	m := NewMarks("0000abcd", []byte("s"))
	again := m.Again(3, 77)
	if again == m.Of(3, 77) {
		t.Fatal("the same mark twice")
	}
	se, st, ok := m.Find(again)
	has(t, "of", fmt.Sprint(se, st, ok), "3 77 true")
	for _, forged := range []string{again[:len(again)-1] + "x", "g0000abcd.3.77.3." + again[len(again)-16:], "g0000abcd.3.77.2.2." + again[len(again)-16:], "g0000abcd.3.77." + again[len(again)-16:]} {
		if _, _, ok := m.Find(forged); ok {
			t.Errorf("%s passes for ours", forged)
		}
	}
}
