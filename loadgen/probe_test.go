package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// shelf is a target that keeps what it sent, by cursor, and knows its sessions.
type shelf struct {
	*target
	mu   sync.Mutex
	logs map[string]string // by session and id: what follows it
	gone map[string]bool

	// What is wrong with it:
	replay     func(rest string, n int) string // nil: nothing
	shared     bool                            // cursors of all sessions are one
	hangs      bool                            // an unknown cursor is answered and left open
	lenient    bool                            // sessions and origins do not matter
	keeps      bool                            // DELETE is refused
	stateless  bool                            // no session ids
	afterwards int
}

func newShelf(t *testing.T) *shelf {
	h := &shelf{target: newTarget(t), logs: make(map[string]string), gone: make(map[string]bool)}
	h.call = h.emit
	h.resume = h.follow
	h.special = h.session
	return h
}

func (h *shelf) key(v *visit, id string) string {
	if h.shared {
		return id
	}
	return v.header.Get("Mcp-Session-Id") + " " + id
}

func (h *shelf) emit(v *visit) {
	nonce := fmt.Sprintf("%08x", len(v.token)*7919+int(v.token[len(v.token)-1])*104729+int(v.token[len(v.token)-2]))
	var all []string
	for k := 1; k <= 4; k++ {
		all = append(all, v.progress(fmt.Sprintf("%s-%06d", nonce, k), v.token, k, 4))
	}
	all = append(all, result(nonce+"-000005", v.id))
	h.mu.Lock()
	for k := 1; k <= 5; k++ {
		h.logs[h.key(v, fmt.Sprintf("%s-%06d", nonce, k))] = strings.Join(all[k:], "")
	}
	h.mu.Unlock()
	v.sse()
	v.send(prime(nonce + "-000000"))
	v.send(strings.Join(all, ""))
	v.end()
}

func (h *shelf) follow(v *visit, _ int) {
	h.mu.Lock()
	rest, ok := h.logs[h.key(v, v.header.Get("Last-Event-ID"))]
	h.afterwards++
	n := h.afterwards
	h.mu.Unlock()
	switch {
	case !ok && h.hangs:
		v.sse()
		v.hang()
	case !ok:
		v.status(400)
	default:
		if h.replay != nil {
			rest = h.replay(rest, n)
		}
		v.sse()
		v.send(rest)
		v.end()
	}
}

