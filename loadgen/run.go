package loadgen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
)

// Why a run's context ended, where it was not the caller.
var (
	errDrained = errors.New("the drain is over")
	errPanic   = errors.New("a stream panicked")
)

// runner is one run.
type runner struct {
	c            Config
	target, host string
	calls        []spoken
	marks        Marks
	group        guard.Group
	dials        chan struct{} // one token for each link in the making
	slots        chan *stream  // one for each stream that may open; nil until first used
	measured     meter
	tally        tally
	complaints   complaints
	flying       flights
	opened       atomic.Int64           // sessions
	throttled    atomic.Int64           // answers 429 and 503 of the target
	requests     atomic.Uint64          // ids given out where there are no sessions
	known        atomic.Pointer[Target] // who the target is, where there are no sessions
	next         time.Duration          // before which MaxRate lets no stream start
	foreign      foreign
	asked        atomic.Bool            // the probes of a session are taken
	secret       atomic.Pointer[string] // the latest credential
	used         time.Duration          // processor time of the process when the run began

	mu       sync.Mutex
	sessions []*session // by number, from 1
}

// Run carries out the plan: it opens the first session, starts every arrival when it
// is due, waits for the open streams and deletes the sessions. Every stream that was
// started has exactly one outcome when Run returns.
//
// Errors: what Validate complains about; [*UnreachableError] and [*HandshakeError] if
// the first session could not be opened, before anything was started; the context's
// error when it was stopped, with a Report of what was done; a [*guard.PanicError] if
// a goroutine of the run panicked, which never passes for an outcome.
func Run(ctx context.Context, c Config) (Report, error) {
	if err := c.Validate(); err != nil {
		return Report{}, fmt.Errorf("load: %w", err)
	}
	r := newRunner(c.withDefaults())
	r.c.Live.running.Store(r)
	begun := r.now()
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.group.OnPanic = func() { cancel(errPanic) }
	context.AfterFunc(ctx, r.flying.end)

	first, err := r.session(ctx, r.c.Plan.Arrival(0).Session, nil)
	switch {
	case outer.Err() != nil:
		return Report{}, outer.Err()
	case err != nil:
		var strange *HandshakeError
		if errors.As(err, &strange) {
			strange.Reason = r.hide(strange.Reason)
		}
		return Report{}, err
	}
	var halt sync.WaitGroup
	halt.Go(func() { r.halt(ctx, cancel) })
	r.start(ctx)
	err = r.group.Wait()
	cancel(nil)
	halt.Wait()
	if err == nil {
		err = outer.Err()
	}
	r.part(outer)
	return r.report(first.target, begun), err
}

func newRunner(c Config) *runner {
	u, _ := url.Parse(c.URL) // Validate has parsed it
	r := &runner{
		c: c, target: u.RequestURI(), host: u.Host, calls: speak(c.Calls),
		marks:    NewMarks(c.Name, c.Secret),
		dials:    make(chan struct{}, c.Dials),
		slots:    make(chan *stream, c.Plan.Open()),
		measured: meter{l: newLatencies()}, complaints: complaints{modern: c.Modern}, flying: flights{all: make(map[*link]struct{})},
		sessions: make([]*session, c.Plan.Sessions()),
		used:     processTime(),
	}
	r.tally.resumes.ByStatus = make(map[int]int64)
	for range c.Plan.Open() {
		r.slots <- nil
	}
	return r
}

// now is the time since the start of the run; instant is the inverse.
func (r *runner) now() time.Duration                { return time.Since(r.c.Start) }
func (r *runner) instant(d time.Duration) time.Time { return r.c.Start.Add(d) }

// start begins every arrival when it is due, until the run is halted or stopped.
func (r *runner) start(ctx context.Context) {
	began := r.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := began + r.c.Plan.Lasts() + overrun
	for n := range r.c.Plan.Len() {
		a := r.c.Plan.Arrival(n)
		if a.Due != WhenFree {
			a.Due += began
			if !r.wait(ctx, timer, a.Due) {
				return
			}
		}
		if r.c.Plan.Lasts() > 0 && r.now() > over {
			// Whoever is so far behind would only stretch the load. What is left is dropped.
			r.c.Live.dropped.Add(int64(r.c.Plan.Len() - n))
			return
		}
		var s *stream
		ok := true
		switch {
		case a.extra():
		case r.c.Plan.Lasts() > 0:
			if s, ok = r.free(); !ok {
				r.c.Live.dropped.Add(1)
				continue
			}
		default:
			if s, ok = r.slot(ctx); !ok {
				return
			}
		}
		if a.Due, ok = r.paced(ctx, timer, a.Due); !ok {
			return
		}
		r.launch(ctx, s, a)
	}
}

