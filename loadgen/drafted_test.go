package loadgen

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func event(id, data string) string { return "id: " + id + "\ndata: " + data + "\n\n" }

// A draftTarget speaks the draft of resumable streams: its calls create a stream, send two
// of three messages and are cut; what follows is for the test to say.
type draftTarget struct {
	*target
	flat    bool
	more    string // of the create notification
	created bool   // false: the call is cut before
	resume  func(v *visit, n int)
	poll    string // the result of stream/poll without its streamId
	made    *visit // the call
	resumed []*visit
}

func newDraftTarget(t *testing.T, resume func(g *draftTarget, v *visit, n int)) *draftTarget {
	g := &draftTarget{target: newTarget(t), created: true, poll: `"status":"completed","pendingMessages":true,"hasRequest":false,"hasError":false`}
	g.resume = func(v *visit, n int) { resume(g, v, n) }
	g.call = func(v *visit) {
		g.made = v
		v.sse()
		if g.created {
			v.send(g.create(v))
		}
		v.send(v.progress("1", v.token, 1, 3))
		v.send(v.progress("2", v.token, 2, 3))
	}
	g.special = func(v *visit) bool {
		switch v.rpc {
		case methodResume:
			g.claimed(v)
			g.resumed = append(g.resumed, v)
			g.resume(v, len(g.resumed))
		case methodPoll:
			g.claimed(v)
			v.json(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"streamId":"s",%s}}`, v.id, g.poll))
		default:
			return false
		}
		return true
	}
	return g
}

func (g *draftTarget) create(v *visit) string {
	fields := fmt.Sprintf(`{"streamId":"s","resumeToken":"t","requestId":%s%s}`, v.id, g.more)
	if !g.flat {
		fields = `{"stream":` + fields + `}`
	}
	return event("c", `{"jsonrpc":"2.0","method":"notifications/stream/create","params":`+fields+`}`)
}

// claimed looks at what a resume or a poll says of the stream.
func (g *draftTarget) claimed(v *visit) {
	var m struct {
		Params struct{ StreamID, ResumeToken string }
	}
	if err := json.Unmarshal(v.body, &m); err != nil || m.Params.StreamID != "s" || m.Params.ResumeToken != "t" {
		g.t.Errorf("it is asked for by %s", v.body)
	}
}

const end = `{"jsonrpc":"2.0","method":"notifications/stream/end","params":{"streamId":"s"}}`

// rest is what a good target sends on a resume.
func (g *draftTarget) rest(v *visit) {
	v.sse()
	v.send(v.progress("3", g.made.token, 3, 3) + result("r", g.made.id) + event("e", end))
	v.send(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", v.id))
	v.end()
}

// refuse answers a resume with an error.
func (v *visit) refuse(code int, reason string) {
	v.json(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no","data":{"reason":%q}}}`, v.id, code, reason))
}

func (g *draftTarget) go1(t *testing.T, change ...func(*Config)) (*recorder, Report) {
	seen, cfg := new(recorder), g.config(PlanConfig{Seed: 1, Streams: 1})
	cfg.Observer, cfg.Draft, cfg.Revision = seen, true, "2025-06-18"
	for _, c := range change {
		c(&cfg)
	}
	rep, err := g.run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return seen, rep
}

func (r *recorder) classes() (all []history.Class) {
	for _, rec := range r.kind(history.KindEvent) {
		all = append(all, rec.Event.Class)
	}
	return all
}

