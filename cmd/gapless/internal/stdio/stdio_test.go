//go:build unix

package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

const patience = 20 * time.Second

// An endpoint is a bridge with the client's side of one session.
type endpoint struct {
	t       *testing.T
	url     *url.URL
	stop    func() error
	session string
}

func open(t *testing.T, newProcess func() (*process.Process, error)) *endpoint {
	t.Helper()
	at, stop, err := Serve(context.Background(), newProcess)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return &endpoint{t: t, url: u, stop: stop}
}

func initialized(t *testing.T, newProcess func() (*process.Process, error)) *endpoint {
	t.Helper()
	e := open(t, newProcess)
	e.handshake()
	return e
}

func (e *endpoint) handshake() {
	e.t.Helper()
	e.session = ""
	a := e.post(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if got := a.rest(); a.status != 200 || len(got) != 1 || !strings.Contains(got[0], `"protocolVersion"`) {
		e.t.Fatalf("initialize: %d %q", a.status, got)
	}
	if e.session = a.resp.Get("Mcp-Session-Id"); e.session == "" {
		e.t.Fatal("no session id")
	}
	e.notify("initialized")
}

func (e *endpoint) notify(what string) {
	e.t.Helper()
	if a := e.post(`{"jsonrpc":"2.0","method":"notifications/` + what + `"}`); a.status != 202 {
		e.t.Fatalf("%s: status %d", what, a.status)
	}
}

// call calls a tool; number is the request id, and with a t the progress token.
func (e *endpoint) call(number int, tool string, n int) *answer {
	e.t.Helper()
	return e.post(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\n\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":%q,\"arguments\":{\"n\":%d},\"_meta\":{\"progressToken\":\"t%d\"}}}",
		number, tool, n, number))
}

// An answer is read with the codec of the load generator.
type answer struct {
	t      *testing.T
	link   net.Conn
	resp   *wire.Response
	status int
	reader wire.Reader
	err    error // why there are no more events
}

func (e *endpoint) post(body string) *answer { return e.do("POST", body) }

func (e *endpoint) do(method, body string, fields ...wire.Field) *answer {
	e.t.Helper()
	link, err := net.Dial("tcp", e.url.Host)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { link.Close() })
	_ = link.SetDeadline(time.Now().Add(patience))
	if e.session != "" {
		fields = append(fields, wire.Field{Name: "Mcp-Session-Id", Value: e.session})
	}
	resp, err := wire.NewConn(link, wire.Limits{}).RoundTrip(&wire.Request{
		Method: method, Target: e.url.Path, Host: e.url.Host, Body: []byte(body), Fields: fields,
	})
	if err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
	a := &answer{t: e.t, link: link, resp: resp, status: resp.Status}
	if resp.SSE() {
		a.reader.Reset(resp, nil)
	}
	return a
}

// next returns the data of the next event.
func (a *answer) next() (string, bool) {
	a.t.Helper()
	if !a.resp.SSE() {
		return "", false
	}
	var ev wire.Event
	if a.err = a.reader.Next(&ev); a.err != nil {
		return "", false
	}
	if ev.HasID || string(ev.Type) != "message" || ev.Illegal != 0 {
		a.t.Errorf("event of type %s, id %q, illegal %d", ev.Type, ev.ID, ev.Illegal)
	}
	return string(ev.Data), true
}

func (a *answer) rest() (all []string) {
	a.t.Helper()
	for {
		data, ok := a.next()
		if !ok {
			return all
		}
		all = append(all, data)
	}
}

func (a *answer) text() string {
	a.t.Helper()
	body, err := a.resp.ReadAll(1 << 20)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(body)
}

// mustFail wants the end of the endpoint to tell what the server did.
func (e *endpoint) mustFail(parts ...string) {
	e.t.Helper()
	err := e.stop()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			e.t.Errorf("stop: %v, want ...%s...", err, part)
		}
	}
}

func (e *endpoint) mustBeFine() {
	e.t.Helper()
	if err := e.stop(); err != nil {
		e.t.Errorf("stop: %v", err)
	}
}

