package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// messageBytes is the size of a progress notification, as JSON.
const messageBytes = 200

// sizes says how much a run measures.
type sizes struct {
	Rounds        int     `json:"rounds"`
	BurstStreams  int     `json:"burst_streams"`
	BurstEvents   int     `json:"burst_events"` // per stream and round
	LiveStreams   int     `json:"live_streams"`
	LiveRate      int     `json:"live_rate"`    // events a second, per stream
	LiveSeconds   float64 `json:"live_seconds"` // per round
	IdleStreams   int     `json:"idle_streams"`
	Resumes       int     `json:"resumes"` // per round
	ReplayEvents  int     `json:"replay_events"`
	IdleRoundsMax int     `json:"idle_rounds_max"`
}

// sample is what one round of one regime gave for one server.
type sample struct {
	CPU     float64 // µs of the server per event that has come, or per resume
	Wall    float64 // µs per resume; events a second in the other regimes
	KiB     float64 // per idle stream
	Events  int     // that have come
	Missing int     // that have not
	Again   int     // that have come once more, or late
}

// regime is one way to use a server.
type regime struct {
	name    string
	resumes bool // means nothing without a store
	measure func(context.Context, *child, sizes) (sample, error)
}

func regimes() []regime {
	return []regime{
		{name: "burst", measure: burst},
		{name: "live", measure: live},
		{name: "idle", measure: idle},
		{name: "replay", resumes: true, measure: replay},
	}
}

// openers is how many sessions or streams are opened at once.
const openers = 16

// each calls f with 0 to n-1, a few at a time, and returns the first errors.
func each(n int, f func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, min(openers, n))
	for w := range errs {
		group.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = f(i)
			}
		})
	}
	group.Wait()
	return first(errs)
}

// first returns the first error there is: when a server goes, all its streams complain.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sessions(ctx context.Context, addr string, n int) ([]*client, error) {
	all := make([]*client, n)
	err := each(n, func(i int) (err error) {
		all[i], err = open(ctx, addr)
		return err
	})
	return all, err
}

// flow counts what has come on all streams of a round, and tells when the count has
// reached two marks.
type flow struct {
	n          atomic.Int64
	from, to   int64
	begun, end chan struct{}
}

func newFlow(from, to int) *flow {
	return &flow{from: int64(from), to: int64(to), begun: make(chan struct{}), end: make(chan struct{})}
}

func (f *flow) add() {
	switch f.n.Add(1) {
	case f.from:
		close(f.begun)
	case f.to:
		close(f.end)
	}
}

