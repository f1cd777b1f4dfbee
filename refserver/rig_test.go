package refserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const latest = "2025-11-25"

// rig is a running fixture and a way to reach it.
type rig struct {
	t       testing.TB
	fixture *refserver.Fixture
	url     string
	client  *http.Client
	dial    func(context.Context) (net.Conn, error)
	dials   atomic.Int32 // links that client opened
}

func newStore(t testing.TB, limits store.Limits) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// forDeliveries runs a test for each way of delivery, which the test gives to its
// [refserver.Config].
func forDeliveries(t *testing.T, test func(t *testing.T, d refserver.Delivery)) {
	t.Helper()
	for name, d := range map[string]refserver.Delivery{"follow": refserver.Follow, "handoff": refserver.Handoff} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

// virtual serves a fixture over links in memory, for use inside a synctest bubble.
func virtual(t testing.TB, cfg refserver.Config) *rig {
	ln := memnet.Listen()
	return serve(t, cfg, ln, ln.Dial)
}

// real serves a fixture over TCP.
func real(t testing.TB, cfg refserver.Config) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, cfg, ln, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	})
}

func serve(t testing.TB, cfg refserver.Config, ln net.Listener, dial func(context.Context) (net.Conn, error)) *rig {
	t.Helper()
	if cfg.Store == nil {
		cfg.Delivery = refserver.Follow // there is nothing to hand over
	}
	f, err := refserver.NewFixture(cfg, refserver.LedgerConfig{}, "test")
	if err != nil {
		t.Fatal(err)
	}
	r := serveHandler(t, f.Handler, f.Handler, ln, dial)
	r.fixture = f
	return r
}

// serving serves any handler over TCP.
func serving(t testing.TB, root http.Handler, h *refserver.Handler) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, root, h, ln, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	})
}

func serveHandler(t testing.TB, root http.Handler, h *refserver.Handler, ln net.Listener, dial func(context.Context) (net.Conn, error)) *rig {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/mcp", root)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- refserver.Serve(ctx, ln, mux, h) }()
	r := &rig{t: t, dial: dial, url: "http://" + ln.Addr().String() + "/mcp"}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			r.dials.Add(1)
			return dial(ctx)
		},
	}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// ask is one request; empty fields take what a correct client would send.
type ask struct {
	method, body, session, version, cursor string
	header                                 map[string]string // overrides; "-" removes
}

func (r *rig) do(a ask) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest(a.method, r.url, strings.NewReader(a.body))
	if err != nil {
		r.t.Fatal(err)
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Accept", "application/json, text/event-stream")
	if a.method == http.MethodPost {
		set("Content-Type", "application/json")
	}
	set("Mcp-Session-Id", a.session)
	set("Mcp-Protocol-Version", a.version)
	set("Last-Event-ID", a.cursor)
	for k, v := range a.header {
		req.Header.Del(k)
		if v != "-" {
			req.Header.Set(k, v)
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// status makes a request and returns its status and body.
func (r *rig) status(a ask) (int, string) {
	r.t.Helper()
	resp := r.do(a)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("reading the body of a %d: %v", resp.StatusCode, err)
	}
	return resp.StatusCode, string(body)
}

// peer is a client in one session.
type peer struct {
	*rig
	id, revision string
}

func initBody(revision string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, revision)
}

func (r *rig) open(revision string) *peer {
	r.t.Helper()
	resp := r.do(ask{method: "POST", body: initBody(revision)})
	defer resp.Body.Close()
	var answer struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		r.t.Fatal(err)
	}
	p := &peer{rig: r, id: resp.Header.Get("Mcp-Session-Id"), revision: answer.Result.ProtocolVersion}
	if code, body := p.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); code != 202 || body != "" {
		r.t.Fatalf("initialized: %d %q", code, body)
	}
	return p
}

func (p *peer) post(body string) (int, string) {
	p.t.Helper()
	return p.status(ask{method: "POST", body: body, session: p.id, version: p.revision})
}

// emit calls the tool and returns its open stream.
func (p *peer) emit(id int, token, args string) *stream {
	p.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":{"progressToken":%q}}}`, id, args, token)
	return p.stream(ask{method: "POST", body: body})
}

func (p *peer) resume(cursor string) *stream {
	p.t.Helper()
	return p.stream(ask{method: "GET", cursor: cursor})
}

func (p *peer) stream(a ask) *stream {
	p.t.Helper()
	a.session, a.version = p.id, p.revision
	resp := p.do(a)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		p.t.Fatalf("%s: %s %s", a.method, resp.Status, body)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	return &stream{t: p.t, Response: resp, r: bufio.NewReader(resp.Body)}
}

// stream is one connection that carries events.
type stream struct {
	*http.Response
	t testing.TB
	r *bufio.Reader
}

type event struct {
	id, data, retry string
	hasData         bool
}

// next returns the next event, or the error that ended the body; an event that is
// not complete is an error.
func (s *stream) next() (event, error) {
	var e event
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			if line != "" || e != (event{}) {
				return event{}, fmt.Errorf("cut inside an event: %w", io.ErrUnexpectedEOF)
			}
			return event{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return e, nil
		}
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case name == "id" && ok:
			e.id = value
		case name == "data" && ok && !e.hasData:
			e.data, e.hasData = value, true
		case name == "retry" && ok:
			e.retry = value
		default:
			return event{}, fmt.Errorf("unexpected line %q", line)
		}
	}
}

// take reads n events.
func (s *stream) take(n int) []event {
	s.t.Helper()
	var all []event
	for range n {
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("event %d of %d: %v", len(all)+1, n, err)
		}
		all = append(all, e)
	}
	return all
}

// rest reads to the clean end of the body.
func (s *stream) rest() []event {
	s.t.Helper()
	var all []event
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			s.t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, e)
	}
}

// cut drops the connection.
func (s *stream) cut() { s.Body.Close() }

func same(t testing.TB, what string, got, want []event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d\ngot  %+v\nwant %+v", what, len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: event %d is %+v, want %+v", what, i+1, got[i], want[i])
		}
	}
}

// numbers returns the progress numbers of events, 0 for a response, -1 for an empty
// event.
func numbers(t testing.TB, events []event) []int {
	t.Helper()
	var out []int
	for _, e := range events {
		var m struct {
			Method string
			Params struct{ Progress int }
		}
		if e.data == "" {
			out = append(out, -1)
			continue
		}
		if err := json.NewDecoder(bytes.NewReader([]byte(e.data))).Decode(&m); err != nil {
			t.Fatalf("event %q: %v", e.data, err)
		}
		out = append(out, m.Params.Progress)
	}
	return out
}

// eventually waits for a condition that another goroutine of a real server brings
// about.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
