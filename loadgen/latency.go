package loadgen

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Phase names what a latency measures.
type Phase uint8

// The phases. All are in microseconds inside the histograms.
const (
	// FirstEvent is from due to the first message.
	FirstEvent Phase = iota
	// EventGap is between two messages that follow one another on one link.
	EventGap
	// Completion is from due to the response.
	Completion
	// StartDelay is what this side took from due to the written request, without the
	// target's time to open the session.
	StartDelay
	// ResumeDetect is from an injected fault to the end of the exchange.
	ResumeDetect
	// ResumeBackoff is the wait before an attempt to resume.
	ResumeBackoff
	// ResumeConnect is from the end of that wait to the response head.
	ResumeConnect
	// ResumeFirstEvent is from the response head to the first event.
	ResumeFirstEvent
	// ResumeCaughtUp is from the end of the cut exchange until everything missed has
	// arrived: as many events as the target says it will replay, or the first event
	// where it does not say.
	ResumeCaughtUp

	phases
)

// String returns the name used in result.json.
func (p Phase) String() string {
	return [...]string{"first_event", "event_gap", "completion", "start_delay", "resume_detect", "resume_backoff",
		"resume_connect", "resume_first_event", "resume_caught_up"}[p]
}

// longest is the largest latency a histogram tells apart; longer ones count as this.
const longest = time.Hour

// Latencies holds one histogram for each phase, in microseconds from 1 µs to one
// hour with three significant digits.
type Latencies struct {
	of [phases]*hdrhistogram.Histogram
}

func newLatencies() *Latencies {
	l := new(Latencies)
	for p := range l.of {
		l.of[p] = hdrhistogram.New(1, longest.Microseconds(), 3)
	}
	return l
}

// Of returns the histogram of a phase, in microseconds.
func (l *Latencies) Of(p Phase) *hdrhistogram.Histogram { return l.of[p] }

// Quantile returns the quantile q, in percent, of a phase; 0 when it is empty.
func (l *Latencies) Quantile(p Phase, q float64) time.Duration {
	return time.Duration(l.of[p].ValueAtQuantile(q)) * time.Microsecond
}

// meter takes what streams measured. A stream keeps a batch of its own, so that the
// lock is taken once for many events.
type meter struct {
	mu sync.Mutex
	l  *Latencies
}

// batch holds the latest latencies of one stream: value i is of phase i.
type batch struct {
	micros [24]uint32
	phase  [24]Phase
	n      uint8
}

// add notes one latency; a negative one, which only clocks of two readings can make, counts as 0.
func (b *batch) add(m *meter, p Phase, d time.Duration) {
	b.micros[b.n] = uint32(min(max(d, 0), longest).Microseconds())
	b.phase[b.n] = p
	if b.n++; int(b.n) == len(b.micros) {
		b.flush(m)
	}
}

func (b *batch) flush(m *meter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, micros := range b.micros[:b.n] {
		// The histograms reach to the longest value that add lets through.
		_ = m.l.of[b.phase[i]].RecordValue(int64(micros))
	}
	b.n = 0
}
