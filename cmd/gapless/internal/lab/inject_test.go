package lab

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// striking runs c with a storm every interval from the beginning of the load on, and
// returns how many links they struck.
func striking(t *testing.T, c Config, every time.Duration) (*result.Result, int64) {
	t.Helper()
	var struck atomic.Int64
	ctx, over := context.WithCancel(t.Context())
	defer over()
	c.Armed = func(i *Injector) {
		go func() { // ends with ctx
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					struck.Add(int64(i.Strike(0.5)))
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return mustRun(t, c), struck.Load()
}

// TestStormsThatNobodyPlanned: a run that holds holds through any number of them, from
// either seat; the plan of it is still carried out, and what it wants to reach is not reached by them.
func TestStormsThatNobodyPlanned(t *testing.T) {
	for name, every := range map[string]time.Duration{"now and then": 300 * time.Millisecond, "all the time": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, struck := striking(t, smallRun(t, func(p *profiles.Profile) {
					p.Reach = profiles.Reach{Cuts: 50, Resumes: 50}
				}), every)
				if r.Verdict != result.Holds || r.Messages.Delivered != 50*50 {
					t.Errorf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
				}
				if f := r.Faults; struck == 0 || f.Unplanned != struck || f.Storms != 0 || f.ByKind["storm"] != struck {
					t.Errorf("%d links were struck: %+v", struck, f)
				}
				if !strings.Contains(strings.Join(r.Notes, "\n"), "the seed does not repeat") {
					t.Errorf("notes %q", r.Notes)
				}
			})
		})
	}
}

func TestUnplannedStormsReachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, struck := striking(t, smallRun(t, func(p *profiles.Profile) {
			p.Reach = profiles.Reach{Storms: 1}
		}), 300*time.Millisecond)
		if struck == 0 || r.Verdict != result.Inconclusive || !strings.Contains(strings.Join(r.Why, "\n"), "storms: wanted 1, got 0") {
			t.Errorf("%d struck, %s: %v", struck, r.Verdict, r.Why)
		}
	})
}

// TestUnplannedStormsConvict: they are faults like any other.
func TestUnplannedStormsConvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := striking(t, smallRun(t, func(p *profiles.Profile) { p.Server.Defect = "S03b" }), 300*time.Millisecond)
		if r.Verdict != result.Violated || invariantOf(t, r, "no-loss").Violations == 0 {
			t.Errorf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
		}
	})
}

// TestWhatAnInjectorSays: figures of a run, while it goes on and behind its end.
func TestWhatAnInjectorSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, func(p *profiles.Profile) {
			p.Thresholds = profiles.Thresholds{"first_event": {{Is: "p(99)<1h"}}}
		})
		var i *Injector
		c.Armed = func(given *Injector) {
			i = given
			if s := i.Status(); s.Planned != 50 || s.Opened != 0 {
				t.Errorf("before the load: %+v", s)
			}
			if th := i.Thresholds(); len(th) != 1 || th[0].OK {
				t.Errorf("before the load: %+v", th)
			}
		}
		r := mustRun(t, c)
		if s := i.Status(); s.Opened != 50 || s.Settled != 50 || s.Open != 0 || s.Delivered < 50*50 || s.Cuts < 50 || s.Resumes == 0 ||
			s.Violations != 0 || s.Strikes != 0 {
			t.Errorf("after it: %+v", s)
		}
		if th := i.Thresholds(); len(th) != 1 || !th[0].OK {
			t.Errorf("after it: %+v", th)
		}
		if n := i.Strike(1); n != 0 || r.Verdict != result.Holds {
			t.Errorf("%d links struck after the run; %s", n, r.Verdict)
		}
	})
}

func TestUnplannedInWords(t *testing.T) {
	for n, want := range map[int64]string{0: "", 1: "1 storm was", 2: "2 storms were"} {
		if got := unplanned(chaos.Counts{Strikes: n}); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%d: %q", n, got)
		}
	}
}
