package judge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// twin sets a run up in which the five messages of count are told by comparison.
func twin(s *judge.Setup) {
	*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleTwin, IDs: true, Streams: 1, Faults: 1,
		Calls: []judge.CallSetup{{Name: "count", Twin: 5}}}
}

// mute sets a run up in which only the response of count is judged.
func mute(s *judge.Setup) {
	*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleResponse, IDs: true, Streams: 1, Faults: 1,
		Calls: []judge.CallSetup{{Name: "count", ResponseOnly: true}}}
}

// threeCalls has one call of each kind.
func threeCalls(s *judge.Setup) {
	*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleTwin, IDs: true, Streams: 3, Faults: 3,
		Calls: []judge.CallSetup{{Name: "count", Expected: 5}, {Name: "log", Twin: 3, Method: "notifications/message"}, {Name: "ping", ResponseOnly: true}}}
}

const (
	// The canary of a run whose oracle is a comparison: message 2 of 5 is dropped.
	twinCanary = "stream 99 session 9 canary\npost\nhead 200 sse\nprime\nm 1\nm 3-5\nresponse\nend clean\nsettled completed\n"
	cut        = "cut rst mid-event\nend reset\nresume asked=100ms waited=105ms\nhead 200 sse\n"
	finish     = "response\nend clean\nsettled completed\n"
)

// load begins a primed stream of the load that makes one of the calls.
func load(stream, call string) string {
	return "stream " + stream + " session 1 load\npost call=" + call + "\nhead 200 sse\nprime\n"
}

// A case of oracles is one history: the word, the deciding invariants that are broken,
// and what has to be said.
type told struct {
	name, text string
	setup      func(*judge.Setup)
	canary     string
	word       judge.Word
	broken     string
	says       string // part of the sentence, of Also, Why, Seen or Next
}

func (c *told) run(t *testing.T) judge.Verdict {
	t.Helper()
	var setup judge.Setup
	c.setup(&setup)
	if err := setup.Validate(); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	v := judgeScript(setup, parse(t, c.text+c.canary), wellTail())
	balance(t, v)
	var broken []string
	for _, inv := range v.Invariants {
		if inv.Decides && inv.Violations > 0 {
			broken = append(broken, inv.Name)
		}
	}
	if got := strings.Join(broken, ","); v.Word != c.word || got != c.broken {
		t.Errorf("%s: %s %q, want %s %q\n%s %v\n%+v", c.name, v.Word, got, c.word, c.broken, v.Sentence, v.Why, v.Messages)
	}
	all := strings.Join(slices.Concat([]string{v.Sentence}, v.Also, v.Why, []string{v.Seen}, v.SeenAlso, []string{v.Next}), "\n")
	if !strings.Contains(all, c.says) {
		t.Errorf("%s: %q is not among\n%s", c.name, c.says, all)
	}
	return v
}

