package refserver

import (
	"errors"

	"github.com/gapless-dev/gapless/refserver/store"
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

// metrics are the handler's counters. All children exist from the start, so that a
// rate begins at zero, and are looked up once.
type metrics struct {
	sessions    prometheus.Gauge
	streams     [kinds][states]prometheus.Gauge
	opened      [kinds]prometheus.Counter
	closed      [reasons]prometheus.Counter
	events      [paths]prometheus.Counter
	bytes       [paths]prometheus.Counter
	resumes     [outcomes]prometheus.Counter
	replay      prometheus.Histogram
	storeErrors prometheus.Counter
}

func newMetrics(cfg Config) (*metrics, error) {
	m := new(metrics)
	var all []prometheus.Collector
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
		all = append(all, v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
		all = append(all, v)
		return v
	}
	m.sessions = gauge("sessions", "Sessions that are open.").WithLabelValues()
	streams := gauge("streams", "Streams that are open, or finished and being read.", "kind", "state")
	opened := counter("streams_opened_total", "Streams that were opened.", "kind")
	for k, name := range [kinds]string{"post", "get"} {
		m.opened[k] = opened.WithLabelValues(name)
		for st, state := range [states]string{"live", "detached"} {
			m.streams[k][st] = streams.WithLabelValues(name, state)
		}
	}
	closed := counter("streams_closed_total", "Connections that stopped following a stream.", "reason")
	for r := range reasons {
		m.closed[r] = closed.WithLabelValues(r.String())
	}
	events := counter("events_total", "Events written to clients.", "path")
	bytes := counter("event_bytes_total", "Bytes of the events written to clients.", "path")
	for p, name := range [paths]string{"live", "replay", "priming", "unstored"} {
		m.events[p], m.bytes[p] = events.WithLabelValues(name), bytes.WithLabelValues(name)
	}
	resumes := counter("resumes_total", "Requests with a Last-Event-ID, by how they were answered.", "outcome")
	for o := range outcomes {
		m.resumes[o] = resumes.WithLabelValues(o.String())
	}
	m.storeErrors = counter("store_errors_total", "Events that the event store did not take.").WithLabelValues()
	m.replay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "gapless", Subsystem: "server", Name: "replay_events",
		Help:    "Events that an accepted resume had to replay.",
		Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000},
	})
	all = append(all, m.replay)
	if meter, ok := cfg.Store.(store.Meter); ok {
		all = append(all, storeCollector(meter))
	}
	if instrumented, ok := cfg.Store.(store.Instrumented); ok {
		all = append(all, instrumented.Collectors()...)
	}
	return m, register(cfg.Registerer, all)
}

func register(to prometheus.Registerer, all []prometheus.Collector) error {
	if to == nil {
		return nil
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, to.Register(c))
	}
	return errors.Join(errs...)
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

// collector reads the store when it is scraped.
type collector struct {
	meter                  store.Meter
	events, bytes, streams *prometheus.Desc
	evictions              *prometheus.Desc
}

func storeCollector(meter store.Meter) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_server_store_"+name, help, labels, nil)
	}
	return &collector{
		meter:     meter,
		events:    desc("events", "Events that the store keeps."),
		bytes:     desc("bytes", "Bytes of the events that the store keeps."),
		streams:   desc("streams", "Streams that the store keeps events of."),
		evictions: desc("evictions_total", "Events that the store dropped.", "cause"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.events
	ch <- c.bytes
	ch <- c.streams
	ch <- c.evictions
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.meter.Stats()
	ch <- prometheus.MustNewConstMetric(c.events, prometheus.GaugeValue, float64(s.Events))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(s.Bytes))
	ch <- prometheus.MustNewConstMetric(c.streams, prometheus.GaugeValue, float64(s.Streams))
	for cause, n := range s.Evicted {
		ch <- prometheus.MustNewConstMetric(c.evictions, prometheus.CounterValue, float64(n), store.Cause(cause).String())
	}
}
