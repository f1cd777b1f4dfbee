package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// visit is one request that a scripted target received, and the hand that answers it.
type visit struct {
	t      *testing.T
	conn   net.Conn
	at     time.Time
	method string
	header http.Header
	path   string
	body   []byte
	id     string // JSON-RPC id of the request
	rpc    string // JSON-RPC method
	token  string // progress token
	ended  bool   // the answer is complete and the link may go on
}

// raw writes bytes as they are.
func (v *visit) raw(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	_, _ = io.WriteString(v.conn, format) // the client may have left
}

// status answers with an empty body.
func (v *visit) status(code int, fields ...string) {
	v.raw("HTTP/1.1 %d X\r\nContent-Length: 0\r\n", code)
	for _, f := range fields {
		v.raw("%s\r\n", f)
	}
	v.raw("\r\n")
	v.ended = true
}

// json answers with a JSON body.
func (v *visit) json(body string, fields ...string) {
	v.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	for _, f := range fields {
		v.raw("%s\r\n", f)
	}
	v.raw("\r\n")
	v.raw(body+"%s", "")
	v.ended = true
}

// sse begins an event stream.
func (v *visit) sse(fields ...string) {
	v.raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n")
	for _, f := range fields {
		v.raw("%s\r\n", f)
	}
	v.raw("\r\n")
}

// send writes one chunk.
func (v *visit) send(text string) { v.raw("%x\r\n%s\r\n", len(text), text) }

// end ends the body as the framing says.
func (v *visit) end() {
	v.raw("0\r\n\r\n")
	v.ended = true
}

// reset cuts the link by RST; bytes that were not read are lost.
func (v *visit) reset() {
	_ = v.conn.(*memnet.Conn).SetLinger(0)
	_ = v.conn.Close()
}

// hang waits until the client has left.
func (v *visit) hang() { _, _ = io.Copy(io.Discard, v.conn) }

// prime, progress and result are events with ids.
func prime(id string) string { return "id: " + id + "\ndata:\n\n" }
func (v *visit) progress(id string, token string, k, n int) string {
	return fmt.Sprintf("id: %s\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":%d,\"progressToken\":%q,\"total\":%d}}\n\n", id, k, token, n)
}
func result(id, call string) string {
	return fmt.Sprintf("id: %s\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id, call)
}

// target is a scripted MCP server over a network in memory.
type target struct {
	t       *testing.T
	ln      *memnet.Listener
	call    func(v *visit)        // tools/call, resources/read and prompts/get
	resume  func(v *visit, n int) // the n-th GET, from 1
	special func(v *visit) bool   // sees every other request first
	raw     func(v *visit) bool   // sees every POST, before it is taken apart; nil for nothing
	hurt    func(c net.Conn) Link // what stands between, nil for nothing
	wg      sync.WaitGroup

	mu     sync.Mutex
	visits []*visit
	gets   int
	inits  int
}

func newTarget(t *testing.T) *target {
	return &target{t: t, ln: memnet.Listen(), call: func(v *visit) {
		v.sse()
		v.send(prime("p"))
		for k := 1; k <= 3; k++ {
			v.send(v.progress(fmt.Sprint("e", k), v.token, k, 3))
		}
		v.send(result("r", v.id))
		v.end()
	}}
}

func (g *target) serve() {
	g.wg.Go(func() {
		for {
			conn, err := g.ln.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.link(conn) })
		}
	})
}

func (g *target) link(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		v := &visit{t: g.t, conn: conn, at: time.Now(), method: req.Method, path: req.URL.Path, header: req.Header}
		if v.body, err = io.ReadAll(req.Body); err != nil {
			return
		}
		g.answer(v)
		if !v.ended {
			return
		}
	}
}

