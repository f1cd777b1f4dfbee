package judge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// healthyCut is a call that was cut once and lost nothing.
const healthyCut = `
stream 1 session 1 load
post
head 200 sse
prime
m 1-2
cut rst mid-event
end reset
resume asked=100ms waited=105ms
head 200 sse missed=2
m 3-5
response
end clean
settled completed
ledger 5
`

const healthyControl = `
stream 90 session 9 control
post
head 200 sse
prime
m 1-5 total=5
response
end clean
settled completed
ledger 5
`

func TestHealthyRunHolds(t *testing.T) {
	v := judgeScript(ledgerSetup(), parse(t, healthyControl+healthyCut+canaryScript), wellTail())
	balance(t, v)
	if v.Word != judge.Holds || len(v.Why) != 0 {
		t.Fatalf("%s: %v", v.Word, v.Why)
	}
	if want := "5 messages in 1 stream survived 1 cut: none lost, none repeated, all in order."; v.Sentence != want {
		t.Errorf("sentence %q, want %q", v.Sentence, want)
	}
	if v.Messages.Delivered != 5 || v.CutsAtRisk != 1 || v.JudgedCuts != 1 || v.LossBound95 != 1 {
		t.Errorf("delivered %d, at risk %d, judged %d, bound %v", v.Messages.Delivered, v.CutsAtRisk, v.JudgedCuts, v.LossBound95)
	}
	r := v.Resumes
	if r.Attempted != 1 || r.Succeeded != 1 || r.ReplayedMessages != 2 || r.ByStatus[200] != 1 {
		t.Errorf("resumes %+v", r)
	}
	if v.Control.Calls != 1 || v.Control.Complete != 1 || v.Control.MessagesPerCall != 5 || !v.Canary.Convicted {
		t.Errorf("control %+v, canary %+v", v.Control, v.Canary)
	}
	f := v.Faults
	if f.Injected != 1 || f.Cuts != 1 || f.ByKind["rst"] != 1 || f.ByPlace["mid-event"] != 1 || len(f.ByKindAndPlace) != 1 || f.ByKindAndPlace[0].AtRisk != 1 {
		t.Errorf("faults %+v", f)
	}
}

func TestZeroIsInconclusive(t *testing.T) {
	if w := (judge.Verdict{}).Word; w != judge.Inconclusive {
		t.Errorf("the zero verdict is %s", w)
	}
	v := judge.New(judge.Setup{}).Finish(judge.Tail{})
	if v.Word != judge.Inconclusive || len(v.Why) == 0 {
		t.Errorf("the run that never was: %s %v", v.Word, v.Why)
	}
	full := judgeScript(judge.Setup{}, parse(t, healthyCut+canaryScript), wellTail())
	if full.Word != judge.Inconclusive {
		t.Errorf("a run without a setup: %s", full.Word)
	}
}