func TestDraft_ACutCallIsTakenUpByStreamResume(t *testing.T) {
	for _, flat := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newDraftTarget(t, func(g *draftTarget, v *visit, _ int) { g.rest(v) })
			g.flat, g.more = flat, `,"resumeInterval":{"min":0.25,"max":60}`
			seen, rep := g.go1(t)
			has(t, "outcomes", rep.Outcomes, "[0 1 0 0 0 0 0 0]")
			if body := string(g.of("initialize")[0].body); !strings.Contains(body, `"capabilities":{"streams":{}}`) {
				t.Errorf("the capability is not declared: %s", body)
			}
			has(t, "GET", len(g.of("GET")), 0)
			has(t, "events", seen.classes(), "[9 3 3 3 6 10 2]")
			has(t, "ends", seen.ends(), "[3 1]")
			r := g.resumed[0]
			has(t, "cursor", r.header.Get("Last-Event-Id"), "2")
			if r.id == g.made.id || r.id == "" {
				t.Errorf("the resume has id %q, the call %q", r.id, g.made.id)
			}
			if wait := r.at.Sub(g.made.at); wait < 250*time.Millisecond || wait > time.Second {
				t.Errorf("it waited for %v, asked for 250ms", wait)
			}
			has(t, "resume", seen.kind(history.KindAttempt)[1].Exchange.Resume, true)
			for _, rec := range seen.kind(history.KindEvent) {
				if rec.Event.Owner != history.OwnerSelf {
					t.Errorf("class %d is of owner %d", rec.Event.Class, rec.Event.Owner)
				}
			}
		})
	}
}

// Without an end the call is not over, though its response is there.
func TestDraft_TheEndIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) {
			if n > 1 {
				v.sse()
				v.send(event("e", end))
				v.end()
				return
			}
			v.sse()
			v.send(v.progress("3", g.made.token, 3, 3) + result("r", g.made.id))
		})
		seen, rep := g.go1(t)
		has(t, "outcomes", rep.Outcomes, "[0 1 0 0 0 0 0 0]")
		has(t, "cursor", g.resumed[1].header.Get("Last-Event-Id"), "r")
		has(t, "events", seen.classes(), "[9 3 3 3 6 10]")
	})
	synctest.Test(t, func(t *testing.T) { // it never comes
		g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) {
			v.sse()
			if n == 1 {
				v.send(v.progress("3", g.made.token, 3, 3) + result("r", g.made.id))
			}
			v.end()
		})
		_, rep := g.go1(t)
		has(t, "outcomes", rep.Outcomes, "[0 0 0 0 0 0 0 1]")
	})
}

func TestDraft_RefusalsForGoodAndForNow(t *testing.T) {
	for _, tc := range []struct {
		code     int
		reason   string
		outcomes string
		resumes  int
		class    history.Class
	}{
		{-32602, "unknown_stream", "[0 0 0 0 1 0 0 0]", 1, history.ClassRefusal},
		{-32000, "messages_gone", "[0 0 0 0 1 0 0 0]", 1, history.ClassRefusal},
		{-32000, "superseded", "[0 1 0 0 0 0 0 0]", 2, history.ClassOther},
		{-32603, "", "[0 1 0 0 0 0 0 0]", 2, history.ClassOther},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) {
				if n > 1 {
					g.rest(v)
					return
				}
				v.refuse(tc.code, tc.reason)
			})
			seen, rep := g.go1(t)
			has(t, tc.reason+": outcomes", rep.Outcomes, tc.outcomes)
			has(t, tc.reason+": resumes", len(g.resumed), tc.resumes)
			has(t, tc.reason+": class", seen.classes()[3], tc.class)
		})
	}
}

// What nobody created, or may not be resumed, is not resumed.
func TestDraft_NoStreamNoResume(t *testing.T) {
	for name, change := range map[string]func(*draftTarget){
		"cut before it was created": func(g *draftTarget) { g.created = false },
		"max is 0":                  func(g *draftTarget) { g.more = `,"resumeInterval":{"max":0}` },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDraftTarget(t, func(g *draftTarget, v *visit, _ int) { g.rest(v) })
			change(g)
			_, rep := g.go1(t)
			has(t, name+": outcomes", rep.Outcomes, "[0 0 0 0 0 0 0 1]") // the target has cut it
			has(t, name+": resumes", len(g.resumed), 0)
		})
	}
	synctest.Test(t, func(t *testing.T) { // by us
		g := newDraftTarget(t, func(g *draftTarget, v *visit, _ int) { g.rest(v) })
		g.hurt = func(c net.Conn) Link { return &cutter{Conn: c, after: 100} }
		_, rep := g.go1(t)
		has(t, "outcomes", rep.Outcomes, "[0 0 1 0 0 0 0 0]")
		has(t, "resumes", len(g.resumed), 0)
	})
	synctest.Test(t, func(t *testing.T) { // a call without a stream is over with its response
		g := newDraftTarget(t, nil)
		g.call = newTarget(t).call
		_, rep := g.go1(t)
		has(t, "outcomes", rep.Outcomes, "[0 1 0 0 0 0 0 0]")
	})
}