// session answers everything but calls and GETs.
func (h *shelf) session(v *visit) bool {
	id := v.header.Get("Mcp-Session-Id")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case v.method == "DELETE" && h.keeps:
		v.status(405)
	case v.method == "DELETE":
		h.gone[id] = true
		v.status(204)
	case v.rpc == "initialize" && h.stateless:
		v.json(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}`)
	case v.rpc != "ping":
		return false
	case v.header.Get("Origin") != "" && !h.lenient:
		v.status(403)
	case id == "" && !h.lenient:
		v.status(400)
	case h.gone[id] && !h.lenient:
		v.status(404)
	default:
		v.json(`{"jsonrpc":"2.0","id":"probe","result":{}}`)
	}
	return true
}

// answers runs two sampled calls in two sessions, one after the other, and returns the
// probes of the second, and those of sessions, which the first asked.
func (h *shelf) answers(change func(*Config)) (all []string, rep Report, seen *recorder) {
	seen = new(recorder)
	cfg := h.config(PlanConfig{Seed: 1, Streams: 1, Calls: 2, Sessions: 2})
	cfg.Observer, cfg.Probes, cfg.Calls[0].Expected = seen, 2, 4
	if change != nil {
		change(&cfg)
	}
	rep, err := h.run(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	add := func(stream uint32, session bool) {
		for _, rec := range seen.of[stream].all {
			if p := rec.Probe; rec.Kind == history.KindProbe && (p.Name >= history.ProbeMissingSession) == session {
				all = append(all, fmt.Sprintf("%d:%d want %d/%d +%d -%d r=%v end=%d", p.Name, p.Status, p.Messages, p.Want, p.Foreign, p.Wrong, p.Response, p.End))
				if p.Offered != (p != history.Probe{Name: p.Name}) {
					h.t.Errorf("probe %+v", p)
				}
			}
		}
	}
	add(2, false)
	add(1, true)
	return all, rep, seen
}

// probeCase is a target with something wrong, and the answers that show it.
type probeCase struct {
	name  string
	spoil func(h *shelf)
	want  map[int]string // by number: what differs from a good target
}

func probeCases() []probeCase {
	return []probeCase{
		{"all is well", func(*shelf) {}, nil},
		{"replay from the beginning of what is kept", func(h *shelf) {
			h.replay = func(rest string, _ int) string { return strings.SplitAfter(rest, "\n\n")[0] + rest }
		}, map[int]string{0: "1:200 want 2/2 +0 -1 r=true end=1", 1: "2:200 want 2/2 +0 -1 r=true end=1"}},
		{"the second time less", func(h *shelf) {
			h.replay = func(rest string, n int) string {
				switch n {
				case 6: // the first stream asks four times, having no foreign cursor
					return strings.SplitAfter(rest, "\n\n")[0]
				case 7: // and what follows never comes
					return ""
				}
				return rest
			}
		}, map[int]string{1: "2:200 want 1/2 +0 -0 r=false end=1"}},
		{"a ping between – all the same", func(h *shelf) {
			h.replay = func(rest string, _ int) string {
				return "data: {\"jsonrpc\":\"2.0\",\"id\":\"now\",\"method\":\"ping\"}\n\n" + rest
			}
		}, nil},
		{"one event a connection – all the same", func(h *shelf) {
			h.replay = func(rest string, _ int) string { return strings.SplitAfter(rest, "\n\n")[0] + "\n\n" }
		}, nil},
		{"another response", func(h *shelf) {
			h.replay = func(rest string, _ int) string { return strings.Replace(rest, `"result":{}`, `"result":{"a":1}`, 1) }
		}, map[int]string{0: "1:200 want 2/2 +0 -1 r=false end=1", 1: "2:200 want 2/2 +0 -1 r=false end=1"}},
		{"out of order", func(h *shelf) {
			h.replay = func(rest string, _ int) string {
				e := strings.SplitAfter(rest, "\n\n")
				e[0], e[1] = e[1], e[0]
				return strings.Join(e, "")
			}
		}, map[int]string{0: "1:200 want 1/2 +0 -1 r=true end=1", 1: "2:200 want 1/2 +0 -1 r=true end=1"}},
		{"cursors of all sessions are one", func(h *shelf) { h.shared = true }, map[int]string{4: "5:200 want 0/0 +3 -0 r=false end=1"}},
		{"unknown cursors hang", func(h *shelf) { h.hangs = true }, map[int]string{
			2: "3:200 want 0/0 +0 -0 r=false end=6", 3: "4:200 want 0/0 +0 -0 r=false end=6", 4: "5:200 want 0/0 +0 -0 r=false end=6",
		}},
		{"sessions and origins do not matter", func(h *shelf) { h.lenient = true }, map[int]string{
			5: "6:200 want 0/0 +0 -0 r=false end=1", 6: "7:200 want 0/0 +0 -0 r=false end=1", 7: "8:200 want 0/0 +0 -0 r=false end=1",
		}},
		{"no end of sessions – not asked", func(h *shelf) { h.keeps = true }, map[int]string{6: "7:0 want 0/0 +0 -0 r=false end=0"}},
		{"no sessions – not asked", func(h *shelf) { h.stateless = true; h.lenient = true; h.shared = true }, map[int]string{
			4: "5:0 want 0/0 +0 -0 r=false end=0", 5: "6:0 want 0/0 +0 -0 r=false end=0", 6: "7:0 want 0/0 +0 -0 r=false end=0", 7: "8:200 want 0/0 +0 -0 r=false end=1",
		}},
	}
}

func TestProbes(t *testing.T) {
	good := []string{
		"1:200 want 2/2 +0 -0 r=true end=1", "2:200 want 2/2 +0 -0 r=true end=1",
		"3:400 want 0/0 +0 -0 r=false end=7", "4:400 want 0/0 +0 -0 r=false end=7", "5:400 want 0/0 +0 -0 r=false end=7",
		"6:400 want 0/0 +0 -0 r=false end=7", "7:404 want 0/0 +0 -0 r=false end=7", "8:403 want 0/0 +0 -0 r=false end=7",
	}
	for _, c := range probeCases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newShelf(t)
				c.spoil(h)
				got, rep, seen := h.answers(nil)
				want := slices.Clone(good)
				for i, w := range c.want {
					want[i] = w
				}
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Errorf("probe %d of %d: got %v, want %s", i, len(got), got[min(i, len(got)-1)], want[i])
					}
				}
				has(t, "completed", rep.Outcomes[history.OutcomeCompleted], 2)
				for n := uint32(1); n <= 2; n++ {
					if all := seen.of[n].all; all[len(all)-1].Kind != history.KindSettled {
						t.Errorf("stream %d ends with %+v", n, all[len(all)-1])
					}
				}
				if rep.Took > 12*time.Second {
					t.Errorf("took %v", rep.Took)
				}
				sessions := map[bool]int64{false: 2, true: 2}[h.stateless]
				has(t, "sessions", rep.Sessions, sessions)
			})
		})
	}
}

func TestProbesAreNotHurt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		var mu sync.Mutex
		hurtable, links := 0, make(map[uint32]int)
		_, rep, seen := h.answers(func(c *Config) {
			c.Dial = ctxDial(c.Dial, func(l Link) Link {
				return begun{l, func(x Exchange) {
					mu.Lock()
					defer mu.Unlock()
					links[x.Link]++
					if x.Observer != nil {
						hurtable++
					}
				}}
			})
		})
		has(t, "exchanges that may be hurt", hurtable, 2)
		asked := int64(0)
		for _, s := range seen.of {
			for _, rec := range s.all {
				if rec.Kind == history.KindProbe && rec.Probe.Offered {
					asked++
					has(t, "exchanges on the link of a probe", links[rec.Link], 1)
				}
			}
		}
		has(t, "counted", rep.Probes, asked)
	})
}

// begun tells of each exchange that begins.
type begun struct {
	Link
	f func(Exchange)
}

func (b begun) Begin(x Exchange) { b.f(x); b.Link.Begin(x) }

func TestProbesWithoutMaterialAreNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		h.call = func(v *visit) { v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{}}`) }
		got, _, _ := h.answers(nil)
		for i, p := range got[:5] {
			has(t, "not asked", p, fmt.Sprintf("%d:0 want 0/0 +0 -0 r=false end=0", i+1))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		h.call = func(v *visit) { v.status(500) }
		_, rep, _ := h.answers(nil)
		has(t, "nothing complete, nothing asked", rep.Probes, 0)
	})
}