// drainAll calls the tool once in each session, drains all streams at the same time,
// and adds up what has come. Done is closed at the end.
func drainAll(ctx context.Context, all []*client, args toolArgs, f *flow) (done chan struct{}, sum func() (sample, error)) {
	streams, errs := make([]*stream, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, c := range all {
		group.Go(func() {
			if streams[i], errs[i] = c.call(ctx, args); errs[i] == nil {
				errs[i] = streams[i].drain(f.add)
			}
		})
	}
	done = make(chan struct{})
	go func() { // ends when the streams do
		group.Wait()
		close(done)
	}()
	return done, func() (total sample, err error) {
		for _, s := range streams {
			if s == nil {
				return total, first(errs)
			}
			total.Events += s.events
			total.Missing += s.missing()
			total.Again += s.again
		}
		return total, first(errs)
	}
}

// warm is a short call before the clock starts, so that no round pays for what happens
// once.
func warm(ctx context.Context, c *client) error {
	s, err := c.call(ctx, toolArgs{Messages: 20, Bytes: messageBytes})
	if err != nil {
		return err
	}
	return s.drain(func() {})
}

// burst sends as fast as the server can: CPU per event from the calls to the last
// response.
func burst(ctx context.Context, server *child, z sizes) (sample, error) {
	all, err := sessions(ctx, server.addr, z.BurstStreams)
	if err != nil {
		return sample{}, err
	}
	if err := warm(ctx, all[0]); err != nil {
		return sample{}, err
	}
	before, err := server.number(askCPU)
	if err != nil {
		return sample{}, err
	}
	begun := time.Now()
	done, sum := drainAll(ctx, all, toolArgs{Messages: z.BurstEvents, Bytes: messageBytes}, newFlow(0, 0))
	<-done
	took := time.Since(begun)
	after, err := server.number(askCPU)
	if err != nil {
		return sample{}, err
	}
	total, err := sum()
	return total.per(after-before, took, total.Events), err
}

// per sets what one event has cost.
func (s sample) per(cpu int64, took time.Duration, events int) sample {
	if events > 0 && took > 0 {
		s.CPU = float64(cpu) / 1000 / float64(events)
		s.Wall = float64(events) / took.Seconds()
	}
	return s
}

// live sends at a steady pace: CPU per event between the first quarter of the events
// and the last tenth.
func live(ctx context.Context, server *child, z sizes) (sample, error) {
	all, err := sessions(ctx, server.addr, z.LiveStreams)
	if err != nil {
		return sample{}, err
	}
	messages := max(int(float64(z.LiveRate)*z.LiveSeconds), 4)
	offered := messages * z.LiveStreams
	f := newFlow(offered/4, offered*9/10)
	args := toolArgs{Messages: messages, IntervalMS: 1000 / float64(z.LiveRate), Bytes: messageBytes}
	done, sum := drainAll(ctx, all, args, f)
	await := func(mark chan struct{}) {
		select {
		case <-mark:
		case <-done: // so many never came
		}
	}
	await(f.begun)
	before, err := server.number(askCPU)
	seen, begun := f.n.Load(), time.Now()
	if err != nil {
		return sample{}, err
	}
	await(f.end)
	after, err := server.number(askCPU)
	events, took := int(f.n.Load()-seen), time.Since(begun)
	if err != nil {
		return sample{}, err
	}
	<-done
	total, err := sum()
	return total.per(after-before, took, events), err
}

// idle opens streams that wait for long behind their first event: memory of the server
// per stream, sessions not counted.
func idle(ctx context.Context, server *child, z sizes) (sample, error) {
	// One session each: mcp-go may send what belongs to one call of a session on the
	// connection of another, and then that call waits for ever.
	all, err := sessions(ctx, server.addr, z.IdleStreams)
	if err != nil {
		return sample{}, err
	}
	if err := warm(ctx, all[0]); err != nil {
		return sample{}, err
	}
	before, err := server.number(askRSS)
	if err != nil {
		return sample{}, err
	}
	streams := make([]*stream, z.IdleStreams)
	defer func() {
		for _, s := range streams {
			if s != nil {
				_ = s.link.Close()
			}
		}
	}()
	err = each(len(streams), func(i int) (err error) {
		const long = 600_000
		if streams[i], err = all[i].call(ctx, toolArgs{Messages: 3, IntervalMS: long, Bytes: messageBytes}); err != nil {
			return err
		}
		for streams[i].events == 0 {
			if err := streams[i].next(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return sample{}, err
	}
	after, err := server.number(askRSS)
	if err != nil || before == 0 {
		return sample{}, errors.Join(err, errNoMemory(before))
	}
	return sample{KiB: float64(after-before) / 1024 / float64(len(streams)), Events: len(streams)}, nil
}

func errNoMemory(resident int64) error {
	if resident == 0 {
		return errors.New("this system does not tell how much memory a process uses")
	}
	return nil
}

// replay resumes one finished stream from its first event over and over, one resume
// after the other: time until the response has come again, and CPU.
func replay(ctx context.Context, server *child, z sizes) (sample, error) {
	c, err := open(ctx, server.addr)
	if err != nil {
		return sample{}, err
	}
	s, err := c.call(ctx, toolArgs{Messages: z.ReplayEvents, Bytes: messageBytes})
	if err != nil {
		return sample{}, err
	}
	cursor, number := "", 0
	for cursor == "" {
		if err := s.next(); err != nil {
			return sample{}, fmt.Errorf("looking for an event id: %w", err)
		}
		cursor, number = s.cursor(), s.last
	}
	if err := s.drain(func() {}); err != nil {
		return sample{}, err
	}
	before, err := server.number(askCPU)
	if err != nil {
		return sample{}, err
	}
	var total sample
	took := make([]float64, z.Resumes)
	for i := range took {
		begun := time.Now()
		r, err := c.resume(ctx, cursor, number, z.ReplayEvents)
		if err != nil {
			return sample{}, err
		}
		if err := r.drain(func() {}); err != nil {
			return sample{}, fmt.Errorf("resume %d: %w", i+1, err)
		}
		took[i] = float64(time.Since(begun).Nanoseconds()) / 1000
		total.Events += r.events
		total.Missing += r.missing()
		total.Again += r.again
	}
	after, err := server.number(askCPU)
	if err != nil {
		return sample{}, err
	}
	slices.Sort(took)
	total.Wall = took[len(took)/2]
	total.CPU = float64(after-before) / 1000 / float64(len(took))
	return total, nil
}
