package umcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	newer = "2025-03-26"
	older = "2024-11-05"
)

// rig is a running server and a way to reach it.
type rig struct {
	t      testing.TB
	mcp    *mcp.Server
	server *umcp.Server
	ledger *refserver.Ledger
	dial   func() (net.Conn, error)
	stop   context.CancelFunc
	served chan error
}

// virtual serves over links in memory, for use inside a synctest bubble.
func virtual(t testing.TB, cfg umcp.Config) *rig {
	t.Helper()
	ln := memnet.Listen()
	return serve(t, cfg, ln, func() (net.Conn, error) { return ln.Dial(context.Background()) })
}

// real serves over TCP.
func real(t testing.TB, cfg umcp.Config) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, cfg, ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
}

func serve(t testing.TB, cfg umcp.Config, ln net.Listener, dial func() (net.Conn, error)) *rig {
	t.Helper()
	r := &rig{t: t, dial: dial, served: make(chan error, 1)}
	taken := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	r.mcp = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   taken,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	var err error
	if r.ledger, err = refserver.NewLedger(refserver.LedgerConfig{}); err != nil {
		t.Fatal(err)
	}
	refserver.AddEmit(r.mcp, r.ledger)
	r.tool("session", func(_ context.Context, req *mcp.CallToolRequest) string { return "session " + req.Session.ID() })
	if r.server, err = umcp.New(r.mcp, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.served <- r.server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// tool adds a tool that answers with a text.
func (r *rig) tool(name string, f func(context.Context, *mcp.CallToolRequest) string) {
	r.mcp.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: f(ctx, req)}}}, nil
		})
}

// principals verifies the tokens "a" and "b", of principals of the same names.
func principals(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != "a" && token != "b" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: token}, nil
}

// link is a connection of raw bytes.
type link struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func (r *rig) link() *link {
	r.t.Helper()
	c, err := r.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &link{t: r.t, Conn: c, in: bufio.NewReader(c)}
}

func (l *link) send(parts ...string) *link {
	l.t.Helper()
	if _, err := io.WriteString(l, strings.Join(parts, "")); err != nil {
		l.t.Fatalf("sending: %v", err)
	}
	return l
}

// request returns the bytes of a request. Fields are whole header lines; "-Name" leaves
// out one that would be there.
func request(method, path, body string, fields ...string) string {
	lines := []string{"Host: localhost"}
	if method == "POST" {
		lines = append(lines, "Content-Type: application/json", "Accept: application/json, text/event-stream")
	}
	if method == "GET" {
		lines = append(lines, "Accept: text/event-stream")
	}
	if method == "POST" || body != "" {
		lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	}
	for _, f := range fields {
		name, out := strings.CutPrefix(f, "-")
		if out {
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+":") })
			continue
		}
		lines = append(lines, f)
	}
	return method + " " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// reply is a response. It is read by a parser of the test's own.
type reply struct {
	status int
	header map[string][]string // names in lower case
	body   string
}

func (r reply) get(name string) string { return strings.Join(r.header[strings.ToLower(name)], " | ") }

func (r reply) closes() bool { return r.get("Connection") == "close" }

func (l *link) line() (string, error) {
	line, err := l.in.ReadString('\n')
	if err != nil {
		return line, err
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q does not end with CR LF", line)
	}
	return text, nil
}

// read reads a response; the body of one that is chunked is left.
func (l *link) read() (reply, error) {
	r, err := l.readHead()
	if err != nil {
		return r, err
	}
	return r, l.readBody(&r)
}

func (l *link) readHead() (reply, error) {
	r := reply{header: make(map[string][]string)}
	line, err := l.line()
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscanf(line, "HTTP/1.1 %03d ", &r.status); err != nil {
		return r, fmt.Errorf("status line %q: %w", line, err)
	}
	for {
		line, err := l.line()
		if err != nil {
			return r, fmt.Errorf("in the head: %w", err)
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return r, fmt.Errorf("header line %q", line)
		}
		name = strings.ToLower(name)
		r.header[name] = append(r.header[name], value)
	}
	return r, nil
}

