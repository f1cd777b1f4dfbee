package refserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const modern = "2026-07-28"

// modernCall is a request of 2026-07-28 for a tool.
func modernCall(id int, tool string) ask {
	return modernAsk("tools/call", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":%s}}`, id, tool, modernMeta), tool)
}

const modernMeta = `{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernAsk(method, body, name string) ask {
	a := ask{method: "POST", body: body, version: modern, header: map[string]string{"Mcp-Method": method}}
	if name != "" {
		a.header["Mcp-Name"] = name
	}
	return a
}

// modernRig has a tool that works for an hour and one that counts to three.
func modernRig(t *testing.T, start func(testing.TB, refserver.Config) *rig, cfg refserver.Config) (r *rig, cancelled chan error) {
	t.Helper()
	r = start(t, cfg)
	cancelled = make(chan error, 1)
	schema := json.RawMessage(`{"type":"object"}`)
	r.fixture.Server.AddTool(&mcp.Tool{Name: "hour", InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1}); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			cancelled <- ctx.Err()
			return nil, ctx.Err()
		case <-time.After(time.Hour):
			return &mcp.CallToolResult{}, nil
		}
	})
	r.fixture.Server.AddTool(&mcp.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{}, nil
	})
	return r, cancelled
}

func modernConfig(t *testing.T) refserver.Config {
	return refserver.Config{Store: newStore(t, store.Limits{}), Retry: 100 * time.Millisecond, Modern: true}
}

// TestModernBesideSessions: on one endpoint a call without a session is answered without
// ids of sessions or events, whatever ids it came with, and sessions are what they were.
func TestModernBesideSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := modernRig(t, virtual, modernConfig(t))
		p := r.open(latest)
		first := p.emit(1, "tok", `{"messages":2}`).rest()
		a := modernCall(1, "count")
		a.session, a.cursor = p.id, first[0].id
		resp := r.do(a)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 || resp.Header.Get("Mcp-Session-Id") != "" || strings.Contains("\n"+string(body), "\nid:") {
			t.Errorf("%s %v\n%s", resp.Status, resp.Header, body)
		}
		calls := `operation_duration_seconds_count{error_type="",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp"} 1`
		if text := exposition(r); !strings.Contains(text, calls) {
			t.Errorf("the call is not measured:\n%s", text)
		}
		if n := strings.Count(string(body), `"notifications/progress"`); n != 3 || !strings.Contains(string(body), `"resultType":"complete"`) {
			t.Errorf("%d messages\n%s", n, body)
		}
		again := p.resume(first[0].id).rest()
		same(t, "the stream of the session", again, first[1:])
	})
}

// TestModernDisconnectCancels: a client that leaves has cancelled its call, while a call
// of a session goes on.
func TestModernDisconnectCancels(t *testing.T) {
	r, cancelled := modernRig(t, real, modernConfig(t))
	p := r.open(latest)
	kept := p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hour","_meta":{"progressToken":1}}}`})
	cursor := kept.take(2)[1].id
	kept.cut()
	resp := r.do(modernCall(2, "hour"))
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case err := <-cancelled:
		if err == nil {
			t.Error("cancelled without a reason")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a call whose client has left goes on")
	}
	select {
	case <-cancelled:
		t.Error("the call of the session was cancelled too")
	default:
	}
	p.resume(cursor).cut() // 200: it is still there
	if code, _ := p.status(ask{method: "DELETE", session: p.id, version: p.revision}); code != 204 {
		t.Errorf("DELETE: %d", code)
	}
}