func TestTwin(t *testing.T) {
	const begun = "m 1-2\n" + cut
	logs := func(s *judge.Setup) { twin(s); s.Calls[0].Method = "notifications/message" }
	none := both(twin, under(judge.NoPromise))
	first := load("1", "0")
	for _, c := range []told{
		{"all came – holds", first + begun + "m 3-5\n" + finish, twin, twinCanary, judge.Holds, "", "5 messages in 1 stream survived 1 cut: none lost, none repeated, all in order.\nThe messages of count were told apart by comparison with the control calls."},
		{"lost", first + begun + "m 3\nm 5\n" + finish, twin, twinCanary, judge.Violated, "no-loss", "1 message lost"},
		{"the tail lost", first + begun + "m 3\n" + finish, twin, twinCanary, judge.Violated, "no-loss", "2 messages lost"},
		{"repeated", first + begun + "m 2-5\n" + finish, twin, twinCanary, judge.Violated, "no-duplicate", ""},
		{"out of order", first + begun + "m 4\nm 3\nm 5\n" + finish, twin, twinCanary, judge.Violated, "in-order,progress-increases", ""},
		{"altered after the cut", first + begun + "m 3 unlike\nm 4-5\n" + finish, twin, twinCanary, judge.Violated, "intact", "1 message corrupt: 1 of 1 judged stream is damaged."},
		{"altered before any fault – the comparison does not fit", first + "m 1 unlike\nm 2\n" + cut + "m 3-5\n" + finish, twin, twinCanary, judge.Inconclusive, "", "before any fault 1 call brought messages equal to none of the control calls"},
		{"altered in the canary too – the comparison does not fit", first + begun + "m 3 unlike\nm 4-5\n" + finish, twin,
			strings.Replace(twinCanary, "m 3-5", "m 3 unlike\nm 4-5", 1), judge.Inconclusive, "", "does not fit"},
		{"lost although another call does not fit", first + begun + "m 3\nm 5\n" + finish + load("2", "0") + "m 1 unlike\nm 2-5\n" + finish, twin, twinCanary, judge.Violated, "no-loss", "does not fit"},
		{"one that was never sent", first + begun + "m 3-5\nm 6 unlike\n" + finish, twin, twinCanary, judge.Violated, "intact", ""},
		{"log messages – hold", first + "m 1-2 log owner=unmarked\n" + cut + "m 3-5 log owner=unmarked\n" + finish, logs,
			strings.NewReplacer("m 1\n", "m 1 log\n", "m 3-5", "m 3-5 log").Replace(twinCanary), judge.Holds, "", ""},
		{"log message altered", first + "m 1-2 log\n" + cut + "m 3 log unlike\nm 4-5 log\n" + finish, logs, twinCanary, judge.Violated, "intact", ""},
		{"log message altered, among others that nobody counts", first + "other\nm 1-2 log\n" + cut + "other\nm 3 log unlike\nm 4-5 log\n" + finish, logs, twinCanary, judge.Violated, "intact", ""},
		{"log messages and others – hold", first + "other\nm 1-2 log\n" + cut + "other\nm 3-5 log\n" + finish, logs, twinCanary, judge.Holds, "", ""},
		{"a log line beside progress – holds", first + "other\n" + begun + "m 3-5\n" + finish, twin, twinCanary, judge.Holds, "", ""},
		{"fell into the gap, as the contract allows", first + begun + "m 5\n" + finish, none, twinCanary, judge.Holds, "", "2 fell between two links"},
		{"came after the response", first + begun + "m 3-5\nresponse\nm 3\nend clean\nsettled completed\n", twin, twinCanary, judge.Violated, "no-duplicate,silent-after-response", ""},
	} {
		c.run(t)
	}
}

// TestTwinControl: control calls come before there is anything to compare them with.
func TestTwinControl(t *testing.T) {
	control := "stream 90 session 9 control\npost\nhead 200 sse\nprime\nm 1-5 unlike\nresponse\nend clean\nsettled completed\n"
	c := told{"control calls without numbers", control + load("1", "0") + "m 1-2\n" + cut + "m 3-5\n" + finish, twin, twinCanary, judge.Holds, "", ""}
	v := c.run(t)
	if v.Control.Complete != 1 || v.Control.MessagesPerCall != 5 {
		t.Errorf("control %+v", v.Control)
	}
	c = told{"control calls that were numbered afterwards", strings.Replace(control, " unlike", "", 1) + load("1", "0") + "m 1-2\n" + cut + "m 3-5\n" + finish,
		twin, twinCanary, judge.Holds, "", ""}
	if v := c.run(t); v.Control.Complete != 1 || v.Control.MessagesPerCall != 5 {
		t.Errorf("control %+v", v.Control)
	}
}