func TestDraft_Polls(t *testing.T) {
	for name, tc := range map[string]struct {
		poll string
		want history.Poll
	}{
		"completed": {`"status":"completed","pendingMessages":true,"hasRequest":false,"hasError":false`, history.Poll{Status: 200, Answered: true, Completed: true, Pending: true}},
		"live":      {`"status":"live","pendingMessages":true,"hasRequest":true,"hasError":true`, history.Poll{Status: 200, Answered: true, Pending: true, HasRequest: true, HasError: true}},
		"half":      {`"status":"live"`, history.Poll{Status: 200}},
		"tea":       {`"status":"tea","pendingMessages":false,"hasRequest":false,"hasError":false`, history.Poll{Status: 200, Answered: true, Strange: true}},
		"another":   {`"status":"live","pendingMessages":false,"hasRequest":false,"hasError":false,"streamId":"x"`, history.Poll{Status: 200, Answered: true, Strange: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) {
				if n < 12 {
					v.sse()
					return
				}
				g.rest(v)
			})
			g.poll = tc.poll
			seen, _ := g.go1(t)
			polls := seen.kind(history.KindPoll)
			if n := len(polls); n == 0 || n >= 12 {
				t.Fatalf("%s: %d polls before 12 resumes", name, n)
			}
			has(t, name, polls[0].Poll, fmt.Sprint(tc.want))
			has(t, name+": cursor", g.of(methodPoll)[0].header.Get("Last-Event-Id"), "2")
		})
	}
	synctest.Test(t, func(t *testing.T) { // a sampled stream is polled when it is complete
		g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) { g.rest(v) })
		seen, _ := g.go1(t, func(c *Config) { c.Probes = 1 })
		polls := seen.kind(history.KindPoll)
		has(t, "attempt of the last poll", polls[len(polls)-1].Attempt, 1)
		if last := g.resumed[len(g.resumed)-1]; string(last.header.Get("Last-Event-Id")) == "2" {
			t.Errorf("no probe has asked for another cursor")
		}
	})
}

// What is of another stream is foreign, and what is none is illegal.
func TestDraft_WhoseFramesTheyAre(t *testing.T) {
	for name, tc := range map[string]struct {
		data    string
		class   history.Class
		owner   history.Owner
		illegal history.Illegal
	}{
		"create for another call": {`{"jsonrpc":"2.0","method":"notifications/stream/create","params":{"streamId":"a","resumeToken":"b","requestId":77}}`, history.ClassCreate, history.OwnerOtherStream, 0},
		"create without a token":  {`{"jsonrpc":"2.0","method":"notifications/stream/create","params":{"streamId":"a"}}`, history.ClassCreate, history.OwnerSelf, history.IllegalRPC},
		"end of another stream":   {`{"jsonrpc":"2.0","method":"notifications/stream/end","params":{"streamId":"a"}}`, history.ClassEnd, history.OwnerNobody, 0},
		"end of none":             {`{"jsonrpc":"2.0","method":"notifications/stream/end"}`, history.ClassEnd, history.OwnerNobody, history.IllegalRPC},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDraftTarget(t, func(g *draftTarget, v *visit, n int) {
				if n == 1 {
					v.sse()
					v.send(event("x", tc.data))
					return
				}
				g.rest(v)
			})
			seen, rep := g.go1(t)
			has(t, name+": outcomes", rep.Outcomes, "[0 1 0 0 0 0 0 0]")
			e := seen.kind(history.KindEvent)[3].Event
			has(t, name, fmt.Sprint(e.Class, e.Owner, e.Illegal), fmt.Sprint(tc.class, tc.owner, tc.illegal))
		})
	}
}
