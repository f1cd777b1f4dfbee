package chaos

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Nemesis is the clock of a run's faults: it opens and closes the window in which
// faults strike, lets storms go, and heals.
//
//	plan ─► every ─► Run ─► links that carry a stream ─► RST, all at once
//	                           └─► each reader reports its own injection
//
// Links that are added ask it before any of their faults strikes.
type Nemesis struct {
	plan  *Plan
	clock func() time.Duration

	healed        atomic.Bool
	fired, struck atomic.Int64
	strikes       atomic.Int64
	mu            sync.Mutex
	links         map[*Link]struct{}
}

// Counts are what a nemesis has done so far.
type Counts struct {
	// Storms is how many of the plan were let go, Strikes how many that somebody asked
	// for, and Struck how many links they ended in all.
	Storms, Strikes, Struck int64
	// Links is how many links are open.
	Links int
}

// NewNemesis returns the nemesis of a run; clock tells the time since its start.
func NewNemesis(plan *Plan, clock func() time.Duration) *Nemesis {
	return &Nemesis{plan: plan, clock: clock, links: make(map[*Link]struct{})}
}

// Add makes the link ask the nemesis, before anything else is done with the link. Its
// Close takes it out again.
func (n *Nemesis) Add(l *Link) {
	l.nemesis = n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[l] = struct{}{}
}

// Remove takes a link out. It goes on asking, but is no longer struck by storms, nor
// healed.
func (n *Nemesis) Remove(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.links, l)
}

// Run lets the storms of the plan go until the context is done, the window closes or the
// run heals. It returns at once when there are none.
func (n *Nemesis) Run(ctx context.Context) {
	next := make([]time.Duration, len(n.plan.storms))
	for i, f := range n.plan.storms {
		next[i] = n.plan.cfg.Start + f.Every
	}
	for k := uint64(1); len(next) > 0; k++ {
		first := slices.Index(next, slices.Min(next))
		if !n.plan.Active(next[first]) || !n.sleep(ctx, next[first]) || n.healed.Load() {
			return
		}
		f := n.plan.storms[first]
		n.storm(f, k)
		// Instants that have passed meanwhile are left out: two storms at once are one.
		for now := n.clock(); next[first] <= now; {
			next[first] += f.Every
		}
	}
}

// sleep waits for a time of the run; false when the context was done before.
func (n *Nemesis) sleep(ctx context.Context, until time.Duration) bool {
	timer := time.NewTimer(until - n.clock())
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// storm lets storm k of the plan go.
func (n *Nemesis) storm(f Fault, k uint64) {
	if n.hit(f.share(), k, false) > 0 {
		n.fired.Add(1)
	}
}

// Strike lets a storm go now that no plan has, over a share (0 to 1) of the links that
// carry a stream, and returns how many it struck: none once the run has healed. Its
// injections tell that they were not planned. It may be called from any goroutine, if
// the plan allows it ([Plan.AllowStrikes]).
func (n *Nemesis) Strike(share float64) int {
	if !n.plan.strikes || !(share > 0) || n.healed.Load() {
		return 0
	}
	struck := n.hit(min(share, 1), math.MaxUint64-uint64(n.strikes.Load()), true)
	if struck > 0 {
		n.strikes.Add(1)
	}
	return struck
}

// hit strikes the share of the links that carry a stream, drawn for storm k.
func (n *Nemesis) hit(share float64, k uint64, unplanned bool) int {
	links := n.carrying()
	key := func(l *Link) uint64 { return draw(n.plan.cfg.Seed, drawStorm, k, uint64(l.id)) }
	slices.SortFunc(links, func(a, b *Link) int { return cmp.Compare(key(a), key(b)) })
	struck := 0
	for _, l := range links[:int(math.Ceil(share*float64(len(links))))] {
		if l.hit(unplanned) {
			struck++
		}
	}
	n.struck.Add(int64(struck))
	return struck
}

// carrying returns the links that a storm may strike.
func (n *Nemesis) carrying() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*Link
	for l := range n.links {
		if l.life.carried() {
			all = append(all, l)
		}
	}
	return all
}

// Heal ends all that lasts, from any goroutine: black-holed links are closed, whoever
// waits goes on, and from now on nothing strikes.
func (n *Nemesis) Heal() {
	n.healed.Store(true)
	n.mu.Lock()
	links := make([]*Link, 0, len(n.links))
	for l := range n.links {
		links = append(links, l)
	}
	n.mu.Unlock()
	for _, l := range links {
		l.Heal()
	}
}

// Counts returns what has been done so far, from any goroutine.
func (n *Nemesis) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Counts{Storms: n.fired.Load(), Strikes: n.strikes.Load(), Struck: n.struck.Load(), Links: len(n.links)}
}

// active tells whether faults may strike now.
func (n *Nemesis) active() bool { return !n.healed.Load() && n.plan.Active(n.clock()) }

// storms tells whether any may be let go.
func (n *Nemesis) storms() bool { return n != nil && n.plan.stormy() }
