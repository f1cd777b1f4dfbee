package streams_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// rig is a running server on memory links, for a synctest bubble.
type rig struct {
	t         testing.TB
	transport string // http, ws or stdio
	server    *streams.Server
	ledger    *refserver.Ledger
	registry  *prometheus.Registry
	http      *memnet.Listener
	lines     *memnet.Listener
	log       *safeBuffer

	mu    sync.Mutex
	steps map[string]chan step
	ended map[string]error // what became of the contexts of handlers, by key
}

// step is something that a handler does when the test says so.
type step func(ctx context.Context, req *mcp.CallToolRequest)

// transports are what promises that name none have to hold on.
func transports() []string { return []string{"http", "ws", "stdio"} }

// each runs a test in a bubble for each transport named, or all.
func each(t *testing.T, cfg streams.Config, test func(*rig), on ...string) {
	t.Helper()
	if len(on) == 0 {
		on = transports()
	}
	for _, transport := range on {
		t.Run(transport, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newRig(t, transport, cfg)) })
		})
	}
}

func newRig(t testing.TB, transport string, cfg streams.Config) *rig {
	t.Helper()
	r := &rig{
		t: t, transport: transport, registry: prometheus.NewRegistry(), http: memnet.Listen(), lines: memnet.Listen(),
		log: new(safeBuffer), steps: make(map[string]chan step), ended: make(map[string]error),
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: streams.Versions()})
	var err error
	if r.ledger, err = refserver.NewLedger(refserver.LedgerConfig{}); err != nil {
		t.Fatal(err)
	}
	refserver.AddEmit(server, r.ledger)
	r.addTools(server)
	cfg.Registerer, cfg.Logger = r.registry, slog.New(slog.NewTextHandler(r.log, nil))
	if r.server, err = streams.New(server, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 2)
	go func() { served <- r.server.Serve(ctx, r.http, nil) }()
	go func() { served <- r.server.ServeLines(ctx, r.lines) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return r
}

// addTools adds steps, which does what the test says until it is told to stop, and two
// that fail.
func (r *rig) addTools(server *mcp.Server) {
	add := func(name string, f mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, f)
	}
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	add("steps", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Key string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		for {
			select {
			case do, ok := <-r.stepsOf(args.Key):
				if !ok {
					r.note(args.Key, nil)
					return text("done " + args.Key), nil
				}
				do(ctx, req)
			case <-ctx.Done():
				r.note(args.Key, ctx.Err())
				return nil, ctx.Err()
			}
		}
	})
	add("unhappy", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := text("it did not work")
		result.IsError = true
		return result, nil
	})
	add("broken", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("it broke")
	})
}

func (r *rig) stepsOf(key string) chan step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps[key] == nil {
		r.steps[key] = make(chan step)
	}
	return r.steps[key]
}

func (r *rig) note(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[key] = err
}

// handler tells whether the handler of a key has returned, and what its context said.
func (r *rig) handler(key string) (error, bool) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	err, ok := r.ended[key]
	return err, ok
}

// progress has a handler send messages with these numbers.
func (r *rig) progress(key string, numbers ...int) {
	r.t.Helper()
	r.stepsOf(key) <- func(ctx context.Context, req *mcp.CallToolRequest) {
		for _, n := range numbers {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: key, Progress: float64(n)}); err != nil {
				r.t.Errorf("progress: %v", err)
			}
		}
	}
	synctest.Wait()
}

// finish has a handler return.
func (r *rig) finish(key string) {
	close(r.stepsOf(key))
	synctest.Wait()
}

