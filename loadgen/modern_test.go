package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

const discovered = `{"jsonrpc":"2.0","id":"discover","result":{"resultType":"complete","supportedVersions":["2025-11-25","2026-07-28"],` +
	`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"script","version":"8"}}}}`

// newModern is a target that speaks 2026-07-28 and nothing else.
func newModern(t *testing.T) *target {
	g := newTarget(t)
	g.special = func(v *visit) bool {
		switch {
		case v.method != "POST":
			t.Errorf("a request %s", v.method)
			v.status(405)
		case v.rpc == "server/discover":
			v.json(discovered, "Mcp-Session-Id: ignored")
		default:
			t.Errorf("a request %q", v.body)
			v.status(404)
		}
		return true
	}
	g.call = func(v *visit) {
		v.sse()
		for k := 1; k <= 3; k++ {
			v.send(v.progress(fmt.Sprint("e", k), v.token, k, 3))
		}
		v.send(done(v.id))
		v.end()
	}
	return g
}

// done is a complete result.
func done(id string) string {
	return `data: {"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","content":[]}}` + "\n\n"
}

// modernConfig is that of g.config, for such a target.
func modernConfig(g *target, p PlanConfig) (Config, *recorder) {
	cfg, seen := g.config(p), new(recorder)
	cfg.Modern, cfg.Observer = true, seen
	return cfg, seen
}

func TestModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t)
		cfg, _ := modernConfig(g, PlanConfig{Seed: 1, Streams: 4, Sessions: 2, Weights: []int{1, 1}, Kind: history.StreamControl})
		cfg.Calls = []Call{{Name: "emit", Expected: 3}, {Method: MethodResource, Name: "file:///ü"}}
		cfg.Probes = 4 // which there are none of
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "target", rep.Target, Target{Name: "script", Version: "8", Revision: "2026-07-28"})
		has(t, "completed, sessions, probes", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], rep.Sessions, rep.Probes), "4 2 0")
		has(t, "complaints", rep.Complaints, Complaints{})
		has(t, "requests", len(g.visits), 5) // one discover, no DELETE
		ids := make(map[string]bool)
		for _, v := range g.visits {
			var m struct {
				Params struct {
					Meta map[string]json.RawMessage `json:"_meta"`
				}
			}
			if err := json.Unmarshal(v.body, &m); err != nil {
				t.Fatal(err)
			}
			meta := m.Params.Meta
			has(t, "version in the body", string(meta["io.modelcontextprotocol/protocolVersion"]), `"2026-07-28"`)
			has(t, "capabilities", string(meta["io.modelcontextprotocol/clientCapabilities"]), `{}`)
			has(t, "client", string(meta["io.modelcontextprotocol/clientInfo"]), `{"name":"gapless","version":"1"}`)
			has(t, "version", v.header.Get("Mcp-Protocol-Version"), "2026-07-28")
			has(t, "method", v.header.Get("Mcp-Method"), v.rpc)
			has(t, "session", v.header["Mcp-Session-Id"], "[]")
			name := map[string]string{"server/discover": "", MethodTool: "emit", MethodResource: "=?base64?ZmlsZTovLy/DvA==?="}[v.rpc]
			has(t, "name", v.header.Get("Mcp-Name"), name)
			if ids[v.id] {
				t.Errorf("id %s twice", v.id)
			}
			ids[v.id] = true
		}
	})
}

func TestHeaderValues(t *testing.T) {
	for in, want := range map[string]string{
		"emit": "emit", "a b\tc": "a b\tc", " a": "=?base64?IGE=?=", "a ": "=?base64?YSA=?=", "é": "=?base64?w6k=?=",
		"=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?=", "=?base64?x": "=?base64?x", "a\nb": "=?base64?YQpi?=", "\x7f": "=?base64?fw==?=",
	} {
		has(t, fmt.Sprintf("%q", in), headerValue(in), want)
	}
}

