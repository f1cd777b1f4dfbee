// Package lock is a mutex that tells what it costs: how often it was taken and by whom,
// how often somebody had to wait and for how long, and how long it was held.
//
//	          Lock(op)                       Unlock()
//	free ──► TryLock ───────────► held ───────────► the wait, and 1 hold in 16, are told
//	           │ taken by another   ▲
//	           └─► waiters+1, Lock ─┘ waiters-1
//
// What it costs can be read from three series of one [Probe]. The share of time that the
// lock is held is 16 * rate(hold_seconds_sum); the mean number of those that wait is
// rate(wait_seconds_sum), by Little's law; the share of acquisitions that had to wait is
// contended_total / acquisitions_total.
package lock

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Op says what a lock is taken for.
type Op int

// What locks are taken for.
const (
	Append Op = iota // to put an event into a log, and hand it on
	Replay           // to read from a log
	Attach           // to begin or to end reading it
	Evict            // to drop what is over a bound, or a whole session
	ops
)

// String returns the name a metric uses.
func (o Op) String() string {
	return [...]string{"append", "replay", "attach", "evict"}[o]
}

// Scope says who shares one lock.
type Scope int

// Scopes.
const (
	Stream  Scope = iota // each stream has its own
	Session              // the streams of a session share one
	Global               // all streams share one
	scopes
)

// Valid reports whether s is one of the three.
func (s Scope) Valid() bool { return s >= 0 && s < scopes }

// String returns what [Parse] reads.
func (s Scope) String() string {
	if !s.Valid() {
		return fmt.Sprintf("scope %d", int(s))
	}
	return [...]string{"stream", "session", "global"}[s]
}

// Parse reads the name of a scope.
func Parse(text string) (Scope, error) {
	var names []string
	for s := range scopes {
		if s.String() == text {
			return s, nil
		}
		names = append(names, s.String())
	}
	return 0, fmt.Errorf("scope of a lock %q: it is one of %s", text, strings.Join(names, ", "))
}

// sampling is how many acquisitions there are for each hold that is measured. Two
// readings of the clock and a histogram cost more than the rest of a lock together.
const sampling = 16

// Mutex is a mutual exclusion lock that reports to a [Probe]. The zero Mutex is a plain
// one that reports to nobody. It must not be copied after first use.
type Mutex struct {
	mu    sync.Mutex
	probe *Probe
	// The rest is guarded by mu. taken counts by operation, modulo 256: each is sampled
	// for itself, or operations that take turns would be seen one for all.
	taken  [ops]uint8
	op     Op
	since  time.Time     // of this hold, if it is measured; else zero
	waited time.Duration // before this hold, zero if not at all
}

// New returns a mutex that reports to p, which may be nil.
func New(p *Probe) *Mutex {
	m := &Mutex{probe: p}
	if p != nil {
		// Mutexes that are taken a few times and forgotten are sampled too: one in
		// sixteen of them measures the first hold, another the second.
		phase := uint8(p.phases.Add(1) % sampling)
		for op := range m.taken {
			m.taken[op] = phase
		}
	}
	return m
}

// Lock takes the mutex, for an operation that the metrics name.
func (m *Mutex) Lock(op Op) {
	p := m.probe
	if p == nil {
		m.mu.Lock()
		return
	}
	if !m.mu.TryLock() {
		m.op, m.waited = op, p.waitFor(&m.mu, op)
	}
	p.acquisitions[op].Inc()
	m.taken[op]++
	if m.taken[op]%sampling == 0 {
		m.op, m.since = op, time.Now()
	}
}

// Unlock gives the mutex back. What was measured is told afterwards, so that nobody
// waits for that.
func (m *Mutex) Unlock() {
	if m.since.IsZero() && m.waited == 0 {
		m.mu.Unlock()
		return
	}
	op, since, waited := m.op, m.since, m.waited
	m.since, m.waited = time.Time{}, 0
	var held time.Duration
	if !since.IsZero() {
		held = time.Since(since)
	}
	m.mu.Unlock()
	if waited > 0 {
		m.probe.wait[op].Observe(waited.Seconds())
	}
	if !since.IsZero() {
		m.probe.hold[op].Observe(held.Seconds())
	}
}
