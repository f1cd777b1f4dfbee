package refserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/prometheus/client_golang/prometheus"
)

// storeOp is what a store is asked to do.
type storeOp int

const (
	opAppend storeOp = iota
	opReplay         // find the place behind a cursor
	opTrim           // forget a session
	storeOps
)

// storeOutcome is how it did.
type storeOutcome int

const (
	storeOK      storeOutcome = iota
	storeRefused              // as its contract allows: a stream has ended, a cursor is unknown
	storeFailed
	storeOutcomes
)

func storeOutcomeOf(err error) storeOutcome {
	switch {
	case err == nil:
		return storeOK
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrEvicted),
		errors.Is(err, store.ErrEnded), errors.Is(err, store.ErrFull), errors.Is(err, context.Canceled):
		return storeRefused
	}
	return storeFailed
}

// storeName is the value of the label store. It is the program's choice, never a
// client's.
func storeName(s store.Store) string {
	if n, ok := s.(store.Named); ok {
		return n.Name()
	}
	return "custom"
}

// Appends to a store that answers within fastAppend are measured one in sampleEach:
// reading the clock twice would cost a third of what they take. A slower store, or one
// that fails, is measured at each.
const (
	fastAppend = 10 * time.Microsecond
	sampleEach = 16
)

// storeTimes counts all operations of the store, and measures them.
type storeTimes struct {
	count [storeOps][storeOutcomes]prometheus.Counter
	took  [storeOps][storeOutcomes]prometheus.Observer

	appends atomic.Uint64
	slow    atomic.Bool // the last append that was measured was, or failed
}

func newStoreTimes(b *builder, s store.Store) *storeTimes {
	t, name := new(storeTimes), storeName(s)
	count := b.counter("store_ops_total", "Operations of the event store.", "store", "op", "outcome")
	took := b.histogram("store_op_duration_seconds", "Time of an operation of the event store; of appends that take less than 10 µs, one in 16 is measured.",
		[]float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 2.5e-4, 1e-3, 2.5e-3, 0.01, 0.1, 1, 10}, "store", "op", "outcome")
	outcomes := [storeOutcomes]string{"ok", "refused", "error"}
	for op, opName := range [storeOps]string{"append", "replay", "trim"} {
		for o, outcome := range outcomes {
			if storeOp(op) == opTrim && storeOutcome(o) != storeOK {
				continue // it has no way to fail
			}
			t.count[op][o] = count.WithLabelValues(name, opName, outcome)
			t.took[op][o] = took.WithLabelValues(name, opName, outcome)
		}
	}
	return t
}

// done counts an operation, and measures it unless begun is zero.
func (t *storeTimes) done(op storeOp, err error, begun time.Time) (took time.Duration) {
	outcome := storeOutcomeOf(err)
	t.count[op][outcome].Inc()
	if !begun.IsZero() {
		took = time.Since(begun)
		t.took[op][outcome].Observe(took.Seconds())
	}
	return took
}

// measure returns a store that has its operations measured, and adds what it can say of
// itself.
func (b *builder) measure(s store.Store) store.Store {
	m := measured{s, newStoreTimes(b, s)}
	b.addHoldings(s)
	b.offered(s)
	if f, ok := s.(store.Forgetter); ok {
		return &forgetful{m, f}
	}
	return &m
}

// offered adds the metrics that a store brings along.
func (b *builder) offered(s store.Store) {
	if i, ok := s.(store.Instrumented); ok {
		b.all = append(b.all, i.Collectors()...)
	}
}

// measured is a store whose operations are measured.
type measured struct {
	store.Store
	times *storeTimes
}

// Append implements [store.Store].
func (m *measured) Append(ctx context.Context, stream store.Stream, event store.Event) (string, error) {
	var begun time.Time
	if m.times.slow.Load() || m.times.appends.Add(1)%sampleEach == 1 {
		begun = time.Now()
	}
	id, err := m.Store.Append(ctx, stream, event)
	took := m.times.done(opAppend, err, begun)
	if slow := took > fastAppend || storeOutcomeOf(err) == storeFailed; slow || !begun.IsZero() {
		m.times.notice(slow)
	}
	return id, err
}

// notice keeps what is known of the store's speed. It rarely changes, and is read for
// each event.
func (t *storeTimes) notice(slow bool) {
	if t.slow.Load() != slow {
		t.slow.Store(slow)
	}
}

// After implements [store.Store].
func (m *measured) After(ctx context.Context, cursor store.Cursor) (store.Tail, error) {
	begun := time.Now()
	tail, err := m.Store.After(ctx, cursor)
	m.times.done(opReplay, err, begun)
	return tail, err
}

// forgetful is a measured store that can trim.
type forgetful struct {
	measured
	forgetter store.Forgetter
}

// Forget implements [store.Forgetter].
func (f *forgetful) Forget(session string) {
	begun := time.Now()
	f.forgetter.Forget(session)
	f.times.done(opTrim, nil, begun)
}

// holdings says what the store holds when it is scraped.
type holdings struct {
	store store.Store
	descs holdingDescs
}

type holdingDescs struct{ events, bytes, streams, age, evictions *prometheus.Desc }

func describeHoldings(name string) holdingDescs {
	desc := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_server_store_"+metric, help, nil, prometheus.Labels{"store": name})
	}
	return holdingDescs{
		events:    desc("events", "Events that the store keeps."),
		bytes:     desc("bytes", "Bytes of the events that the store keeps."),
		streams:   desc("streams", "Streams that the store keeps events of."),
		age:       desc("oldest_event_age_seconds", "Age of the oldest event that the store keeps, 0 when it keeps none."),
		evictions: prometheus.NewDesc("gapless_server_store_evictions_total", "Events that the store dropped.", []string{"cause"}, nil),
	}
}

// addHoldings adds what the store can say of itself.
func (b *builder) addHoldings(s store.Store) {
	_, meter := s.(store.Meter)
	_, aged := s.(store.Aged)
	if meter || aged { // a collector that describes nothing could not be taken back
		b.all = append(b.all, &holdings{store: s, descs: describeHoldings(storeName(s))})
	}
}

// Describe implements [prometheus.Collector].
func (h *holdings) Describe(ch chan<- *prometheus.Desc) {
	if _, ok := h.store.(store.Meter); ok {
		ch <- h.descs.events
		ch <- h.descs.bytes
		ch <- h.descs.streams
		ch <- h.descs.evictions
	}
	if _, ok := h.store.(store.Aged); ok {
		ch <- h.descs.age
	}
}

// Collect implements [prometheus.Collector].
func (h *holdings) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v)
	}
	if meter, ok := h.store.(store.Meter); ok {
		s := meter.Stats()
		gauge(h.descs.events, float64(s.Events))
		gauge(h.descs.bytes, float64(s.Bytes))
		gauge(h.descs.streams, float64(s.Streams))
		for cause, n := range s.Evicted {
			ch <- prometheus.MustNewConstMetric(h.descs.evictions, prometheus.CounterValue, float64(n), store.Cause(cause).String())
		}
	}
	if aged, ok := h.store.(store.Aged); ok {
		gauge(h.descs.age, aged.OldestAge().Seconds())
	}
}