func TestResponseOnly(t *testing.T) {
	first := load("1", "0")
	asked := func(s *judge.Setup) { mute(s); s.Calls[0].ResponseOnly = false }
	control := "stream 90 session 9 control\npost\nhead 200 sse\nprime\nother\nresponse\nend clean\nsettled completed\n"
	for _, c := range []told{
		{"answered after the cut – holds", first + cut + finish, mute, muteCanaryScript, judge.Holds, "",
			"1 response in 1 stream survived 1 cut: each came once; only the response is judged, since count sends no messages before it."},
		{"log lines before it – holds", control + first + "other\n" + cut + finish, mute, muteCanaryScript, judge.Holds, "",
			"only the response is judged, since nothing numbers what count sends before it."},
		{"never answered", first + cut + "wait 40s\nend deadline\nsettled failed\n", mute, muteCanaryScript, judge.Violated, "one-response,resume-progress", "1 response never came"},
		{"never answered, as the contract allows", first + cut + "wait 40s\nend deadline\nsettled failed\n" + load("2", "0") + cut + finish, both(mute, under(judge.NoPromise)), muteCanaryScript, judge.Holds, "",
			`1 response in 2 streams survived 2 cuts: each other came once; 1 response of a cut call never came, as the contract "none" allows`},
		{"answered twice", first + cut + "response\nresponse\nend clean\nsettled completed\n", mute, muteCanaryScript, judge.Violated, "one-response", ""},
		{"refused", first + "cut rst mid-event\nend reset\nresume\nhead 404\nend status\nsettled refused\n", mute, muteCanaryScript, judge.Violated, "one-response", ""},
		{"messages all the same – cannot be told", first + "m 1-2\n" + cut + "m 3-5\n" + finish, mute, muteCanaryScript, judge.Inconclusive, "", "1 call brought messages that no control call had shown"},
		{"progress without a number all the same – cannot be told", first + cut + "m 1 p=0.5\n" + finish, mute, muteCanaryScript, judge.Inconclusive, "", "where a message carries its number"},
		{"messages that nobody wants to judge – holds", first + "m 1-2\n" + cut + "m 4\n" + finish, asked, muteCanaryScript, judge.Holds, "", "only the response is judged."},
		{"a message behind the response", first + cut + "response\nm 1\nend clean\nsettled completed\n", mute, muteCanaryScript, judge.Violated, "silent-after-response", ""},
		{"a message of another stream", first + cut + "m 1 owner=other\n" + finish, mute, muteCanaryScript, judge.Violated, "own-stream", ""},
		{"not cut – inconclusive", first + finish, mute, muteCanaryScript, judge.Inconclusive, "", "This run cannot say whether responses survive: "},
		{"a canary that nobody convicts – inconclusive", first + cut + finish, mute, twinCanary, judge.Inconclusive, "", "canary was not convicted"},
	} {
		v := c.run(t)
		for _, name := range []string{"no-loss", "no-duplicate", "in-order"} {
			if inv := invariantOf(t, v, name); inv.State != "not applicable" || inv.Reason != "only the response is judged" {
				t.Errorf("%s: %s is %s, %q", c.name, name, inv.State, inv.Reason)
			}
		}
	}
	expected := func(s *judge.Setup) { asked(s); s.Calls[0].Expected = 5 }
	v := (&told{"a number that nobody judges", first + cut + "wait 40s\nend deadline\nsettled failed\n", expected, muteCanaryScript, judge.Violated, "one-response,resume-progress", ""}).run(t)
	if g := v.Guilty[0]; g.Expected != 0 || g.ExpectedFrom != "" {
		t.Errorf("expected %d, from %q", g.Expected, g.ExpectedFrom)
	}
	v = (&told{"the bound is about responses", first + cut + finish, mute, muteCanaryScript, judge.Holds, "", ""}).run(t)
	if v.CutsAtRisk != 1 || v.LossBound95 != 1 || v.JudgedCuts != 1 {
		t.Errorf("%d at risk, %d judged, bound %v", v.CutsAtRisk, v.JudgedCuts, v.LossBound95)
	}
}

// TestSeveralCalls: what is expected of a stream is what its call brings.
func TestSeveralCalls(t *testing.T) {
	a := load("1", "0") + "m 1-2\n" + cut + "m 3-5\n" + finish
	b := load("2", "1") + "m 1 log\n" + cut + "m 2-3 log\n" + finish
	c := load("3", "2") + cut + finish
	for _, x := range []told{
		{"each as it should – holds", a + b + c, threeCalls, twinCanary, judge.Holds, "",
			"8 messages in 3 streams survived 3 cuts: none lost, none repeated, all in order.\nThe messages of log were told apart by comparison with the control calls.\nOf ping only the response is judged."},
		{"the second one's tail lost", a + strings.Replace(b, "m 2-3", "m 2", 1) + c, threeCalls, twinCanary, judge.Violated, "no-loss", ""},
		{"the first one has more than the second", strings.Replace(a, "m 3-5", "m 3", 1) + b + c, threeCalls, twinCanary, judge.Violated, "no-loss", "2 messages lost"},
		{"more than were ever sent", a + strings.Replace(b, "m 2-3", "m 2-5", 1) + c, threeCalls, twinCanary, judge.Violated, "intact", ""},
		{"the third one's response lost", a + b + load("3", "2") + cut + "wait 40s\nend deadline\nsettled failed\n", threeCalls, twinCanary, judge.Violated, "one-response,resume-progress", ""},
		{"the third one sends a message", a + b + load("3", "2") + "m 1\n" + cut + finish, threeCalls, twinCanary, judge.Inconclusive, "", "no control call had shown"},
		{"a call that the setup does not know", a + b + c + load("4", "7") + "m 1\n" + finish, threeCalls, twinCanary, judge.Inconclusive, "", "nothing tells how many messages 1 call had due"},
	} {
		v := x.run(t)
		if inv := invariantOf(t, v, "progress-increases"); inv.Role != "watched" {
			t.Errorf("%s: progress-increases is %s", x.name, inv.Role)
		}
	}
}

