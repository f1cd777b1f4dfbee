package loadgen

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// one is the plan of a single call.
var one = PlanConfig{Seed: 1, Streams: 1}

// streamCase is one call: how it is answered, how each GET after it, and what the
// stream makes of it.
type streamCase struct {
	name    string
	call    func(v *visit)
	resume  func(v *visit, n int, token, call string)
	outcome history.Outcome
	ends    string
	seqs    string
	cursors string // Last-Event-ID of every GET
}

// primed begins a stream of three messages, rest completes it.
func primed(v *visit) {
	v.sse()
	v.send("retry: 250\n" + prime("p") + v.progress("e1", v.token, 1, 3))
}

func rest(v *visit, token, call string) {
	v.sse()
	v.send(v.progress("e2", token, 2, 3) + v.progress("e3", token, 3, 3) + result("r", call))
	v.end()
}

// cutCases have a cut from which there is a way back.
func cutCases() []streamCase {
	return []streamCase{
		{
			name:    "clean end before the response – resumed",
			call:    func(v *visit) { primed(v); v.end() },
			resume:  func(v *visit, _ int, token, call string) { rest(v, token, call) },
			outcome: history.OutcomeCompleted, ends: "[1 1]", seqs: "[1 2 3 0]", cursors: "[e1]",
		},
		{
			name:    "FIN inside the framing – resumed",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, token, call string) { rest(v, token, call) },
			outcome: history.OutcomeCompleted, ends: "[3 1]", seqs: "[1 2 3 0]", cursors: "[e1]",
		},
		{
			name: "clean end inside an event – the cursor stays",
			call: func(v *visit) { primed(v); v.send("id: e2\ndata: {\"jso"); v.end() },
			resume: func(v *visit, _ int, token, call string) {
				rest(v, token, call)
			},
			outcome: history.OutcomeCompleted, ends: "[2 1]", seqs: "[1 2 3 0]", cursors: "[e1]",
		},
		{
			name: "second cut before the first event – the cursor stays",
			call: func(v *visit) { primed(v) },
			resume: func(v *visit, n int, token, call string) {
				if n <= 2 {
					v.sse()
					return
				}
				rest(v, token, call)
			},
			outcome: history.OutcomeCompleted, ends: "[3 3 3 1]", seqs: "[1 2 3 0]", cursors: "[e1 e1 e1]",
		},
		{
			name: "events without id – the cursor stays",
			call: func(v *visit) { primed(v); v.send(v.progress("", v.token, 2, 3)[4:]) },
			resume: func(v *visit, n int, token, call string) {
				v.sse()
				if n == 1 {
					v.send(v.progress("", token, 3, 3)[4:])
					return
				}
				v.send(result("r", call))
				v.end()
			},
			outcome: history.OutcomeCompleted, ends: "[3 3 1]", seqs: "[1 2 3 0]", cursors: "[e1 e1]",
		},
		{
			name: "id without data – the cursor moves",
			call: func(v *visit) { primed(v); v.send("id: bare\n\n") },
			resume: func(v *visit, _ int, token, call string) {
				rest(v, token, call)
			},
			outcome: history.OutcomeCompleted, ends: "[3 1]", seqs: "[1 2 3 0]", cursors: "[bare]",
		},
		{
			name:    "response inside the replay, then RST – completed, nothing asked again",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, call string) { v.sse(); v.send(result("r", call)) },
			outcome: history.OutcomeCompleted, ends: "[3 3]", seqs: "[1 0]", cursors: "[e1]",
		},
	}
}

// statusCases are about what a status means.
func statusCases() []streamCase {
	return []streamCase{
		{
			name: "409, then 200 – completed",
			call: func(v *visit) { primed(v) },
			resume: func(v *visit, n int, token, call string) {
				if n < 4 {
					v.status(409)
					return
				}
				rest(v, token, call)
			},
			outcome: history.OutcomeCompleted, ends: "[3 7 7 7 1]", seqs: "[1 2 3 0]", cursors: "[e1 e1 e1 e1]",
		},
		{
			name: "503 with Retry-After, then 200 – completed",
			call: func(v *visit) { primed(v) },
			resume: func(v *visit, n int, token, call string) {
				if n == 1 {
					v.status(503, "Retry-After: 2")
					return
				}
				rest(v, token, call)
			},
			outcome: history.OutcomeCompleted, ends: "[3 7 1]", seqs: "[1 2 3 0]", cursors: "[e1 e1]",
		},
		{
			name:    "400 on the resume – refused",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(400) },
			outcome: history.OutcomeRefused, ends: "[3 7]", seqs: "[1]", cursors: "[e1]",
		},
		{
			name:    "405 on the resume – refused",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(405) },
			outcome: history.OutcomeRefused, ends: "[3 7]", seqs: "[1]", cursors: "[e1]",
		},
		{
			name:    "redirect on the resume – not followed, refused",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(307, "Location: /elsewhere") },
			outcome: history.OutcomeRefused, ends: "[3 7]", seqs: "[1]", cursors: "[e1]",
		},
		{
			name:    "500 to the call – refused, not repeated",
			call:    func(v *visit) { v.status(500) },
			outcome: history.OutcomeRefused, ends: "[7]", seqs: "[]", cursors: "[]",
		},
		{
			name:    "404 on the resume – refused",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(404) },
			outcome: history.OutcomeRefused, ends: "[3 7]", seqs: "[1]", cursors: "[e1]",
		},
	}
}

