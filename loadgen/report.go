package loadgen

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A Report is what [Run] did. The canary is counted nowhere but in Canary, GET streams
// in GetStreams, Gets, Delivered, Resumes and Links.
type Report struct {
	// Target is what the target said of itself in the first session.
	Target Target
	// Planned arrivals; those of them whose call was sent; the most that were open at once.
	Planned, Opened, MaxOpen int64
	// DroppedArrivals of the open model found as many streams open as may be, or were
	// more than a second behind the end of the load. They were never started.
	DroppedArrivals int64
	// Outcomes of all planned arrivals that were started, by history.Outcome. Planned
	// less DroppedArrivals less their sum is what Halt or a stop kept from starting.
	Outcomes [history.OutcomeFailed + 1]int64
	// GetStreams were planned, and Gets are their outcomes.
	GetStreams int64
	Gets       [history.OutcomeFailed + 1]int64
	// Canary is the outcome of the canary, OutcomeNone if there was none.
	Canary history.Outcome
	// Delivered messages, responses included, repeats as well.
	Delivered int64
	// Resumes counts the attempts to resume.
	Resumes Resumes
	// Links opened, Sessions opened (a session that was lost counts again), and Answers
	// sent to requests of the target; Probes that were asked, and calls that were made
	// again, on sampled streams.
	Links, Sessions, Answers, Probes int64
	// Throttled counts the answers 429 and 503 that the target gave to calls and handshakes.
	Throttled int64
	// Complaints are the errors that calls were answered with.
	Complaints Complaints
	// Latencies of everything but the canary; the ends of a call from the load alone.
	Latencies *Latencies
	// Took is from the start of Run to its end; CPU is the processor time that this
	// process used meanwhile, on at most Cores cores. CPU is 0 where the system does not say.
	Took, CPU time.Duration
	Cores     int
}

// Behind reports that this side did not produce the load that was planned: then it
// must not blame the target for being late. Shortfall says why.
func (r Report) Behind() bool { return r.Shortfall() != "" }

// Shortfall says in a sentence how this side failed to produce the planned load, ""
// if it did not: it started calls late, it ran out of processor while starts were late,
// or it had to drop more than a tenth of the arrivals.
func (r Report) Shortfall() string {
	late := r.Latencies.Quantile(StartDelay, 99)
	switch {
	case late >= time.Second:
		return fmt.Sprintf("one call in a hundred started %v late or later", late.Round(time.Millisecond))
	case r.Saturated() && late >= 100*time.Millisecond:
		return fmt.Sprintf("this process had no processor time left (%.1f of %d cores), and calls started up to %v late",
			r.CPU.Seconds()/r.Took.Seconds(), r.Cores, late.Round(time.Millisecond))
	case r.DroppedArrivals*10 > r.Planned:
		return fmt.Sprintf("%d of %d arrivals were dropped: %d streams were open at most", r.DroppedArrivals, r.Planned, r.MaxOpen)
	}
	return ""
}

// Saturated reports that this process used at least nine tenths of its cores.
func (r Report) Saturated() bool {
	return r.Took > 0 && r.CPU.Seconds() >= 0.9*float64(r.Cores)*r.Took.Seconds()
}

// Target is what a target says of itself. Sessions tells that it gave out a session id.
type Target struct {
	Name, Version, Revision string
	Sessions                bool
	// Front is what the answer to the first request says of who stands in between: its
	// Server and Via fields, visible ASCII, at most 80 bytes.
	Front string
}

// Resumes counts attempts to resume a stream.
type Resumes struct {
	// Attempted: the GET was about to be sent. Succeeded: it was answered with an event
	// stream.
	Attempted, Succeeded int64
	// Refused for good: the stream was given up because of the status.
	Refused int64
	// Conflicts were answered 409.
	Conflicts int64
	// ByStatus counts the answers of the target; 0 stands for none: no link, a cut before
	// the head, or an answer that the link made up.
	ByStatus map[int]int64
}

// Live counts while a run goes on. The zero Live is ready for use by one run.
type Live struct {
	opened, open, maxOpen, settled     atomic.Int64
	delivered, resumes, links, answers atomic.Int64
	dropped, probes                    atomic.Int64
	running                            atomic.Pointer[runner] // what Quantile, Mean and Outcomes look into
}

// Progress is a snapshot of [Live].
type Progress struct {
	// Opened calls were sent, Open of them are not yet settled, Settled streams have an
	// outcome.
	Opened, Open, MaxOpen, Settled int64
	// Delivered messages; Resumes attempted; Links opened; arrivals Dropped; Probes made.
	Delivered, Resumes, Links, Dropped, Probes int64
}

// Progress returns where the run is. It may be called at any time.
func (l *Live) Progress() Progress {
	return Progress{
		Opened: l.opened.Load(), Open: l.open.Load(), MaxOpen: l.maxOpen.Load(), Settled: l.settled.Load(),
		Delivered: l.delivered.Load(), Resumes: l.resumes.Load(), Links: l.links.Load(),
		Dropped: l.dropped.Load(), Probes: l.probes.Load(),
	}
}

// sent counts a call as open from now on.
func (l *Live) sent() {
	l.opened.Add(1)
	open := l.open.Add(1)
	for {
		most := l.maxOpen.Load()
		if open <= most || l.maxOpen.CompareAndSwap(most, open) {
			return
		}
	}
}

// tally adds up what settled streams leave behind.
type tally struct {
	mu       sync.Mutex
	outcomes [history.OutcomeFailed + 1]int64
	gets     [history.OutcomeFailed + 1]int64
	canary   history.Outcome
	resumes  Resumes
}

// UnreachableError says that no link to the target could be opened, or that it ended
// before the target answered anything.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("target %s not reachable: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// HandshakeError says that something answered which does not open MCP sessions, or which
// does not speak the revision without them.
type HandshakeError struct {
	// Status of the answer to initialize, to notifications/initialized or to
	// server/discover.
	Status int
	// Reason says what was wrong with it.
	Reason string
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("the target answers %d%s: %s", e.Status, phrase(e.Status), e.Reason)
}
