package umcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// "A successful initialize response includes a new opaque Mcp-Session-Id."
func TestSeed002_InitializeGivesANewOpaqueSessionId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		l, seen := r.link(), map[string]bool{}
		for range 50 {
			got := l.send(request("POST", "/mcp", initBody(newer))).reply(200)
			id := got.get("Mcp-Session-Id")
			if len(id) < 20 || strings.ContainsFunc(id, func(c rune) bool { return c < '!' || c > '~' }) || seen[id] {
				t.Fatalf("session id %q", id)
			}
			seen[id] = true
		}
		p := r.open(newer)
		if got := p.post(toolCall(1, "session", `{}`)); got.get("Mcp-Session-Id") != "" {
			t.Errorf("another answer has a session id: %v", got.header)
		}
	})
}

// An initialize that fails includes none, and opens nothing.
func TestSeed002_FailedInitializeOpensNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened int
		r := virtual(t, umcp.Config{OnEvent: func(e refserver.Event) { opened++ }, Limits: umcp.Limits{Sessions: 1}})
		l := r.link()
		for _, params := range []string{`null`, `[]`, `{"protocolVersion":7}`} {
			got := l.send(request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`)).reply(200)
			if got.get("Mcp-Session-Id") != "" || !strings.Contains(got.body, `"error"`) {
				t.Errorf("params %s: %v %s", params, got.header, got.body)
			}
		}
		l.send(request("POST", "/mcp", initBody(newer), "Mcp-Session-Id: mine")).reply(400)
		if opened != 0 {
			t.Errorf("%d sessions were opened", opened)
		}
		r.open(newer)
	})
}

// "uMCP negotiates 2025-03-26 or 2024-11-05": the one that was asked for, else the newer.
func TestSeed002_NegotiatesTwoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		for asked, want := range map[string]string{newer: newer, older: older, "2025-11-25": newer, "2026-07-28": newer, "": newer, "x": newer} {
			got := r.link().send(request("POST", "/mcp", initBody(asked), "MCP-Protocol-Version: "+asked)).reply(200)
			var answer struct{ Result mcp.InitializeResult }
			if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.Result.ProtocolVersion != want {
				t.Errorf("asked for %q, got %q, %v", asked, answer.Result.ProtocolVersion, err)
			}
		}
	})
}

// Missing or unsupported MCP-Protocol-Version on anything but initialize is 400, with a
// session and without.
func TestSeed002_VersionHeaderIsNeededBehindInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		session := "Mcp-Session-Id: " + p.id
		for _, v := range []string{"-x", "MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: ", "MCP-Protocol-Version: " + newer + "," + newer} {
			for what, text := range map[string]string{
				"call":         request("POST", "/mcp", toolCall(1, "session", `{}`), session, v),
				"stateless":    request("POST", "/mcp", toolCall(1, "session", `{}`), v),
				"notification": request("POST", "/mcp", initialized, session, v),
				"response":     request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, session, v),
				"stream":       request("GET", "/mcp", "", session, v),
				"end":          request("DELETE", "/mcp", "", session, v),
			} {
				if got := p.send(text).reply(); got.status != 400 || !strings.Contains(got.body, older) {
					t.Errorf("%s with %q: %d %s", what, v, got.status, got.body)
				}
			}
		}
		p.call("session", `{}`)
	})
}

// "mismatched protocol versions return 400"
func TestSeed002_SessionKeepsItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		for own, other := range map[string]string{newer: older, older: newer} {
			p := r.open(own)
			for _, method := range []string{"POST", "GET", "DELETE"} {
				p.send(request(method, "/mcp", toolCall(1, "session", `{}`), "Mcp-Session-Id: "+p.id, "MCP-Protocol-Version: "+other)).reply(400)
			}
			p.call("session", `{}`)
		}
	})
}

// "Unknown sessions return 404"
func TestSeed002_UnknownSessionsAre404(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		for _, id := range []string{"unknown", p.id + "x", p.id[1:], strings.ToLower(p.id)} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				got := p.send(request(method, "/mcp", toolCall(1, "session", `{}`), "Mcp-Session-Id: "+id, "MCP-Protocol-Version: "+newer)).reply(404)
				if strings.Contains(got.body, id) {
					t.Errorf("the id is echoed: %s", got.body)
				}
			}
		}
	})
}

// "The session records the authenticated principal"; "mismatched principals return 403";
// "a session cannot be moved between principals by presenting its identifier with
// different credentials".
func TestSeed002_SessionStaysWithItsPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Verifier: principals})
		a := r.open(newer, "Authorization: Bearer a")
		stream := a.listen()
		for _, method := range []string{"POST", "GET", "DELETE"} {
			a.send(request(method, "/mcp", toolCall(1, "session", `{}`), "Authorization: Bearer b", "Mcp-Session-Id: "+a.id, "MCP-Protocol-Version: "+newer)).reply(403)
		}
		b := r.open(newer, "Authorization: Bearer b")
		b.call("emit", `{"messages":3}`)
		a.call("emit", `{"messages":2}`)
		if got := stream.progress(2); !slices.Equal(got, upTo(2)) {
			t.Errorf("progress %v", got)
		}
	})
}

// "the identifier is routing state, not a credential"; "Authentication [...] checks run
// on POST, GET and DELETE".
func TestSeed002_EveryVerbIsAuthenticated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{Verifier: principals}).open(newer, "Authorization: Bearer a")
		for _, field := range []string{"-x", "Authorization: Bearer c", "Authorization: Basic a", "Authorization: a", "Authorization: Bearer"} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				got := p.send(request(method, "/mcp", initialized, "Mcp-Session-Id: "+p.id, "MCP-Protocol-Version: "+newer, field)).reply()
				if got.status != 401 || !strings.HasPrefix(got.get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s with %q: %d %q", method, field, got.status, got.get("WWW-Authenticate"))
				}
			}
		}
		p.call("session", `{}`)
	})
}

// "then exposed through MCPRequestContext.session_id"
func TestSeed002_HandlersSeeTheSessionId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p, q := r.open(newer), r.open(older)
		for _, x := range []*peer{p, q, p} {
			if got := x.call("session", `{}`); !strings.Contains(got, `"session `+x.id+`"`) {
				t.Errorf("%s", got)
			}
		}
	})
}

// "Requests without a session remain available for backwards-compatible stateless use."
func TestSeed002_RequestsWithoutASessionAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		l := r.link()
		for _, version := range umcp.Versions() {
			post := func(body string) reply {
				return l.send(request("POST", "/mcp", body, "MCP-Protocol-Version: "+version)).reply()
			}
			got := post(toolCall(1, "session", `{}`))
			if got.status != 200 || !strings.Contains(got.body, `"session "`) || got.get("Mcp-Session-Id") != "" {
				t.Errorf("%d %v %s", got.status, got.header, got.body)
			}
			if got := post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); got.status != 200 || !strings.Contains(got.body, `"emit"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := post(initialized); got.status != 202 || got.body != "" {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := post(toolCall(3, "emit", `{"messages":5}`)); !strings.Contains(got.body, "emitted 5") {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		synctest.Wait()
		for range r.mcp.Sessions() {
			t.Error("a request without a session left one behind")
		}
	})
}

// "Sessions are bounded to 1,024 live entries": none is evicted for another.
func TestSeed002_SessionsAreBoundedTo1024(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		first := r.open(newer)
		for range 1023 {
			l := r.link()
			l.send(request("POST", "/mcp", initBody(newer))).reply(200)
			l.Close()
		}
		l := r.link()
		if got := l.send(request("POST", "/mcp", initBody(newer))).reply(503); got.closes() || got.get("Mcp-Session-Id") != "" {
			t.Errorf("%v", got.header)
		}
		l.send(request("POST", "/mcp", toolCall(1, "session", `{}`), "MCP-Protocol-Version: "+newer)).reply(200)
		first.call("session", `{}`)
		first.send(request("DELETE", "/mcp", "", first.fields()...)).reply(204)
		l.send(request("POST", "/mcp", initBody(newer))).reply(200)
	})
}