// endCases come to an end without a resume.
func endCases() []streamCase {
	return []streamCase{
		{
			name:    "no cut – completed",
			call:    func(v *visit) { primed(v); v.send(v.progress("e2", v.token, 2, 3) + result("r", v.id)); v.end() },
			outcome: history.OutcomeCompleted, ends: "[1]", seqs: "[1 2 0]", cursors: "[]",
		},
		{
			name:    "JSON answer – completed",
			call:    func(v *visit) { v.json(`{"jsonrpc":"2.0","id":1,"result":{}}`) },
			outcome: history.OutcomeCompleted, ends: "[1]", seqs: "[0]", cursors: "[]",
		},
		{
			name:    "FIN before an id – failed",
			call:    func(v *visit) { v.sse(); v.send("data:\n\n") },
			outcome: history.OutcomeFailed, ends: "[3]", seqs: "[]", cursors: "[]",
		},
		{
			name:    "empty id – nothing to resume from, failed",
			call:    func(v *visit) { primed(v); v.send("id\ndata:\n\n") },
			outcome: history.OutcomeFailed, ends: "[3]", seqs: "[1]", cursors: "[]",
		},
	}
}

// endlessCases would not end by themselves.
func endlessCases() []streamCase {
	return []streamCase{
		{
			name:    "response, then open for ever – completed",
			call:    func(v *visit) { primed(v); v.send(result("r", v.id)); v.hang() },
			outcome: history.OutcomeCompleted, ends: "[10]", seqs: "[1 0]", cursors: "[]",
		},
		{
			name:    "endless failure – given up after the allowed attempts",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(500) },
			outcome: history.OutcomeFailed, ends: "[3 7 7 7 7 7]", seqs: "[1]", cursors: "[e1 e1 e1 e1 e1]",
		},
		{
			name:    "429 for ever – the target limits the rate, it lost nothing",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.status(429, "Retry-After: 25") },
			outcome: history.OutcomeUndecided, ends: "[3 7 7 7]", seqs: "[1]", cursors: "[e1 e1 e1]",
		},
		{
			name:    "200 with nothing in it, for ever – given up after the allowed attempts",
			call:    func(v *visit) { primed(v) },
			resume:  func(v *visit, _ int, _, _ string) { v.sse(); v.end() },
			outcome: history.OutcomeFailed, ends: "[3 1 1 1 1 1]", seqs: "[1]", cursors: "[e1 e1 e1 e1 e1]",
		},
		{
			name:    "hang after an id – idle, resumed",
			call:    func(v *visit) { primed(v); v.hang() },
			resume:  func(v *visit, _ int, token, call string) { rest(v, token, call) },
			outcome: history.OutcomeCompleted, ends: "[5 1]", seqs: "[1 2 3 0]", cursors: "[e1]",
		},
		{
			name:    "hang before an id – deadline, failed",
			call:    func(v *visit) { v.sse(); v.hang() },
			outcome: history.OutcomeFailed, ends: "[6]", seqs: "[]", cursors: "[]",
		},
		{
			name:    "retry of eleven days – given up at the deadline",
			call:    func(v *visit) { primed(v); v.send("retry: 1000000000\n\n") },
			outcome: history.OutcomeFailed, ends: "[3]", seqs: "[1]", cursors: "[]",
		},
		{
			name:    "broken chunk – illegal frame, resumed",
			call:    func(v *visit) { primed(v); v.raw("zz\r\n") },
			resume:  func(v *visit, _ int, token, call string) { rest(v, token, call) },
			outcome: history.OutcomeCompleted, ends: "[8 1]", seqs: "[1 2 3 0]", cursors: "[e1]",
		},
	}
}

func TestStream(t *testing.T) {
	for _, c := range slices.Concat(cutCases(), statusCases(), endCases(), endlessCases()) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				var token, call string
				g.call = func(v *visit) { token, call = v.token, v.id; c.call(v) }
				g.resume = func(v *visit, n int) { c.resume(v, n, token, call) }
				cfg := g.config(one)
				cfg.Observer = seen
				cfg.Resume.Attempts = 5
				began := time.Now()
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > speak(cfg.Calls)[0].Deadline+time.Second {
					t.Errorf("took %v", took)
				}
				settled := seen.kind(history.KindSettled)
				if len(settled) != 1 || rep.Outcomes[c.outcome] != 1 {
					t.Fatalf("settled %+v, outcomes %v", settled, rep.Outcomes)
				}
				has(t, "outcome", settled[0].Outcome, c.outcome)
				has(t, "ends", seen.ends(), c.ends)
				has(t, "messages", seen.seqs(), c.seqs)
				var cursors []string
				for _, v := range g.of("GET") {
					cursors = append(cursors, v.header.Get("Last-Event-ID"))
				}
				has(t, "cursors", cursors, c.cursors)
				has(t, "calls", len(g.of("tools/call")), 1)
				deleted := 1
				if len(seen.kind(history.KindHead)) > 1 && seen.kind(history.KindHead)[1].Head.Status == 404 {
					deleted = 0 // the session is gone
				}
				has(t, "deleted", len(g.of("DELETE")), deleted)
			})
		})
	}
}