// TestLogMessagesAsPayload: numbers count wherever they come; progress-increases is about
// progress alone.
func TestLogMessagesAsPayload(t *testing.T) {
	logs := func(s *judge.Setup) {
		*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, IDs: true, Streams: 1, Faults: 1,
			Calls: []judge.CallSetup{{Name: "log", Expected: 5, Method: "notifications/message"}}}
	}
	first := load("1", "0") + "m 1-2 log owner=unmarked\n" + cut
	for _, x := range []told{
		{"all – holds", first + "m 3-5 log\n" + finish, logs, twinCanary, judge.Holds, "", "5 messages"},
		{"progress beside them that counts otherwise – holds", first + "m 3 log\nm 9 p=3\nm 4-5 log\nm 9 p=4\n" + finish, logs, twinCanary, judge.Holds, "", ""},
		{"progress values in them say nothing – holds", load("1", "0") + "m 9 p=7\nm 1-2 log ordered\n" + cut + "m 3-5 log ordered\nm 9 p=8\n" + finish, logs, twinCanary, judge.Holds, "", ""},
		{"progress beside them that falls", first + "m 9 p=3\nm 3 log\nm 9 p=2\nm 4-5 log\n" + finish, logs, twinCanary, judge.Violated, "progress-increases", ""},
		{"one lost", first + "m 3 log\nm 5 log\n" + finish, logs, twinCanary, judge.Violated, "no-loss", ""},
		{"one again", first + "m 2-5 log\n" + finish, logs, twinCanary, judge.Violated, "no-duplicate", ""},
	} {
		x.run(t)
	}
}

func TestDigest(t *testing.T) {
	with := func(digests bool) func(*judge.Setup) {
		return func(s *judge.Setup) {
			numbered(s)
			s.Calls = []judge.CallSetup{{Name: "count", Expected: 5, Digests: digests}}
		}
	}
	runRows(t, []row{
		{name: "right – holds", text: start + "m 1-2 digest=right\n" + cutAndResume + "m 3-5 digest=right\n" + done, want: "holds", setup: with(true)},
		{name: "wrong – violated", text: start + "m 1-2 digest=right\n" + cutAndResume + "m 3 digest=wrong\nm 4-5 digest=right\n" + done, want: "violated", count: 1, setup: with(true)},
		{name: "wrong and repeated – once each", text: start + "m 1-2\n" + cutAndResume + "m 2 hash=x digest=wrong\nm 3-5\n" + done, want: "violated", count: 1, setup: with(false)},
		{name: "wrong, without being asked for – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-5 digest=wrong\n" + done, want: "violated", count: 3, setup: with(false)},
		{name: "wrong, on another's message – that is another promise", text: start + "m 1-2 digest=right\n" + cutAndResume + "m 4 owner=session digest=wrong\nm 3-5\n" + done, want: "holds", setup: with(true)},
		{name: "promised and not there – inconclusive", text: healthyCut, want: "inconclusive", setup: with(true)},
		{name: "none – not exercised", text: healthyCut, want: "not exercised", setup: with(false)},
	}, "intact")
}

// both6 has control calls that agree, of which the second number their messages as well.
func both6() judge.Setup {
	return judge.Setup{Calls: []judge.CallSetup{{Name: "a", Twin: 2}, {Name: "b", Twin: 6}}}
}

