package loadgen

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// hostile is a target that behaves badly towards each of ten calls, five at once. The run
// has to end by itself, in time, with bounded effort, and with the right outcomes.
type hostile struct {
	name     string
	spoil    func(g *target)
	outcomes map[history.Outcome]int64
	requests int           // the most that the target sees
	took     time.Duration // the longest that it may take
	says     string        // the first complaint
}

func hostiles() []hostile {
	all := func(o history.Outcome) map[history.Outcome]int64 { return map[history.Outcome]int64{o: 10} }
	return []hostile{
		{"never answers a call", func(g *target) { g.call = (*visit).hang }, all(history.OutcomeFailed), 40, 3 * time.Minute, ""},
		{"says that it answers, and does not", func(g *target) { g.call = func(v *visit) { v.sse(); v.hang() } }, all(history.OutcomeFailed), 40, 3 * time.Minute, ""},
		{"never answers a resume", func(g *target) { g.call = primed; g.resume = func(v *visit, _ int) { v.hang() } },
			all(history.OutcomeFailed), 60, 3 * time.Minute, ""},
		{"answers JSON only", func(g *target) { g.call = func(v *visit) { v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{}}`) } },
			all(history.OutcomeCompleted), 20, time.Second, ""},
		{"answers garbage", func(g *target) { g.call = func(v *visit) { v.raw("\x00\xff garbage\r\n\r\n") } }, all(history.OutcomeFailed), 40, time.Second, ""},
		{"sends garbage as events", func(g *target) {
			g.call = func(v *visit) { v.sse(); v.send("data: {nope\n\ndata: [1]\n\nid: \x00\xff\ndata: 7\n\n"); v.end() }
		}, all(history.OutcomeFailed), 30, time.Second, ""},
		{"sends heads of 1xx for ever", func(g *target) { g.call = endless("HTTP/1.1 100 Continue\r\n\r\n", 0) }, all(history.OutcomeFailed), 30, time.Second, ""},
		{"sends heads of 1xx for ever, one a second", func(g *target) { g.call = endless("HTTP/1.1 103 Early Hints\r\n\r\n", time.Second) },
			all(history.OutcomeFailed), 30, time.Minute, ""},
		{"never ends its head", func(g *target) {
			g.call = func(v *visit) { v.raw("HTTP/1.1 200 OK\r\n"); endless("X: "+strings.Repeat("x", 1000)+"\r\n", 0)(v) }
		}, all(history.OutcomeFailed), 30, time.Second, ""},
		{"never ends an event", func(g *target) { g.call = sseOf("data: "+strings.Repeat("x", 10_000)+"\n", 0) }, all(history.OutcomeFailed), 30, time.Second, ""},
		{"never ends a line", func(g *target) { g.call = sseOf(strings.Repeat("x", 10_000), 0) }, all(history.OutcomeFailed), 30, time.Second, ""},
		{"never ends a body of JSON", func(g *target) {
			g.call = func(v *visit) {
				v.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
				endless(strings.Repeat(" ", 10_000), 0)(v)
			}
		}, all(history.OutcomeFailed), 30, time.Second, ""},
		{"drips a head, one byte a second", func(g *target) { g.call = endless("H", time.Second) }, all(history.OutcomeFailed), 40, 3 * time.Minute, ""},
		{"drips an event, one byte a second", func(g *target) { g.call = sseOf("x", time.Second) }, all(history.OutcomeFailed), 40, 3 * time.Minute, ""},
		{"keeps alive for ever", func(g *target) { g.call = sseOf(": still here\n\n", time.Second) }, all(history.OutcomeFailed), 40, 3 * time.Minute, ""},
		{"keeps a cut stream alive for ever", func(g *target) {
			g.call, g.resume = primed, func(v *visit, _ int) { sseOf(": still here\n\n", time.Second)(v) }
		}, all(history.OutcomeFailed), 60, 3 * time.Minute, ""},
		{"cancels on drop: a resume finds nothing", func(g *target) { g.call, g.resume = primed, func(v *visit, _ int) { v.sse(); v.end() } },
			all(history.OutcomeFailed), 250, 3 * time.Minute, ""},
		{"cancels on drop: a resume finds an error", func(g *target) { cancelling(g) }, all(history.OutcomeCompleted), 40, 10 * time.Second, "-32000 cancelled"},
		{"forgets the session at each drop", func(g *target) { g.call, g.resume = primed, func(v *visit, _ int) { v.status(404) } },
			all(history.OutcomeRefused), 50, time.Minute, ""},
		{"limits the rate of calls for ever", func(g *target) { g.call = func(v *visit) { v.status(429) } }, all(history.OutcomeNotSent), 250, 3 * time.Minute,
			"no call got through: the target answers 429 (too many requests)"},
		{"limits the rate of resumes for ever", func(g *target) { g.call, g.resume = primed, func(v *visit, _ int) { v.status(429, "Retry-After: 0") } },
			all(history.OutcomeUndecided), 250, 3 * time.Minute, ""},
		{"redirects to itself", func(g *target) { g.call = func(v *visit) { v.status(307, "Location: /mcp") } }, all(history.OutcomeRefused), 30, time.Second,
			"HTTP 307: it redirects to http://127.0.0.1:8931/mcp; gapless follows no redirects, give that URL"},
		{"redirects resumes to itself", func(g *target) { g.call, g.resume = primed, func(v *visit, _ int) { v.status(302, "Location: /mcp") } },
			all(history.OutcomeRefused), 40, time.Minute, ""},
		{"asks for ever", func(g *target) {
			g.call = func(v *visit) {
				v.sse()
				for k := 0; ; k++ {
					if _, err := fmt.Fprintf(v.conn, ""); err != nil || k > 300 {
						return
					}
					v.send(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", k))
				}
			}
		}, all(history.OutcomeFailed), 10*310 + 30, time.Second, ""},
	}
}

// metered counts what is read of a link.
type metered struct {
	net.Conn
	read *atomic.Int64
}

func (*metered) Begin(Exchange) {}
func (*metered) End() bool      { return true }

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.read.Add(int64(n))
	return n, err
}

// endless writes a text until nobody takes it any more.
func endless(text string, pause time.Duration) func(v *visit) {
	return func(v *visit) {
		for {
			if _, err := v.conn.Write([]byte(text)); err != nil {
				return
			}
			if pause > 0 {
				time.Sleep(pause)
			}
		}
	}
}

// sseOf is an event stream that is nothing but this text, again and again.
func sseOf(text string, pause time.Duration) func(v *visit) {
	return func(v *visit) {
		v.sse()
		endless(fmt.Sprintf("%x\r\n%s\r\n", len(text), text), pause)(v)
	}
}

// cancelling answers a resume with the error that the call has ended in.
func cancelling(g *target) {
	var mu sync.Mutex
	ids := make(map[string]string)
	g.call = func(v *visit) {
		mu.Lock()
		ids[v.id] = v.id
		mu.Unlock()
		v.sse()
		v.send(prime("p-" + v.id))
	}
	g.resume = func(v *visit, _ int) {
		_, id, _ := strings.Cut(v.header.Get("Last-Event-ID"), "-")
		v.sse()
		v.send(`data: {"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"cancelled"}}` + "\n\n")
		v.end()
	}
}

func TestHostileTargets(t *testing.T) {
	for _, c := range hostiles() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				c.spoil(g)
				cfg := g.config(PlanConfig{Seed: 1, Streams: 5, Calls: 10, Sessions: 1})
				cfg.Limits = wire.Limits{Line: 1 << 20, Event: 1 << 20}
				var read atomic.Int64
				g.hurt = func(conn net.Conn) Link { return &metered{conn, &read} }
				began := time.Now()
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var want [history.OutcomeFailed + 1]int64
				for o, n := range c.outcomes {
					want[o] = n
				}
				has(t, "outcomes", rep.Outcomes, want)
				if took := time.Since(began); took > c.took+10*time.Second {
					t.Errorf("took %v", took)
				}
				if n := len(g.visits); n > c.requests {
					t.Errorf("%d requests", n)
				}
				if n := read.Load(); n > 10*(1<<20+1<<17) {
					t.Errorf("%d bytes were read: each call may take its limits and what was on its way", n)
				}
				has(t, "complaint", rep.Complaints.First, c.says)
			})
		})
	}
}

