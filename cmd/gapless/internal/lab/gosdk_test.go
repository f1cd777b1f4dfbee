package lab

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// goSDK serves an ordinary go-sdk server with its own event store and a tool that
// counts, on real TCP: what a user of that SDK would test.
func goSDK(t *testing.T) (url string) {
	t.Helper()
	return goSDKWith(t, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
}

func goSDKWith(t *testing.T, o *mcp.StreamableHTTPOptions) (url string) {
	t.Helper()
	server := countServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	s := &http.Server{Handler: handler}
	go func() {
		defer close(served)
		_ = s.Serve(ln) // it ends with Close
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

// TestGoSDKServerHolds: the official Go SDK with its memory store keeps its promise,
// seen without a ledger, by the numbers that the messages carry.
func TestGoSDKServerHolds(t *testing.T) {
	p, err := profiles.Load("third-party")
	if err != nil {
		t.Fatal(err)
	}
	p.Target.URL = goSDK(t)
	p.Calls[0].Tool, p.Calls[0].Args = "count", map[string]any{"n": 30, "interval_ms": 10}
	r := mustRun(t, Config{
		Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("secret"), Version: "test", Command: "gapless run", Start: running(t, p.Target),
	})
	if r.Verdict != result.Holds {
		t.Fatalf("%s: %s\n%v\n%+v", r.Verdict, r.Sentence, r.Why, r.Timelines)
	}
	if r.Run.Target.Oracle != "numbered" || r.Run.Target.Name != "count-server" || r.Control.MessagesPerCall != 30 {
		t.Errorf("target %+v, control %+v", r.Run.Target, r.Control)
	}
	if r.Faults.ByKind["rst"] == 0 || r.Faults.ByKind["fin"] == 0 || r.Resumes.Succeeded < 10 {
		t.Errorf("faults %+v, resumes %+v: the run proves little", r.Faults, r.Resumes)
	}
	t.Logf("%s; %d conflicts", r.Sentence, r.Resumes.Conflicts)
}

// running is a target that runs already.
func running(t *testing.T, target profiles.Target) func(context.Context) (*Endpoint, error) {
	t.Helper()
	start, err := Target(target, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return start
}