// TestLearnSeveralCalls resolves the oracle over all calls.
func TestLearnSeveralCalls(t *testing.T) {
	control := func(call, body string) string {
		return "stream 1 session 1 control\npost call=" + call + "\nhead 200 sse\nprime\n" + body + "\nresponse\nend clean\nsettled completed"
	}
	var (
		five   = control("0", "m 1-5")
		six    = control("1", "m 1-6")
		silent = control("1", "other")
		bare   = control("1", "m 50 p=0.5\nm 100 p=1")
		logged = control("1", "m 1-3 log unlike")
	)
	named := func(f func(*judge.CallSetup)) judge.Setup {
		s := judge.Setup{Calls: []judge.CallSetup{{Name: "a"}, {Name: "b"}}}
		f(&s.Calls[1])
		return s
	}
	plain := named(func(*judge.CallSetup) {})
	compared := named(func(c *judge.CallSetup) { c.Twin = 2 })
	rows := []struct {
		name   string
		calls  []string
		setup  judge.Setup
		oracle judge.Oracle
		b      judge.CallSetup // the second call
	}{
		{"both numbered", []string{five, six, five, six}, plain, judge.OracleNumbered, judge.CallSetup{Expected: 6, ExpectedFrom: "control calls"}},
		{"one numbered, one without messages", []string{five, silent}, plain, judge.OracleNumbered, judge.CallSetup{ResponseOnly: true}},
		{"one numbered, one that agrees", []string{five, bare}, compared, judge.OracleTwin, judge.CallSetup{Twin: 2}},
		{"numbered and agreeing: the number counts", []string{five, six}, compared, judge.OracleNumbered, judge.CallSetup{Expected: 6, ExpectedFrom: "control calls"}},
		{"a comparison was asked for", []string{five, six}, func() judge.Setup {
			s := named(func(c *judge.CallSetup) { c.Twin = 6 })
			s.Oracle = judge.OracleTwin
			return s
		}(),
			judge.OracleTwin, judge.CallSetup{Twin: 6}},
		{"one that agrees beside one that is numbered and agrees too", []string{control("0", "m 50 p=0.5\nm 100 p=1"), six}, both6(),
			judge.OracleTwin, judge.CallSetup{Expected: 6, ExpectedFrom: "control calls"}},
		{"log messages that agree", []string{five, logged, logged}, named(func(c *judge.CallSetup) { c.Twin, c.Method = 3, "notifications/message" }),
			judge.OracleTwin, judge.CallSetup{Twin: 3, Method: "notifications/message"}},
		{"one that does not agree", []string{five, bare}, plain, judge.OracleNone, judge.CallSetup{}},
		{"one without a control call", []string{five}, plain, judge.OracleNone, judge.CallSetup{}},
		{"none has messages", []string{control("0", ""), silent}, plain, judge.OracleResponse, judge.CallSetup{ResponseOnly: true}},
		{"one was not answered", []string{five, "stream 1 session 1 control\npost call=1\nhead 200 sse\nprime\nend idle\nsettled failed"}, plain, judge.OracleNone, judge.CallSetup{}},
		{"the number is given", []string{five, control("1", "m 1-4"), control("1", "m 1-3")}, named(func(c *judge.CallSetup) { c.Expected = 4 }), judge.OracleNumbered, judge.CallSetup{Expected: 4, ExpectedFrom: "--expect"}},
		{"numbered log messages beside progress", []string{five, control("1", "m 1-2 log\nm 9 p=0.1")}, plain, judge.OracleNumbered, judge.CallSetup{Expected: 2, ExpectedFrom: "control calls"}},
	}
	for _, r := range rows {
		if r.setup.Oracle == "" {
			r.setup.Oracle = judge.OracleAuto
		}
		s := r.setup.With(learn(t, r.calls...))
		r.b.Name = "b"
		r.b.Longest, r.b.NoTotals = s.Calls[1].Longest, len(r.calls) > 1
		if s.Oracle != r.oracle || s.Calls[1] != r.b {
			t.Errorf("%s: oracle %q, %+v, want %q, %+v", r.name, s.Oracle, s.Calls[1], r.oracle, r.b)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if r.setup.Calls[1].Name != "b" {
			t.Errorf("%s: the caller's calls were changed", r.name)
		}
	}
	f := learn(t, control("0", "wait 2s\nm 1-5"), control("1", ""))
	if c := f.Call(1); c.Calls != 1 || !c.Silent || c.Numbered || f.Call(0).Longest < 2*time.Second || !f.Call(0).Numbered || f.Call(9).Calls != 0 || f.Silent || f.Numbered {
		t.Errorf("%+v", f)
	}
}
