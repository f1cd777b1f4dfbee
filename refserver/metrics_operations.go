package refserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// otherLabel stands for values that are not among those a label is known to have. A
// client chooses methods, and each one would be a series for good.
const otherLabel = "_OTHER"

// failedTool is the error_type of a tool's result with isError.
const failedTool = "tool_error"

// semconvSeconds are the buckets of OpenTelemetry's conventions for MCP.
func semconvSeconds() []float64 {
	return []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
}

// operation names a child of mcp_server_operation_duration_seconds. Each field has its
// few values.
type operation struct {
	method    string // see methodLabel
	failure   string // see failureOf; empty for success
	revision  string // negotiated; empty if that failed
	transport string // see transportOf
}

// Children that are made when they are first needed. The labels have more combinations
// than fit into 2,000 series, so what comes later is counted under otherLabel. Failures,
// which a client can provoke, leave the successes their room.
const (
	lateSuccesses = 16
	lateFailures  = 12
)

// operations measures what clients ask for, as OpenTelemetry's conventions for MCP say:
// from the time a request or notification was received until its result was made.
type operations struct {
	vec *prometheus.HistogramVec

	mu       sync.RWMutex
	children map[operation]prometheus.Observer
	late     map[bool]int // children made late, by whether they are failures
}

func newOperations(b *builder) *operations {
	buckets := append([]float64{0.0005, 0.001, 0.002, 0.005}, semconvSeconds()...)
	o := &operations{
		vec: b.timed("mcp_server_operation_duration_seconds", "Time from the receipt of a request or notification until its result was made.",
			buckets, []string{"mcp_method_name", "error_type", "mcp_protocol_version", "network_transport"}),
		children: make(map[operation]prometheus.Observer),
		late:     make(map[bool]int),
	}
	for _, failure := range []string{"", otherLabel} {
		o.add(operation{otherLabel, failure, "", transportTCP})
	}
	for _, revision := range revisions() {
		for _, method := range []string{"initialize", "ping", "tools/list", "tools/call"} {
			o.add(operation{method, "", revision, transportTCP})
		}
	}
	return o
}

// add makes a child. o.mu is held, or nobody else knows o.
func (o *operations) add(op operation) prometheus.Observer {
	child := o.vec.WithLabelValues(op.method, op.failure, op.revision, op.transport)
	o.children[op] = child
	return child
}

func (o *operations) observe(op operation, took time.Duration) {
	o.mu.RLock()
	child := o.children[op]
	o.mu.RUnlock()
	if child == nil {
		child = o.child(op)
	}
	child.Observe(took.Seconds())
}

func (o *operations) child(op operation) prometheus.Observer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if child := o.children[op]; child != nil {
		return child
	}
	failed, room := op.failure != "", lateSuccesses
	if failed {
		room = lateFailures
	}
	if o.late[failed] < room {
		o.late[failed]++
		return o.add(op)
	}
	rest := operation{otherLabel, "", "", transportTCP}
	if failed {
		rest.failure = otherLabel
	}
	return o.children[rest]
}

// methodLabel returns a method that a client can ask a server for, or otherLabel.
func methodLabel(method string) string {
	switch method {
	case "initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list",
		"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "notifications/initialized", "notifications/cancelled",
		"notifications/progress", "notifications/roots/list_changed", "server/discover", "subscriptions/listen":
		return method
	}
	return otherLabel
}

// failureCodes are the codes of JSON-RPC and of MCP that a server answers with.
func failureCodes() []int64 {
	return []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInternalError, -32002, -32042}
}

// failureOf returns the error_type of a response: a code, or failedTool, or empty.
func failureOf(m *jsonrpc.Response) string {
	if m.Error != nil {
		return failureCode(m.Error)
	}
	if !bytes.Contains(m.Result, []byte(`"isError":true`)) {
		return "" // which can be said without reading megabytes as JSON
	}
	var result struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(m.Result, &result) == nil && result.IsError {
		return failedTool
	}
	return ""
}

