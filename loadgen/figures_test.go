package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestResumeFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		token, call := "", ""
		g.call = func(v *visit) {
			token, call = v.token, v.id
			time.Sleep(time.Second)
			v.sse()
			v.send("retry: 2000\n" + prime("p") + v.progress("e1", token, 1, 3))
		}
		g.resume = func(v *visit, n int) {
			switch n {
			case 1:
				v.status(409)
				return
			case 2:
				v.status(503)
				return
			}
			time.Sleep(100 * time.Millisecond)
			v.sse("Gapless-Missed: 2")
			time.Sleep(200 * time.Millisecond)
			v.send(v.progress("e2", token, 2, 3))
			time.Sleep(300 * time.Millisecond)
			v.send(v.progress("e3", token, 3, 3))
			time.Sleep(400 * time.Millisecond)
			v.send(result("r", call))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "resumes", rep.Resumes, Resumes{Attempted: 3, Succeeded: 1, Conflicts: 1, ByStatus: map[int]int64{200: 1, 409: 1, 503: 1}})
		for _, c := range []struct {
			phase Phase
			n     int64
			max   time.Duration
		}{
			{FirstEvent, 1, time.Second},
			{EventGap, 2, 400 * time.Millisecond},
			{Completion, 1, 8 * time.Second},
			{StartDelay, 1, 0},
			{ResumeDetect, 0, 0}, // nothing was injected
			{ResumeBackoff, 3, 2 * time.Second},
			{ResumeConnect, 3, 100 * time.Millisecond},
			{ResumeFirstEvent, 1, 200 * time.Millisecond},
			{ResumeCaughtUp, 1, 6600 * time.Millisecond},
		} {
			h := rep.Latencies.Of(c.phase)
			// Three digits: the histogram may answer up to a thousandth more.
			if got := time.Duration(h.Max()) * time.Microsecond; h.TotalCount() != c.n || got < c.max || got > c.max+c.max/500 {
				t.Errorf("%v: %d values up to %v, want %d up to %v", c.phase, h.TotalCount(), got, c.n, c.max)
			}
		}
		heads := seen.kind(history.KindHead)
		has(t, "heads", fmt.Sprint(heads[0].Head, heads[1].Head, heads[3].Head), "{200 1 -1} {409 0 -1} {200 1 2}")
		if rep.Behind() {
			t.Error("a run without delay is behind")
		}
	})
}

func TestCommentsAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = func(v *visit) {
			v.sse()
			v.send(prime("p"))
			for range 5 { // real events keep the attempt alive beyond the idle limit
				time.Sleep(8 * time.Second)
				v.send("id: x\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
			}
			for range 50 {
				time.Sleep(time.Second)
				v.send(": keep-alive\n\n")
			}
		}
		g.resume = func(v *visit, n int) { v.sse(); v.send(result("r", "1")); v.end() }
		cfg := g.config(one)
		cfg.Observer, cfg.Idle, cfg.Calls[0].Deadline = seen, 10*time.Second, 5*time.Minute
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		has(t, "ends", seen.ends(), fmt.Sprint([]history.End{history.EndIdle, history.EndClean}))
		has(t, "idle at", seen.kind(history.KindEnd)[0].At, "50s")
	})
}

func TestTooLate(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		want  history.Outcome
	}{
		{"events until the deadline – undecided", 7 * time.Second, history.OutcomeUndecided},
		{"silent before it – failed", 13 * time.Second, history.OutcomeFailed},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			g.call = func(v *visit) {
				v.sse()
				for range 20 {
					v.send("id: x\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
					time.Sleep(c.every)
				}
			}
			cfg := g.config(one)
			cfg.Observer, cfg.Calls[0].Deadline = seen, 63*time.Second
			rep, err := g.run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			has(t, c.name, seen.kind(history.KindSettled)[0].Outcome, c.want)
			has(t, "end", seen.ends(), fmt.Sprint([]history.End{history.EndDeadline}))
			has(t, "took", rep.Took, "1m3s")
		})
	}
}

func TestRestedLinks(t *testing.T) {
	for _, c := range []struct {
		name  string
		rest  time.Duration
		links int64 // the last one is for DELETE
		want  history.Outcome
	}{
		{"closed while the call crossed – indeterminate", 500 * time.Millisecond, 2, history.OutcomeIndeterminate},
		{"rested too long – not used, so the same end is a failure", 1500 * time.Millisecond, 3, history.OutcomeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTarget(t)
				g.call = func(v *visit) {} // leaves without a byte
				cfg := g.config(one)
				cfg.Plan.c.Ramp = 2 * c.rest
				cfg.Plan.c.Seed = seedBetween(t, 0.48, 0.6)
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				has(t, "links", rep.Links, c.links)
				if rep.Outcomes[c.want] != 1 {
					t.Errorf("outcomes %v", rep.Outcomes)
				}
			})
		})
	}
}

