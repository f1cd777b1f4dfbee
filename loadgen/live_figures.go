package loadgen

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// Quantile returns the quantile q, in percent, of a phase so far, and how many
// latencies it rests on. The last few event gaps of each open stream are not among them
// yet. It may be called at any time, and holds up the streams for some ten microseconds.
func (l *Live) Quantile(p Phase, q float64) (time.Duration, int64) {
	r := l.running.Load()
	if r == nil {
		return 0, 0
	}
	r.measured.mu.Lock()
	defer r.measured.mu.Unlock()
	return r.measured.l.Quantile(p, q), r.measured.l.of[p].TotalCount()
}

// Mean returns the mean of a phase so far, like [Live.Quantile].
func (l *Live) Mean(p Phase) (time.Duration, int64) {
	r := l.running.Load()
	if r == nil {
		return 0, 0
	}
	r.measured.mu.Lock()
	defer r.measured.mu.Unlock()
	return r.measured.l.Mean(p), r.measured.l.of[p].TotalCount()
}

// Outcomes returns the outcomes of the planned arrivals that have settled so far.
func (l *Live) Outcomes() [history.OutcomeFailed + 1]int64 {
	r := l.running.Load()
	if r == nil {
		return [history.OutcomeFailed + 1]int64{}
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	return r.tally.outcomes
}

// Mean returns the mean of a phase; 0 when it is empty.
func (l *Latencies) Mean(p Phase) time.Duration {
	if l.of[p].TotalCount() == 0 {
		return 0
	}
	return time.Duration(l.of[p].Mean() * float64(time.Microsecond))
}

// PhaseNamed finds a phase by the name that it has in result.json.
func PhaseNamed(name string) (Phase, bool) {
	for p := range phases {
		if p.String() == name {
			return p, true
		}
	}
	return 0, false
}
