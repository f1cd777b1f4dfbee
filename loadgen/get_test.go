package loadgen

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// hearing is a target whose call emits on the GET stream: called holds the token of each
// call once it was made.
func hearing(t *testing.T) (g *target, called chan string) {
	g, called = newTarget(t), make(chan string, 10)
	g.call = func(v *visit) {
		v.json(`{"jsonrpc":"2.0","id":` + v.id + `,"result":{"_meta":{"gapless/call":"` + v.token + `"}}}`)
		called <- v.token
	}
	return g, called
}

// getOnly is a plan of GET streams alone: the one call of the load is not made, so
// that the first GET stream is stream 1.
func getOnly(g *target, n int) Config {
	cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Sessions: 1, GetStreams: n})
	cfg.Plan.c.Calls = 0
	return cfg
}

// getCase is one GET stream: how each GET is answered, and what comes of it.
type getCase struct {
	name    string
	get     func(v *visit, n int, token func() string)
	outcome history.Outcome
	ends    string
	seqs    string
	cursors string
}

func getCases() []getCase {
	note := "id: n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"
	return []getCase{
		{
			name: "whole – completed, and left open by the target",
			get: func(v *visit, n int, token func() string) {
				v.sse()
				v.send(prime("p"))
				for k := 1; k <= 3; k++ {
					v.send(note + v.progress(fmt.Sprint("e", k), token(), k, 3))
				}
				v.hang()
			},
			outcome: history.OutcomeCompleted, ends: "[10]", seqs: "[0 1 2 3]", cursors: "[]",
		},
		{
			name: "cut twice – resumed from its own cursor",
			get: func(v *visit, n int, token func() string) {
				v.sse()
				if n == 1 {
					v.send(prime("p"))
				}
				v.send(v.progress(fmt.Sprint("e", n), token(), n, 3))
				if n == 3 {
					v.hang()
				}
			},
			outcome: history.OutcomeCompleted, ends: "[3 3 10]", seqs: "[0 1 2 3]", cursors: "[ e1 e2]",
		},
		{
			name: "one lost – ends with the last, the judge counts",
			get: func(v *visit, n int, token func() string) {
				v.sse()
				v.send(v.progress("e1", token(), 1, 3) + v.progress("e3", token(), 3, 3))
				v.hang()
			},
			outcome: history.OutcomeCompleted, ends: "[10]", seqs: "[0 1 3]", cursors: "[]",
		},
		{
			name:    "405 – refused, no call made",
			get:     func(v *visit, n int, _ func() string) { v.status(405) },
			outcome: history.OutcomeRefused, ends: "[7]", seqs: "[]", cursors: "[]",
		},
		{
			name: "409 first – asked again without a cursor",
			get: func(v *visit, n int, token func() string) {
				if n == 1 {
					v.status(409)
					return
				}
				v.sse()
				v.send(v.progress("e1", token(), 1, 3) + v.progress("e2", token(), 2, 3) + v.progress("e3", token(), 3, 3))
				v.hang()
			},
			outcome: history.OutcomeCompleted, ends: "[7 10]", seqs: "[0 1 2 3]", cursors: "[ ]",
		},
		{
			name:    "ended before an id, after the call – failed",
			get:     func(v *visit, n int, token func() string) { v.sse(); token() },
			outcome: history.OutcomeFailed, ends: "[3]", seqs: "[0]", cursors: "[]",
		},
	}
}

