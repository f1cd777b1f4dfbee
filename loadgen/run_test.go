package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

func TestInjectionBeforeAnyIDIsIndeterminate(t *testing.T) {
	// The head of the response is 80 bytes long; the priming event ends at 96.
	for _, c := range []struct {
		name  string
		after int
		want  history.Outcome
	}{
		{"before the head", 0, history.OutcomeIndeterminate},
		{"inside the head", 50, history.OutcomeIndeterminate},
		{"inside the first event", 95, history.OutcomeIndeterminate},
		{"after the first event", 96, history.OutcomeCompleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				g.hurt = func(conn net.Conn) Link { return &cutter{Conn: conn, after: c.after} }
				call := ""
				was := g.call
				g.call = func(v *visit) { call = v.id; was(v) }
				g.resume = func(v *visit, n int) { v.sse(); v.send(result("r", call)); v.end() }
				cfg := g.config(one)
				cfg.Observer = seen
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if rep.Outcomes[c.want] != 1 {
					t.Errorf("outcomes %v", rep.Outcomes)
				}
				in := seen.kind(history.KindInjection)
				if len(in) != 1 || in[0].Stream != 1 || in[0].Session != 1 || in[0].Link == 0 || in[0].Injection.Kind != "rst" {
					t.Errorf("injections %+v", in)
				}
				has(t, "first end", seen.ends()[0], history.EndReset)
			})
		})
	}
}

// holding answers no call before so many are open.
func holding(g *target, streams int) {
	var mu sync.Mutex
	open, all := 0, make(chan struct{})
	was := g.call
	g.call = func(v *visit) {
		mu.Lock()
		if open++; open == streams {
			close(all)
		}
		mu.Unlock()
		<-all
		was(v)
	}
}

func TestClosedModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		holding(g, 20)
		live := new(Live)
		cfg := g.config(PlanConfig{Seed: 1, Streams: 20, Calls: 100, Sessions: 4, Ramp: time.Second})
		cfg.Observer, cfg.Live = seen, live
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "target", rep.Target, Target{Name: "script", Version: "7", Revision: "2025-11-25", Sessions: true})
		has(t, "streams", fmt.Sprint(rep.Planned, rep.Opened, rep.MaxOpen, rep.Outcomes[history.OutcomeCompleted]), "100 100 20 100")
		has(t, "delivered", rep.Delivered, 400)
		has(t, "sessions", rep.Sessions, 4)
		p := live.Progress()
		has(t, "progress", fmt.Sprint(p.Open, p.Opened, p.Settled, p.MaxOpen, p.Delivered), "0 100 100 20 400")
		for phase, want := range map[Phase]int64{FirstEvent: 100, EventGap: 300, Completion: 100, StartDelay: 100, ResumeBackoff: 0} {
			has(t, phase.String(), rep.Latencies.Of(phase).TotalCount(), want)
		}
		ids := make(map[string]map[string]bool)
		for _, v := range g.of("tools/call") {
			s := v.header.Get("Mcp-Session-Id")
			if ids[s] == nil {
				ids[s] = make(map[string]bool)
			}
			ids[s][v.id] = true
			has(t, "version", v.header.Get("MCP-Protocol-Version"), "2025-11-25")
		}
		has(t, "sessions in use", len(ids), 4)
		for s, of := range ids {
			if len(of) != 25 || !of["1"] || !of["25"] {
				t.Errorf("session %s used ids %v", s, of)
			}
		}
		has(t, "deleted", len(g.of("DELETE")), 4)
		last := g.visits[len(g.visits)-4:]
		for _, v := range last {
			has(t, "after the last settled", v.method, "DELETE")
		}
	})
}