// seedBetween returns a seed whose first arrival is due within this part of the ramp.
func seedBetween(t *testing.T, from, to float64) uint64 {
	for seed := range uint64(1000) {
		if d := draw(seed, 1, 0, drawDue); d > from && d < to {
			return seed
		}
	}
	t.Fatal("no such seed")
	return 0
}

func TestUnreachableLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		g.call = func(v *visit) {
			v.sse()
			v.send(prime("p"))
		}
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Calls: 2})
		cfg.Observer, cfg.Resume.Attempts = seen, 3
		dial, n := cfg.Dial, 0
		cfg.Dial = func(ctx context.Context) (Link, error) {
			if n++; n > 1 {
				return nil, errors.New("no route")
			}
			return dial(ctx)
		}
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 1 0 0 0 1]")
		has(t, "ends", seen.ends(), fmt.Sprint([]history.End{history.EndTruncated, history.EndUnreachable, history.EndUnreachable, history.EndUnreachable}))
		has(t, "statuses", rep.Resumes.ByStatus, "map[0:3]")
		var kinds []string
		for _, rec := range seen.of[2].all {
			kinds = append(kinds, fmt.Sprint(rec.Kind))
		}
		has(t, "records of a call that was not sent", strings.Join(kinds, " "),
			fmt.Sprint(history.KindAttempt, history.KindEnd, history.KindSettled))
	})
}

func TestCursorAndTokenStayOutOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTarget(t)
		g.special = func(v *visit) bool {
			if v.rpc != "initialize" {
				return false
			}
			v.json(`{"jsonrpc":"2.0","id":"init","result":{}}`, "Mcp-Session-Id: verysecret")
			return true
		}
		_, err := g.run(g.config(one))
		if err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("error %v", err)
		}
	})
}

// spy notes what a link is told.
type spy struct {
	Link
	told *[]Exchange
}

func (s spy) Begin(x Exchange) { *s.told = append(*s.told, x); s.Link.Begin(x) }

func TestLinkIsToldWhatItCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		token, call := "", ""
		g.call = func(v *visit) {
			token, call = v.token, v.id
			v.sse()
			v.send(prime("p") + v.progress("e1", token, 1, 3) + v.progress("e2", token, 2, 3))
		}
		g.resume = func(v *visit, n int) {
			v.sse()
			v.send(v.progress("e2", token, 2, 3)) // a repeat does not count
			if n == 1 {
				return
			}
			v.send(v.progress("e3", token, 3, 3) + result("r", call))
			v.end()
		}
		cfg := g.config(one)
		cfg.Observer = seen
		var told []Exchange
		cfg.Dial = ctxDial(cfg.Dial, func(l Link) Link { return spy{l, &told} })
		if _, err := g.run(cfg); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range told {
			got = append(got, fmt.Sprint(x.Session, x.Stream, x.Attempt, x.Link, x.Resume, x.Observer != nil, x.Delivered, x.Expected))
		}
		has(t, "exchanges", strings.Join(got, "; "), "1 0 0 1 false false 0 0; 1 0 0 1 false false 0 0; "+
			"1 1 0 1 false true 0 3; 1 1 1 2 true true 2 3; 1 1 2 3 true true 2 3; 1 0 0 3 false false 0 0")
		var cursors []uint32
		for _, rec := range seen.kind(history.KindEvent) {
			cursors = append(cursors, rec.Event.Cursor)
		}
		has(t, "cursors", cursors, "[1 2 3 4 5 6 7]")
		var at []uint32
		for _, rec := range seen.kind(history.KindAttempt) {
			at = append(at, rec.Exchange.Cursor)
		}
		has(t, "cursors of the attempts", at, "[0 3 4]")
	})
}

// torn is a link that breaks in the middle of the request of a call.
type torn struct{ Link }

func (l torn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("tools/call")) {
		return l.Link.Write(p)
	}
	n, _ := l.Link.Write(p[:len(p)/2])
	return n, syscall.EPIPE
}

func TestHalfARequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		cfg := g.config(one)
		cfg.Observer = seen
		cfg.Dial = ctxDial(cfg.Dial, func(l Link) Link { return torn{l} })
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 0 0 1 0 0 0 0]")
		has(t, "opened", rep.Opened, 0)
		has(t, "ends", seen.ends(), fmt.Sprint([]history.End{history.EndReset}))
	})
}
