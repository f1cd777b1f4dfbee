package loadgen

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// umcpCase is one stream: how its n-th GET is answered, when its call is, and what comes of
// it.
type umcpCase struct {
	name     string
	get      func(v *visit, n int, token string)
	answered time.Duration // after the call was made; negative: refused with 400 then
	outcome  history.Outcome
	ends     string
	seqs     string // 0 is the response
	statuses string
	took     time.Duration
}

func umcpCases() []umcpCase {
	bare := func(v *visit, token string, k int) string {
		return strings.TrimPrefix(v.progress("x", token, k, 3), "id: x\n")
	}
	return []umcpCase{
		{
			name: "whole – left two seconds after the last message",
			get: func(v *visit, _ int, token string) {
				v.send(": keep-alive\n\n" + bare(v, token, 1) + bare(v, token, 2) + bare(v, token, 3))
				v.hang()
			},
			answered: time.Second, outcome: history.OutcomeCompleted, ends: "[10]", seqs: "[1 2 3 0]", statuses: "[200]", took: 3 * time.Second,
		},
		{
			name: "the answer first – the messages are waited for",
			get: func(v *visit, _ int, token string) {
				<-time.After(3 * time.Second)
				v.send(bare(v, token, 1) + bare(v, token, 2) + bare(v, token, 3))
				v.hang()
			},
			answered: time.Second, outcome: history.OutcomeCompleted, ends: "[10]", seqs: "[0 1 2 3]", statuses: "[200]", took: 5 * time.Second,
		},
		{
			name: "cut, refused for a while – asked for again in the same session",
			get: func(v *visit, n int, token string) {
				if n == 1 {
					v.send(bare(v, token, 1))
					return // the link is closed in the middle of the body
				}
				v.send(bare(v, token, 3))
				v.hang()
			},
			answered: 5 * time.Second, outcome: history.OutcomeCompleted, ends: "[3 7 7 10]", seqs: "[1 3 0]", statuses: "[200 409 409 200]", took: 7 * time.Second,
		},
		{
			name: "what a cut took is not waited for long",
			get: func(v *visit, n int, token string) {
				if n == 1 {
					v.send(bare(v, token, 1))
					return
				}
				v.hang()
			},
			answered: time.Second, outcome: history.OutcomeCompleted, ends: "[3 7 7 5]", seqs: "[1 0]", statuses: "[200 409 409 200]", took: 3 * time.Second,
		},
		{
			name: "a hole without a cut is waited for",
			get: func(v *visit, _ int, token string) {
				v.send(bare(v, token, 1) + bare(v, token, 2))
				v.hang()
			},
			answered: time.Second, outcome: history.OutcomeCompleted, ends: "[5]", seqs: "[1 2 0]", statuses: "[200]", took: 11 * time.Second,
		},
		{
			name:     "the call refused",
			get:      func(v *visit, _ int, _ string) { v.hang() },
			answered: -time.Second, outcome: history.OutcomeRefused, ends: "[10]", seqs: "[]", statuses: "[200]", took: time.Second,
		},
	}
}

// TestUMCP: a stream is its session's event stream and one POST beside it.
func TestUMCP(t *testing.T) {
	for _, c := range umcpCases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				tokens := make(chan string, 1)
				g.call = func(v *visit) {
					tokens <- v.token
					<-time.After(max(c.answered, -c.answered))
					if c.answered < 0 {
						v.status(400)
						return
					}
					v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{"content":[]}}`)
				}
				token, links := "", 0
				g.resume = func(v *visit, n int) {
					if n == 2 || n == 3 {
						v.status(409)
						return
					}
					v.sse()
					if links++; links == 1 {
						token = <-tokens
					}
					c.get(v, links, token)
				}
				cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Sessions: 1})
				cfg.UMCP, cfg.Revision, cfg.Observer, cfg.Resume.Jitter = true, "2025-03-26", seen, -1
				begun := time.Now()
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun).Round(time.Second); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				var ends []history.End
				for _, r := range seen.kind(history.KindEnd) {
					ends = append(ends, r.End)
				}
				seqs := []int64{}
				for _, r := range seen.kind(history.KindEvent) {
					seqs = append(seqs, r.Event.Seq)
				}
				var statuses []int
				for _, r := range seen.kind(history.KindHead) {
					statuses = append(statuses, int(r.Head.Status))
				}
				has(t, "outcome", fmt.Sprint(rep.Outcomes[c.outcome], seen.kind(history.KindSettled)[0].Outcome), fmt.Sprint(1, c.outcome))
				has(t, "ends", ends, c.ends)
				has(t, "messages", seqs, c.seqs)
				has(t, "statuses", statuses, c.statuses)
				session := ""
				for i, v := range append(g.of("GET"), g.of("tools/call")...) {
					if session == "" {
						session = v.header.Get("Mcp-Session-Id")
					}
					if v.header.Get("Mcp-Session-Id") != session || session == "" || v.header.Get("Mcp-Protocol-Version") == "" || v.header.Get("Last-Event-ID") != "" {
						t.Errorf("request %d: %v", i, v.header)
					}
				}
				if n := len(g.of("DELETE")); n != 1 || g.inits != 1 {
					t.Errorf("%d sessions, %d deleted", g.inits, n)
				}
			})
		})
	}
}

// TestUMCPStreamsOfASessionFollowOneAnother: the next stream has a session of its own, since
// the target may not have noticed that the last one has left.
func TestUMCPStreamsOfASessionFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		tokens := make(chan string, 1)
		g.call = func(v *visit) {
			tokens <- v.token
			v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{"content":[]}}`)
		}
		g.resume = func(v *visit, _ int) {
			v.sse()
			token := <-tokens
			for k := 1; k <= 3; k++ {
				v.send(strings.TrimPrefix(v.progress("x", token, k, 3), "id: x\n"))
			}
			v.hang()
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 3, Sessions: 1})
		cfg.UMCP = true
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "completed", fmt.Sprint(rep.Outcomes[history.OutcomeCompleted], len(g.of("GET")), g.inits, len(g.of("DELETE"))), "3 3 3 3")
	})
}

func TestUMCPHasNo(t *testing.T) {
	g := newTarget(t)
	for want, change := range map[string]func(*Config){
		"exclude each other": func(c *Config) { c.Modern = true },
		"no batches":         func(c *Config) { c.Batches = true },
		"3 probes":           func(c *Config) { c.Probes = 3 },
	} {
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Sessions: 1})
		cfg.UMCP = true
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
