package loadgen

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// old makes the target one of revision 2025-03-26.
func old(g *target) {
	g.special = func(v *visit) bool {
		if v.rpc != "initialize" {
			return false
		}
		v.json(`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-03-26"}}`, "Mcp-Session-Id: old")
		return true
	}
}

// data returns an event of several messages.
func data(id string, elements ...string) string {
	s := "id: " + id + "\ndata: ["
	for i, e := range elements {
		if i > 0 {
			s += ", "
		}
		s += e
	}
	return s + "]\n\n"
}

func bare(token string, k int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":%q,"total":3}}`, k, token)
}

func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		old(g)
		token := ""
		g.raw = func(v *visit) bool {
			var m []struct {
				ID     json.RawMessage
				Method string
				Params struct {
					Meta struct{ ProgressToken string } `json:"_meta"`
				}
			}
			if json.Unmarshal(v.body, &m) != nil {
				return false
			}
			has(t, "batch", fmt.Sprintf("%d %s %s %s %s", len(m), m[0].Method, m[0].ID, m[1].Method, m[1].ID), `2 tools/call 1 ping "p1"`)
			has(t, "version", len(v.header["Mcp-Protocol-Version"]), 0)
			token = m[0].Params.Meta.ProgressToken
			v.sse()
			v.send(prime("p") + data("a", `{"jsonrpc":"2.0","id":"p1","result":{}}`, bare(token, 1), bare(token, 2)))
			return true
		}
		g.resume = func(v *visit, n int) {
			has(t, "cursor", v.header.Get("Last-Event-ID"), "a")
			v.sse()
			v.send(data("b", bare(token, 3), `{"jsonrpc":"2.0","id":"q","method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer, cfg.Batches = seen, true
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "completed", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], rep.Answers), "1 1")
		has(t, "messages", seen.seqs(), "[1 2 3 0]")
		var got []string
		for _, rec := range seen.kind(history.KindEvent) {
			e := rec.Event
			got = append(got, fmt.Sprint(e.Class, " ", e.Owner, " ", e.HasID, " ", e.Cursor, " ", e.Illegal))
			if e.Class == history.ClassProgress && (e.Hash == 0 || int(e.Bytes) != len(bare(token, 1))) {
				t.Errorf("element %+v", e)
			}
		}
		has(t, "events", fmt.Sprint(got), fmt.Sprint([]string{
			"1 0 true 1 0",
			"2 1 true 2 0", "3 1 false 2 0", "3 1 false 2 0",
			"3 1 true 3 0", "5 0 false 3 0", "6 1 false 3 0",
		}))
	})
}

func TestBatchesAreIllegalElsewhere(t *testing.T) {
	for _, c := range []struct {
		name    string
		target  func(g *target)
		event   string
		illegal history.Illegal
		seqs    string
	}{
		{"2025-11-25", func(*target) {}, data("a", `{"jsonrpc":"2.0","id":1,"result":{}}`), history.IllegalBatch, "[]"},
		{"2025-03-26", old, data("a", `{"jsonrpc":"2.0","id":1,"result":{}}`), 0, "[0]"},
		{"2025-03-26, empty", old, data("a"), history.IllegalRPC, "[]"},
		{"2025-03-26, a batch in a batch", old, data("a", `[{"jsonrpc":"2.0","id":1,"result":{}}]`), history.IllegalBatch, "[]"},
		{"2025-03-26, not JSON", old, data("a", `{]`), history.IllegalJSON, "[]"},
		{"2025-03-26, no message among them", old, data("a", `{"jsonrpc":"2.0","id":1,"result":{}}`, `5`), history.IllegalRPC, "[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				c.target(g)
				g.call = func(v *visit) { v.sse(); v.send(c.event); v.end() }
				g.resume = func(v *visit, n int) { v.status(400) }
				cfg := g.config(one)
				cfg.Observer = seen
				if _, err := g.run(cfg); err != nil {
					t.Fatal(err)
				}
				var illegal history.Illegal
				for _, rec := range seen.kind(history.KindEvent) {
					illegal |= rec.Event.Illegal
				}
				has(t, "illegal", illegal, c.illegal)
				has(t, "messages", seen.seqs(), c.seqs)
			})
		})
	}
}

func TestPollingClosesAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const polls = 30
		g, seen := newTarget(t), new(recorder)
		var token, call string
		g.call = func(v *visit) {
			token, call = v.token, v.id
			v.sse()
			v.send("retry: 700\n" + prime("p"))
			v.end()
		}
		k := 0
		g.resume = func(v *visit, n int) {
			v.sse()
			if n%3 == 0 { // closed before the next message was there
				v.end()
				return
			}
			k++
			v.send(v.progress(fmt.Sprint("e", k), token, k, polls))
			if k == polls {
				v.send(result("r", call))
			}
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer, cfg.Calls[0].Expected, cfg.Resume.Attempts = seen, polls, 2
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "completed", rep.Outcomes[history.OutcomeCompleted], 1)
		for _, rec := range seen.kind(history.KindAttempt)[1:] {
			has(t, "waited", rec.Exchange.Waited, "700ms")
		}
	})
}

func TestRequestsMidCallAreAnsweredWhileTheStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		answered := make(chan struct{}, 10)
		g.special = func(v *visit) bool {
			if v.rpc == "" && v.method == "POST" {
				v.status(202)
				answered <- struct{}{}
				return true
			}
			return false
		}
		ask := func(id string) string {
			return "id: q" + id + "\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + id + ",\"method\":\"ping\"}\n\n"
		}
		var token, call string
		g.call = func(v *visit) { // each emission waits for the answer to the request before it
			token, call = v.token, v.id
			v.sse()
			v.send(prime("p") + ask("1"))
			<-answered
			v.send(v.progress("e1", token, 1, 3) + ask("2"))
			<-answered
			v.send(v.progress("e2", token, 2, 3))
		}
		g.resume = func(v *visit, n int) { // the replay repeats a request
			v.sse()
			v.send(ask("2") + v.progress("e3", token, 3, 3) + ask("3"))
			<-answered
			v.send(result("r", call))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "completed and answered", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], rep.Answers, len(answered)), "1 3 0")
		has(t, "messages", seen.seqs(), "[1 2 3 0]")
		if rep.Took > time.Second {
			t.Errorf("took %v", rep.Took)
		}
	})
}

func TestAnswersThatDidNotLeaveAreOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		ask := "id: q1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\n\n" +
			"id: q2\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"ping\"}\n\n"
		call, taken := "", make(map[string]int)
		g.special = func(v *visit) bool {
			if v.rpc != "" || v.method != "POST" {
				return false
			}
			taken[v.id]++
			if v.id == `"a"` {
				v.status(202)
			}
			return true // the answer to b is taken, and the link ends without a word
		}
		g.call = func(v *visit) { call = v.id; v.sse(); v.send(prime("p") + ask) }
		g.resume = func(v *visit, n int) { v.sse(); v.send(ask + ask + result("r", call)); v.end() }
		cfg := g.config(one)
		dial, n := cfg.Dial, 0
		cfg.Dial = ctxDial(dial, func(l Link) Link {
			if n++; n == 2 { // the link of the first answer
				_ = l.Close()
			}
			return l
		})
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "answers", fmt.Sprint(rep.Answers, taken), `1 map["a":1 "b":1]`)
	})
}