func (g *target) answer(v *visit) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta struct{ ProgressToken string } `json:"_meta"`
		}
	}
	if v.method == "POST" {
		if g.raw != nil && g.raw(v) {
			return
		}
		if err := json.Unmarshal(v.body, &m); err != nil {
			g.t.Errorf("body %q: %v", v.body, err)
		}
	}
	v.id, v.rpc, v.token = string(m.ID), m.Method, m.Params.Meta.ProgressToken
	g.mu.Lock()
	g.visits = append(g.visits, v)
	if v.method == "GET" {
		g.gets++
	}
	if v.rpc == "initialize" {
		g.inits++
	}
	gets, inits := g.gets, g.inits
	g.mu.Unlock()
	switch {
	case slices.Contains([]string{MethodTool, MethodResource, MethodPrompt}, v.rpc):
		g.call(v)
	case v.method == "GET" && g.resume != nil:
		g.resume(v, gets)
	case g.special != nil && g.special(v):
	case v.rpc == "initialize":
		v.json(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"7"}}}`,
			fmt.Sprintf("Mcp-Session-Id: s%d", inits))
	case v.method == "POST":
		v.status(202)
	default:
		v.status(405)
	}
}

// of returns the requests with this method, in the order of their arrival.
func (g *target) of(method string) (all []*visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.visits {
		if v.method == method || v.rpc == method {
			all = append(all, v)
		}
	}
	return all
}

// plain is a link that is not hurt.
type plain struct{ net.Conn }

func (plain) Begin(Exchange) {}
func (plain) End() bool      { return true }

// config is for one call against the target.
func (g *target) config(p PlanConfig) Config {
	plan, err := NewPlan(p)
	if err != nil {
		g.t.Fatal(err)
	}
	return Config{
		URL: "http://127.0.0.1:8931/mcp", Plan: plan, Calls: []Call{{Name: "emit", Expected: 3}}, Seed: p.Seed, Secret: []byte("secret"),
		Resume: ResumePolicy{Jitter: -1},
		Dial: func(ctx context.Context) (Link, error) {
			c, err := g.ln.Dial(ctx)
			if err != nil {
				return nil, err
			}
			if g.hurt != nil {
				return g.hurt(c), nil
			}
			return plain{c}, nil
		},
	}
}

// run serves, runs and waits for all goroutines of the target.
func (g *target) run(c Config) (Report, error) {
	g.serve()
	rep, err := Run(g.t.Context(), c)
	_ = g.ln.Close()
	g.wg.Wait()
	return rep, err
}

// recorder keeps all records of all streams.
type recorder struct {
	mu sync.Mutex
	of map[uint32]*records
}

type records struct{ all []history.Record }

func (r *records) Observe(rec *history.Record) { r.all = append(r.all, *rec) }

func (r *recorder) Open(a Arrival) StreamObserver {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[uint32]*records)
	}
	if r.of[a.Stream] != nil {
		panic(fmt.Sprintf("stream %d opened twice", a.Stream))
	}
	r.of[a.Stream] = new(records)
	return r.of[a.Stream]
}

// kind returns the records of a kind, of stream 1.
func (r *recorder) kind(k history.Kind) (all []history.Record) {
	if r.of[1] == nil {
		return nil
	}
	for _, rec := range r.of[1].all {
		if rec.Kind == k {
			all = append(all, rec)
		}
	}
	return all
}

// seqs returns the numbers of the progress messages of stream 1, and 0 for each response.
func (r *recorder) seqs() (all []int64) {
	for _, rec := range r.kind(history.KindEvent) {
		switch rec.Event.Class {
		case history.ClassProgress, history.ClassResponse, history.ClassError:
			all = append(all, rec.Event.Seq)
		}
	}
	return all
}

func (r *recorder) ends() (all []history.End) {
	for _, rec := range r.kind(history.KindEnd) {
		all = append(all, rec.End)
	}
	return all
}

// cutter resets the link of a POST once it has passed so many bytes of the response.
type cutter struct {
	net.Conn
	after int // bytes; negative: never
	x     Exchange
	dead  bool
}

func (c *cutter) Begin(x Exchange) { c.x = x }
func (c *cutter) End() bool        { return !c.dead }

func (c *cutter) Read(p []byte) (int, error) {
	if c.x.Observer == nil || c.x.Resume || c.after < 0 {
		return c.Conn.Read(p)
	}
	if c.after == 0 {
		c.dead = true
		_ = c.Conn.(*memnet.Conn).SetLinger(0)
		_ = c.Conn.Close()
		c.x.Observer.Observe(&history.Record{Kind: history.KindInjection, Injection: history.Injection{Kind: "rst", Place: "test", Ends: true}})
		return 0, &net.OpError{Op: "read", Net: "mem", Err: syscall.ECONNRESET}
	}
	n, err := c.Conn.Read(p[:min(len(p), c.after)])
	c.after -= n
	return n, err
}

func has(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// ctxDial puts something between every dialled link and its user.
func ctxDial(dial func(context.Context) (Link, error), wrap func(Link) Link) func(context.Context) (Link, error) {
	return func(ctx context.Context) (Link, error) {
		l, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return wrap(l), nil
	}
}

// headCutter resets the link of a resume once the head of the response was read.
type headCutter struct {
	net.Conn
	x    Exchange
	read bool
}

func (c *headCutter) Begin(x Exchange) { c.x = x }
func (c *headCutter) End() bool        { return false }

func (c *headCutter) Read(p []byte) (int, error) {
	if !c.x.Resume || !c.read {
		c.read = true
		return c.Conn.Read(p)
	}
	_ = c.Conn.Close()
	c.x.Observer.Observe(&history.Record{Kind: history.KindInjection, Injection: history.Injection{Kind: "rst", Place: "test", Ends: true}})
	return 0, &net.OpError{Op: "read", Net: "mem", Err: syscall.ECONNRESET}
}