// TestWord has everything that decides between the three words.
func TestWord(t *testing.T) {
	const good = healthyControl + healthyCut + canaryScript
	lossy := start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done
	late := "stream 1 session 1 load\npost\nhead 200 sse\nm 1-2\n" + cutAndResume + "m 3-5\n" + done // unprimed
	rows := []struct {
		name, text string
		setup      func(*judge.Setup)
		tail       func(*judge.Tail)
		want       judge.Word
		why        string
	}{
		{"all well – holds", good, nil, nil, judge.Holds, ""},
		{"no canary – inconclusive", healthyCut, nil, nil, judge.Inconclusive, "no canary"},
		{"canary not convicted – inconclusive", healthyCut + strings.Replace(canaryScript, "m 1 total=3", "m 1-2 total=3", 1), nil, nil, judge.Inconclusive, "canary was not convicted"},
		{"canary never answered – holds", healthyCut + "stream 99 session 9 canary\npost\nhead 200 sse\nprime\nm 1-3\nwait 30s\nend deadline\nsettled failed\nledger 3", nil, nil, judge.Holds, ""},
		{"records dropped – inconclusive", good, nil, func(t *judge.Tail) { t.RecordsDropped = 1 }, judge.Inconclusive, "dropped from the history"},
		{"stopped early – inconclusive", good, nil, func(t *judge.Tail) { t.Stopped = "interrupted" }, judge.Inconclusive, "stopped before its plan was carried out: interrupted"},
		{"calls that were not what they were meant to be – inconclusive", good, nil, func(t *judge.Tail) { t.Doubt = "all 3 control calls ended in an error" }, judge.Inconclusive, "all 3 control calls ended in an error"},
		{"loss in a run that was stopped early – violated", lossy + canaryScript, nil, func(t *judge.Tail) { t.Stopped = "at the first violation" }, judge.Violated, "first violation"},
		{"no trailer – inconclusive", good, nil, func(t *judge.Tail) { t.Trailer = false }, judge.Inconclusive, "no trailer"},
		{"ledger full – inconclusive", good, nil, func(t *judge.Tail) { t.LedgerDropped = 2 }, judge.Inconclusive, "no room for 2 calls"},
		{"saturated, streams touched – inconclusive", good, nil, func(t *judge.Tail) { t.Saturated, t.Touched = true, 3 }, judge.Inconclusive, "3 streams were touched"},
		{"saturated, nothing touched – holds", good, nil, func(t *judge.Tail) { t.Saturated = true }, judge.Holds, ""},
		{"started late, nothing touched – holds", good, nil, func(t *judge.Tail) { t.StartDelayP99 = 3e9 }, judge.Holds, ""},
		{"planned streams never ran – inconclusive", good, nil, func(t *judge.Tail) { t.Planned = 2 }, judge.Inconclusive, "never opened"},
		{"arrivals dropped and said so – holds", good, nil, func(t *judge.Tail) { t.Planned, t.DroppedArrivals = 2, 1 }, judge.Holds, ""},
		{"loss – violated", lossy + canaryScript, nil, nil, judge.Violated, ""},
		{"loss beside a dropped record – violated", lossy + canaryScript, nil, func(t *judge.Tail) { t.RecordsDropped = 1 }, judge.Violated, "dropped"},
		{"loss in a control call – violated", strings.Replace(healthyControl, "m 1-5", "m 1-4", 1) + healthyCut + canaryScript, nil, nil, judge.Violated, ""},
		{"loss, ignored – inconclusive, since the canary cannot be convicted", lossy + canaryScript, func(s *judge.Setup) { s.Ignore = []string{"no-loss"} }, nil, judge.Inconclusive, "canary was not convicted"},
		{"deviation – holds", late + canaryScript, nil, nil, judge.Holds, ""},
		{"deviation, strict – violated", late + canaryScript, strict, nil, judge.Violated, ""},
		{"no faults planned – inconclusive", good, noFaults, nil, judge.Inconclusive, "plans no faults"},
		{"place not reached – inconclusive", good, func(s *judge.Setup) { s.Named = []string{"mid-event", "at-live"} }, nil, judge.Inconclusive, "place at-live: wanted 1, got 0"},
		{"too few injections – inconclusive", good, func(s *judge.Setup) { s.Faults, s.CutCalls = 10, 1 }, nil, judge.Inconclusive, "injections: wanted 8, got 1"},
		{"profile wants more – inconclusive", good, func(s *judge.Setup) { s.Reach = []judge.Want{{Name: "cuts", Want: 2}} }, nil, judge.Inconclusive, "cuts: wanted 2, got 1"},
		{"profile wants what was got – holds", good, func(s *judge.Setup) {
			s.Reach = []judge.Want{{Name: "cuts", Want: 1}, {Name: "resumes", Want: 1}, {Name: "places", Want: 1}}
		}, nil, judge.Holds, ""},
		{"too few open – inconclusive", good, func(s *judge.Setup) { s.Reach = []judge.Want{{Name: "max_open", Want: 5}} }, func(t *judge.Tail) { t.MaxOpen = 4 }, judge.Inconclusive, "max_open: wanted 5, got 4"},
		{"contract unknown – inconclusive", good, func(s *judge.Setup) { s.Contract = "maybe" }, nil, judge.Inconclusive, "is unknown"},
		{"answered with an error – inconclusive", healthyCut + "stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-5\nerror\nend clean\nsettled completed\nledger 5" + canaryScript, nil, nil, judge.Inconclusive, "answered with an error"},
		{"settled twice – inconclusive", strings.Replace(good, "settled completed\n", "settled completed\nsettled completed\n", 2), nil, nil, judge.Inconclusive, "exactly one outcome"},
		{"nothing tells the count – inconclusive", healthyCut + canaryScript, func(s *judge.Setup) { numbered(s); s.Expected = 0 }, nil, judge.Inconclusive, "how many messages 1 call had due"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			setup, tail := ledgerSetup(), wellTail()
			if r.setup != nil {
				r.setup(&setup)
			}
			if r.tail != nil {
				r.tail(&tail)
			}
			v := judgeScript(setup, parse(t, r.text), tail)
			balance(t, v)
			if v.Word != r.want {
				t.Errorf("%s: %s %v", v.Word, v.Sentence, v.Why)
			}
			if !strings.Contains(strings.Join(v.Why, "\n"), r.why) {
				t.Errorf("why %q, want %q among it", v.Why, r.why)
			}
			if v.Word == judge.Holds && len(v.Why) > 0 {
				t.Errorf("a run that holds names reasons: %v", v.Why)
			}
		})
	}
}