func TestHostileHandshakes(t *testing.T) {
	for _, c := range []struct {
		name string
		init func(v *visit)
		want string
	}{
		{"never answers", (*visit).hang, "not reachable: it took the request and gave no whole answer within 10s"},
		{"heads of 1xx for ever", endless("HTTP/1.1 100 Continue\r\n\r\n", 0), "interim responses"},
		{"one byte a second", endless("H", time.Second), "no whole answer within 10s"},
		{"an event stream that says nothing", sseOf(": still here\n\n", time.Second), "no whole answer within 10s"},
		{"an event that never ends", sseOf("data: "+strings.Repeat("x", 10_000)+"\n", 0), "longer than"},
		{"garbage", func(v *visit) { v.raw("SSH-2.0-OpenSSH_9.9\r\n\r\n") }, "what it answers cannot be read: broken HTTP framing: malformed status line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				g.special = func(v *visit) bool { c.init(v); return true }
				cfg := g.config(one)
				cfg.Limits.Event = 1 << 20
				began := time.Now()
				_, err := g.run(cfg)
				var none *UnreachableError
				if !errors.As(err, &none) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took > 21*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestForgottenSessionsAreOpenedOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.call = primed
		g.resume = func(v *visit, _ int) { v.status(404) }
		rep, err := g.run(g.config(PlanConfig{Seed: 1, Streams: 1, Calls: 50, Sessions: 1}))
		if err != nil {
			t.Fatal(err)
		}
		has(t, "sessions, handshakes, calls, resumes",
			fmt.Sprint(rep.Sessions, len(g.of("initialize")), len(g.of(MethodTool)), len(g.of("GET"))), "50 50 50 50")
	})
}

func TestIDsOnSomeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		var token, call string
		g.call = func(v *visit) {
			token, call = v.token, v.id
			v.sse()
			v.send(v.progress("e1", v.token, 1, 3) + v.progress("", v.token, 2, 3)[4:])
		}
		g.resume = func(v *visit, _ int) {
			has(t, "cursor", v.header.Get("Last-Event-ID"), "e1")
			v.sse()
			v.send(v.progress("", token, 2, 3)[4:] + v.progress("e3", token, 3, 3) + result("", call)[4:])
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcome", rep.Outcomes[history.OutcomeCompleted], 1)
		has(t, "messages: a repeat is for the judge", seen.seqs(), "[1 2 2 3 0]")
	})
}

func TestTargetThatClosesAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(1, 2))
		logs := make(map[string][]string) // by stream: its events
		play := func(v *visit, key string, from int) {
			mu.Lock()
			rest := strings.Join(logs[key][from:], "")
			at, how, whole := dice.IntN(len(rest)+1), dice.IntN(4), dice.IntN(3) == 0
			mu.Unlock()
			switch {
			case how == 0: // before the head
				return
			case whole: // not at all
				at = len(rest)
			}
			v.sse()
			if at > 0 {
				v.send(rest[:at])
			}
			switch how {
			case 1:
				v.end()
			case 2:
				v.reset()
			}
		}
		g.call = func(v *visit) {
			key := v.header.Get("Mcp-Session-Id") + v.id
			all := []string{prime(key + "_0")}
			for k := 1; k <= 3; k++ {
				all = append(all, v.progress(fmt.Sprint(key, "_", k), v.token, k, 3))
			}
			mu.Lock()
			logs[key] = append(all, result(key+"_4", v.id))
			mu.Unlock()
			play(v, key, 0)
		}
		g.resume = func(v *visit, _ int) {
			key, n, _ := strings.Cut(v.header.Get("Last-Event-ID"), "_")
			play(v, key, int(n[0]-'0')+1)
		}
		seen := new(recorder)
		cfg := g.config(PlanConfig{Seed: 1, Streams: 8, Calls: 200, Sessions: 3})
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		o := rep.Outcomes
		has(t, "all are settled", o[history.OutcomeCompleted]+o[history.OutcomeFailed]+o[history.OutcomeIndeterminate], 200)
		if o[history.OutcomeCompleted] < 50 || rep.Resumes.Succeeded < 50 {
			t.Errorf("outcomes %v, resumes %+v", o, rep.Resumes)
		}
		for n := uint32(1); n <= 200; n++ {
			var got []int64
			for _, rec := range seen.of[n].all {
				if rec.Kind == history.KindEvent && rec.Event.Class == history.ClassProgress {
					got = append(got, rec.Event.Seq)
				}
			}
			last := seen.of[n].all[len(seen.of[n].all)-1]
			if last.Outcome == history.OutcomeCompleted && fmt.Sprint(got) != "[1 2 3]" {
				t.Errorf("stream %d completed with %v", n, got)
			}
		}
	})
}
