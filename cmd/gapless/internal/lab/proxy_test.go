package lab

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/chaos/proxy"
	"github.com/gapless-dev/gapless/profiles"
)

// seat is a proxy before the reference server, both in this process and on real TCP.
type seat struct {
	*proxy.Proxy
	url string
	mu  sync.Mutex
	all []proxy.Injection
}

func (s *seat) injections() []proxy.Injection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func proxySeat(t *testing.T, seed uint64, mix ...chaos.Fault) *seat {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	fixture, err := NewFixture(ServeConfig{Server: profiles.Default().Server, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	server, front := listen(), listen()
	wg.Go(func() {
		if err := Serve(ctx, fixture, server, nil, io.Discard); err != nil {
			t.Error(err)
		}
	})
	plan, err := chaos.NewPlan(chaos.PlanConfig{Seed: seed, Streams: 1000, Messages: 10, Mix: mix, Priming: true, IDs: true, Head: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{url: "http://" + front.Addr().String() + "/mcp"}
	s.Proxy, err = proxy.New(proxy.Config{Upstream: server.Addr().String(), Plan: plan, OnInjection: func(in *proxy.Injection) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, *in)
	}})
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		if err := s.Serve(ctx, front); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestGoSDKClientThroughTheProxy: the official client resumes a call that the proxy has
// cut, and its user notices nothing.
func TestGoSDKClientThroughTheProxy(t *testing.T) {
	s := proxySeat(t, 3, chaos.Fault{Kind: chaos.RST, At: []chaos.Place{chaos.BetweenEvents, chaos.MidEvent}, PerStream: 1})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	seen, enough := map[float64]int{}, make(chan struct{})
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if seen[r.Params.Progress]++; len(seen) == 30 {
				close(enough)
			}
		},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url, MaxRetries: 10},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "emit", Arguments: map[string]any{"messages": 30, "interval_ms": 5}}
	params.SetProgressToken("t")
	res, err := session.CallTool(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := res.Content[0].(*mcp.TextContent); !ok || text.Text != "emitted 30" {
		t.Errorf("result %+v", res.Content[0])
	}
	select { // CallTool may return before the last handler has run
	case <-enough:
	case <-ctx.Done():
		t.Error("messages are missing")
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if all := s.injections(); len(all) == 0 {
		t.Error("nothing was cut")
	} else if all[0].Kind != chaos.RST || all[0].Attempt != 0 {
		t.Errorf("cuts %+v", all)
	}
	mu.Lock()
	defer mu.Unlock()
	for n, times := range seen {
		if times != 1 {
			t.Errorf("message %v came %d times", n, times)
		}
	}
}

// plainClient is what a person with curl would do.
type plainClient struct {
	t       *testing.T
	http    *http.Client
	url     string
	session string
}

func (c *plainClient) do(method, cursor string, body any) (status int, text string) {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	if method == "GET" {
		b = nil
	}
	req, err := http.NewRequest(method, c.url, strings.NewReader(string(b)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body) // what came before a cut
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return resp.StatusCode, string(got)
}

func (c *plainClient) handshake() {
	c.t.Helper()
	status, text := c.do("POST", "", map[string]any{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "plain", "version": "1"},
	}})
	if status != 200 || c.session == "" {
		c.t.Fatalf("initialize: %d %s", status, text)
	}
	if status, text = c.do("POST", "", map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); status != 202 {
		c.t.Fatalf("initialized: %d %s", status, text)
	}
}

// whole keeps the events of text that ended, and the last id among them.
func whole(text string) (events, cursor string) {
	text = text[:strings.LastIndex("\n\n"+text, "\n\n")]
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			cursor = strings.TrimSpace(id)
		}
	}
	return text, cursor
}

// TestPlainClientThroughTheProxy: one call is cut again and again, also while it is
// resumed, and comes out whole.
func TestPlainClientThroughTheProxy(t *testing.T) {
	s := proxySeat(t, 11, chaos.Fault{Kind: chaos.RST, PerStream: 3}, chaos.Fault{Kind: chaos.FIN, PerStream: 2}, chaos.Fault{Kind: chaos.ChunkEnd, PerStream: 1})
	c := &plainClient{t: t, url: s.url, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	c.handshake()
	_, text := c.do("POST", "", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "emit", "arguments": map[string]any{"messages": 10, "interval_ms": 2}, "_meta": map[string]any{"progressToken": "t"},
	}})
	events, cursor := whole(text)
	for tries := 0; !strings.Contains(events, `"emitted 10"`) && tries < 20; tries++ {
		_, text = c.do("GET", cursor, nil)
		more, next := whole(text)
		events += more
		if next != "" {
			cursor = next
		}
	}
	var progress []string
	for line := range strings.Lines(events) {
		if _, rest, ok := strings.Cut(line, `"progress":`); ok {
			n, _, _ := strings.Cut(rest, ",")
			progress = append(progress, n)
		}
	}
	if got := strings.Join(progress, " "); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("messages %s", got)
	}
	all := s.injections()
	if len(all) < 3 {
		t.Errorf("only %d cuts: %+v", len(all), all)
	}
	for _, in := range all {
		t.Logf("%s@%s attempt %d, approximate %v", in.Kind, in.Place, in.Attempt, in.Approximate)
	}
}
