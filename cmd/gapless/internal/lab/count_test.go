package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// counting are the arguments of all tools of [countServer].
type counting struct {
	N          int `json:"n"`
	IntervalMS int `json:"interval_ms"`
}

// countServer has the kinds of tools that users have:
//
//	count   numbers its messages 1, 2, 3 …
//	percent tells how far it is, in words that have a time in them
//	mute    says nothing before its result
func countServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "count-server", Version: "1.2"}, nil)
	add := func(name string, message func(in counting, i int) *mcp.ProgressNotificationParams) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, in counting) (*mcp.CallToolResult, any, error) {
			for i := range in.N {
				if m := message(in, i); m != nil {
					m.ProgressToken = req.Params.GetProgressToken()
					if err := req.Session.NotifyProgress(ctx, m); err != nil {
						return nil, nil, err
					}
				}
				select {
				case <-time.After(time.Duration(in.IntervalMS) * time.Millisecond):
				case <-ctx.Done():
					return nil, nil, ctx.Err()
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
		})
	}
	add("count", func(in counting, i int) *mcp.ProgressNotificationParams {
		return &mcp.ProgressNotificationParams{Progress: float64(i + 1), Total: float64(in.N)}
	})
	add("percent", func(in counting, i int) *mcp.ProgressNotificationParams {
		return &mcp.ProgressNotificationParams{
			Progress: 100 * float64(i) / float64(in.N), Total: 100,
			Message: fmt.Sprintf("%d rows at %v", 512*i, time.Now().UnixNano()),
		}
	})
	add("mute", func(counting, int) *mcp.ProgressNotificationParams { return nil })
	server.AddResource(&mcp.Resource{Name: "note", URI: "note://one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://one", Text: "a note"}}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := &mcp.TextContent{Text: "hello " + req.Params.Arguments["who"]}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}, nil
	})
	return server
}

// call is a call of a tool of [countServer].
func call(tool string) profiles.Call {
	c := profiles.DefaultCall()
	c.Tool, c.Args = tool, map[string]any{"n": 20, "interval_ms": 5}
	return c
}

// TestCallsOfAllKinds: whatever is called, the verdict says how it was told.
func TestCallsOfAllKinds(t *testing.T) {
	resource, prompt := profiles.DefaultCall(), profiles.DefaultCall()
	resource.Tool, resource.Resource = "", "note://one"
	prompt.Tool, prompt.Prompt, prompt.Args = "", "greet", map[string]any{"who": "{{seq}}"}
	for _, tc := range []struct {
		name     string
		calls    []profiles.Call
		oracle   string
		says     string // in the sentence
		messages int64  // that have to arrive; -1: some
	}{
		{"numbers", []profiles.Call{call("count")}, "numbered", "none lost", 800},
		{"words", []profiles.Call{call("percent")}, "twin", "none lost", 800},
		{"nothing but a result", []profiles.Call{call("mute")}, "response", "only the response is judged", 0},
		{"several by weight", []profiles.Call{call("count"), call("mute")}, "numbered", "none lost", -1},
		{"numbers and words", []profiles.Call{call("count"), call("percent")}, "twin", "none lost", 800},
		{"a resource", []profiles.Call{resource}, "response", "only the response is judged", 0},
		{"a prompt", []profiles.Call{prompt}, "response", "only the response is judged", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := thirdParty(t)
			p.Target.URL, p.Calls = goSDK(t), tc.calls
			r := load(t, p)
			if r.Verdict != result.Holds || r.Run.Target.Oracle != tc.oracle || !strings.Contains(r.Sentence, tc.says) {
				t.Errorf("%s by %s: %s %v %+v", r.Verdict, r.Run.Target.Oracle, r.Sentence, r.Why, r.Faults)
			}
			switch n := r.Messages.Delivered; {
			case tc.messages < 0 && (n == 0 || n%20 != 0 || n >= 800), tc.messages >= 0 && n != tc.messages:
				t.Errorf("%d messages were delivered", n)
			}
		})
	}
}

// TestACallThatTheTargetDoesNotOffer: what it does offer is listed, before any load.
func TestACallThatTheTargetDoesNotOffer(t *testing.T) {
	wrong := profiles.DefaultCall()
	wrong.Tool, wrong.Prompt = "", "great"
	for _, tc := range []struct {
		call profiles.Call
		says []string
	}{
		{call("coutn"), []string{"coutn", "count", "percent", "mute"}},
		{profiles.DefaultCall(), []string{"name the tool", "count"}},
		{wrong, []string{"great", "greet"}},
	} {
		p := thirdParty(t)
		p.Target.URL, p.Calls = goSDK(t), []profiles.Call{tc.call}
		_, err := Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: running(t, p.Target)})
		var misused *MisusedError
		if !errors.As(err, &misused) {
			t.Fatalf("error %v", err)
		}
		for _, text := range tc.says {
			if !strings.Contains(misused.Text, text) {
				t.Errorf("%q does not name %s", misused.Text, text)
			}
		}
	}
}

// TestArgumentsThatAreRefused: a load of the same refusal shows nothing.
func TestArgumentsThatAreRefused(t *testing.T) {
	p := thirdParty(t)
	p.Target.URL, p.Calls = goSDK(t), []profiles.Call{call("count")}
	p.Calls[0].Args["n"] = "sixty"
	_, err := Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: running(t, p.Target)})
	var misused *MisusedError
	if !errors.As(err, &misused) || !strings.Contains(misused.Text, "all 3 control calls") || !strings.Contains(misused.Text, "--args") {
		t.Errorf("error %v", err)
	}
}

// TestAPointerToNothing: who says where the numbers are has to be told that they are not.
func TestAPointerToNothing(t *testing.T) {
	p := thirdParty(t)
	p.Target.URL, p.Calls = goSDK(t), []profiles.Call{call("count")}
	p.Calls[0].Expect.Sequence = "/params/seq"
	r := load(t, p)
	if r.Verdict != result.Inconclusive || !strings.Contains(r.Sentence, "no numbers 1, 2, 3 … at /params/seq") {
		t.Errorf("%s %s", r.Verdict, r.Sentence)
	}
}

// TestThresholds: limits are judged where all holds, and one that aborts ends the load.
func TestThresholds(t *testing.T) {
	p := thirdParty(t)
	p.Target.URL, p.Calls = goSDK(t), []profiles.Call{call("count")}
	p.Thresholds = profiles.Thresholds{"completion": {{Is: "p(95)<1ms"}, {Is: "max<1h"}}, "failed": {{Is: "count==0"}}}
	r := load(t, p)
	ok := map[string]bool{}
	for _, limit := range r.Thresholds {
		ok[limit.Expression] = limit.OK
	}
	if r.Verdict != result.Holds || len(ok) != 3 || ok["p(95)<1ms"] || !ok["max<1h"] || !ok["count==0"] {
		t.Errorf("%s %v", r.Verdict, r.Thresholds)
	}

	p.Load.Calls, p.Thresholds = 2000, profiles.Thresholds{"completion": {{Is: "p(95)<1ms", Abort: true}}}
	r = load(t, p)
	if r.Run.Stopped != result.AtThreshold || r.Streams.Opened == 2000 || len(r.Notes) == 0 {
		t.Errorf("stopped %q after %d calls, notes %v", r.Run.Stopped, r.Streams.Opened, r.Notes)
	}
}
