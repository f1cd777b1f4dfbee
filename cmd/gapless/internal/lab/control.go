package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/report"
)

// maxControlRecords bounds what is kept of one control call; a call of more
// messages is judged on its beginning, and so counts as incomplete.
const maxControlRecords = 200_000

// control holds the control calls: made before the load, without faults, they say
// what a call looks like when nothing happens to it, and thereby what the judge
// demands. Their histories are kept until there is a judge.
type control struct {
	marks  loadgen.Marks
	target loadgen.Target
	room   int // records that a call is likely to have

	mu       sync.Mutex
	calls    []*controlCall
	rawBytes int // of all messages that came, kept or not
}

type controlCall struct {
	arrival loadgen.Arrival
	records []history.Record
	// raw are its messages, at says which of the records tells of each.
	raw [][]byte
	at  []int
}

// Open implements loadgen.Observer.
func (c *control) Open(a loadgen.Arrival) loadgen.StreamObserver {
	call := &controlCall{arrival: a, records: make([]history.Record, 0, c.room)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	return call
}

// Observe implements loadgen.StreamObserver.
func (c *controlCall) Observe(r *history.Record) {
	if len(c.records) < maxControlRecords || r.Kind == history.KindSettled {
		c.records = append(c.records, *r)
	}
}

// control makes the control calls. Where the profile wants none, nothing is learnt of the
// target: the run goes by what the profile lets one expect of it.
func (x *experiment) control(ctx context.Context) (*control, error) {
	c := &control{marks: loadgen.NewMarks(x.c.Name, x.c.Secret), room: min(slices.Max(Assume(x.c.Profile).Messages)+16, maxControlRecords)}
	n := x.c.Profile.Load.Control
	if n == 0 {
		return c, nil
	}
	load, err := loadgen.NewPlan(loadConfig(x.c.Profile, x.c.Seed))
	if err != nil {
		return nil, err
	}
	plan, err := loadgen.NewPlan(loadgen.PlanConfig{
		Seed: x.c.Seed, Streams: n * len(x.c.Profile.Calls), Sessions: x.c.Profile.SessionCount(),
		Kind: history.StreamControl, First: uint32(load.Total() + 1), Weights: weights(x.c.Profile),
	})
	if err != nil {
		return nil, err
	}
	cfg, err := x.generator(plan)
	if err != nil {
		return nil, err
	}
	cfg.Observer = c
	if x.compares() {
		cfg.Raw = c.raw
	}
	cfg.Live = new(loadgen.Live)
	silent := x.tellControl(ctx, cfg.Live, plan.Len())
	report, err := loadgen.Run(ctx, cfg)
	if err := errors.Join(unreachable(err), silent()); err != nil {
		return nil, fmt.Errorf("control calls: %w", err)
	}
	c.target = report.Target
	return c, x.doubts(c, report, plan.Len())
}

// tellControl tells Progress of the control calls, until the returned function is called.
// Its error is a panic on the way.
func (x *experiment) tellControl(ctx context.Context, live *loadgen.Live, planned int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var group guard.Group
	if x.c.Progress != nil {
		group.Go(func() {
			x.every(ctx, func() {
				p := live.Progress()
				x.c.Progress(report.Progress{
					Elapsed: time.Since(x.began), Phase: "control", Open: p.Open, Planned: int64(planned), Messages: p.Delivered,
				})
			})
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}
}

// doubts looks whether the control calls are what they were meant to be. Arguments that
// every call is refused for are the user's, and end the run here.
func (x *experiment) doubts(c *control, report loadgen.Report, made int) error {
	n := report.Complaints
	all := fmt.Sprintf("all %d control calls ended in an error: %s", made, clean(n.First))
	switch {
	case n.Count >= int64(made) && (strings.HasPrefix(n.First, "isError") || strings.Contains(n.First, "-32602")):
		return &MisusedError{all + "; check the arguments (--args)"}
	case n.Count >= int64(made):
		x.doubt = all
	case n.Count > 0:
		x.notes = append(x.notes, fmt.Sprintf("%d of %d control calls ended in an error: %s", n.Count, made, clean(n.First)))
	case c.facts().Answered == 0:
		x.doubt = fmt.Sprintf("none of the %d control calls was answered", made)
	}
	return nil
}

// histories are the records of the control calls.
func (c *control) histories() [][]history.Record {
	all := make([][]history.Record, len(c.calls))
	for i, call := range c.calls {
		all[i] = call.records
	}
	return all
}

// clean makes the target's own words fit to be shown.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func (c *control) facts() judge.Facts {
	streams := make([]judge.ControlStream, len(c.calls))
	for i, call := range c.calls {
		streams[i].Records = call.records
	}
	return judge.Learn(streams)
}

// replay lets the judge see the control calls, with the target's own account.
func (c *control) replay(j *judge.Judge, l *ledger, a *archive) error {
	tracks, keys := make([]*track, len(c.calls)), make([]string, len(c.calls))
	for i, call := range c.calls {
		of := call.arrival
		tracks[i] = &track{stream: j.Open(of.Session, of.Stream, of.Kind), of: of, saved: a.open(of.Kind, of.Session, of.Stream)}
		keys[i] = c.marks.Of(of.Session, of.Stream)
		for k := range call.records {
			tracks[i].note(&call.records[k])
		}
	}
	if l != nil && len(keys) > 0 {
		_, err := l.take(context.Background(), keys, func(i int, r *history.Record) {
			r.Session, r.Stream = tracks[i].of.Session, tracks[i].of.Stream
			tracks[i].note(r)
		})
		if err != nil {
			return fmt.Errorf("control calls: %w", err)
		}
	}
	for _, t := range tracks {
		t.stream.Close()
		a.put(t.saved, t.stream.Damaged())
	}
	return nil
}

// generator is the part of the load generator's settings that control calls and
// load share.
func (x *experiment) generator(plan loadgen.Plan) (loadgen.Config, error) {
	p := x.c.Profile
	calls, err := calls(p, x.c.Name, x.c.Seed)
	if err != nil {
		return loadgen.Config{}, err
	}
	cfg := loadgen.Config{
		URL: x.endpoint.URL, Dial: x.dialer.Dial, Plan: plan,
		Revision: string(p.Target.Protocol), Calls: calls,
		Resume: loadgen.ResumePolicy{
			Jitter: p.Resume.Jitter.Fraction(), Backoff: p.Resume.Backoff.Std(),
			BackoffMax: p.Resume.BackoffMax.Std(), Attempts: p.Resume.Attempts,
		},
		Idle: p.Resume.Idle.Std(), Drain: p.Load.Drain.Std(),
		Seed: x.c.Seed, Name: x.c.Name, Secret: x.c.Secret, Start: x.began,
		Batches: p.Target.Protocol == "2025-03-26" && !speaksUMCP(p), Halt: x.c.Halt,
	}
	if p.Resume.Jitter == 0 {
		cfg.Resume.Jitter = -1 // none; its own 0 would mean the default
	}
	cfg.Header, cfg.Credential, cfg.Modern = fields(p.Target.Headers), x.endpoint.Credential, p.Target.Dialect == "modern"
	cfg.UMCP = speaksUMCP(p)
	cfg.Draft = drafted(p)
	cfg.MaxRate = p.Target.MaxRate.PerSecond()
	return cfg, nil
}