// paced waits until the next stream may start at all, and returns when it is due by that;
// false means that the run was halted or stopped. A wait for MaxRate is no delay of ours.
func (r *runner) paced(ctx context.Context, timer *time.Timer, due time.Duration) (time.Duration, bool) {
	if due == WhenFree {
		due = r.now()
	}
	if r.c.MaxRate <= 0 {
		return due, true
	}
	if due = max(due, r.next); !r.wait(ctx, timer, due) {
		return due, false
	}
	apart := math.Ceil(float64(time.Second) / r.c.MaxRate)
	r.next = max(due, r.now()) + time.Duration(min(apart, float64(forever)))
	return due, true
}

// overrun is how long after the time of an open model an arrival may still start.
const overrun = time.Second

// wait waits for an instant; false means that the run was halted or stopped.
func (r *runner) wait(ctx context.Context, timer *time.Timer, until time.Duration) bool {
	d := until - r.now()
	if d > 0 {
		timer.Reset(d)
	}
	select { // a halt goes before an arrival that is due as well
	case <-r.c.Halt:
		return false
	case <-ctx.Done():
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	select {
	case <-timer.C:
		return true
	case <-r.c.Halt:
	case <-ctx.Done():
	}
	return false
}

// free takes a slot if there is one.
func (r *runner) free() (s *stream, ok bool) {
	select {
	case s = <-r.slots:
		return s, true
	default:
		return nil, false
	}
}

// halt ends what is still open when the drain after a halt is over.
func (r *runner) halt(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-r.c.Halt:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(r.c.Drain)
	defer timer.Stop()
	select {
	case <-timer.C:
		cancel(errDrained)
	case <-ctx.Done():
	}
}

// slot waits until another stream may be open.
func (r *runner) slot(ctx context.Context) (s *stream, ok bool) {
	select { // a halt goes before a slot that is free as well
	case <-r.c.Halt:
		return nil, false
	case <-ctx.Done():
		return nil, false
	default:
	}
	select {
	case s = <-r.slots:
		return s, true
	case <-r.c.Halt:
	case <-ctx.Done():
	}
	return nil, false
}

// launch runs the arrival in a goroutine of its own, on the memory of an earlier
// stream where there is one.
func (r *runner) launch(ctx context.Context, s *stream, a Arrival) {
	if s == nil {
		s = &stream{r: r}
	}
	r.group.Go(func() {
		s.run(ctx, a)
		if !a.extra() {
			r.slots <- s
		}
	})
}

// farewell bounds the DELETEs of a run: everything is judged already.
const farewell = 2 * time.Second

// part deletes the sessions, a few at a time and not for longer than one exchange may take.
func (r *runner) part(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(r.c.Handshake, farewell))
	defer cancel()
	var next atomic.Int64
	var group guard.Group
	for range min(16, len(r.sessions)) {
		group.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(r.sessions); i = next.Add(1) - 1 {
				if s := r.sessions[i]; s != nil {
					s.end(ctx)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		panic(err)
	}
}

func (r *runner) report(t Target, begun time.Duration) Report {
	live := r.c.Live.Progress()
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	resumes := r.tally.resumes
	resumes.ByStatus = maps.Clone(resumes.ByStatus)
	return Report{
		Target: t, Planned: int64(r.c.Plan.Total()), Opened: live.Opened, MaxOpen: live.MaxOpen,
		DroppedArrivals: live.Dropped, GetStreams: int64(r.c.Plan.Gets()), Gets: r.tally.gets,
		Outcomes: r.tally.outcomes, Canary: r.tally.canary,
		Delivered: live.Delivered, Resumes: resumes, Complaints: r.heard(),
		Links: live.Links, Sessions: r.opened.Load(), Answers: r.c.Live.answers.Load(), Probes: live.Probes, Throttled: r.throttled.Load(),
		Latencies: r.measured.l, Took: r.now() - begun, CPU: processTime() - r.used, Cores: runtime.GOMAXPROCS(0),
	}
}

// heard are the complaints, without what was sent.
func (r *runner) heard() Complaints {
	c := r.complaints.report()
	c.First = r.hide(c.First)
	return c
}

// eventLimit is the largest message taken, in bytes.
func (r *runner) eventLimit() int {
	if r.c.Limits.Event > 0 {
		return r.c.Limits.Event
	}
	return 16 << 20
}
