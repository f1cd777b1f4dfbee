package handoff

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
)

// load is what the price of replays is measured with: sessions with one writer each, and
// readers that come back over and over for a backlog of 1,000 events and take their time
// to write it.
type load struct {
	store   store.Store
	readers int
	pause   time.Duration // per batch
}

const (
	backlog = 1000 // events per session, appended before the clock runs
	rounds  = 200  // then one event for each session every millisecond
)

// latencies appends to each of 50 streams in turn and returns, in ascending order, how long each append took.
func (l load) latencies(t testing.TB) []time.Duration {
	const sessions = 50
	frame := []byte("data: " + strings.Repeat("x", 200) + "\n\n")
	names := make([]store.Stream, sessions)
	for i := range names {
		names[i] = store.Stream{Session: fmt.Sprint("s", i), Name: "a"}
		for range backlog {
			if _, err := l.store.Append(t.Context(), names[i], store.Event{Frame: frame}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range l.readers {
		all.Go(func() { l.replay(t, names[i%sessions], &over) })
	}
	took := make([]time.Duration, 0, sessions*rounds)
	tick := time.NewTicker(time.Millisecond)
	for range rounds {
		<-tick.C
		for _, name := range names {
			begun := time.Now()
			_, err := l.store.Append(t.Context(), name, store.Event{Frame: frame})
			took = append(took, time.Since(begun))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tick.Stop()
	over.Store(true)
	all.Wait()
	slices.Sort(took)
	return took
}

// replay comes back from the start until it is over.
func (l load) replay(t testing.TB, stream store.Stream, over *atomic.Bool) {
	ctx := done(t)
	for !over.Load() {
		tail, err := l.store.After(t.Context(), store.Cursor{Stream: stream})
		if err != nil {
			t.Error(err)
			return
		}
		for events := 0; events < backlog && !over.Load(); {
			batch, err := tail.Next(ctx)
			if err != nil {
				break // caught up, or sent back
			}
			events += batch.Events
			<-time.After(l.pause) // the write to a slow reader
		}
		_ = tail.Close()
	}
}

func at(sorted []time.Duration, share float64) time.Duration {
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func opened(t testing.TB, scope lock.Scope, handoff bool) store.Store {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{Lock: scope})
	if err != nil {
		t.Fatal(err)
	}
	if !handoff {
		return m
	}
	return on(t, m, Config{Lock: scope})
}

// While 50 sessions replay 1,000 events each to readers that need 20 ms for a write, an
// append never waits for a write: with a lock that is held across it, the median would.
func TestAppend_WhileSlowReadersReplay_IsNotHeldUp(t *testing.T) {
	const pause = 20 * time.Millisecond
	for _, scope := range scopes() {
		for name, handoff := range map[string]bool{"follow": false, "handoff": true} {
			quiet := load{store: opened(t, scope, handoff)}.latencies(t)
			busy := load{store: opened(t, scope, handoff), readers: 50, pause: pause}.latencies(t)
			if p99 := at(busy, 0.99); p99 > pause/2 {
				t.Errorf("%s, %s: p99 of append is %s, with writes of %s", name, scope, p99, pause)
			}
			t.Logf("%-7s %-7s append p50 %s p99 %s p99.9 %s max %s; without readers %s %s %s", name, scope,
				at(busy, 0.5), at(busy, 0.99), at(busy, 0.999), busy[len(busy)-1], at(quiet, 0.5), at(quiet, 0.99), at(quiet, 0.999))
		}
	}
}