func TestTargetsThatAreNotModern(t *testing.T) {
	for _, c := range []struct {
		name string
		say  func(v *visit)
		want string
	}{
		{"it knows no such method", func(v *visit) {
			v.json(`{"jsonrpc":"2.0","id":"discover","error":{"code":-32601,"message":"no"}}`)
		}, "the target answers 200: it does not speak 2026-07-28: -32601 no"},
		{"it says what it speaks", func(v *visit) {
			v.json(`{"jsonrpc":"2.0","id":"discover","error":{"code":-32022,"message":"bad version","data":{"supported":["2025-11-25"]}}}`)
		}, "-32022 bad version (it speaks 2025-11-25)"},
		{"it lists others", func(v *visit) {
			v.json(`{"jsonrpc":"2.0","id":"discover","result":{"resultType":"complete","supportedVersions":["3000-01-01"]}}`)
		}, `it does not speak 2026-07-28 but ["3000-01-01"]`},
		{"it wants a session", func(v *visit) { v.status(400) }, "the target answers 400: server/discover of revision 2026-07-28 was not accepted"},
		{"no JSON", func(v *visit) { v.json("hello") }, "not JSON"},
		{"a redirect", func(v *visit) { v.status(301, "Location: /other") }, "it redirects to http://127.0.0.1:8931/other;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newModern(t)
				g.special = func(v *visit) bool { c.say(v); return true }
				cfg, _ := modernConfig(g, one)
				_, err := g.run(cfg)
				var bad *HandshakeError
				if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestModernHasNoGetStreams(t *testing.T) {
	g := newModern(t)
	cfg, _ := modernConfig(g, PlanConfig{Streams: 1, GetStreams: 1})
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "2026-07-28 has none") {
		t.Errorf("error %v", err)
	}
}

func TestModernCutIsMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		cut     func(v *visit) // the first call
		again   func(v *visit, cut *visit)
		outcome history.Outcome
		want    string // the probe
	}{
		{"the target closed – failed, made again", func(v *visit) { primed(v); v.end() }, nil, history.OutcomeFailed,
			"200 want 3 got 3 foreign 0 wrong 0 response true after 0s end 1"},
		{"ids are given although nothing can be resumed – no GET", func(v *visit) { primed(v) }, nil, history.OutcomeFailed,
			"200 want 3 got 3 foreign 0 wrong 0 response true after 0s end 1"},
		{"what was cut goes on", func(v *visit) { primed(v) }, func(v, cut *visit) {
			v.sse()
			v.send(v.progress("a", cut.token, 2, 3) + v.progress("b", v.token, 1, 3) + result("c", cut.id))
			v.send(v.progress("d", v.token, 2, 3) + v.progress("e", v.token, 3, 3) + done(v.id))
			v.hang()
		}, history.OutcomeFailed, "200 want 3 got 3 foreign 2 wrong 0 response true after 0s end 10"},
		{"the new one is cut as well – once is enough", func(v *visit) { v.sse() }, func(v, _ *visit) { primed(v) },
			history.OutcomeFailed, "200 want 3 got 1 foreign 0 wrong 0 response false after 0s end 3"},
		{"the new one hangs – its deadline ends it", func(v *visit) { v.sse() }, func(v, _ *visit) { primed(v); v.hang() },
			history.OutcomeFailed, "200 want 3 got 1 foreign 0 wrong 0 response false after 1m0s end 6"},
		{"answered in JSON, late", func(v *visit) { v.sse() }, func(v, _ *visit) {
			time.Sleep(3 * time.Second)
			v.json(strings.TrimSpace(done(v.id)[6:]))
		}, history.OutcomeFailed, "200 want 3 got 0 foreign 0 wrong 0 response true after 3s end 1"},
		{"answered with an error", func(v *visit) { v.sse() }, func(v, _ *visit) { v.status(400) },
			history.OutcomeFailed, "400 want 3 got 0 foreign 0 wrong 0 response false after 0s end 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newModern(t)
				was := g.call
				var cut *visit
				g.call = func(v *visit) {
					switch {
					case cut == nil:
						cut = v
						c.cut(v)
					case c.again != nil:
						c.again(v, cut)
					default:
						was(v)
					}
				}
				cfg, seen := modernConfig(g, one)
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				has(t, "outcome", rep.Outcomes[c.outcome], 1)
				has(t, "calls", len(g.of(MethodTool)), 2)
				if v := g.of(MethodTool); v[0].id == v[1].id || v[0].token == v[1].token {
					t.Errorf("ids %s and %s, tokens %s and %s", v[0].id, v[1].id, v[0].token, v[1].token)
				}
				probes := seen.kind(history.KindProbe)
				if len(probes) != 1 || probes[0].Probe.Name != history.ProbeReissue || !probes[0].Probe.Offered {
					t.Fatalf("probes %+v", probes)
				}
				p := probes[0].Probe
				has(t, "probe", fmt.Sprintf("%d want %d got %d foreign %d wrong %d response %v after %v end %d",
					p.Status, p.Want, p.Messages, p.Foreign, p.Wrong, p.Response, p.Took.Round(time.Second), p.End), c.want)
				all := seen.of[1].all
				has(t, "last record", all[len(all)-1].Kind, history.KindSettled)
			})
		})
	}
}

func TestModernCutByUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t)
		cuts := 0
		g.call = func(v *visit) {
			v.sse()
			v.send(v.progress("e", v.token, 1, 3))
			if cuts++; cuts == 1 {
				v.hang()
				return
			}
			v.send(v.progress("e", v.token, 2, 3) + v.progress("e", v.token, 3, 3) + done(v.id))
			v.end()
		}
		g.hurt = func(conn net.Conn) Link { return &cutter{Conn: conn, after: 200} }
		cfg, seen := modernConfig(g, one)
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 1 0 0 0 0 0]")
		p := seen.kind(history.KindProbe)
		if len(p) != 1 || !p[0].Probe.Response || p[0].Probe.Messages != 3 {
			t.Errorf("probes %+v", p)
		}
		has(t, "taken back", len(g.of("notifications/cancelled")), 0)
	})
}

func TestModernIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t) // which counts every GET as a mistake
		cfg, _ := modernConfig(g, one)
		cfg.Probes = 1
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "requests, probes", fmt.Sprint(len(g.visits), rep.Probes), "2 0")
	})
}

func TestOnlyTheLoadIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t)
		g.call = func(v *visit) { v.sse() }
		cfg, _ := modernConfig(g, PlanConfig{Seed: 1, Streams: 2, Sessions: 1, Kind: history.StreamControl, Canary: 9})
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "calls, probes", fmt.Sprint(len(g.of(MethodTool)), rep.Probes), "3 0")
	})
}

func TestModernCancelIsTheEndOfTheExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t)
		var left time.Time
		g.call = func(v *visit) {
			v.sse()
			v.send(v.progress("e1", v.token, 1, 3) + v.progress("e2", v.token, 2, 3))
			v.hang()
			left = time.Now()
		}
		cfg, seen := modernConfig(g, one)
		cfg.Cancel = 1
		began := time.Now()
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcome", rep.Outcomes[history.OutcomeCancelled], 1)
		has(t, "left", left.Sub(began), time.Duration(0))
		has(t, "probes", len(seen.kind(history.KindProbe)), 0)
	})
}

func TestModernAsksNothingOfTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newModern(t)
		g.call = func(v *visit) {
			v.sse()
			v.send("data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"sampling/createMessage\"}\n\n" + done(v.id))
			v.end()
		}
		cfg, _ := modernConfig(g, one)
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "requests, answers", fmt.Sprint(len(g.visits), rep.Answers), "2 0")
	})
}

func TestResultType(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`"result":{"resultType":"complete"}`, ""},
		{`"result":{}`, "a result without resultType"},
		{`"result":{"resultType":"input_required"}`, `resultType "input_required" instead of "complete"`},
		{`"result":{"resultType":"complete","isError":true,"content":[{"text":"no"}]}`, "isError: no"},
		{`"error":{"code":-32000,"message":"x"}`, "-32000 x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newModern(t)
			g.call = func(v *visit) { v.json(`{"jsonrpc":"2.0","id":` + v.id + `,` + c.result + `}`) }
			cfg, _ := modernConfig(g, one)
			rep, err := g.run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			has(t, c.result, rep.Complaints.First, c.want)
		})
	}
}