// TestStillOpen: a stream that was never closed is undecided.
func TestStillOpen(t *testing.T) {
	s := parse(t, healthyCut+canaryScript)
	j := judge.New(ledgerSetup())
	j.Open(1, 7, 0)
	for i, records := range s.streams {
		st := j.Open(records[0].Session, records[0].Stream, s.kinds[i])
		for k := range records {
			st.Observe(&records[k])
		}
		st.Close()
		st.Close()
	}
	v := j.Finish(wellTail())
	balance(t, v)
	if v.Word != judge.Inconclusive || v.Streams.Undecided != 1 || v.Streams.Completed != 1 {
		t.Errorf("%s %v %+v", v.Word, v.Why, v.Streams)
	}
}

func TestNoResumption(t *testing.T) {
	text := "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1-2\ncut rst mid-event early\nend reset\nsettled failed\n" +
		"stream 2 session 1 load\nnoids\npost\nhead 200 sse\nm 1-5\nresponse\nend clean\nsettled completed\n"
	control := "stream 90 session 9 control\nnoids\npost\nhead 200 sse\nm 1-5 total=5\nresponse\nend clean\nsettled completed\n"
	setup := judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, Expected: 5, Streams: 2, Faults: 1}
	v := judgeScript(setup, parse(t, control+text), wellTail())
	balance(t, v)
	if v.Word != judge.Inconclusive || v.Streams.Indeterminate != 1 {
		t.Fatalf("%s %+v", v.Word, v.Streams)
	}
	if want := "This run cannot say whether messages survive: the server offers no resumption."; v.Sentence != want {
		t.Errorf("sentence %q", v.Sentence)
	}
	if want := "no event id in 1 control call and 2 streams (ids are optional in MCP)"; v.Why[0] != want {
		t.Errorf("why %q", v.Why)
	}
	if want := "1 of 1 cut call never got its response (50 % of all calls with this fault mix); 1 of 1 uncut call complete"; v.Seen != want {
		t.Errorf("seen %q", v.Seen)
	}
	if !strings.Contains(v.Next, "--contract none") {
		t.Errorf("next %q", v.Next)
	}
}

func TestNotResumable(t *testing.T) {
	text := start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 405\nend status\nsettled refused\nledger 5"
	v := judgeScript(ledgerSetup(), parse(t, text+canaryScript), wellTail())
	balance(t, v)
	if v.Word != judge.Inconclusive || v.Messages.Lost != 0 || !strings.Contains(v.Sentence, "no resumption") {
		t.Errorf("%s %s %+v", v.Word, v.Sentence, v.Messages)
	}
}

func TestViolatedSentences(t *testing.T) {
	lossy := start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done
	rows := []struct{ name, text, want, also string }{
		{"the resume fails", healthyControl + lossy, "1 message lost: 1 of 1 judged stream is damaged.", "The control call was complete, so it is the resume that fails."},
		{"it loses anyway", strings.Replace(healthyControl, "m 1-5", "m 1-4", 1) + lossy, "2 messages lost: 1 of 1 judged stream is damaged.",
			"1 of 1 control call is damaged too, without any fault: it loses anyway."},
		{"a stream without a fault is damaged", healthyControl + start + "m 1-4\n" + done, "1 message lost: 1 of 1 judged stream is damaged.",
			"The control call was complete, but 1 damaged stream had met no fault: it is not the resume alone that fails."},
		{"damaged before it was cut", healthyControl + start + "m 1-2\nm 2\n" + cutAndResume + "m 3-5\n" + done, "1 message repeated: 1 of 1 judged stream is damaged.",
			"The control call was complete, but 1 damaged stream had met no fault: it is not the resume alone that fails."},
		{"after the target's own close", healthyControl + start + "m 1-2\nend clean\nresume asked=50ms\nhead 200 sse\nm 4-5\n" + done, "1 message lost: 1 of 1 judged stream is damaged.",
			"The control call was complete, so it is the resume that fails."},
		{"a foreign origin is served", healthyControl + sampled("probe origin"), "origin-refused is violated 1 time.", ""},
		{"retention", healthyControl + start + "m 1-2\ncut rst mid-event\nend reset\nwait 2s\nresume\nhead 400\nend status\nsettled refused\nledger 5",
			"3 messages lost, 1 response never came: 1 of 1 judged stream is damaged.", "1 stream was refused its cursor, the youngest 2 s old: that is retention, not silent loss."},
		{"several at once", healthyControl + start + "m 1-2\n" + cutAndResume + "m 2\nm 5\nm 4\n" + done,
			"1 message lost, 1 repeated, 1 out of order: 1 of 1 judged stream is damaged.", "The control call was complete, so it is the resume that fails."},
		{"a promise without messages", healthyControl + start + "m 1 id=x\nm 2 id=x\n" + cutAndResume + "m 3-5\n" + done,
			"unique-ids is violated 1 time: 1 of 1 judged stream is damaged.",
			"The control call was complete, but 1 damaged stream had met no fault: it is not the resume alone that fails."},
	}
	for _, r := range rows {
		v := judgeScript(ledgerSetup(), parse(t, r.text+canaryScript), wellTail())
		if v.Sentence != r.want {
			t.Errorf("%s: sentence %q, want %q", r.name, v.Sentence, r.want)
		}
		if r.also == "" && strings.Contains(strings.Join(v.Also, " "), "the resume that fails") {
			t.Errorf("%s: also %q", r.name, v.Also)
		}
		if r.also != "" && !slices.Contains(v.Also, r.also) {
			t.Errorf("%s: also %q, want %q", r.name, v.Also, r.also)
		}
	}
}