// value returns the sum of the series of a metric with these labels, as name=value.
func (r *rig) value(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != "gapless_server_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := make(map[string]bool)
			for _, l := range m.GetLabel() {
				have[l.GetName()+"="+l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && have[l]
			}
			if all {
				found = true
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	if !found {
		r.t.Fatalf("no metric %s %v", name, labels)
	}
	return sum
}

// carrier is how a client reaches the server on one transport.
type carrier interface {
	// send sends a message, and returns where its answers come.
	send(body string, header ...string) *feed
	// cut drops all connections without a word.
	cut()
}

// got is a message that arrived.
type got struct {
	id   string // of its event; empty on links
	text string
	err  error // the end of the feed
}

// feed is what arrives: on HTTP for one request, on a link for all.
type feed struct {
	t      testing.TB
	in     chan got
	status int
	header http.Header
	lastID string
	over   bool
}

func newFeed(t testing.TB) *feed { return &feed{t: t, in: make(chan got, 100_000)} }

// next returns the next message; it has to come within an hour.
func (f *feed) next() string {
	f.t.Helper()
	select {
	case g := <-f.in:
		if g.err != nil {
			f.t.Fatalf("the feed ended: %v", g.err)
		}
		if g.id != "" {
			f.lastID = g.id
		}
		return g.text
	case <-time.After(time.Hour):
		f.t.Fatal("no message in an hour")
		return ""
	}
}

// drain returns what has arrived when nothing moves any more, and whether the feed has
// ended.
func (f *feed) drain() (texts []string, ended bool) {
	synctest.Wait()
	for {
		select {
		case g := <-f.in:
			if g.err != nil {
				f.over = true
				return texts, true
			}
			if g.id != "" {
				f.lastID = g.id
			}
			texts = append(texts, g.text)
		default:
			return texts, f.over
		}
	}
}

// peer is a client with a session.
type peer struct {
	carrier
	rig    *rig
	token  string // bearer token
	caps   string
	lastID int
}

// open initialises a session of a client that declares streams.
func (r *rig) open() *peer { return r.openAs(`{"streams":{}}`, "") }

func (r *rig) openAs(caps, token string) *peer {
	r.t.Helper()
	p := &peer{rig: r, token: token, caps: caps}
	switch r.transport {
	case "http":
		p.carrier = &httpCarrier{rig: r, token: token, client: r.httpClient()}
	case "ws":
		p.carrier = r.dialWS(token)
	default:
		p.carrier = r.dialLines()
	}
	p.initialize()
	return p
}

func (p *peer) initialize() {
	p.rig.t.Helper()
	f := p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":` + p.caps + `,"clientInfo":{"name":"t","version":"1"}}}`)
	answer := f.next()
	if !strings.Contains(answer, `"protocolVersion":"2025-06-18"`) {
		p.rig.t.Fatalf("initialize: %s", answer)
	}
	if h, ok := p.carrier.(*httpCarrier); ok {
		h.session = f.header.Get("Mcp-Session-Id")
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	synctest.Wait()
}

// again is the peer after a cut: on HTTP the session goes on, a link begins anew.
func (p *peer) again() *peer {
	if p.rig.transport == "http" {
		return p
	}
	return p.rig.openAs(p.caps, p.token)
}

func (p *peer) id() int {
	p.lastID++
	return p.lastID
}

// call calls a tool. The arguments are JSON.
func (p *peer) call(tool, args string) *feed {
	id := p.id()
	return p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"t%d"}}}`, id, tool, args, id))
}

// steps calls the tool steps and returns the stream that was created.
func (p *peer) steps(key string) (*feed, stream) {
	p.rig.t.Helper()
	f := p.call("steps", `{"key":"`+key+`"}`)
	return f, created(p.rig.t, f.next())
}

// ask makes a request about a stream.
func (p *peer) ask(method string, st stream, header ...string) *feed {
	return p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"streamId":%q,"resumeToken":%q}}`, p.id(), method, st.ID, st.Token), header...)
}

func (p *peer) resume(st stream, header ...string) *feed {
	return p.ask("stream/resume", st, header...)
}

// poll polls a stream, which has to work.
func (p *peer) poll(st stream, header ...string) polled {
	p.rig.t.Helper()
	var m struct{ Result *polled }
	text := p.ask("stream/poll", st, header...).next()
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result == nil {
		p.rig.t.Fatalf("poll: %s", text)
	}
	if m.Result.StreamID != st.ID {
		p.rig.t.Errorf("poll names stream %q", m.Result.StreamID)
	}
	m.Result.StreamID = ""
	return *m.Result
}

type polled struct {
	StreamID                              string
	Status                                string
	PendingMessages, HasRequest, HasError bool
}

// stream is what notifications/stream/create tells.
type stream struct {
	ID        string `json:"streamId"`
	Token     string `json:"resumeToken"`
	RequestID any    `json:"requestId"`
	Interval  struct{ Min, Max float64 }
}

