package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

const (
	// A call that was answered with one JSON body.
	inBody = " session 1 load\nnoids\npost\nhead 200 json\nresponse\nend clean\nsettled completed\n"
	onPlan = "m 1-2\n" + cut + "m 3-5\n" + finish
	// The canary of a run, when it is answered so too.
	bareCanary = "stream 99 session 9 canary\nnoids\npost\nhead 200 json\nresponse\nend clean\nsettled completed\n"
)

// counted sets a run up in which the control calls showed five numbered messages.
func counted(s *judge.Setup) {
	*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, IDs: true, Faults: 1, CutCalls: 1,
		Calls: []judge.CallSetup{{Name: "count", Expected: 5, ExpectedFrom: "control calls"}}}
}

// TestAnsweredWithJSON: a server may answer any call with one JSON body. What that leaves
// without a stream is neither lost nor delivered.
func TestAnsweredWithJSON(t *testing.T) {
	const says = "This run cannot say whether messages survive: 1 call was answered with JSON, without a stream for their messages."
	judged := load("1", "0") + onPlan
	ledger := func(s *judge.Setup) { *s = ledgerSetup(); s.Streams, s.CutCalls = 0, 1 }
	told := []told{
		{"all on streams", judged, counted, twinCanary, judge.Holds, "", ""},
		{"some in JSON", judged + "stream 2" + inBody + "stream 3" + inBody, counted, twinCanary, judge.Inconclusive, "",
			"This run cannot say whether messages survive: 2 calls were answered with JSON, without a stream for their messages."},
		{"some in JSON, and something is lost", load("1", "0") + "m 1-2\n" + cut + "m 4-5\n" + finish + "stream 2" + inBody, counted, twinCanary,
			judge.Violated, "no-loss", "1 message lost: 1 of 2 judged streams are damaged."},
		{"one by comparison", judged + "stream 2" + inBody, twin, twinCanary, judge.Inconclusive, "", says},
		{"one with a ledger", healthyCut + "stream 2" + inBody + "ledger 5\n", ledger, canaryScript, judge.Inconclusive, "", says},
		{"one without messages, with a ledger", healthyCut + "stream 2" + inBody + "ledger 0\n", ledger, canaryScript, judge.Holds, "", ""},
		{"a control call", strings.Replace("stream 90"+inBody, "load", "control", 1) + judged, counted, twinCanary, judge.Inconclusive, "", says},
		{"a control call that was to be compared", strings.Replace("stream 90"+inBody, "load", "control", 1) + judged, twin, twinCanary, judge.Inconclusive, "", says},
		{"the canary", judged, counted, bareCanary, judge.Inconclusive, "", says},
		{"a batch that holds the messages", judged + "stream 2" + strings.Replace(inBody, "response", "m 1-5\nresponse", 1), counted, twinCanary, judge.Holds, "", ""},
		{"a batch that holds some", judged + "stream 2" + strings.Replace(inBody, "response", "m 1\nm 3\nresponse", 1), counted, twinCanary, judge.Inconclusive, "", says},
		{"an error", judged + "stream 2" + strings.Replace(inBody, "response", "error", 1), counted, twinCanary, judge.Inconclusive, "", "1 call was answered with an error"},
		{"where only the response is judged", load("1", "0") + cut + finish + "stream 2" + inBody, mute, muteCanaryScript, judge.Holds, "", ""},
		{"two responses", judged + "stream 2" + strings.Replace(inBody, "response", "response\nresponse", 1), counted, twinCanary, judge.Violated, "one-response", ""},
		{"no response in it", judged + "stream 2" + strings.Replace(inBody, "response\n", "", 1), counted, twinCanary, judge.Violated, "one-response", ""},
	}
	for _, c := range told {
		v := c.run(t)
		if c.word == judge.Inconclusive && v.Messages.Lost > 0 {
			t.Errorf("%s: %+v", c.name, v.Messages)
		}
		for _, why := range v.Why {
			if strings.Contains(c.says, "with JSON") && (strings.Contains(why, "went unnoticed") || strings.Contains(why, "not decided")) {
				t.Errorf("%s: that is all that is wrong, but %q", c.name, v.Why)
			}
		}
	}
}

// TestWhatResumptionLacks: the advice is what this server lacks.
func TestWhatResumptionLacks(t *testing.T) {
	const (
		control  = "stream 90 session 9 control\nnoids\npost\nhead 200 json\nresponse\nend clean\nsettled completed\n"
		streamed = "stream 3 session 1 load\nnoids\npost\nhead 200 sse\nresponse\nend clean\nsettled completed\n"
		store    = "give it an event store (TypeScript: `eventStore`), or judge it as it is: --contract none"
		events   = "answer tools/call with an event stream (text/event-stream) whose events carry ids, and give it an event store"
		get      = "serve GET with Last-Event-ID: its events carry ids, but GET is answered 405"
	)
	cutBody := "stream 2 session 1 load\nnoids\npost\ncut rst before-headers early\nend reset\nsettled indeterminate\n"
	jsonCanary := strings.Replace(bareCanary, "response\n", "", 1)
	none := func(s *judge.Setup) { mute(s); s.IDs = false }
	for _, c := range []struct {
		name, text, next string
		setup            func(*judge.Setup)
	}{
		{"JSON only", control + "stream 1" + inBody + cutBody + jsonCanary, events, none},
		{"an event stream now and then", control + "stream 1" + inBody + cutBody + streamed + jsonCanary, store, none},
		{"event streams without ids", streamed + cutBody + jsonCanary, store, none},
		{"no answer at all", cutBody + jsonCanary, store, none},
		{"ids, and no GET", load("1", "0") + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 405\nend status\nsettled refused\n" + twinCanary, get, counted},
	} {
		var setup judge.Setup
		c.setup(&setup)
		if c.name == "no answer at all" {
			c.text = strings.Replace(c.text, "head 200 json\n", "", 1)
		}
		v := judgeScript(setup, parse(t, c.text), wellTail())
		balance(t, v)
		if v.Word != judge.Inconclusive || !strings.HasSuffix(v.Sentence, "the server offers no resumption.") || v.Next != c.next {
			t.Errorf("%s: %s: %s\nnext %q\nwant %q", c.name, v.Word, v.Sentence, v.Next, c.next)
		}
	}
}