// TestModernStatus: what a request without a session is answered with.
func TestModernStatus(t *testing.T) {
	cfg := modernConfig(t)
	cfg.Limits.Body = 10_000
	r, _ := modernRig(t, real, cfg)
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":` + modernMeta + `}}`
	with := func(a ask, name, value string) ask {
		a.header[name] = value
		return a
	}
	for _, c := range []struct {
		what string
		ask  ask
		code int
		says string
	}{
		{"a list", modernAsk("tools/list", list, ""), 200, `"emit"`},
		{"GET", ask{method: "GET", version: modern}, 405, ""},
		{"DELETE", ask{method: "DELETE", version: modern}, 405, ""},
		{"a foreign origin", with(modernAsk("tools/list", list, ""), "Origin", "https://evil.example"), 403, "origin"},
		{"a large body", modernAsk("tools/list", list+strings.Repeat(" ", 10_000), ""), 413, "too large"},
		{"no header", ask{method: "POST", body: list}, 400, "-32020"},
		{"another revision in the header", with(modernAsk("tools/list", list, ""), "Mcp-Protocol-Version", "2027-01-01"), 400, "-32020"},
		{"a later revision", ask{method: "POST", version: "2027-01-01", body: strings.ReplaceAll(list, modern, "2027-01-01"), header: map[string]string{"Mcp-Method": "tools/list"}}, 400, `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`},
		{"initialize", modernAsk("initialize", strings.Replace(list, "tools/list", "initialize", 1), ""), 404, "-32601"},
		{"a method of another name", with(modernAsk("tools/list", list, ""), "Mcp-Method", "ping"), 400, "-32020"},
		{"our own header", with(modernAsk("tools/list", list, ""), "Gapless-Call", "1"), 200, `"emit"`},
		{"sessions need one as ever", ask{method: "POST", version: latest, body: `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`}, 400, "Mcp-Session-Id"},
	} {
		code, body := r.status(c.ask)
		if code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s\nwant %d and %q", c.what, code, body, c.code, c.says)
		}
	}
}

// TestModernRefused: without Config.Modern the answer names what is served, in the words
// by which a client of both kinds finds its way.
func TestModernRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{})})
		code, body := r.status(modernCall(9, "emit"))
		want := `{"jsonrpc":"2.0","id":9,"error":{"code":-32022,"message":"this revision of MCP is not served here; supported: 2025-11-25, 2025-06-18, 2025-03-26",` +
			`"data":{"supported":["2025-11-25","2025-06-18","2025-03-26"],"requested":"2026-07-28"}}}`
		if code != 400 || body != want {
			t.Errorf("%d %s\nwant %s", code, body, want)
		}
		for _, method := range []string{"GET", "DELETE"} {
			if code, body := r.status(ask{method: method, version: modern}); code != 400 || !strings.Contains(body, latest) {
				t.Errorf("%s: %d %s", method, code, body)
			}
		}
		if code, _ := r.status(modernAsk("x", "{", "")); code != 400 {
			t.Errorf("no JSON: %d", code)
		}
	})
}

// TestModernShutdown: what runs without a session ends with the handler, which takes
// nothing new then.
func TestModernShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, cancelled := modernRig(t, virtual, modernConfig(t))
		resp := r.do(modernCall(1, "hour"))
		defer resp.Body.Close()
		began := time.Now()
		if err := r.fixture.Handler.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-cancelled; err == nil || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("no clean end: %v", err)
		}
		if code, _ := r.status(modernCall(2, "count")); code != 503 {
			t.Errorf("after the shutdown: %d", code)
		}
	})
}

// TestModernInFlight: no more run at once than sessions may be open.
func TestModernInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := modernConfig(t)
		cfg.Limits.Sessions = 1
		r, cancelled := modernRig(t, virtual, cfg)
		first := r.do(modernCall(1, "hour"))
		if code, _ := r.status(modernCall(2, "count")); code != 503 {
			t.Errorf("one too many: %d", code)
		}
		first.Body.Close()
		<-cancelled
		synctest.Wait()
		if code, _ := r.status(modernCall(3, "count")); code != 200 {
			t.Errorf("after the first is gone: %d", code)
		}
	})
}