func TestCall(t *testing.T) {
	e := initialized(t, server("ours"))
	a := e.call(1, "count", 500)
	got := a.rest()
	if len(got) != 501 || a.err != io.EOF {
		t.Fatalf("%d messages, then %v; want 501 and the end", len(got), a.err)
	}
	for i, data := range got[:500] {
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":%d}}`, i+1); data != want {
			t.Fatalf("message %d: %s", i+1, data)
		}
	}
	if got[500] != `{"jsonrpc":"2.0","id":1,"result":{"ok":true}}` {
		t.Errorf("response %s", got[500])
	}
	e.mustBeFine()
}

// Calls of one session share a process, and each gets what is its own.
func TestCallsAreToldApart(t *testing.T) {
	e := initialized(t, server("ours"))
	one, two := e.call(1, "hold", 0), e.call(2, "hold", 0)
	three := e.call(3, "count", 2)
	if got := three.rest(); len(got) != 3 {
		t.Errorf("call 3 got %q", got)
	}
	if a := e.call(2, "count", 0); a.status != 400 || !strings.Contains(a.text(), "not answered yet") {
		t.Errorf("an id in use: status %d", a.status)
	}
	e.notify("release")
	for i, a := range []*answer{one, two} {
		got := a.rest()
		if len(got) != 3 || !strings.Contains(got[1], fmt.Sprintf(`"t%d"`, i+1)) || !strings.Contains(got[2], fmt.Sprintf(`"id":%d`, i+1)) {
			t.Errorf("call %d got %q", i+1, got)
		}
	}
	e.mustBeFine()
}

// Sessions have processes of their own, which end with them.
func TestSessions(t *testing.T) {
	e := initialized(t, server("ours"))
	first, pid := e.session, e.call(1, "pid", 0).rest()
	e.handshake()
	if other := e.call(1, "pid", 0).rest(); len(pid) != 1 || len(other) != 1 || pid[0] == other[0] {
		t.Errorf("two sessions: %q and %q", pid, other)
	}
	e.session = first
	held := e.call(2, "hold", 0)
	if _, ok := held.next(); !ok {
		t.Fatal(held.err)
	}
	if a := e.do("DELETE", ""); a.status != 204 {
		t.Errorf("DELETE: status %d", a.status)
	}
	if got := held.rest(); got != nil || held.err == nil || held.err == io.EOF {
		t.Errorf("a call of a deleted session: %q, %v; want it cut", got, held.err)
	}
	for _, method := range []string{"POST", "DELETE"} {
		if a := e.do(method, `{"jsonrpc":"2.0","id":3,"method":"ping"}`); a.status != 404 {
			t.Errorf("%s in a deleted session: status %d", method, a.status)
		}
	}
	e.mustBeFine()
}

// A dropped POST leaves the call running; what it says is no stray.
func TestDroppedPost(t *testing.T) {
	e := initialized(t, server("ours"))
	a := e.call(1, "hold", 0)
	if _, ok := a.next(); !ok {
		t.Fatal(a.err)
	}
	_ = a.link.Close()
	e.notify("release") // may come before the bridge knows of the drop
	if got := e.call(2, "count", 3).rest(); len(got) != 4 {
		t.Errorf("the next call got %q", got)
	}
	e.mustBeFine()
}

func TestServerAsks(t *testing.T) {
	e := initialized(t, server("ours"))
	a := e.call(1, "ask", 0)
	if q, _ := a.next(); !strings.Contains(q, "sampling/createMessage") {
		t.Fatalf("got %q, %v", q, a.err)
	}
	if r := e.post(`{"jsonrpc":"2.0","id":"q1","result":{"answer":42}}`); r.status != 202 {
		t.Errorf("an answer: status %d", r.status)
	}
	if got, _ := a.next(); !strings.Contains(got, `"data":{"answer":42}`) {
		t.Errorf("got %q", got)
	}
}

// A batch of the server is taken apart, and a CR between its parts breaks no event.
func TestBatch(t *testing.T) {
	e := initialized(t, server("ours"))
	got := e.call(7, "batch", 0).rest()
	if len(got) != 2 || got[1] != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("got %q", got)
	}
	e.mustBeFine()
}

