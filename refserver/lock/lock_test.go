package lock

import (
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// read gathers what probes report: values of counters and gauges under name{op}, sums and
// counts of histograms under name_sum{op} and name_count{op}.
func read(t testing.TB, probes ...*Probe) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	for _, p := range probes {
		if err := r.Register(p); err != nil {
			t.Fatal(err)
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			key := "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.Counter != nil:
				out[f.GetName()+key] = m.Counter.GetValue()
			case m.Gauge != nil:
				out[f.GetName()+key] = m.Gauge.GetValue()
			default:
				out[f.GetName()+"_sum"+key] = m.Histogram.GetSampleSum()
				out[f.GetName()+"_count"+key] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

func TestProbe_AllSeriesFromTheStart_TwoInOneRegistry(t *testing.T) {
	got := read(t, NewProbe("store"), NewProbe("delivery"))
	for _, name := range []string{"store", "delivery"} {
		for _, op := range []string{"append", "replay", "attach", "evict"} {
			for _, metric := range []string{"acquisitions_total", "contended_total", "wait_seconds_count", "hold_seconds_count"} {
				key := "gapless_lock_" + metric + "{" + name + "," + op + "}"
				if v, ok := got[key]; !ok || v != 0 {
					t.Errorf("%s is %v, there: %t", key, v, ok)
				}
			}
		}
		if _, ok := got["gapless_lock_waiters{"+name+"}"]; !ok {
			t.Errorf("no waiters of %s", name)
		}
	}
	if want := 2 * (4*6 + 1); len(got) != want {
		t.Errorf("%d values, want %d: %v", len(got), want, got)
	}
}

// Each operation is sampled for itself, so that two that take turns are both seen.
func TestMutex_OneHoldIn16OfEachOperation(t *testing.T) {
	p := NewProbe("x")
	m := New(p)
	for range 16 * 20 {
		for _, op := range []Op{Append, Replay} {
			m.Lock(op)
			m.Unlock()
		}
	}
	got := read(t, p)
	for _, op := range []string{"append", "replay"} {
		if n := got["gapless_lock_hold_seconds_count{x,"+op+"}"]; n != 20 {
			t.Errorf("%s: %v holds measured", op, n)
		}
		if n := got["gapless_lock_acquisitions_total{x,"+op+"}"]; n != 320 {
			t.Errorf("%s: %v acquisitions", op, n)
		}
		if n := got["gapless_lock_contended_total{x,"+op+"}"]; n != 0 {
			t.Errorf("%s: %v contended", op, n)
		}
	}
}

// A mutex that is taken once in its life counts too, in one case of sixteen.
func TestMutex_ShortLives_AreSampled(t *testing.T) {
	p := NewProbe("x")
	for range 16 * 20 {
		m := New(p)
		m.Lock(Attach)
		m.Unlock()
	}
	if n := read(t, p)["gapless_lock_hold_seconds_count{x,attach}"]; n != 20 {
		t.Errorf("%v holds measured", n)
	}
}

func TestMutex_WhoWaits_IsCountedAndTimed(t *testing.T) {
	p := NewProbe("x")
	m := New(p)
	m.Lock(Replay)
	begun := time.Now()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { m.Lock(Append); m.Unlock() })
	}
	for read(t, p)["gapless_lock_waiters{x}"] != 3 {
	}
	waiting := time.Now()
	for time.Since(waiting) < 5*time.Millisecond {
	}
	m.Unlock()
	all.Wait()
	longest := 3 * time.Since(begun).Seconds()
	got := read(t, p)
	if got["gapless_lock_waiters{x}"] != 0 || got["gapless_lock_contended_total{x,append}"] != 3 ||
		got["gapless_lock_wait_seconds_count{x,append}"] != 3 || got["gapless_lock_contended_total{x,replay}"] != 0 {
		t.Errorf("got %v", got)
	}
	if sum := got["gapless_lock_wait_seconds_sum{x,append}"]; sum < 3*0.005 || sum > longest {
		t.Errorf("waited for %v s in all, at most %v are possible", sum, longest)
	}
}

// What is reported agrees with what the workers see, and with the Go runtime: the waiting
// time per second is the mean number of waiters, and the held time the utilisation.
func TestMutex_WaitAndHold_AddUpToWhatTheWorkersSee(t *testing.T) {
	const workers, rounds = 8, 400
	p := NewProbe("x")
	m := New(p)
	var waited, held atomic.Int64
	runtimeBefore, begun := mutexWait(t), time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				before := time.Now()
				m.Lock(Append)
				got := time.Now()
				for time.Since(got) < 50*time.Microsecond {
				}
				held.Add(int64(time.Since(got)))
				m.Unlock()
				waited.Add(int64(got.Sub(before)))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begun).Seconds()
	got := read(t, p)
	seen := time.Duration(waited.Load()).Seconds()
	wait := got["gapless_lock_wait_seconds_sum{x,append}"]
	if wait < seen/2 || wait > seen { // less when a worker is preempted right before it waits
		t.Errorf("%v s of waiting reported, the workers waited for %v s", wait, seen)
	}
	if mean := wait / elapsed; mean < 1 || mean > workers {
		t.Errorf("%v waiters in the mean, of %d workers", mean, workers)
	}
	busy := time.Duration(held.Load()).Seconds() / elapsed
	if n := got["gapless_lock_hold_seconds_count{x,append}"]; n != workers*rounds/sampling {
		t.Errorf("%v holds measured", n)
	}
	// Those measured are some of all, so how long they were is known within bounds only:
	// none is shorter than the worker's work, and no two overlap.
	sum := got["gapless_lock_hold_seconds_sum{x,append}"]
	if least := workers * rounds / sampling * (50 * time.Microsecond).Seconds(); sum < least || sum > elapsed {
		t.Errorf("%v s of holding measured, between %v and %v s are possible", sum, least, elapsed)
	}
	t.Logf("mean waiters %.2f, by the Go runtime %.2f; utilisation %.2f, seen %.2f",
		wait/elapsed, (mutexWait(t)-runtimeBefore)/elapsed, sampling*sum/elapsed, busy)
}

