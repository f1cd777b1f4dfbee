package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

func TestRefusedHandshakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		init   func(v *visit)
		want   string
		secret string
	}{
		{"redirect", func(v *visit) { v.status(308, "Location: https://user:pw@elsewhere.example/mcp/?key=s3cret#x") },
			"the target answers 308: it redirects to https://elsewhere.example/mcp/; gapless follows no redirects, give that URL", "pw"},
		{"relative redirect", func(v *visit) { v.status(307, "Location: /mcp/") }, "it redirects to http://127.0.0.1:8931/mcp/;", ""},
		{"redirect without a place", func(v *visit) { v.status(302) }, "it redirects to nowhere;", ""},
		{"redirect to no URL", func(v *visit) { v.status(302, "Location: ://%zz") }, "it redirects to what is no URL;", ""},
		{"no credentials", func(v *visit) { v.status(401) }, "the target answers 401: it wants credentials; --token-env", ""},
		{"a challenge", func(v *visit) {
			v.status(401, `WWW-Authenticate: Bearer realm="s3cret", resource_metadata="https://a.example/.well-known/oauth-protected-resource?k=s3cret", error="invalid_token"`)
		}, "it wants credentials (Bearer, see https://a.example/.well-known/oauth-protected-resource);", "invalid_token"},
		{"forbidden", func(v *visit) { v.status(403) }, "the target answers 403: it wants credentials", ""},
		{"an error of JSON-RPC", func(v *visit) {
			body := `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}}`
			v.raw("HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			v.ended = true
		}, "initialize was not accepted: -32022 Unsupported protocol version (it speaks 2026-07-28)", ""},
		{"a page", func(v *visit) { v.status(404) }, "the target answers 404: initialize was not accepted; is this the URL of an MCP endpoint", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				g.special = func(v *visit) bool { c.init(v); return true }
				_, err := g.run(g.config(one))
				var bad *HandshakeError
				if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				if err != nil && (strings.Contains(err.Error(), "s3cret") || c.secret != "" && strings.Contains(err.Error(), c.secret)) {
					t.Errorf("it tells too much: %v", err)
				}
				has(t, "requests", len(g.of("POST")), 1)
			})
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = func(v *visit) {
			if len(g.of(MethodTool)) == 1 {
				v.status(307, "Location: /second")
				return
			}
			primed(v)
		}
		g.resume = func(v *visit, _ int) { v.status(302, "Location: http://127.0.0.1:8931/second") }
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Calls: 2})
		cfg.Header = []wire.Field{{Name: "Authorization", Value: "Bearer x"}}
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.visits {
			has(t, "path", v.path, "/mcp")
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 0 2 0 0 0]")
		has(t, "complaints", rep.Complaints, "{1 HTTP 307: it redirects to http://127.0.0.1:8931/second; gapless follows no redirects, give that URL}")
	})
}

func TestRefusedCallSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = func(v *visit) {
			body := `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}`
			v.raw("HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			v.ended = true
		}
		rep, err := g.run(g.config(one))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes[history.OutcomeRefused], 1)
		has(t, "complaint", rep.Complaints.First, "HTTP 400: the call was not accepted: -32602 no such tool")
	})
}

// rotating gives out another credential each time.
func rotating() func(context.Context) (string, error) {
	n := 0
	return func(context.Context) (string, error) { n++; return fmt.Sprintf("Bearer s3cret%d", n), nil }
}

func TestCredentialIsAskedForEachExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		var token, call string
		g.call = func(v *visit) { token, call = v.token, v.id; primed(v) }
		g.resume = func(v *visit, _ int) { rest(v, token, call) }
		cfg := g.config(one)
		cfg.Credential = rotating()
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		for i, v := range g.visits { // initialize, initialized, call, resume, DELETE
			has(t, v.method, v.header["Authorization"], fmt.Sprintf("[Bearer s3cret%d]", i+1))
		}
		has(t, "requests", len(g.visits), 5)
	})
}

func TestNoCredentialNothingSent(t *testing.T) {
	lacks := errors.New("command exited with 1")
	for _, c := range []struct {
		name    string
		from    int // the exchange from which on there is none
		outcome history.Outcome
		visits  int
	}{
		{"at the handshake", 1, 0, 0},
		{"at the call", 3, history.OutcomeNotSent, 2},
		{"at the resume – it is tried until the call is too late", 4, history.OutcomeUndecided, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, n := newTarget(t), 0
				g.call = primed
				cfg := g.config(one)
				cfg.Credential = func(context.Context) (string, error) {
					if n++; n >= c.from {
						return "", lacks
					}
					return "Bearer s3cret", nil
				}
				began := time.Now()
				rep, err := g.run(cfg)
				has(t, "requests", len(g.visits), c.visits)
				if c.outcome == 0 {
					var none *CredentialError
					if !errors.As(err, &none) || err.Error() != "credential: command exited with 1" {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				has(t, "outcome", rep.Outcomes[c.outcome], 1)
				has(t, "complaints", rep.Complaints, "{1 credential: command exited with 1}")
				if took := time.Since(began); took > 62*time.Second || n > 40 {
					t.Errorf("took %v, asked %d times", took, n)
				}
			})
		})
	}
}

func TestCredentialThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		cfg := g.config(one)
		cfg.Credential = func(context.Context) (string, error) { return "Bearer s3cret\r\nX: y", nil }
		if _, err := g.run(cfg); !errors.Is(err, wire.ErrRequest) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %v", err)
		}
	})
}

func TestRefusedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, set := range map[string]func(*Config){
			"of its own": func(c *Config) { c.Credential = rotating() },
			"a header":   func(c *Config) { c.Header = []wire.Field{{Name: "authorization", Value: "Bearer s3cret"}} },
		} {
			g := newTarget(t)
			g.special = func(v *visit) bool { v.status(401); return true }
			cfg := g.config(one)
			set(&cfg)
			_, err := g.run(cfg)
			if err == nil || !strings.Contains(err.Error(), "it refuses the credentials that were sent") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: error %v", name, err)
			}
		}
	})
}

func TestTwoCredentials(t *testing.T) {
	cfg := newTarget(t).config(one)
	cfg.Credential, cfg.Header = rotating(), []wire.Field{{Name: "authorization", Value: "x"}}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "only one") {
		t.Errorf("error %v", err)
	}
}

func TestWhoStandsInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.special = func(v *visit) bool {
			if v.rpc != "initialize" {
				return false
			}
			v.json(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}`,
				"Server: nginx/1.27 \xff", "Via: 1.1 "+strings.Repeat("v", 100))
			return true
		}
		rep, err := g.run(g.config(one))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "front", rep.Target.Front, ("nginx/1.27 ?, 1.1 " + strings.Repeat("v", 100))[:80])
	})
}

// TestWhatWasSentIsNotRepeated: a target that says back what it was told says no secret.
func TestWhatWasSentIsNotRepeated(t *testing.T) {
	r := &runner{c: Config{Header: []wire.Field{{Name: "X-Key", Value: "s3cret-1"}, {Name: "X-Short", Value: "a"}}}}
	value := "Bearer s3cret-2"
	r.secret.Store(&value)
	const text = "no user a for key s3cret-1, token s3cret-2, nor Bearer s3cret-2"
	if got, want := r.hide(text), "no user a for key …, token …, nor Bearer …"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