// "and expire after 30 minutes without activity"
func TestSeed002_SessionsExpireAfter30IdleMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		post := func() int {
			return r.link().send(request("POST", "/mcp", initialized, p.fields()...)).reply().status
		}
		for range 3 { // each request begins the time again
			pass(30*time.Minute - time.Second)
			if got := post(); got != 202 {
				t.Fatalf("status %d before the limit", got)
			}
		}
		pass(30*time.Minute + time.Second)
		if got := post(); got != 404 {
			t.Errorf("status %d after the limit", got)
		}
	})
}

// An event stream and a call in flight are activity.
func TestSeed002_StreamsAndCallsKeepASessionAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		_, open := gate(r)
		p, q := r.open(newer), r.open(newer)
		stream := p.listen()
		go func() { // comments are to be read
			for {
				if _, err := stream.block(); err != nil {
					return
				}
			}
		}()
		q.send(request("POST", "/mcp", toolCall(1, "gate", `{}`), q.fields()...))
		pass(2 * time.Hour)
		close(open)
		q.reply(200)
		stream.Close()
		pass(29 * time.Minute)
		for _, x := range []*peer{p, q} {
			r.link().send(request("POST", "/mcp", initialized, x.fields()...)).reply(202)
		}
	})
}

// "A client terminates its session with authenticated DELETE /mcp"
func TestSeed002_DeleteEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Verifier: principals})
		p := r.open(newer, "Authorization: Bearer a")
		p.send(request("DELETE", "/mcp", "", "Mcp-Session-Id: "+p.id, "MCP-Protocol-Version: "+newer)).reply(401)
		p.send(request("DELETE", "/mcp", "", "MCP-Protocol-Version: "+newer, p.auth[0])).reply(400)
		p.call("session", `{}`)
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		for _, method := range []string{"POST", "GET", "DELETE"} {
			p.send(request(method, "/mcp", toolCall(1, "session", `{}`), p.fields()...)).reply(404)
		}
		synctest.Wait()
		for range r.mcp.Sessions() {
			t.Error("the SDK still has the session")
		}
	})
}