// mutexWait returns the seconds that goroutines of this process waited for mutexes.
func mutexWait(t *testing.T) float64 {
	s := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64 {
		t.Fatal("the runtime does not say how long mutexes were waited for")
	}
	return s[0].Value.Float64()
}

// However many take it, only one has it at a time, with or without a probe.
func TestMutex_Excludes(t *testing.T) {
	for _, m := range []*Mutex{new(Mutex), New(nil), New(NewProbe("x"))} {
		n := 0
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for range 5000 {
					m.Lock(Op(worker))
					n++
					m.Unlock()
				}
			})
		}
		all.Wait()
		if n != 20_000 {
			t.Errorf("counted to %d", n)
		}
	}
}

func TestScope_ParseIsTheInverseOfString(t *testing.T) {
	for s := range scopes {
		if got, err := Parse(s.String()); got != s || err != nil {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, bad := range []string{"", "Stream", "scope 3", "everything"} {
		if _, err := Parse(bad); err == nil || !strings.Contains(err.Error(), "stream, session, global") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if Scope(-1).Valid() || scopes.Valid() || scopes.String() != "scope 3" {
		t.Error("a scope that is none is taken for one")
	}
}

// The price of a pair of Lock and Unlock that nobody disturbs, next to a plain mutex.
func BenchmarkPair(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		var m sync.Mutex
		n := 0
		for b.Loop() {
			m.Lock()
			n++
			m.Unlock()
		}
	})
	for name, p := range map[string]*Probe{"nil probe": nil, "probe": NewProbe("x")} {
		b.Run(name, func(b *testing.B) {
			m := New(p)
			for b.Loop() {
				m.Lock(Append)
				m.Unlock()
			}
		})
	}
}
