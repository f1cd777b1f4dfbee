package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// varied is a server of the SDK with a tool, a resource and a prompt.
func varied(messages int) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "count", InputSchema: json.RawMessage(`{"type":"object"}`)}, count(messages))
	server.AddResource(&mcp.Resource{URI: "test://x/a", Name: "r"}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: "x"}}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "hello " + req.Params.Arguments["who"]}, nil
		})
	return server
}

// variedConfig calls all three, over links that are cut as long as the budget lasts.
func variedConfig(t *testing.T, h http.Handler, p PlanConfig, messages int, cuts int64) (Config, *recorder) {
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	plan, err := NewPlan(p)
	if err != nil {
		t.Fatal(err)
	}
	var budget, links atomic.Int64
	budget.Store(cuts)
	seen := new(recorder)
	return Config{
		URL: web.URL + "/mcp", Plan: plan, Observer: seen, Secret: []byte("s"),
		Calls: []Call{
			{Name: "count", Expected: messages},
			{Method: MethodResource, Name: "test://x/a"},
			{Method: MethodPrompt, Name: "greet", Args: func(Arrival) json.RawMessage { return json.RawMessage(`{"who":"you"}`) }},
		},
		Dial: func(ctx context.Context) (Link, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", web.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return &someCutter{TCPConn: c.(*net.TCPConn), rng: rand.New(rand.NewPCG(1, uint64(links.Add(1)))), budget: &budget}, nil
		},
	}, seen
}

// TestGoSDKServerAnswersEachMethod calls a tool, a resource and a prompt of a server that
// is not ours, in both kinds of revision.
func TestGoSDKServerAnswersEachMethod(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			server := varied(3)
			h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: modern})
			cfg, _ := variedConfig(t, h, PlanConfig{Seed: 1, Streams: 9, Sessions: 2, Weights: []int{1, 1, 1}, Kind: history.StreamControl}, 3, 0)
			cfg.Modern = modern
			rep, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			has(t, "completed, complaints", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], rep.Complaints), "9 {0 }")
			has(t, "delivered", rep.Delivered, 9+3*3)
		})
	}
}

// TestGoSDKServerWithoutResumption cuts calls at 2026-07-28: each is made again once, whole,
// and nothing of the one that was cut comes any more.
func TestGoSDKServerWithoutResumption(t *testing.T) {
	const messages = 20
	server := varied(messages)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	cfg, seen := variedConfig(t, h, PlanConfig{Seed: 1, Streams: 10, Calls: 40, Sessions: 4}, messages, 25)
	cfg.Modern = true
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "target", fmt.Sprint(rep.Target.Name, rep.Target.Revision, rep.Target.Sessions), "sdk2026-07-28false")
	has(t, "complaints", rep.Complaints, Complaints{})
	cut := rep.Outcomes[history.OutcomeIndeterminate]
	if cut < 10 || cut+rep.Outcomes[history.OutcomeCompleted] != 40 {
		t.Errorf("outcomes %v", rep.Outcomes)
	}
	var again int64
	for n, s := range seen.of {
		checkCounted(t, n, s.all, messages)
		for _, rec := range s.all {
			if p := rec.Probe; rec.Kind == history.KindProbe {
				again++
				if p.Name != history.ProbeReissue || !p.Response || p.Messages != messages || p.Want != messages || p.Foreign != 0 || p.Wrong != 0 {
					t.Errorf("stream %d: %+v", n, p)
				}
			}
		}
	}
	has(t, "made again", again, cut)
}
