package loadgen

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestLostSessionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		was := g.call
		calls := 0
		g.call = func(v *visit) {
			if calls++; calls == 1 {
				v.sse()
				v.send(prime("p"))
				return
			}
			was(v)
		}
		g.resume = func(v *visit, n int) { v.status(404) }
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Calls: 3})
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 2 0 0 1 0 0 0]")
		has(t, "sessions", rep.Sessions, 2)
		var in []string
		for _, v := range g.of("tools/call") {
			in = append(in, v.header.Get("Mcp-Session-Id")+"#"+v.id)
		}
		has(t, "calls", in, "[s1#1 s2#1 s2#2]")
		has(t, "deleted", len(g.of("DELETE")), 1)
	})
}

func TestSessionFailureReachesAllItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		n := 0
		g.special = func(v *visit) bool {
			if v.rpc == "initialize" {
				if n++; n == 2 {
					time.Sleep(time.Second)
					v.status(500)
					return true
				}
			}
			return false
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 6, Sessions: 2})
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 3 0 3 0 0 0 0]")
		has(t, "records of a stream without a session", len(seen.of[2].all), 1)
	})
}

func TestRequestsAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		var call string
		ask := "id: q1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\n\n" +
			"id: q2\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n"
		g.call = func(v *visit) { call = v.id; v.sse(); v.send(prime("p") + ask) }
		g.resume = func(v *visit, n int) { v.sse(); v.send(ask + result("r", call)); v.end() }
		rep, err := g.run(g.config(one))
		if err != nil {
			t.Fatal(err)
		}
		var bodies []string
		for _, v := range g.of("POST") {
			if v.rpc == "" {
				bodies = append(bodies, string(v.body))
				has(t, "session of the answer", v.header.Get("Mcp-Session-Id"), "s1")
			}
		}
		has(t, "answers", bodies, `[{"jsonrpc":"2.0","id":"a","result":{}} {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"method not found"}}]`)
		has(t, "counted", rep.Answers, 2)
	})
}

func TestRevisionOfTheTargetDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.special = func(v *visit) bool {
			if v.rpc != "initialize" {
				return false
			}
			v.sse("Mcp-Session-Id: old")
			v.send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			v.send("data: {\"jsonrpc\":\"2.0\",\"id\":\"init\",\"result\":{\"protocolVersion\":\"2025-03-26\",\"serverInfo\":{\"name\":\"x\"}}}\n\n")
			v.end()
			return true
		}
		rep, err := g.run(g.config(one))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "revision", rep.Target.Revision, "2025-03-26")
		call := g.of("tools/call")[0]
		has(t, "header", call.header["Mcp-Protocol-Version"], "[]")
		has(t, "session", call.header.Get("Mcp-Session-Id"), "old")
		has(t, "links", rep.Links, 1)
	})
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		init func(v *visit)
		want string
	}{
		{"no MCP server", func(v *visit) { v.status(404) }, "404"},
		{"not JSON", func(v *visit) { v.json("hello") }, "not JSON"},
		{"refused", func(v *visit) {
			v.json(`{"jsonrpc":"2.0","id":"init","error":{"code":-32602,"message":"no"}}`)
		}, "-32602 no"},
		{"a revision of the future", func(v *visit) {
			v.json(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"3025-99-99","serverInfo":{"name":"x","version":"1"}}}`)
		}, `"3025-99-99", which nobody`},
		{"no answer in the stream", func(v *visit) { v.sse(); v.end() }, "without an answer"},
		{"compressed", func(v *visit) { v.json("\x1f\x8b", "Content-Encoding: gzip") }, "is compressed, which nobody asked for"},
		{"session id with a space", func(v *visit) { v.json("{}", "Mcp-Session-Id: a b") }, "visible ASCII"},
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
			})
		})
	}
}

func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dial := range map[string]func(context.Context) (Link, error){
			"refused":    func(context.Context) (Link, error) { return nil, syscall.ECONNREFUSED },
			"black hole": func(ctx context.Context) (Link, error) { <-ctx.Done(); return nil, ctx.Err() },
		} {
			g := newTarget(t)
			cfg := g.config(one)
			cfg.Dial = dial
			began := time.Now()
			_, err := Run(t.Context(), cfg)
			var un *UnreachableError
			if !errors.As(err, &un) {
				t.Errorf("%s: error %v", name, err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s: took %v", name, took)
			}
		}
	})
}

func TestLostSessionKeepsNoLinks(t *testing.T) {
	// The second stream still reads when the first learns that the session is gone. Its
	// link must not come to rest in a pool that nobody clears: then the target would wait
	// for ever, which ends this bubble.
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		was := g.call
		g.call = func(v *visit) {
			if v.id == "1" {
				v.sse()
				v.send(prime("p"))
				return
			}
			time.Sleep(10 * time.Second)
			was(v)
		}
		g.resume = func(v *visit, n int) { v.status(404) }
		rep, err := g.run(g.config(PlanConfig{Seed: 1, Streams: 2, Sessions: 1, Calls: 3}))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes[history.OutcomeRefused], 2) // id 1 of each session
		has(t, "sessions", rep.Sessions, 2)
	})
}

// TestBrokenHandshakesAreNotHammered: however many arrivals want a session that cannot be
// opened, they ask for it together, and less often after each failure.
func TestBrokenHandshakesAreNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		broken := 8 // handshakes behind the first that fail
		g.special = func(v *visit) bool {
			if n := len(g.of("initialize")); v.rpc != "initialize" || n == 1 || n > 1+broken {
				return false
			}
			v.status(500)
			return true
		}
		g.call = func(v *visit) { // the first session is forgotten, the ninth lives
			if v.header.Get("Mcp-Session-Id") == "s1" {
				v.status(404)
				return
			}
			v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{}}`)
		}
		rep, err := g.run(g.config(PlanConfig{Seed: 1, Streams: 10, Calls: 200, Sessions: 1}))
		if err != nil {
			t.Fatal(err)
		}
		var waits []time.Duration
		all := g.of("initialize")
		for i := range all[2:] {
			waits = append(waits, all[i+2].at.Sub(all[i+1].at))
		}
		has(t, "waits", waits, "[100ms 200ms 400ms 800ms 1.6s 3.2s 5s 5s]")
		has(t, "sessions", rep.Sessions, 2)
		if n := rep.Outcomes[history.OutcomeCompleted]; n < 100 {
			t.Errorf("%d calls are complete", n)
		}
	})
}

// TestAnOpenSessionHasNoOpener: what could hurt its later exchanges is gone.
func TestAnOpenSessionHasNoOpener(t *testing.T) {
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newTarget(t)
			if modern {
				g = newModern(t)
			}
			cfg := g.config(one)
			cfg.Modern = modern
			r := newRunner(cfg.withDefaults())
			g.serve()
			s, err := r.session(t.Context(), 1, &stream{r: r, of: &r.calls[0]})
			if err != nil {
				t.Fatal(err)
			}
			has(t, "opener", s.opener == nil, true)
			s.links.close()
			_ = g.ln.Close()
			g.wg.Wait()
		})
	}
}