func TestCanaryLosesOneEvent(t *testing.T) {
	for _, c := range []struct {
		expected int
		want     string
	}{{3, "[1 3 0]"}, {1, "[2 3 0]"}, {0, "[1 2 3 0]"}} {
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			token, call := "", ""
			g.call = func(v *visit) { // the cut repeats everything: what is lost stays lost, once
				token, call = v.token, v.id
				v.sse()
				v.send(prime("p") + v.progress("e1", token, 1, 3))
			}
			g.resume = func(v *visit, n int) {
				v.sse()
				v.send(v.progress("e2", token, 2, 3) + v.progress("e3", token, 3, 3) + result("r", call))
				if c.expected == 0 {
					v.send(result("r2", call)) // repeated: the canary loses only the first
				}
				v.end()
			}
			cfg := g.config(PlanConfig{Seed: 1, Streams: 1, First: 7, Canary: 1, Sessions: 1})
			cfg.Observer, cfg.Calls[0].Expected = seen, c.expected
			cfg.Plan.c.Calls = 0 // the canary alone
			rep, err := g.run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			has(t, "canary", rep.Canary, history.OutcomeCompleted)
			has(t, "counted apart", fmt.Sprint(rep.Opened, rep.MaxOpen, rep.Delivered, rep.Outcomes), "0 0 0 [0 0 0 0 0 0 0 0]")
			has(t, "messages", seen.seqs(), c.want)
		})
	}
}

func TestStopLeavesNothingUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = func(v *visit) {
			v.sse()
			if v.id == "1" { // waits for its next attempt when the stop comes
				v.send("retry: 100000\n" + prime("p"))
				return
			}
			v.send(prime("p")) // is being read then
			v.hang()
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 5, Calls: 9, Sessions: 1})
		cfg.Observer = seen
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		g.serve()
		rep, err := Run(ctx, cfg)
		_ = g.ln.Close()
		g.wg.Wait()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 0 0 0 5 0]")
		has(t, "took", rep.Took, "3s")
		for n, s := range seen.of {
			if last := s.all[len(s.all)-1]; last.Kind != history.KindSettled {
				t.Errorf("stream %d ends with %+v", n, last)
			}
		}
	})
}

func TestHaltDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		was := g.call
		g.call = func(v *visit) {
			if v.id == "1" { // hangs for ever
				v.sse()
				v.send(prime("p"))
				v.hang()
				return
			}
			time.Sleep(10 * time.Second)
			was(v)
		}
		halt := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(halt) })
		cfg := g.config(PlanConfig{Seed: 1, Streams: 5, Calls: 100, Sessions: 1})
		cfg.Halt, cfg.Drain, cfg.Idle, cfg.Calls[0].Deadline = halt, 20*time.Second, 5*time.Minute, time.Hour
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 4 0 0 0 0 0 1]")
		has(t, "took", rep.Took, "21s")
	})
}

func TestHaltBeforeAnArrivalIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		halt := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(halt) })
		cfg := g.config(PlanConfig{Seed: 1, Streams: 3, Ramp: time.Hour})
		cfg.Halt = halt
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "planned and opened", fmt.Sprint(rep.Planned, rep.Opened, rep.Took), "3 0 1s")
	})
}

type panicking struct{}

func (panicking) Open(Arrival) StreamObserver { panic("boom") }

func TestPanicReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		cfg := g.config(PlanConfig{Seed: 1, Streams: 2, Calls: 50})
		cfg.Observer = panicking{}
		_, err := g.run(cfg)
		var p *guard.PanicError
		if !errors.As(err, &p) || fmt.Sprint(p.Value) != "boom" {
			t.Errorf("error %v", err)
		}
	})
}

