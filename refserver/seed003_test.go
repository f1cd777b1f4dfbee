package refserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tests named TestSeed003_… are the clauses of the third source document, one by one,
// as a client sees them. Each says in its comment which clause it is.

// seed runs a clause for each way of delivery, in virtual time. The configuration it is
// given has a reconnection time and no store.
func seed(t *testing.T, clause func(t *testing.T, cfg refserver.Config)) {
	t.Helper()
	for name, cfg := range seedConfigs() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { clause(t, cfg) })
		})
	}
}

// seedTCP is seed over real links.
func seedTCP(t *testing.T, clause func(t *testing.T, cfg refserver.Config)) {
	t.Helper()
	for name, cfg := range seedConfigs() {
		t.Run(name, func(t *testing.T) { clause(t, cfg) })
	}
}

func seedConfigs() map[string]refserver.Config {
	return map[string]refserver.Config{
		"follow":  {Retry: 100 * time.Millisecond},
		"handoff": {Retry: 100 * time.Millisecond, Delivery: refserver.Handoff},
	}
}

// tool adds a tool without arguments to a server.
func (r *rig) tool(name string, f func(ctx context.Context, req *mcp.CallToolRequest) error) {
	r.fixture.Server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, f(ctx, req)
		})
}

// call calls a tool without arguments and returns its open stream.
func (p *peer) call(id int, tool string) *stream {
	p.t.Helper()
	return p.stream(ask{method: "POST", body: fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)})
}

// changeTools makes the SDK tell all sessions that the tools have changed, and waits until
// it has: it collects such changes for a moment.
func (r *rig) changeTools(name string) {
	r.tool(name, func(context.Context, *mcp.CallToolRequest) error { return nil })
	pass(time.Second)
}

// recording is a store that remembers the ids it gave.
type recording struct {
	*store.Memory
	mu    sync.Mutex
	given map[string][]string // by the name of the stream
}

func newRecording(t testing.TB) *recording {
	return &recording{Memory: newStore(t, store.Limits{}), given: map[string][]string{}}
}

func (r *recording) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	r.mu.Lock() // first: who was given the event finds its id here
	defer r.mu.Unlock()
	id, err := r.Memory.Append(ctx, s, e)
	r.given[s.Name] = append(r.given[s.Name], id)
	return id, err
}

func (r *recording) ids(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.given[name])
}

func idsOf(events []event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.id)
	}
	return all
}

// eventLog collects what a handler tells its observer and its operator.
type eventLog struct {
	mu     sync.Mutex
	events []refserver.Event
	text   bytes.Buffer
}

// observe makes a configuration tell the log everything.
func (l *eventLog) observe(cfg refserver.Config) refserver.Config {
	cfg.OnEvent = func(e refserver.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return cfg
}

// Write implements [io.Writer].
func (l *eventLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the lines of the operator's log that hold a text.
func (l *eventLog) lines(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

func (l *eventLog) count(match func(refserver.Event) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		if match(e) {
			n++
		}
	}
	return n
}

func left(reason refserver.Reason) func(refserver.Event) bool {
	return func(e refserver.Event) bool { return e.Kind == refserver.Detached && e.Reason == reason }
}

func unstored(e refserver.Event) bool { return e.Kind == refserver.Unstored }

// asSent makes a request by hand and returns the bytes of the body as far as the condition
// wants them, without their chunks.
func (p *peer) asSent(request string, enough func(string) bool) string {
	p.t.Helper()
	conn := p.raw(p.t, request)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			p.t.Fatalf("the head of the response: %v", err)
		}
		if line == "\r\n" {
			break
		}
	}
	var body strings.Builder
	for !enough(body.String()) {
		var size int
		if _, err := fmt.Fscanf(r, "%x\r\n", &size); err != nil {
			p.t.Fatalf("%v after %q", err, body.String())
		}
		if _, err := io.CopyN(&body, r, int64(size)); err != nil {
			p.t.Fatal(err)
		}
		if _, err := r.Discard(2); err != nil {
			p.t.Fatal(err)
		}
		if size == 0 {
			return body.String()
		}
	}
	return body.String()
}

func whole(string) bool { return false }

func (p *peer) getRequest() string {
	return fmt.Sprintf("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", p.id)
}
