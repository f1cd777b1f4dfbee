package refserver

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// kind tells the streams of requests from standalone ones.
type kind int

const (
	kindPost kind = iota
	kindGet
	kinds
)

func kindOf(name string) kind {
	if name == standalone {
		return kindGet
	}
	return kindPost
}

// String returns the name that metrics and reports use.
func (k kind) String() string { return [...]string{"post", "get"}[k] }

type state int

const (
	stateLive     state = iota // a connection follows the stream
	stateDetached              // none does
	states
)

type path int

const (
	pathLive path = iota
	pathReplay
	pathPriming
	pathUnstored
	paths
)

// phase is how far a resume has come.
type phase int

const (
	phaseLookup    phase = iota // its cursor was judged, and its stream found
	phaseFirstByte              // the head of its response was written
	phaseCaughtUp               // all was written that the log held when it was accepted
	phases
)

// stallTime is from where on a write to a client is a stall: one that fits into the
// buffers of the kernel takes some microseconds.
const stallTime = time.Millisecond

// metrics are the handler's counters. All children exist from the start, so that a
// rate begins at zero, and are looked up once; operations says which do not. None has a
// label that a client chooses.
type metrics struct {
	operations *operations
	ended      *sessionTimes

	sessions    prometheus.Gauge
	streams     [kinds][states]prometheus.Gauge
	opened      [kinds]prometheus.Counter
	closed      [reasons]prometheus.Counter
	events      [paths]prometheus.Counter
	bytes       [paths]prometheus.Counter
	resumes     [outcomes]prometheus.Counter
	resuming    [phases]prometheus.Observer
	replay      prometheus.Observer
	stalls      prometheus.Observer
	storeErrors prometheus.Counter
}

// newMetrics adds the metrics of the handler to what b has, and registers them all.
func newMetrics(to prometheus.Registerer, b *builder) (*metrics, error) {
	m := new(metrics)
	m.operations, m.ended = newOperations(b), newSessionTimes(b)
	m.sessions = b.gauge("sessions", "Sessions that are open.").WithLabelValues()
	m.addStreams(b)
	m.addResumes(b)
	m.storeErrors = b.counter("store_errors_total", "Events that the event store did not take.").WithLabelValues()
	m.stalls = b.histogram("write_stall_seconds", "Time of a write to a client that took 1 ms or longer: the client reads too slowly.",
		[]float64{0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60}).WithLabelValues()
	if err := register(to, b.all); err != nil {
		return nil, fmt.Errorf("registering the metrics: %w; handlers that share a registry need a label each, by prometheus.WrapRegistererWith", err)
	}
	return m, nil
}

func (m *metrics) addStreams(b *builder) {
	streams := b.gauge("streams", "Streams that are open, or finished and being read.", "kind", "state")
	opened := b.counter("streams_opened_total", "Streams that were opened.", "kind")
	for k, name := range [kinds]string{"post", "get"} {
		m.opened[k] = opened.WithLabelValues(name)
		for st, state := range [states]string{"live", "detached"} {
			m.streams[k][st] = streams.WithLabelValues(name, state)
		}
	}
	closed := b.counter("streams_closed_total", "Connections that stopped following a stream.", "reason")
	for r := range reasons {
		m.closed[r] = closed.WithLabelValues(r.String())
	}
	events := b.counter("events_total", "Events written to clients.", "path")
	bytes := b.counter("event_bytes_total", "Bytes of the events written to clients.", "path")
	for p, name := range [paths]string{"live", "replay", "priming", "unstored"} {
		m.events[p], m.bytes[p] = events.WithLabelValues(name), bytes.WithLabelValues(name)
	}
}

func (m *metrics) addResumes(b *builder) {
	resumes := b.counter("resumes_total", "Requests with a Last-Event-ID, by how they were answered.", "outcome")
	for o := range outcomes {
		m.resumes[o] = resumes.WithLabelValues(o.String())
	}
	took := b.histogram("resume_duration_seconds", "Time from a request with a Last-Event-ID until its cursor was judged, "+
		"the head of the answer was written, and the missed events were written.",
		[]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30}, "phase")
	for p, name := range [phases]string{"lookup", "first_byte", "caught_up"} {
		m.resuming[p] = took.WithLabelValues(name)
	}
	m.replay = b.histogram("replay_events", "Events that an accepted resume had to replay.",
		[]float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}).WithLabelValues()
}

// register registers all collectors or none.
func register(to prometheus.Registerer, all []prometheus.Collector) error {
	if to == nil {
		return nil
	}
	for i, c := range all {
		if err := to.Register(c); err != nil {
			for _, before := range all[:i] {
				to.Unregister(before)
			}
			return err
		}
	}
	return nil
}

// wrote counts events that were written to a client.
func (m *metrics) wrote(p path, events, bytes int) {
	m.events[p].Add(float64(events))
	m.bytes[p].Add(float64(bytes))
}

func (m *metrics) move(k kind, from, to state) {
	m.streams[k][from].Dec()
	m.streams[k][to].Inc()
}

// waited notes how long a write took, if that says something of the client.
func (m *metrics) waited(took time.Duration) {
	if took >= stallTime {
		m.stalls.Observe(took.Seconds())
	}
}

// builder makes the collectors of a handler and keeps them for their registration.
type builder struct{ all []prometheus.Collector }

func (b *builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
	b.all = append(b.all, v)
	return v
}

func (b *builder) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
	b.all = append(b.all, v)
	return v
}

// histogram has native buckets beside the classic ones, for scrapers that take them.
func (b *builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return b.timed("gapless_server_"+name, help, buckets, labels)
}

func (b *builder) timed(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	b.all = append(b.all, v)
	return v
}