// failureIn returns the error_type of what a handler returned.
func failureIn(result mcp.Result, err error) string {
	if err != nil {
		return failureCode(err)
	}
	if called, ok := result.(*mcp.CallToolResult); ok && called != nil && called.IsError {
		return failedTool
	}
	return ""
}

// failureCode returns the code of an error as a label.
func failureCode(err error) string {
	var e *jsonrpc.Error
	if errors.As(err, &e) && slices.Contains(failureCodes(), e.Code) {
		return strconv.FormatInt(e.Code, 10)
	}
	return otherLabel
}

// Values of network_transport.
const (
	transportTCP  = "tcp"
	transportUnix = "unix"
)

func transportOf(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return transportUnix
	}
	return transportTCP
}

// asked is what is kept of a request until its response comes.
type asked struct {
	method   string // as a label
	received time.Time
}

// expect notes which requests are about to be handed to the SDK.
func (s *session) expect(messages []jsonrpc.Message, received time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() {
			if c := s.calls[request.ID]; c != nil {
				c.asked = asked{methodLabel(request.Method), received}
			}
		}
	}
}

// answered measures a request that was answered.
func (s *session) answered(c *call, m *jsonrpc.Response, revision string) {
	if c.asked.method == "initialize" {
		revision = revisionIn(m.Result)
	}
	s.measure(c.asked, failureOf(m), revision)
}

func (s *session) measure(a asked, failure, revision string) {
	s.h.metrics.operations.observe(operation{a.method, failure, revision, s.transport}, time.Since(a.received))
}

// notified measures a notification, which is done when it was taken.
func (s *session) notified(request *jsonrpc.Request, received time.Time) {
	s.mu.Lock()
	revision := s.revision
	s.mu.Unlock()
	s.measure(asked{methodLabel(request.Method), received}, "", revision)
}

// unanswered measures the requests that the SDK will not answer any more.
func (s *session) unanswered() {
	s.mu.Lock()
	var left []asked
	for _, c := range s.calls {
		if c.asked.method != "" {
			left = append(left, c.asked)
		}
	}
	clear(s.calls)
	revision := s.revision
	s.mu.Unlock()
	for _, a := range left {
		s.measure(a, otherLabel, revision)
	}
}

// sessionEnd is why a session ended, as far as it matters to who operates the server.
type sessionEnd int

const (
	endedAsked sessionEnd = iota // by its client or with the server
	endedIdle                    // its client did not use it
	endedError                   // the handshake failed, or a write did where nothing is stored
	sessionEnds
)

// sessionTimes measures sessions by the revision they negotiated and why they ended.
type sessionTimes struct {
	children map[string]*[sessionEnds]prometheus.Observer
}

func newSessionTimes(b *builder) *sessionTimes {
	vec := b.timed("mcp_server_session_duration_seconds", "Time from the opening of a session to its end.",
		semconvSeconds(), []string{"error_type", "mcp_protocol_version"})
	t := &sessionTimes{children: make(map[string]*[sessionEnds]prometheus.Observer)}
	for _, revision := range revisions() {
		t.children[revision] = new([sessionEnds]prometheus.Observer)
		for end, failure := range [sessionEnds]string{"", "timeout", otherLabel} {
			t.children[revision][end] = vec.WithLabelValues(failure, revision)
		}
	}
	failed := vec.WithLabelValues(otherLabel, "") // before a revision was agreed on
	t.children[""] = &[sessionEnds]prometheus.Observer{failed, failed, failed}
	return t
}

func (t *sessionTimes) observe(revision string, end sessionEnd, took time.Duration) {
	t.children[revision][end].Observe(took.Seconds())
}

// endFor ends the session for a reason other than that somebody wanted it.
func (s *session) endFor(why sessionEnd) {
	s.mu.Lock()
	if !s.ended {
		s.why = why
	}
	s.mu.Unlock()
	s.end()
}

// measureEnd measures the session, which was dropped.
func (s *session) measureEnd() {
	s.mu.Lock()
	revision, why := s.revision, s.why
	s.mu.Unlock()
	s.h.metrics.ended.observe(revision, why, time.Since(s.opened))
}