func TestGetStream(t *testing.T) {
	for _, c := range getCases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, called := hearing(t)
				seen := new(recorder)
				known := ""
				token := func() string {
					if known == "" {
						known = <-called
					}
					return known
				}
				g.resume = func(v *visit, n int) { c.get(v, n, token) }
				cfg := getOnly(g, 1)
				cfg.Observer = seen
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				has(t, "outcome", fmt.Sprint(rep.GetStreams, rep.Gets[c.outcome], seen.kind(history.KindSettled)[0].Outcome), fmt.Sprint(1, 1, c.outcome))
				has(t, "counted apart", fmt.Sprint(rep.Opened, rep.MaxOpen, rep.Outcomes), "0 0 [0 0 0 0 0 0 0 0]")
				var ends []history.End
				for _, rec := range seen.kind(history.KindEnd) {
					ends = append(ends, rec.End)
				}
				has(t, "ends", ends, c.ends)
				var seqs []int64
				for _, rec := range seen.kind(history.KindEvent) {
					if rec.Event.Owner == history.OwnerSelf {
						seqs = append(seqs, rec.Event.Seq)
					}
				}
				has(t, "messages", seqs, c.seqs)
				var cursors []string
				for _, v := range g.of("GET") {
					cursors = append(cursors, v.header.Get("Last-Event-ID"))
				}
				if len(cursors) > 1 {
					has(t, "cursors", cursors, c.cursors)
				}
				for i, rec := range seen.kind(history.KindAttempt) {
					has(t, "resume", rec.Exchange.Resume, cursors[i] != "")
				}
				if calls := len(g.of("tools/call")); calls > 1 || (calls == 1) != strings.HasPrefix(c.seqs, "[0") {
					t.Errorf("%d calls", calls)
				}
			})
		})
	}
}

func TestGetStreamsOfASessionFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, called := hearing(t)
		g.resume = func(v *visit, n int) {
			v.sse()
			token := <-called
			for k := 1; k <= 3; k++ {
				v.send(v.progress(fmt.Sprint(n, "-", k), token, k, 3))
			}
			v.hang()
		}
		rep, err := g.run(getOnly(g, 3))
		if err != nil {
			t.Fatal(err)
		}
		gets := g.of("GET")
		has(t, "completed", fmt.Sprint(rep.Gets[history.OutcomeCompleted], len(gets)), "3 3")
		for i, v := range gets[1:] { // each is left two seconds after it is done
			has(t, "from one to the next", v.at.Sub(gets[i].at), 2*time.Second)
		}
	})
}

// told keeps what a link was told about its exchanges, and cuts the first GET.
type told struct {
	net.Conn
	x   *Exchange
	all *[]Exchange
}

func (l *told) Begin(x Exchange) { *l.x = x; *l.all = append(*l.all, x) }
func (l *told) End() bool        { return false }

func (l *told) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if x := *l.x; x.Get && !x.Resume && n > 0 && x.Observer != nil && strings.Contains(string(p[:n]), "data:") {
		x.Observer.Observe(&history.Record{Kind: history.KindInjection, Injection: history.Injection{Kind: "rst", Place: "get-stream", Ends: true}})
		_ = l.Conn.(*memnet.Conn).Close()
		return 0, fmt.Errorf("cut")
	}
	return n, err
}

func TestLinkKnowsGetStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, called := hearing(t)
		seen := new(recorder)
		g.resume = func(v *visit, n int) { v.sse(); <-called; v.send(prime("p")); v.hang() }
		var all []Exchange
		g.hurt = func(conn net.Conn) Link { return &told{Conn: conn, x: new(Exchange), all: &all} }
		cfg := getOnly(g, 1)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "cut before the first id – indeterminate", rep.Gets[history.OutcomeIndeterminate], 1)
		var got []string
		for _, x := range all {
			got = append(got, fmt.Sprint(x.Stream, x.Get, x.Resume, x.Observer != nil))
		}
		has(t, "exchanges", got, "[0 false false false 0 false false false 1 true false true 0 false false false 0 false false false]")
		has(t, "settled after", seen.kind(history.KindSettled)[0].At < time.Second, true)
	})
}

func TestGetStreamsNeedTheNumberOfMessages(t *testing.T) {
	g := newTarget(t)
	cfg := getOnly(g, 1)
	cfg.Calls[0].Expected = 0
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "GET streams") {
		t.Errorf("error %v", err)
	}
}
