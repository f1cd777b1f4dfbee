package refserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	annToken = "token-of-ann-0123456789"
	bobToken = "token-of-bob-0123456789"
)

func tokens(t testing.TB) auth.TokenVerifier {
	t.Helper()
	v, err := refserver.ReadTokens(strings.NewReader("ann " + annToken + "\nbob " + bobToken + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// as is the same server for a client with a token.
func (r *rig) as(token string) *rig {
	return &rig{t: r.t, fixture: r.fixture, url: r.url, dial: r.dial, client: &http.Client{Transport: bearer{token, r.client.Transport}}}
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// answer is all of a response that may tell something.
func (r *rig) answer(a ask) string {
	r.t.Helper()
	resp := r.do(a)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return "a stream" // which may never end
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.StatusCode, resp.Header, string(body))
}

func TestPrincipal_SessionOfAnother_IsAsUnknownAsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Verifier: tokens(t)})
		ann, bob := r.as(annToken).open(latest), r.as(bobToken).open(latest)
		s := ann.emit(1, "a", twenty)
		seen := s.take(3)
		for _, a := range []ask{
			{method: "POST", body: ping},
			{method: "POST", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
			{method: "POST", body: `{"jsonrpc":"2.0","id":1,"result":{}}`},
			{method: "POST", body: "[" + ping + "]"},
			{method: "POST", body: initBody(latest)},
			{method: "GET"},
			{method: "GET", cursor: seen[2].id},
			{method: "GET", cursor: "nothing-1"},
			{method: "DELETE"},
		} {
			foreign, unknown := a, a
			foreign.session, unknown.session = ann.id, "nobody"
			got, want := bob.answer(foreign), bob.answer(unknown)
			if got != want || !strings.HasPrefix(got, "404 ") {
				t.Errorf("%s %s with another's session:\n%s\nwith none that exists:\n%s", a.method, a.body, got, want)
			}
		}
		if code, body := bob.status(ask{method: "GET", session: bob.id, cursor: seen[2].id}); code != 400 || strings.Contains(body, seen[2].id) || strings.Contains(body, "data:") {
			t.Errorf("another's cursor: %d %s", code, body)
		}
		if got := numbers(t, s.rest()); !slices.Equal(got, upTo(20)[3:]) {
			t.Errorf("the stream that was tried for went on with %v", got)
		}
		again := ann.resume(seen[2].id)
		if got := numbers(t, again.rest()); !slices.Equal(got, upTo(20)[3:]) {
			t.Errorf("its owner got %v", got)
		}
	})
}

// A session that was tried for by somebody else is not kept alive by it.
func TestPrincipal_TriesOfOthers_DoNotKeepASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Verifier: tokens(t), Limits: refserver.Limits{Idle: time.Minute}})
		ann, bob := r.as(annToken).open(latest), r.as(bobToken)
		for range 3 {
			pass(25 * time.Second)
			bob.status(ask{method: "POST", body: ping, session: ann.id})
		}
		if code, _ := ann.post(ping); code != 404 {
			t.Errorf("an idle session: %d", code)
		}
	})
}

// verdicts is a verifier whose tokens say what it does.
func verdicts(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	switch token {
	case "narrow":
		return &auth.TokenInfo{UserID: "n", Scopes: []string{"read"}}, nil
	case "expired-token":
		return &auth.TokenInfo{UserID: "n", Scopes: []string{"read", "call"}, Expiration: time.Now()}, nil
	case "valid":
		return &auth.TokenInfo{UserID: "n", Scopes: []string{"call", "read"}, Expiration: time.Now().Add(time.Second)}, nil
	case "oauth":
		return nil, fmt.Errorf("%w: secret %s", auth.ErrOAuth, token)
	case "broken-verifier":
		return nil, errors.New("cannot ask about broken-verifier at the issuer")
	case "nothing":
		return nil, nil
	}
	return nil, fmt.Errorf("%w: secret %s", auth.ErrInvalidToken, token)
}

