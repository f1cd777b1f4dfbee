package umcp

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of a server. Those that package refserver has as well mean
// the same there. No label holds what a client chooses.
type metrics struct {
	all []prometheus.Collector

	connections, sessions, streams        prometheus.Gauge
	opened, events, bytes, dropped, other prometheus.Counter
	closed                                map[refserver.Reason]prometheus.Counter
	answers                               map[int]prometheus.Counter
}

// statuses are those that the server itself answers with.
func statuses() []int {
	return []int{
		http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized,
		http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusHTTPVersionNotSupported,
	}
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{closed: make(map[refserver.Reason]prometheus.Counter), answers: make(map[int]prometheus.Counter)}
	m.connections = m.gauge("connections", "Connections that are open.").WithLabelValues()
	m.sessions = m.gauge("sessions", "Sessions that are open.").WithLabelValues()
	m.streams = m.gauge("streams", "Streams that are open, or finished and being read.", "kind", "state").WithLabelValues("get", "live")
	m.opened = m.counter("streams_opened_total", "Streams that were opened.", "kind").WithLabelValues("get")
	closed := m.counter("streams_closed_total", "Connections that stopped following a stream.", "reason")
	for _, r := range []refserver.Reason{refserver.ReasonServer, refserver.ReasonClient, refserver.ReasonTimeout} {
		m.closed[r] = closed.WithLabelValues(r.String())
	}
	m.events = m.counter("events_total", "Events written to clients.", "path").WithLabelValues("live")
	m.bytes = m.counter("event_bytes_total", "Bytes of the events written to clients.", "path").WithLabelValues("live")
	m.dropped = m.counter("events_dropped_total", "Messages that no event stream took, or that one ended with.").WithLabelValues()
	answers := m.counter("responses_total", "Responses by their status.", "status")
	for _, status := range statuses() {
		m.answers[status] = answers.WithLabelValues(strconv.Itoa(status))
	}
	m.other = answers.WithLabelValues("_OTHER") // of the handler of other paths
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

func (m *metrics) answered(status int) {
	if c := m.answers[status]; c != nil {
		c.Inc()
		return
	}
	m.other.Inc()
}