func TestSampleIsSpreadOverTheRun(t *testing.T) {
	for _, c := range []struct{ total, probes, want int }{{1000, 10, 10}, {1000, 7, 7}, {20, 20, 20}, {5, 50, 5}, {100, 0, 0}, {101, 100, 100}} {
		for seed := range uint64(20) {
			plan, err := NewPlan(PlanConfig{Seed: seed, Streams: c.total, First: 101, Canary: 7})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{c: Config{Plan: plan, Seed: seed, Probes: c.probes}}
			var at []int
			for n := range plan.Len() {
				if a := plan.Arrival(n); r.sampled(a) {
					at = append(at, int(a.Stream)-101)
				}
			}
			if len(at) != c.want {
				t.Fatalf("%d of %d: sampled %v", c.probes, c.total, at)
			}
			for i, n := range at {
				if c.probes <= c.total && n*c.probes/c.total != i {
					t.Errorf("%d of %d: sampled %v", c.probes, c.total, at)
				}
			}
		}
	}
}

func TestUnknownCursor(t *testing.T) {
	for id, want := range map[string]string{
		"3a9f00c2-000017":   "8d4c55f2-000017",
		"stream_1733_abcde": "ijhbdw_6733_abcde",
		"a_12":              "",
		"------------17":    "",
	} {
		got, ok := unknownCursor([]byte(id))
		if ok != (want != "") || ok && string(got) != want {
			t.Errorf("%s becomes %s, %v", id, got, ok)
		}
	}
}

// TestAnswersToOurOwnRequests: whatever this client asks besides its calls, the answer is no
// message, on whichever stream it comes; and nobody asked what was not asked.
func TestAnswersToOurOwnRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // whose the answer with each id is
	}{
		{"probed", func(c *Config) { c.Probes = 2 }, "init ours, discover nobody's, probe ours, p1 nobody's"},
		{"not probed", func(*Config) {}, "init ours, discover nobody's, probe nobody's, p1 nobody's"},
		{"modern", func(c *Config) { c.Modern = true }, "init nobody's, discover ours, probe nobody's, p1 nobody's"},
		{"batches", func(c *Config) { c.Batches, c.Revision = true, "2025-03-26" }, "init ours, discover nobody's, probe nobody's, p1 ours, p2 ours, p9 nobody's, p nobody's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Calls: 2, Sessions: 1})
				cfg.Observer = seen
				c.change(&cfg)
				if cfg.Modern {
					g.special = newModern(t).special
				}
				if cfg.Batches {
					old(g)
				}
				var ids []string
				for _, part := range strings.Split(c.want, ", ") {
					id, _, _ := strings.Cut(part, " ")
					ids = append(ids, id)
				}
				answer := func(v *visit, id, token string) {
					v.sse()
					v.send(prime("p") + v.progress("e", token, 1, 3))
					for i, own := range ids {
						v.send(fmt.Sprintf("id: a%d\ndata: {\"jsonrpc\":\"2.0\",\"id\":%q,\"error\":{\"code\":1,\"message\":\"\"}}\n\n", i, own))
					}
					v.send(result("r", id))
					v.end()
				}
				g.call = func(v *visit) { answer(v, v.id, v.token) }
				g.raw = func(v *visit) bool {
					if v.body[0] == '[' {
						_, rest, _ := strings.Cut(string(v.body), `"id":`)
						id, rest, _ := strings.Cut(rest, ",")
						_, rest, _ = strings.Cut(rest, `"progressToken":"`)
						token, _, _ := strings.Cut(rest, `"`)
						answer(v, id, token)
					}
					return v.body[0] == '['
				}
				if cfg.Probes > 0 {
					g.resume = func(v *visit, _ int) { v.status(400) }
				}
				if _, err := g.run(cfg); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, rec := range seen.of[2].all {
					if e := rec.Event; e.Class == history.ClassOther && e.Owner == history.OwnerSelf {
						got = append(got, ids[len(got)]+" ours")
					} else if e.Class == history.ClassError && e.Owner == history.OwnerNobody {
						got = append(got, ids[len(got)]+" nobody's")
					}
				}
				has(t, "answers", strings.Join(got, ", "), c.want)
			})
		})
	}
}