func TestPrincipal_Challenges(t *testing.T) {
	const more = `scope="read call", resource_metadata="https://r.example/.well-known/oauth-protected-resource"`
	tests := []struct {
		name, authorization string
		status              int
		challenge           string
	}{
		{"no token", "-", 401, "Bearer " + more},
		{"another scheme", "Basic dmFsaWQ=", 401, "Bearer " + more},
		{"no value", "Bearer", 401, "Bearer " + more},
		{"two values", "Bearer valid valid", 401, "Bearer " + more},
		{"unknown token", "Bearer secret-unknown", 401, `Bearer error="invalid_token", ` + more},
		{"expired token", "Bearer expired-token", 401, `Bearer error="invalid_token", ` + more},
		{"token of little reach", "Bearer narrow", 403, `Bearer error="insufficient_scope", ` + more},
		{"token of a wrong kind", "Bearer oauth", 400, `Bearer error="invalid_request", ` + more},
		{"verifier fails", "Bearer broken-verifier", 503, ""},
		{"verifier says nothing", "Bearer nothing", 503, ""},
		{"valid", "Bearer valid", 200, ""},
		{"valid, other letter case", "bEARER valid", 200, ""},
	}
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		r := virtual(t, refserver.Config{
			Verifier: verdicts, Scopes: []string{"read", "call"}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			ResourceMetadataURL: "https://r.example/.well-known/oauth-protected-resource",
		})
		for _, tt := range tests {
			for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
				resp := r.do(ask{method: method, body: initBody(latest), header: map[string]string{"Authorization": tt.authorization}})
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				if tt.status == 200 && method != "POST" {
					continue // there is no session to be had this way
				}
				if resp.StatusCode != tt.status || resp.Header.Get("WWW-Authenticate") != tt.challenge {
					t.Errorf("%s, %s: %d %q", tt.name, method, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
				}
				if words := strings.Fields(tt.authorization); tt.status != 200 && len(words) > 1 && strings.Contains(string(body), words[1]) {
					t.Errorf("%s: the answer quotes the token: %s", tt.name, body)
				}
			}
		}
		if text := logged.String(); strings.Contains(text, "broken-verifier") || !strings.Contains(text, "cannot ask about [token] at the issuer") {
			t.Errorf("logged: %s", text)
		}
		req, err := http.NewRequest("POST", r.url, strings.NewReader(ping))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = []string{"Bearer valid", "Bearer valid"}
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("two tokens: %d", resp.StatusCode)
		}
	})
}

func TestPrincipal_SessionsOfEach_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Verifier: tokens(t), Limits: refserver.Limits{Sessions: 5, Idle: time.Minute}})
		ann, bob := r.as(annToken), r.as(bobToken)
		first := ann.open(latest)
		ann.open(latest)
		ann.open(latest)
		if code, _ := ann.status(ask{method: "POST", body: initBody(latest)}); code != 429 {
			t.Errorf("one more than half of all sessions: %d", code)
		}
		bob.open(latest)
		if code, _ := ann.status(ask{method: "DELETE", session: first.id}); code != 204 {
			t.Fatalf("delete: %d", code)
		}
		ann.open(latest)
		pass(90 * time.Second) // less than what an idle link is kept for
		for range 3 {
			ann.open(latest) // those that idled away count no more
		}
		bob.open(latest)
		bob.open(latest)
		if code, _ := bob.status(ask{method: "POST", body: initBody(latest)}); code != 503 {
			t.Errorf("one more than the server takes: %d", code)
		}
	})
}

// whoAmI is a tool that tells what a handler knows about who calls it.
func whoAmI(server *mcp.Server) {
	server.AddTool(&mcp.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			who := "nobody"
			if info := req.Extra.TokenInfo; info != nil {
				who = info.UserID
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: who + " in " + req.Session.ID()}}}, nil
		})
}

const askWho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":{}}}`

func TestPrincipal_AndSession_AreKnownToHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, who := range []string{"ann", "nobody"} {
			cfg := refserver.Config{}
			if who == "ann" {
				cfg.Verifier = tokens(t)
			}
			r := virtual(t, cfg)
			whoAmI(r.fixture.Server)
			p := r.as(annToken).open("2025-03-26")
			for _, body := range []string{askWho, "[" + askWho + "," + strings.Replace(askWho, `"id":1`, `"id":2`, 1) + "]"} {
				if _, answer := p.post(body); strings.Count(answer, who+" in "+p.id) != strings.Count(body, "who") {
					t.Errorf("%s: the handler was told %s", who, answer)
				}
			}
		}
	})
}

// Whoever has the SDK's middleware around the handler gets the same, with its options.
func TestPrincipal_OfTheSDKsMiddleware_BindsSessions(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	whoAmI(server)
	h, err := refserver.New(server, refserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	protect := auth.RequireBearerToken(tokens(t), &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	r := serving(t, protect(h), h)
	ann, bob := r.as(annToken).open(latest), r.as(bobToken)
	if _, answer := ann.post(askWho); !strings.Contains(answer, "ann in ") {
		t.Errorf("the handler was told %s", answer)
	}
	if code, _ := bob.status(ask{method: "POST", body: ping, session: ann.id}); code != 404 {
		t.Errorf("another's session: %d", code)
	}
	if code, _ := r.status(ask{method: "POST", body: ping, session: ann.id}); code != 401 {
		t.Errorf("no token: %d", code)
	}
}