func TestServerFails(t *testing.T) {
	for tool, want := range map[string]string{
		"die":   "1 of the servers failed; the first: the server died: exit status 3; its last words:\nout of luck",
		"noise": `the server broke the stdio transport: a line of its stdout is no JSON-RPC message: "Server is running\x1b[0m" (what is not`,
		"long":  "more than 16 MiB",
	} {
		t.Run(tool, func(t *testing.T) {
			e := initialized(t, server("ours"))
			other := e.call(1, "hold", 0)
			a := e.call(2, tool, 0)
			if a.rest(); a.err != io.ErrUnexpectedEOF {
				t.Errorf("the call ended with %v, want it cut", a.err)
			}
			if other.rest(); other.err != io.ErrUnexpectedEOF {
				t.Errorf("another call ended with %v, want it cut", other.err)
			}
			if a := e.call(3, "count", 0); a.status != 404 {
				t.Errorf("a later call: status %d", a.status)
			}
			e.mustFail(want)
		})
	}
}

func TestStraysAreTold(t *testing.T) {
	e := initialized(t, server("ours"))
	e.call(1, "twice", 0).rest()
	if got := e.call(2, "count", 0).rest(); len(got) != 1 || !strings.Contains(got[0], `"id":2`) {
		t.Errorf("got %q", got)
	}
	e.mustFail("1 messages of the servers belonged to no open call")
}

func TestInitializeFails(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s"}}`
	e := open(t, server("dead"))
	if a := e.post(fmt.Sprintf(hello, "2025-11-25")); a.status != 502 || !strings.Contains(a.text(), `exit status 4; its last words:\nno such database`) {
		t.Errorf("a dead server: status %d", a.status)
	}
	e.mustFail("no such database")

	e = open(t, func() (*process.Process, error) { return nil, errors.New("no shell") })
	if a := e.post(fmt.Sprintf(hello, "2025-11-25")); a.status != 502 || !strings.Contains(a.text(), "no shell") {
		t.Errorf("no server: status %d", a.status)
	}
	e.mustFail("no shell")

	e = open(t, server("ours"))
	a := e.post(fmt.Sprintf(hello, "1999-01-01"))
	if got := a.rest(); a.status != 200 || len(got) != 1 || !strings.Contains(got[0], "what year") {
		t.Errorf("a refusal: status %d, %q", a.status, got)
	}
	e.session = a.resp.Get("Mcp-Session-Id")
	for end := time.Now().Add(patience); e.post(`{"jsonrpc":"2.0","method":"notifications/x"}`).status != 404; {
		if time.Now().After(end) {
			t.Fatal("a session that was refused lives on")
		}
	}
	e.mustBeFine()
}

func TestRefused(t *testing.T) {
	e := initialized(t, server("ours"))
	big := `{"x":"` + strings.Repeat("x", maxMessage) + `"}`
	for name, c := range map[string]struct {
		method, body string
		field        wire.Field
		status       int
		want         string
	}{
		"GET":            {"GET", "", wire.Field{}, 405, "no stream"},
		"another site":   {"POST", "{}", wire.Field{Name: "Origin", Value: "http://evil.example"}, 403, "alone"},
		"no origin":      {"POST", "{}", wire.Field{Name: "Origin", Value: "null"}, 403, "alone"},
		"no JSON":        {"POST", "hello", wire.Field{}, 400, "not JSON"},
		"nothing":        {"POST", "", wire.Field{}, 400, "not JSON"},
		"no message":     {"POST", "42", wire.Field{}, 400, "no JSON-RPC message"},
		"a batch":        {"POST", "[]", wire.Field{}, 400, "one message per POST"},
		"null id":        {"POST", `{"id":null,"method":"ping"}`, wire.Field{}, 400, "a string or a number"},
		"too much":       {"POST", big, wire.Field{}, 413, "16 MiB"},
		"a 2nd session":  {"POST", `{"id":1,"method":"initialize"}`, wire.Field{}, 400, "of its own"},
		"strange fields": {"POST", `{"method":7,"params":[7],"error":7}`, wire.Field{}, 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []wire.Field
			if c.field.Name != "" {
				fields = append(fields, c.field)
			}
			a := e.do(c.method, c.body, fields...)
			if text := a.text(); a.status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("status %d, %s; want %d, ...%s...", a.status, text, c.status, c.want)
			}
		})
	}
	e.session = ""
	if a := e.call(1, "count", 1); a.status != 400 || !strings.Contains(a.text(), "initialize comes first") {
		t.Errorf("no session: status %d", a.status)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	var started atomic.Int64
	e := open(t, func() (*process.Process, error) {
		started.Add(1)
		return process.Start(process.Config{ // answers each line alike
			Command: `while read -r x; do echo '{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}'; done`, Stdin: true, Stdout: true,
		})
	})
	hello := `{"jsonrpc":"2.0","id":"init","method":"initialize"}`
	for range maxSessions {
		if got := e.post(hello).rest(); len(got) != 1 {
			t.Fatalf("initialize: %q", got)
		}
	}
	a := e.post(hello)
	if text := a.text(); a.status != 503 || a.resp.Get("Retry-After") == "" || !strings.Contains(text, "64 sessions are open") {
		t.Errorf("status %d, %s", a.status, text)
	}
	if started.Load() != maxSessions {
		t.Errorf("%d processes", started.Load())
	}
	e.mustBeFine()
}

