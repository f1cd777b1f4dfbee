package loadgen

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// madeUp is a link that plays what never happened: on the resumes that it picks it
// refuses, or answers by itself.
type madeUp struct {
	net.Conn
	pick   func() bool // asked once for each resume
	answer string      // "": the link refuses
	x      Exchange
	rest   io.Reader // of the made-up answer
	dead   bool
}

func (m *madeUp) Begin(x Exchange) { m.x = x }
func (m *madeUp) End() bool        { return !m.dead }

func (m *madeUp) Write(p []byte) (int, error) {
	if !m.x.Resume || m.dead || !m.pick() {
		return m.Conn.Write(p)
	}
	m.dead = true
	in := history.Injection{Kind: "refuse", Place: "test", Ends: true}
	if m.answer != "" {
		in.Kind = "status"
	}
	m.x.Observer.Observe(&history.Record{Kind: history.KindInjection, Injection: in})
	if m.answer == "" {
		return 0, &net.OpError{Op: "dial", Net: "mem", Err: syscall.ECONNREFUSED}
	}
	m.rest = strings.NewReader(m.answer)
	return len(p), nil
}

func (m *madeUp) Read(p []byte) (int, error) {
	if m.dead {
		return m.rest.Read(p)
	}
	return m.Conn.Read(p)
}

func TestMadeUpRefusalsAreNotTheTargets(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		end          history.End
		status       int
		waits        string
	}{
		{"refused dial – another attempt, as after a real one", "", history.EndUnreachable, 0, "[250ms 250ms 250ms]"},
		{"503 – another attempt", "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", history.EndStatus, 503, "[250ms 250ms 250ms]"},
		{"429 with Retry-After – waits as long", "HTTP/1.1 429 X\r\nRetry-After: 4\r\nContent-Length: 0\r\n\r\n", history.EndStatus, 429, "[250ms 4s 4s]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, seen := newTarget(t), new(recorder)
				var token, call string
				g.call = func(v *visit) { token, call = v.token, v.id; primed(v) }
				g.resume = func(v *visit, _ int) { rest(v, token, call) }
				resumes := 0
				g.hurt = func(conn net.Conn) Link {
					return &madeUp{Conn: conn, answer: c.answer, pick: func() bool { resumes++; return resumes < 3 }}
				}
				cfg := g.config(one)
				cfg.Observer, cfg.Resume.Attempts = seen, 1 // a single failure of the target would end it
				rep, err := g.run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				has(t, "outcomes", rep.Outcomes[history.OutcomeCompleted], 1)
				has(t, "ends", seen.ends(), fmt.Sprint([]history.End{history.EndTruncated, c.end, c.end, history.EndClean}))
				has(t, "answers of the target", rep.Resumes.ByStatus, map[int]int64{0: 2, 200: 1})
				has(t, "requests of the target", len(g.of("GET")), 1)
				var waits []time.Duration
				for _, rec := range seen.kind(history.KindAttempt)[1:] {
					waits = append(waits, rec.Exchange.Waited)
				}
				has(t, "waits", waits, c.waits)
				if c.status != 0 {
					has(t, "status", seen.kind(history.KindHead)[1].Head.Status, c.status)
				}
			})
		})
	}
}

// slow reports a fault that lasts, and lets every byte through.
type slow struct {
	net.Conn
	x    Exchange
	told bool
	ends bool
}

func (l *slow) Begin(x Exchange) { l.x = x }
func (l *slow) End() bool        { return true }

func (l *slow) Read(p []byte) (int, error) {
	if !l.told && l.x.Observer != nil {
		l.told = true
		l.x.Observer.Observe(&history.Record{Kind: history.KindInjection, Injection: history.Injection{
			Kind: "delay", Place: "test", For: time.Second, Ends: l.ends,
		}})
	}
	return l.Conn.Read(p)
}

func TestLastingFaultsDoNotExcuseTheTarget(t *testing.T) {
	for ends, want := range map[bool]history.Outcome{false: history.OutcomeFailed, true: history.OutcomeIndeterminate} {
		synctest.Test(t, func(t *testing.T) {
			g, seen := newTarget(t), new(recorder)
			g.call = func(v *visit) { v.sse(); v.send("data:\n\n") } // cut before any id
			g.hurt = func(conn net.Conn) Link { return &slow{Conn: conn, ends: ends} }
			cfg := g.config(one)
			cfg.Observer = seen
			if _, err := g.run(cfg); err != nil {
				t.Fatal(err)
			}
			has(t, "injections", len(seen.kind(history.KindInjection)), 1)
			has(t, "outcome", seen.kind(history.KindSettled)[0].Outcome, want)
		})
	}
}

// handshaker cuts the first initialize that a stream sends.
type handshaker struct {
	net.Conn
	x    Exchange
	once *bool
	dead bool
}

func (l *handshaker) Begin(x Exchange) { l.x = x }
func (l *handshaker) End() bool        { return !l.dead }

func (l *handshaker) Read(p []byte) (int, error) {
	if l.x.Handshake == nil || *l.once {
		return l.Conn.Read(p)
	}
	*l.once, l.dead = true, true
	l.x.Handshake.Observe(&history.Record{Kind: history.KindInjection, Link: l.x.Link, Injection: history.Injection{Kind: "rst", Place: "initialize", Ends: true}})
	return 0, &net.OpError{Op: "read", Net: "mem", Err: syscall.ECONNRESET}
}

func TestHandshakeCanBeHurt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := newTarget(t), new(recorder)
		once := false
		g.hurt = func(conn net.Conn) Link { return &handshaker{Conn: conn, once: &once} }
		cfg := g.config(PlanConfig{Seed: 1, Streams: 1, Sessions: 2, Calls: 4})
		cfg.Observer = seen
		rep, err := g.run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		has(t, "outcomes", rep.Outcomes, "[0 3 0 1 0 0 0 0]")
		has(t, "sessions", rep.Sessions, 2) // the next arrival opened the second
		all := seen.of[2].all
		if len(all) != 2 || all[0].Kind != history.KindInjection || all[0].Link == 0 || all[1].Outcome != history.OutcomeNotSent {
			t.Errorf("stream 2 has %d records, the first of kind %d, and ends with outcome %d", len(all), all[0].Kind, all[len(all)-1].Outcome)
		}
	})
}