// TestReachedSibling: a message that another stream of the session received is
// misdelivered, not lost.
func TestReachedSibling(t *testing.T) {
	text := start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done +
		"stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\n" + "m 3 owner=other from=1\n" + "m 3-5\n" + done
	v := judgeScript(ledgerSetup(), parse(t, text+canaryScript), wellTail())
	balance(t, v)
	if v.Messages.Lost != 0 || v.Messages.Delivered != 10 || v.Messages.Foreign != 1 || v.Word != judge.Violated {
		t.Errorf("%s %+v", v.Word, v.Messages)
	}
	if inv := invariantOf(t, v, "no-loss"); inv.Violations != 0 {
		t.Errorf("no-loss has %d violations", inv.Violations)
	}
}

// TestCutsAtRisk: a cut counts when an accepted resume followed it in a judged stream,
// cuts in a row once, a resume without a cut before it never.
func TestCutsAtRisk(t *testing.T) {
	rows := []struct {
		name, text                 string
		risk, cuts, double, judged int64
	}{
		{"one cut", healthyCut, 1, 1, 0, 1},
		{"cut, resumed, closed by the target, resumed", start + "m 1\n" + cutAndResume + "m 2\nend clean\nresume\nhead 200 sse\nm 3-5\n" + done, 1, 1, 0, 1},
		{"cut twice before anything came", start + "m 1\ncut rst mid-event\nend reset\nresume\ncut rst resume-before-headers\nend reset\nresume\nhead 200 sse\nm 2-5\n" + done, 1, 2, 1, 1},
		{"cut twice, resumed twice", start + "m 1\n" + cutAndResume + "m 2\n" + cutAndResume + "m 3-5\n" + done, 2, 2, 0, 1},
		{"cut after the response", start + "m 1-5\nresponse\ncut rst after-response\nend reset\nsettled completed\nledger 5", 0, 1, 0, 1},
		{"cut before the first id", "stream 1 session 1 load\npost\nhead 200 sse\ncut rst before-first-id early\nend reset\nsettled indeterminate\nledger 5", 0, 1, 0, 0},
		{"cut before the first id, and yet answered", start + "m 1\ncut rst mid-event early\nend reset\nresume\nhead 200 sse\nm 2-5\n" + done, 0, 1, 0, 0},
		{"undecided", start + "m 1\n" + cutAndResume + "end stopped\nsettled undecided\nledger 5", 0, 1, 0, 0},
		{"a fault that cuts nothing", start + "cut delay between-events\nm 1-5\n" + done, 0, 0, 0, 0},
	}
	for _, r := range rows {
		v := judgeScript(ledgerSetup(), parse(t, r.text+canaryScript), wellTail())
		if v.CutsAtRisk != r.risk || v.Faults.Cuts != r.cuts || v.Resumes.DoubleCuts != r.double || v.JudgedCuts != r.judged {
			t.Errorf("%s: at risk %d, cuts %d, double %d, judged %d", r.name, v.CutsAtRisk, v.Faults.Cuts, v.Resumes.DoubleCuts, v.JudgedCuts)
		}
	}
}

// TestBound: nothing lost in ten cuts at risk says at most 30 % per cut; something
// lost says nothing.
func TestBound(t *testing.T) {
	text := start + "m 1\n" + strings.Repeat(cutAndResume, 10) + "m 2-5\n" + done
	v := judgeScript(ledgerSetup(), parse(t, text+canaryScript), wellTail())
	if v.CutsAtRisk != 10 || v.LossBound95 != 0.3 {
		t.Errorf("%d at risk, bound %v", v.CutsAtRisk, v.LossBound95)
	}
	v = judgeScript(ledgerSetup(), parse(t, strings.Replace(text, "m 2-5", "m 3-5", 1)+canaryScript), wellTail())
	if v.CutsAtRisk != 10 || v.LossBound95 != 0 {
		t.Errorf("with a loss: %d at risk, bound %v", v.CutsAtRisk, v.LossBound95)
	}
}