// A client that does not read holds up its server, and nobody else: not the end of its
// session, nor that of the endpoint.
func TestStalledClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBridge(l.Addr().String(), server("ours"))
	b.group.Go(func() { _ = b.server.Serve(l) })
	for name, end := range map[string]func(e *endpoint){
		"deleted": func(e *endpoint) { e.do("DELETE", ""); b.handlers.Wait() },
		"stopped": func(e *endpoint) { e.mustBeFine() },
	} {
		t.Run(name, func(t *testing.T) {
			e := &endpoint{t: t, url: &url.URL{Host: b.host, Path: b.path}, stop: b.stop}
			if name == "stopped" {
				e = open(t, server("ours"))
			}
			e.handshake()
			a := e.call(1, "wide", 0)
			if _, ok := a.next(); !ok {
				t.Fatal(a.err)
			}
			if _, err := io.ReadFull(a.link, make([]byte, 1<<20)); err != nil { // the rest is more than the kernel holds
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { defer close(done); end(e) }()
			select {
			case <-done:
			case <-time.After(patience):
				t.Fatal("the end waits for a client that does not read")
			}
		})
	}
	if err := b.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A server that does not read its stdin blocks a POST as long as the client waits.
func TestDeafServer(t *testing.T) {
	e := initialized(t, server("ours"))
	a := e.call(1, "deaf", 0)
	if _, ok := a.next(); !ok {
		t.Fatal(a.err)
	}
	full := `{"jsonrpc":"2.0","method":"notifications/x","params":{"pad":"` + strings.Repeat("x", 1<<20) + `"}}`
	if r := e.post(full); r.status != 202 { // on its way
		t.Fatalf("status %d", r.status)
	}
	b := e.call(2, "count", 1)
	if b.status != 200 {
		t.Errorf("status %d, want the head at once", b.status)
	}
	e.mustBeFine()
	if b.rest(); b.err == nil || b.err == io.EOF {
		t.Errorf("the call ended with %v, want it cut", b.err)
	}
}

func TestContextEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	at, stop, err := Serve(ctx, server("ours"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if resp, err := http.Post(at, "application/json", bytes.NewReader(nil)); err == nil {
		resp.Body.Close()
		t.Error("it still answers")
	}
}

// A client and a server of the official SDK find nothing missing.
func TestSDK(t *testing.T) {
	e := open(t, server("sdk"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := make(chan float64, 99) // the client hears of progress beside the response
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { seen <- r.Params.Progress },
	})
	s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: e.url.String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"N": 20}}
	p.SetProgressToken("p1")
	r, err := s.CallTool(ctx, p)
	if err != nil || r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	for i := range 20 {
		select {
		case <-seen:
		case <-ctx.Done():
			t.Fatalf("%d notifications, want 20", i)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	e.mustBeFine()
}