// DELETE does not wait for calls in flight; they are told that the session is gone.
func TestSeed002_DeleteAnswersCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		other := r.link().send(request("POST", "/mcp", toolCall(1, "emit", `{"messages":100,"interval_ms":1000}`), p.fields()...))
		pass(1500 * time.Millisecond)
		begun := time.Now()
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		other.reply(404)
		synctest.Wait()
		if c := r.ledger.Take([]string{"t1"})[0]; c.Emitted != 2 || !c.Cancelled || time.Since(begun) > 0 {
			t.Errorf("after %s the ledger says %+v", time.Since(begun), c)
		}
	})
}

// "deletion also closes an attached event stream": cleanly, behind what was emitted,
// though its client has not read yet.
func TestSeed002_DeleteClosesTheEventStream(t *testing.T) {
	for range 8 { // what comes first, the end or the rest, is not known
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, umcp.Config{}).open(newer)
			stream := p.listen()
			p.call("emit", `{"messages":200,"bytes":1000}`)
			synctest.Wait() // more than the link holds is being written, and so behind it
			p.call("emit", `{"messages":20}`)
			begun := time.Now()
			p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
			if got := stream.finish(); len(got) != 220 || time.Since(begun) > 0 {
				t.Errorf("%d events after %s", len(got), time.Since(begun))
			}
		})
	}
}