func TestSameSeedSameRecords(t *testing.T) {
	run := func(seed uint64) string {
		var text strings.Builder
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			var mu sync.Mutex
			calls := make(map[string][2]string) // by cursor: the token and id of its call
			g.call = func(v *visit) {
				mu.Lock()
				calls["p-"+v.token] = [2]string{v.token, v.id}
				mu.Unlock()
				v.sse()
				v.send(prime("p-" + v.token))
			}
			g.resume = func(v *visit, n int) {
				mu.Lock()
				of := calls[v.header.Get("Last-Event-ID")]
				mu.Unlock()
				v.sse()
				v.send(v.progress("x", of[0], 1, 1))
				time.Sleep(10 * time.Millisecond)
				v.send(result("r", of[1]))
				v.end()
			}
			cfg := g.config(PlanConfig{Seed: seed, Streams: 30, Sessions: 3, Ramp: time.Second})
			cfg.Observer, cfg.Resume.Jitter = seen, 0
			if _, err := g.run(cfg); err != nil {
				t.Fatal(err)
			}
			for n := uint32(1); n <= 30; n++ {
				for _, rec := range seen.of[n].all {
					rec.Link = 0 // numbered in the order of dialling, which is not the stream's
					fmt.Fprintf(&text, "%+v\n", rec)
				}
			}
		})
		return text.String()
	}
	first, second := run(5), run(5)
	if first != second {
		t.Error("one seed gives two histories")
	}
	if first == run(6) {
		t.Error("two seeds give one history")
	}
}

func TestForeignMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		marks := NewMarks("00000000", []byte("secret"))
		g.call = func(v *visit) {
			v.sse()
			v.send(prime("p") + v.progress("a", marks.Of(1, 9), 1, 3) + v.progress("b", marks.Of(2, 9), 1, 3) + v.progress("c", "guess", 1, 3))
			v.send("id: m\ndata: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"_meta\":{\"gapless/call\":\"" + v.token + "\"}}}\n\n")
			v.send(result("d", "99") + "id: e\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"_meta\":{\"gapless/call\":\"" + marks.Of(1, 9) + "\"}}}\n\n")
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rec := range seen.kind(history.KindEvent) {
			got = append(got, fmt.Sprint(rec.Event.Owner, "/", rec.Event.OwnerStream))
		}
		has(t, "owners", got, fmt.Sprint([]string{
			"0/0", fmt.Sprint(history.OwnerOtherStream, "/9"), fmt.Sprint(history.OwnerOtherSession, "/9"),
			fmt.Sprint(history.OwnerNobody, "/0"), fmt.Sprint(history.OwnerNobody, "/0"), fmt.Sprint(history.OwnerNobody, "/0"),
			fmt.Sprint(history.OwnerOtherStream, "/9"),
		}))
	})
}

func TestConfigRefusals(t *testing.T) {
	err := Config{URL: "mcp", Calls: []Call{{Expected: -1, Method: "ping", Deadline: -1}}, MaxRate: -1, Reissue: -1, Name: "x", Idle: -1, Resume: ResumePolicy{Jitter: 2, Attempts: -1}, Dials: -1}.Validate()
	for _, want := range []string{"url", "dial must", "plan", "call 1: a tool", "expected", "method", "deadline", "max rate", "reissue", "name", "idle", "jitter", "attempts", "dials"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %s in %v", want, err)
		}
	}
	g := newTarget(t)
	cfg := g.config(one)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.Header = []wire.Field{{Name: "A", Value: "x\r\ny"}}
	if _, err := g.run(cfg); !errors.Is(err, wire.ErrRequest) {
		t.Errorf("a header with a line end: %v", err)
	}
}

func TestRequestOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		cfg := g.config(PlanConfig{Streams: 2, Sessions: 1})
		cfg.Calls[0].Name = "a\"b"
		cfg.Header = []wire.Field{{Name: "Authorization", Value: "Bearer x"}}
		cfg.Calls[0].Args = func(a Arrival) json.RawMessage {
			if a.Stream == 1 {
				return nil
			}
			return json.RawMessage(`{"messages":2}`)
		}
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		args := map[bool]int{}
		for _, v := range g.of("tools/call") {
			var m struct {
				Params struct {
					Name      string
					Arguments map[string]int
				}
			}
			if err := json.Unmarshal(v.body, &m); err != nil {
				t.Fatal(err)
			}
			has(t, "tool", m.Params.Name, "a\"b")
			has(t, "accept", v.header.Get("Accept"), "application/json, text/event-stream")
			args[m.Params.Arguments["messages"] == 2]++
		}
		has(t, "arguments", args, "map[false:1 true:1]")
		for _, v := range g.visits {
			has(t, "header of "+v.method, v.header.Get("Authorization"), "Bearer x")
		}
	})
}
