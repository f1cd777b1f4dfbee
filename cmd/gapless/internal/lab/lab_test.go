package lab

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// inMemory starts the reference server inside the bubble, on a network in memory.
func inMemory(t *testing.T, server profiles.Server) func(context.Context) (*Endpoint, error) {
	t.Helper()
	return func(context.Context) (*Endpoint, error) {
		fixture, err := NewFixture(ServeConfig{Server: server, Version: "test"})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ln, admin := memnet.Listen(), memnet.Listen()
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, fixture, ln, admin, io.Discard) }()
		return &Endpoint{
			URL: "http://127.0.0.1:1/mcp", Admin: "http://127.0.0.1:2",
			Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, ":2") {
					return admin.Dial(ctx)
				}
				return ln.Dial(ctx)
			},
			Stop: func() error {
				cancel()
				return <-served
			},
		}, nil
	}
}

// smallRun is a run of the whole path that fits a bubble.
func smallRun(t *testing.T, change func(*profiles.Profile)) Config {
	t.Helper()
	p, err := profiles.Load("smoke")
	if err != nil {
		t.Fatal(err)
	}
	p.Load.Streams, p.Reach = 50, profiles.Reach{}
	if change != nil {
		change(&p)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return Config{
		Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("secret"), Version: "test", Command: "gapless run",
		Start: inMemory(t, p.Server),
	}
}

func mustRun(t *testing.T, c Config) *result.Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheWholePathHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := mustRun(t, smallRun(t, func(p *profiles.Profile) {
			p.Emit.Interval = profiles.Duration(2 * time.Second) // 100 virtual seconds
			p.Calls[0].Deadline = profiles.Duration(10 * time.Minute)
			p.Server.Retry = profiles.Duration(10 * time.Second)
			p.Load.Drain = profiles.Duration(10 * time.Minute)
		}))
		if r.Verdict != result.Holds || r.Messages.Lost != 0 || r.Messages.Duplicated != 0 {
			t.Errorf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
		}
		if r.Messages.Delivered != 50*50 || r.Responses.Received != 50 {
			t.Errorf("%d messages and %d responses delivered, want 2,500 and 50", r.Messages.Delivered, r.Responses.Received)
		}
		if len(r.Faults.ByPlace) != 10 || r.Faults.Injected < 100 || r.Resumes.Succeeded < 80 {
			t.Errorf("%d cuts at %d places, %d resumes: the run proves little", r.Faults.Injected, len(r.Faults.ByPlace), r.Resumes.Succeeded)
		}
		if !r.Canary.Convicted || r.Control.Complete != 3 || r.Control.MessagesPerCall != 50 {
			t.Errorf("canary %+v, control %+v", r.Canary, r.Control)
		}
		if took := time.Since(began); took < 100*time.Second {
			t.Errorf("the run took %v of virtual time, so it waited for nothing", took)
		}
	})
}

func TestPlantedDefectsAreConvicted(t *testing.T) {
	for _, tc := range []struct{ defect, invariant string }{
		{"S03", "no-duplicate"}, {"S03b", "no-loss"}, {"S03b,k=10", "no-loss"},
		{"S05", "no-loss"}, {"S05b", "one-response"},
	} {
		t.Run(tc.defect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := mustRun(t, smallRun(t, func(p *profiles.Profile) { p.Server.Defect = tc.defect }))
				if r.Verdict != result.Violated {
					t.Fatalf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
				}
				if inv := invariantOf(t, r, tc.invariant); inv.Verdict != result.Violated || len(inv.Evidence) == 0 {
					t.Errorf("%s: %+v", tc.invariant, inv)
				}
				if r.Control.Complete != 3 {
					t.Errorf("the control calls suffered too: %+v", r.Control)
				}
				if len(r.Timelines) == 0 || !hasFinding(r.Timelines[0], tc.invariant) {
					t.Errorf("no timeline shows %s", tc.invariant)
				}
			})
		})
	}
}

func invariantOf(t *testing.T, r *result.Result, name string) result.Invariant {
	t.Helper()
	for _, inv := range r.Invariants {
		if inv.Name == name {
			return inv
		}
	}
	t.Fatalf("no invariant %s", name)
	return result.Invariant{}
}

func hasFinding(tl result.Timeline, name string) bool {
	for _, s := range tl.Steps { // the first timeline is the one that people are shown
		if strings.Contains(s.Finding, name) {
			return true
		}
	}
	return false
}

// eachRecord observes all streams with one function.
type eachRecord func(*history.Record)

func (f eachRecord) Open(loadgen.Arrival) loadgen.StreamObserver { return f }
func (f eachRecord) Observe(r *history.Record)                   { f(r) }

// TestSameSeedSameHistories: draws are keyed by stream and places are positions, so
// that each stream's history repeats, whatever the scheduler does.
func TestSameSeedSameHistories(t *testing.T) {
	histories := func(seed uint64) map[uint32]string {
		var mu sync.Mutex
		all := map[uint32]string{}
		synctest.Test(t, func(t *testing.T) {
			c := smallRun(t, nil)
			c.Seed = seed
			c.Observer = eachRecord(func(r *history.Record) {
				mu.Lock()
				defer mu.Unlock()
				all[r.Stream] += fmt.Sprintln(r.Kind, r.Attempt, r.Exchange.Cursor, r.Head.Status, r.Head.Missed, r.Event.Class, r.Event.Seq,
					r.Event.Cursor, r.End, r.Injection, r.Outcome)
			})
			mustRun(t, c)
		})
		return all
	}
	first, again, other := histories(3), histories(3), histories(4)
	if len(first) != 51 { // and the canary
		t.Fatalf("%d histories, want 51", len(first))
	}
	for stream, text := range first {
		if again[stream] != text {
			t.Errorf("stream %d: two runs with one seed differ:\n%s\nand\n%s", stream, text, again[stream])
		}
	}
	if maps.Equal(first, other) {
		t.Error("another seed gave the same histories: it seeds nothing")
	}
}
