package streams

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Transports of links, and results of polls and resumes, as labels.
const (
	transportWebSocket = "ws"
	transportLines     = "stdio"

	resultOK      = "ok"
	resultRefused = "refused"
)

// metrics are the counters of a server. Those that package refserver has as well mean
// the same there. No label holds what a client chooses.
type metrics struct {
	all []prometheus.Collector

	sessions, attached                         prometheus.Gauge
	opened, plain, dropped, evicted, abandoned prometheus.Counter
	links                                      map[string]prometheus.Gauge
	polls, resumes                             map[string]prometheus.Counter
	closed                                     map[outcome]prometheus.Counter
	live, replay                               path
}

type path struct{ events, bytes prometheus.Counter }

// outcomes are the reasons for which a link stops following a stream, as labels.
func outcomes() map[outcome]string {
	return map[outcome]string{
		outcomeCompleted: "completed", outcomeLinkLost: "client", outcomeClosed: "server",
		outcomeSuperseded: "superseded", outcomeReclaimed: "reclaimed", outcomeLost: "overrun",
	}
}

func newMetrics(to prometheus.Registerer, s *Server) (*metrics, error) {
	m := &metrics{
		links: make(map[string]prometheus.Gauge), polls: make(map[string]prometheus.Counter),
		resumes: make(map[string]prometheus.Counter), closed: make(map[outcome]prometheus.Counter),
	}
	m.sessions = m.gauge("sessions", "Sessions that are open.").WithLabelValues()
	m.attached = m.gauge("followers", "Links that follow a stream or wait for the response of a plain call.").WithLabelValues()
	links := m.gauge("links", "WebSockets and pipes that are open.", "transport")
	for _, t := range []string{transportWebSocket, transportLines} {
		m.links[t] = links.WithLabelValues(t)
	}
	m.opened = m.counter("streams_opened_total", "Streams that were opened.", "kind").WithLabelValues("post")
	m.plain = m.counter("streams_refused_total", "Calls that were served without a stream since there was no place for it.").WithLabelValues()
	m.abandoned = m.counter("streams_abandoned_total", "Streams to which nobody came back in time.").WithLabelValues()
	m.evicted = m.counter("streams_evicted_total", "Completed streams that gave their place to others.").WithLabelValues()
	m.dropped = m.counter("events_dropped_total", "Messages that a buffer had no room for, though a client may lack them.").WithLabelValues()
	polls := m.counter("polls_total", "Requests of stream/poll by their result.", "result")
	resumes := m.counter("resumes_total", "Requests of stream/resume by their result.", "result")
	for _, r := range []string{resultOK, resultRefused} {
		m.polls[r], m.resumes[r] = polls.WithLabelValues(r), resumes.WithLabelValues(r)
	}
	closed := m.counter("streams_closed_total", "Links that stopped following a stream.", "reason")
	for why, name := range outcomes() {
		m.closed[why] = closed.WithLabelValues(name)
	}
	events := m.counter("events_total", "Messages of streams written to links.", "path")
	bytes := m.counter("event_bytes_total", "Bytes of the messages written to links, without framing.", "path")
	m.live = path{events.WithLabelValues("live"), bytes.WithLabelValues("live")}
	m.replay = path{events.WithLabelValues("replay"), bytes.WithLabelValues("replay")}
	m.measure("streams", "Streams that are kept, live or completed.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.streams))
	})
	m.measure("buffer_messages", "Messages that the buffers hold.", func() float64 { return float64(s.messages.Load()) })
	m.measure("buffer_bytes", "Bytes that the buffers hold, with what each message costs beside its text.", func() float64 { return float64(s.bytes.Load()) })
	if to == nil {
		return m, nil
	}
	for i, c := range m.all {
		if err := to.Register(c); err != nil {
			for _, before := range slices.Clone(m.all[:i]) {
				to.Unregister(before)
			}
			return nil, fmt.Errorf("registering the metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) measure(name, help string, f func() float64) {
	m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "gapless", Subsystem: "server", Name: name, Help: help}, f))
}