// Nobody has a session before its initialize was answered, not even by a known id.
func TestSeed002_SessionsBeginWithTheAnswerToInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Nonce: func() string { return "known" }})
		open := make(chan struct{})
		r.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method == "initialize" {
					<-open
				}
				return next(ctx, method, req)
			}
		})
		first := r.link().send(request("POST", "/mcp", initBody(newer)))
		synctest.Wait()
		early := r.link().send(request("GET", "/mcp", "", "Mcp-Session-Id: known", "MCP-Protocol-Version: "+newer))
		early.reply(404)
		close(open)
		if got := first.reply(200); got.get("Mcp-Session-Id") != "known" {
			t.Errorf("%v", got.header)
		}
	})
}

// updated tells the server's subscribers of a change.
func (r *rig) updated(uri string) {
	r.t.Helper()
	if err := r.mcp.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// "Resource subscriptions are scoped to the session."
func TestSeed002_SubscriptionsAreOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p, q := r.open(newer), r.open(newer)
		ps, qs := p.listen(), q.listen()
		p.ask("resources/subscribe", `{"uri":"test:p"}`)
		q.ask("resources/subscribe", `{"uri":"test:q"}`)
		for range 2 {
			r.updated("test:p")
			r.updated("test:q")
		}
		p.ask("resources/unsubscribe", `{"uri":"test:p"}`)
		r.updated("test:p")
		for x, stream := range map[*peer]*events{p: ps, q: qs} {
			x.send(request("DELETE", "/mcp", "", x.fields()...)).reply(204)
			want := map[*peer]string{p: "test:p", q: "test:q"}[x]
			got := stream.finish()
			if len(got) != 2 || !strings.Contains(got[0], "notifications/resources/updated") || !strings.Contains(got[0], want) || got[1] != got[0] {
				t.Errorf("subscribed to %s, got %q", want, got)
			}
		}
	})
}

// "and removes per-session resource subscriptions"
func TestSeed002_DeleteRemovesTheSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		var sent int
		r.mcp.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				sent++
				return next(ctx, method, req)
			}
		})
		p := r.open(newer)
		p.ask("resources/subscribe", `{"uri":"test:p"}`)
		r.updated("test:p")
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		synctest.Wait()
		r.updated("test:p")
		if sent != 1 {
			t.Errorf("%d notifications for a subscription that was deleted after the first", sent)
		}
	})
}

// A client's id that is in flight is refused, since its answers could not be told apart.
func TestSeed002_IdsInFlightAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		_, open := gate(r)
		p := r.open(newer)
		other := r.link().send(request("POST", "/mcp", toolCall(1, "gate", `{}`), p.fields()...))
		synctest.Wait()
		if got := p.post(toolCall(1, "session", `{}`)); got.status != 400 || !strings.Contains(got.body, "-32600") {
			t.Errorf("%d %s", got.status, got.body)
		}
		close(open)
		other.reply(200)
		p.call("session", `{}`)
	})
}

// Unparseable JSON is answered with 200 and -32700, batches and what is no message with
// -32600: HTTP did its part.
func TestSeed002_BadMessagesAreAnsweredByJSONRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		for body, code := range map[string]int{
			"": -32700, "{": -32700, "nothing": -32700, "{} {}": -32700, "\xff": -32700,
			"[]": -32600, " [" + initialized + "]": -32600, "[" + toolCall(1, "session", `{}`) + "]": -32600,
			"{}": -32600, "7": -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600,
			`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":null,"method":"ping"}`: -32600,
		} {
			if got := p.post(body); got.status != 200 || !strings.Contains(got.body, fmt.Sprintf(`"code":%d`, code)) || !strings.Contains(got.body, `"id":null`) {
				t.Errorf("%q: %d %s, want %d", body, got.status, got.body, code)
			}
		}
		if got := p.post(`{"jsonrpc":"2.0","id":9,"method":"no/such"}`); got.status != 200 || !strings.Contains(got.body, "-32601") {
			t.Errorf("unknown method: %d %s", got.status, got.body)
		}
	})
}