// created reads notifications/stream/create, nested.
func created(t testing.TB, text string) stream {
	t.Helper()
	var m struct {
		Method string
		Params struct{ Stream stream }
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Method != "notifications/stream/create" || m.Params.Stream.ID == "" || m.Params.Stream.Token == "" {
		t.Fatalf("no create: %s", text)
	}
	return m.Params.Stream
}

// brief says in a word or two what messages are.
func brief(texts []string) string {
	var all []string
	for _, text := range texts {
		var m struct {
			ID     any
			Method string
			Params struct{ Progress float64 }
			Result *json.RawMessage
			Error  *struct {
				Code int
				Data struct{ Reason string }
			}
		}
		_ = json.Unmarshal([]byte(text), &m)
		switch {
		case m.Method == "notifications/progress":
			all = append(all, fmt.Sprint(m.Params.Progress))
		case m.Method != "":
			all = append(all, strings.TrimPrefix(m.Method, "notifications/stream/"))
		case m.Error != nil:
			all = append(all, fmt.Sprintf("error %d %s", m.Error.Code, m.Error.Data.Reason))
		case m.Result != nil && string(*m.Result) == "{}":
			all = append(all, fmt.Sprintf("{} of %v", m.ID))
		case m.Result != nil:
			all = append(all, fmt.Sprintf("result of %v", m.ID))
		default:
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// expect checks what has arrived, in the words of brief.
func (f *feed) expect(want string) {
	f.t.Helper()
	texts, _ := f.drain()
	if have := brief(texts); have != want {
		f.t.Errorf("arrived: %s\nwant:    %s", have, want)
	}
}

// principals verifies the tokens "a…" and "b…", of principals a and b.
func principals(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != "alice" && token != "bob" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: token}, nil
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// httpCarrier sends each message by a POST.
type httpCarrier struct {
	rig            *rig
	token, session string
	client         *http.Client

	mu   sync.Mutex
	cuts []context.CancelFunc
}

func (r *rig) httpClient() *http.Client {
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.http.Dial(ctx) },
		DisableKeepAlives: true,
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// do makes a request; header lines are "Name: value".
func (c *httpCarrier) do(method, path, body string, header ...string) *http.Response {
	c.rig.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	c.cuts = append(c.cuts, cancel)
	c.mu.Unlock()
	c.rig.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		c.rig.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.rig.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

func (c *httpCarrier) send(body string, header ...string) *feed {
	c.rig.t.Helper()
	resp := c.do("POST", "/mcp", body, header...)
	f := newFeed(c.rig.t)
	f.status, f.header = resp.StatusCode, resp.Header
	go func() {
		defer resp.Body.Close()
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			text, err := io.ReadAll(resp.Body)
			if len(text) > 0 {
				f.in <- got{text: string(text)}
			}
			f.in <- got{err: fmt.Errorf("end of the body: %v", err)}
			return
		}
		readEvents(f, resp.Body)
	}()
	return f
}

func readEvents(f *feed, body io.Reader) {
	lines, event := bufio.NewReader(body), got{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			f.in <- got{err: err}
			return
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case line == "\n":
			f.in <- event
			event = got{}
		case name == "id":
			event.id = value
		case name == "data":
			event.text += value
		}
	}
}

func (c *httpCarrier) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cut := range c.cuts {
		cut()
	}
	c.cuts = nil
	synctest.Wait()
}

// linkCarrier sends all messages on one connection.
type linkCarrier struct {
	f     *feed
	write func(string) error
	drop  func()
}

func (c *linkCarrier) send(body string, _ ...string) *feed {
	if err := c.write(body); err != nil {
		c.f.t.Fatalf("sending: %v", err)
	}
	return c.f
}

func (c *linkCarrier) cut() {
	c.drop()
	synctest.Wait()
}

// dialWS opens a WebSocket.
func (r *rig) dialWS(token string) *linkCarrier {
	r.t.Helper()
	conn, _, err := r.tryWS(token, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	f := newFeed(r.t)
	go func() {
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				f.in <- got{err: err}
				return
			}
			f.in <- got{text: string(text)}
		}
	}()
	r.t.Cleanup(func() { conn.CloseNow() })
	return &linkCarrier{f: f, drop: func() { conn.CloseNow() }, write: func(text string) error {
		return conn.Write(context.Background(), websocket.MessageText, []byte(text))
	}}
}

func (r *rig) tryWS(token string, header http.Header) (*websocket.Conn, *http.Response, error) {
	if header == nil {
		header = make(http.Header)
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	conn, resp, err := websocket.Dial(context.Background(), "ws://127.0.0.1/mcp/ws", &websocket.DialOptions{HTTPClient: r.httpClient(), HTTPHeader: header})
	if err == nil {
		conn.SetReadLimit(64 << 20)
	}
	return conn, resp, err
}

// dialLines starts a relay between pipes of the test and the server.
func (r *rig) dialLines() *linkCarrier {
	r.t.Helper()
	conn, err := r.lines.Dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	go func() {
		_ = streams.Relay(in, out, conn) // its end is what the test asked for
		in.CloseWithError(io.ErrClosedPipe)
		out.Close()
	}()
	f := newFeed(r.t)
	go func() {
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				f.in <- got{err: err}
				return
			}
			f.in <- got{text: strings.TrimSuffix(line, "\n")}
		}
	}()
	drop := func() {
		stdin.Close()
		stdout.Close()
	}
	r.t.Cleanup(drop)
	return &linkCarrier{f: f, drop: drop, write: func(text string) error {
		_, err := io.WriteString(stdin, text+"\n")
		return err
	}}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