func (l *link) readBody(r *reply) error {
	if r.header["transfer-encoding"] != nil || r.status == 204 || r.status == 100 {
		return nil
	}
	if len(r.header["content-length"]) != 1 {
		return fmt.Errorf("a %d without one Content-Length: %v", r.status, r.header)
	}
	n, err := strconv.Atoi(r.header["content-length"][0])
	if err != nil {
		return err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(l.in, body)
	r.body = string(body)
	return err
}

// reply reads a response that has to come, with one of the states if any are named.
func (l *link) reply(want ...int) reply {
	l.t.Helper()
	r, err := l.read()
	if err != nil {
		l.t.Fatalf("no response: %v", err)
	}
	if len(want) > 0 && !slices.Contains(want, r.status) {
		l.t.Fatalf("status %d, want %v: %v %s", r.status, want, r.header, r.body)
	}
	return r
}

// ended checks that the connection ends without another byte.
func (l *link) ended(what string) {
	l.t.Helper()
	rest, err := io.ReadAll(l.in)
	if len(rest) > 0 || err != nil {
		l.t.Errorf("%s: the connection ended with %q, %v; want a clean end at once", what, rest, err)
	}
}

// alive checks that the connection serves another request.
func (l *link) alive(what string) {
	l.t.Helper()
	if _, err := io.WriteString(l, request("PUT", "/mcp", "")); err != nil {
		l.t.Errorf("%s: the connection takes no more: %v", what, err)
		return
	}
	if r, err := l.read(); err != nil || r.status != 405 {
		l.t.Errorf("%s: the next request was answered with %d, %v", what, r.status, err)
	}
}

// peer is a client in one session, on a connection of its own.
type peer struct {
	*link
	rig         *rig
	id, version string
	auth        []string // header line with its token, if any
	last        int      // id of its last request
}

func initBody(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, version)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// open opens a session; auth are header lines that go with each of its requests.
func (r *rig) open(version string, auth ...string) *peer {
	r.t.Helper()
	p := &peer{link: r.link(), rig: r, version: version, auth: auth}
	p.id = p.send(request("POST", "/mcp", initBody(version), auth...)).reply(200).get("Mcp-Session-Id")
	if p.id == "" {
		r.t.Fatal("initialize gave no session id")
	}
	if got := p.post(initialized); got.status != 202 || got.body != "" {
		r.t.Fatalf("initialized: %d %q", got.status, got.body)
	}
	return p
}

// fields are the header lines of the session.
func (p *peer) fields(more ...string) []string {
	own := []string{"Mcp-Session-Id: " + p.id, "MCP-Protocol-Version: " + p.version}
	return slices.Concat(own, p.auth, more)
}

func (p *peer) post(body string) reply {
	p.t.Helper()
	return p.send(request("POST", "/mcp", body, p.fields()...)).reply()
}

// toolCall returns the body of a call of a tool; progress is reported under its id.
func toolCall(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"t%d"}}}`, id, name, args, id)
}

// call calls a tool and returns the answer; it fails unless that is a result.
func (p *peer) call(name, args string) string {
	p.t.Helper()
	p.last++
	got := p.post(toolCall(p.last, name, args))
	if got.status != 200 || !strings.Contains(got.body, `"result"`) {
		p.t.Fatalf("%s: %d %s", name, got.status, got.body)
	}
	return got.body
}

// ask makes a request and returns the answer.
func (p *peer) ask(method, params string) string {
	p.t.Helper()
	p.last++
	return p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.last, method, params)).body
}

// events is an attached event stream.
type events struct {
	*link
	head reply
	body *bufio.Reader
}

// listen attaches an event stream.
func (p *peer) listen(fields ...string) *events {
	p.t.Helper()
	l := p.rig.link().send(request("GET", "/mcp", "", p.fields(fields...)...))
	head := l.reply(200)
	if head.get("Content-Type") != "text/event-stream" || head.get("Transfer-Encoding") != "chunked" {
		p.t.Fatalf("no event stream: %v", head.header)
	}
	return &events{link: l, head: head, body: bufio.NewReader(&chunks{in: l.in})}
}

// chunks decodes a chunked body; io.EOF is its clean end alone.
type chunks struct {
	in   *bufio.Reader
	left int64
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.left == 0 {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("cut: %w", io.ErrUnexpectedEOF)
		}
		if c.left, err = strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 64); err != nil {
			return 0, err
		}
		if c.left == 0 {
			end, err := c.in.ReadString('\n')
			if err != nil || end != "\r\n" {
				return 0, fmt.Errorf("after the last chunk: %q, %v", end, err)
			}
			return 0, io.EOF
		}
	}
	n, err := c.in.Read(b[:min(int64(len(b)), c.left)])
	if c.left -= int64(n); err == nil && c.left == 0 {
		var end [2]byte
		if _, err = io.ReadFull(c.in, end[:]); err == nil && string(end[:]) != "\r\n" {
			err = errors.New("a chunk does not end with CR LF")
		}
	}
	return n, err
}

// block reads up to an empty line: an event or a comment, without its end.
func (e *events) block() (string, error) {
	var lines []string
	for {
		line, err := e.body.ReadString('\n')
		if err != nil {
			return strings.Join(lines, "\n"), err
		}
		if line == "\n" {
			return strings.Join(lines, "\n"), nil
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

// next returns the data of the next event. All that is no comment has to be data.
func (e *events) next() string {
	e.t.Helper()
	for {
		block, err := e.block()
		if err != nil {
			e.t.Fatalf("no event: %q, %v", block, err)
		}
		if strings.HasPrefix(block, ":") {
			continue
		}
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok || strings.Contains(data, "\n") {
			e.t.Fatalf("event %q", block)
		}
		return data
	}
}

// progress reads n events and returns their progress numbers.
func (e *events) progress(n int) []int {
	e.t.Helper()
	var all []int
	for range n {
		var m struct {
			Method string
			Params struct{ Progress int }
		}
		data := e.next()
		if err := json.Unmarshal([]byte(data), &m); err != nil || m.Method != "notifications/progress" {
			e.t.Fatalf("no progress: %q, %v", data, err)
		}
		all = append(all, m.Params.Progress)
	}
	return all
}

// finish reads to the clean end of the stream and of its connection, and returns what
// came before.
func (e *events) finish() []string {
	e.t.Helper()
	var all []string
	for {
		block, err := e.block()
		if errors.Is(err, io.EOF) && block == "" {
			e.ended("event stream")
			return all
		}
		if err != nil {
			e.t.Fatalf("after %q: %q, %v", all, block, err)
		}
		all = append(all, block)
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func upTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i+1)
	}
	return all
}
