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
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// someCutter resets real links at drawn bytes of a stream's response, for as long as
// the budget of all of them lasts.
type someCutter struct {
	*net.TCPConn
	rng    *rand.Rand
	budget *atomic.Int64
	x      Exchange
	left   int
	dead   bool
}

func (c *someCutter) Begin(x Exchange) { c.x, c.left = x, 300+c.rng.IntN(3000) }
func (c *someCutter) End() bool        { return !c.dead }

func (c *someCutter) Read(p []byte) (int, error) {
	if c.x.Observer == nil {
		return c.TCPConn.Read(p)
	}
	if c.left == 0 && c.budget.Add(-1) >= 0 {
		c.dead = true
		_ = c.SetLinger(0)
		_ = c.Close()
		c.x.Observer.Observe(&history.Record{Injection: history.Injection{Kind: "rst", Place: "test", Ends: true}})
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	n, err := c.TCPConn.Read(p[:min(len(p), max(c.left, 1))])
	c.left = max(c.left-n, 0)
	return n, err
}

// TestGoSDKServer cuts the streams of a server that is not ours, over real TCP, and
// expects every message of every call once and in order: at 2025-11-25 with priming
// events, at 2025-06-18 without them, where a cut before the first message is
// indeterminate.
func TestGoSDKServer(t *testing.T) {
	const messages = 20
	for _, revision := range []string{"2025-11-25", "2025-06-18"} {
		t.Run(revision, func(t *testing.T) {
			server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
			server.AddTool(&mcp.Tool{Name: "count", InputSchema: json.RawMessage(`{"type":"object"}`)}, count(messages))
			h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
				&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
			web := httptest.NewServer(h)
			defer web.Close()
			plan, err := NewPlan(PlanConfig{Seed: 1, Streams: 20, Calls: 40, Sessions: 4})
			if err != nil {
				t.Fatal(err)
			}
			var budget, links atomic.Int64
			budget.Store(60)
			seen := new(recorder)
			rep, err := Run(t.Context(), Config{
				URL: web.URL + "/mcp", Plan: plan, Calls: []Call{{Name: "count", Expected: messages}}, Revision: revision, Secret: []byte("s"),
				Observer: seen, Resume: ResumePolicy{Backoff: 5 * time.Millisecond},
				Dial: func(ctx context.Context) (Link, error) {
					c, err := new(net.Dialer).DialContext(ctx, "tcp", web.Listener.Addr().String())
					if err != nil {
						return nil, err
					}
					return &someCutter{TCPConn: c.(*net.TCPConn), rng: rand.New(rand.NewPCG(1, uint64(links.Add(1)))), budget: &budget}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			has(t, "revision", rep.Target.Revision, revision)
			done := rep.Outcomes[history.OutcomeCompleted]
			if done+rep.Outcomes[history.OutcomeIndeterminate] != 40 || done < 30 || rep.Resumes.Succeeded < 20 {
				t.Errorf("outcomes %v, resumes %+v", rep.Outcomes, rep.Resumes)
			}
			for n, s := range seen.of {
				checkCounted(t, n, s.all, messages)
			}
		})
	}
}

// count sends so many progress messages, a millisecond apart.
func count(messages int) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for k := 1; k <= messages; k++ {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(k), Total: float64(messages),
			})
			if err != nil {
				return nil, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	}
}

// checkCounted expects 1 to n and then the response, if the stream was completed.
func checkCounted(t *testing.T, stream uint32, all []history.Record, n int64) {
	var got []int64
	for _, rec := range all {
		if rec.Event.Class >= history.ClassProgress {
			if rec.Event.Owner != history.OwnerSelf {
				t.Errorf("stream %d: event %+v", stream, rec.Event)
			}
			got = append(got, rec.Event.Seq)
		}
	}
	if all[len(all)-1].Outcome != history.OutcomeCompleted {
		return
	}
	want := make([]int64, n+1)
	for k := range n {
		want[k] = k + 1
	}
	has(t, fmt.Sprintf("messages of stream %d", stream), got, want)
}