// TestModernPrincipal: a token is needed here too, and half of what may run is the most
// that one principal gets.
func TestModernPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := modernConfig(t)
		cfg.Verifier, cfg.Limits.Sessions = tokens(t), 2
		r, cancelled := modernRig(t, virtual, cfg)
		as := func(token string, a ask) ask {
			a.header["Authorization"] = "Bearer " + token
			return a
		}
		if code, _ := r.status(modernCall(1, "count")); code != 401 {
			t.Errorf("no token: %d", code)
		}
		first := r.do(as(annToken, modernCall(1, "hour")))
		if code, _ := r.status(as(annToken, modernCall(2, "count"))); code != 429 {
			t.Errorf("one too many: %d", code)
		}
		if code, _ := r.status(as(bobToken, modernCall(3, "count"))); code != 200 {
			t.Errorf("of somebody else: %d", code)
		}
		first.Body.Close()
		<-cancelled
		synctest.Wait()
		if code, _ := r.status(as(annToken, modernCall(4, "count"))); code != 200 {
			t.Errorf("after the first is gone: %d", code)
		}
	})
}

// TestModernUnread: a client that does not read is cut, and its call cancelled.
func TestModernUnread(t *testing.T) {
	cfg := modernConfig(t)
	cfg.WriteTimeout = 100 * time.Millisecond
	r := real(t, cfg)
	gone := make(chan struct{})
	r.fixture.Server.AddTool(&mcp.Tool{Name: "flood", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer close(gone)
		long := strings.Repeat("x", 1<<16)
		for i := 0; ctx.Err() == nil; i++ {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: float64(i), Message: long}) // until the client is cut
		}
		return &mcp.CallToolResult{}, nil
	})
	resp := r.do(modernCall(1, "flood"))
	defer resp.Body.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("a client that does not read holds its call for ever")
	}
}

// TestModernLinkIsUsedAgain: the limit on one write does not outlive its request.
func TestModernLinkIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := modernConfig(t)
		cfg.WriteTimeout = time.Second
		r, _ := modernRig(t, virtual, cfg)
		for i := range 2 {
			if code, _ := r.status(modernCall(i, "count")); code != 200 {
				t.Fatalf("call %d: %d", i, code)
			}
			pass(5 * time.Second)
		}
		// A status of ours goes out without a write limit of its own.
		if code, _ := r.status(ask{method: "GET", version: latest}); code != 400 || r.dials.Load() != 1 {
			t.Errorf("%d over %d links", code, r.dials.Load())
		}
	})
}

// TestStateless: every revision is served without sessions.
func TestStateless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := modernRig(t, virtual, refserver.Config{Stateless: true})
		resp := r.do(ask{method: "POST", body: initBody(latest)})
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("initialize: %s %v", resp.Status, resp.Header)
		}
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","_meta":{"progressToken":1}}}`
		if code, body := r.status(ask{method: "POST", body: call, version: latest}); code != 200 || strings.Count(body, "notifications/progress") != 3 {
			t.Errorf("%d %s", code, body)
		}
		for _, method := range []string{"GET", "DELETE"} {
			if code, _ := r.status(ask{method: method, version: latest, session: "s"}); code != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d", method, code)
			}
		}
		if code, body := r.status(modernCall(2, "count")); code != 200 || strings.Count(body, "notifications/progress") != 3 {
			t.Errorf("%s: %d %s", modern, code, body)
		}
	})
}

// TestStatelessHasNoStore: the two are refused together when the server is made.
func TestStatelessHasNoStore(t *testing.T) {
	cfg := refserver.Config{Stateless: true, Store: newStore(t, store.Limits{})}
	if err := cfg.Validate(); err == nil {
		t.Error("valid")
	}
	if _, err := refserver.New(mcp.NewServer(&mcp.Implementation{Name: "t"}, nil), cfg); err == nil || !strings.Contains(err.Error(), "stateless") {
		t.Errorf("New: %v", err)
	}
}
