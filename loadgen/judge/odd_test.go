package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestOddButLegal: targets that do what they may convict nobody.
func TestOddButLegal(t *testing.T) {
	call := func(c judge.CallSetup) func(*judge.Setup) {
		return func(s *judge.Setup) {
			numbered(s)
			s.Expected, s.Calls = 0, []judge.CallSetup{c}
		}
	}
	const six = "stream 2 session 2 load\npost\nhead 200 sse\nprime\nm 1-6\nresponse\nend clean\nsettled completed\nledger 6\n"
	const closed = "stream 60 session 1 load\npost\nend reset\nsettled indeterminate\nunknown\n"
	const get = " session 1 get\npost\nhead 200 sse\nprime id=p\nresponse noid\nm 1-2\ncut rst mid-event\nend reset\nresume\nhead 200 sse\nm 3-5\nend clean\nsettled completed\nledger 5\n"
	polled := func(asked string) string {
		return start + "m 1-2\ncut rst mid-event\nend reset\n" + strings.Repeat("wait 2s\nresume "+asked+"\nhead 200 sse\nend clean\n", 8) + "settled failed\nledger 5 resp=0\n"
	}
	longest := func(d time.Duration) func(*judge.Setup) {
		return func(s *judge.Setup) {
			s.Calls = []judge.CallSetup{{Name: "count", Expected: 5, Longest: d, Deadline: time.Minute}}
		}
	}
	for _, r := range []struct {
		name, text string
		setup      func(*judge.Setup)
		word       judge.Word
		says       string
	}{
		{"a rested link is closed while the call is written", several(9, cutAndResume+"m 3-5\n"+done) + closed, nil, judge.Holds, ""},
		{"so are too many", several(8, cutAndResume+"m 3-5\n"+done) + closed, nil, judge.Inconclusive, "1 call was made on a link that the target closed before any answer"},
		{"a link is closed behind its head", healthyCut + "stream 2 session 1 load\npost\nhead 200 sse\nend reset\nsettled indeterminate\nunknown\n", nil, judge.Violated, ""},
		{"a silent tool is polled for longer than we have attempts", polled("asked=2s"), longest(40 * time.Second), judge.Inconclusive, "undecided"},
		{"a silent tool is polled, and nobody knows how long it takes", polled("asked=2s"), longest(0), judge.Inconclusive, "undecided"},
		{"a tool that must be done is polled for nothing", polled("asked=2s"), longest(2 * time.Second), judge.Violated, ""},
		{"nothing for nothing, and no word of when to come back", polled(""), longest(40 * time.Second), judge.Violated, ""},
		{"a resume is redirected", start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 307\nend status\nsettled refused\nledger 5\n", nil, judge.Inconclusive, "undecided"},
		{"a proxy wants credentials", start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 407\nend status\nsettled refused\nledger 5\n", nil, judge.Inconclusive, "undecided"},
		{"the GET stream of a session carries one call after another", healthyCut + "\nstream 3" + get + "stream 4" + get, nil, judge.Holds, ""},
		{"a key twice", strings.Replace(healthyCut, "m 1-2", "m 1\nm 2 illegal=128", 1), nil, judge.Holds, ""},
		{"a key twice, strict", strings.Replace(healthyCut, "m 1-2", "m 1\nm 2 illegal=128", 1), strict, judge.Violated, ""},
		{"the messages say how many there are", healthyCut + strings.Replace(six, "m 1-6", "m 1-6 total=6", 1),
			call(judge.CallSetup{Expected: 5, ExpectedFrom: "control calls"}), judge.Holds, ""},
		{"they say it, and not all came", healthyCut + strings.Replace(six, "m 1-6", "m 1-5 total=6", 1),
			call(judge.CallSetup{Expected: 5, ExpectedFrom: "control calls"}), judge.Violated, "1 message lost"},
		{"a total that grows tells nothing", healthyCut + "stream 2 session 2 load\npost\nhead 200 sse\nprime\nm 1 total=1\nm 2 total=2\nresponse\nend clean\nsettled completed\n",
			call(judge.CallSetup{Expected: 5, ExpectedFrom: "control calls"}), judge.Violated, "3 messages lost"},
		{"a total that is none tells nothing", healthyCut + strings.Replace(six, "m 1-6", "m 1-5 total=100", 1),
			call(judge.CallSetup{Expected: 5, ExpectedFrom: "control calls", NoTotals: true}), judge.Holds, ""},
		{"more than the control calls brought", healthyCut + six, call(judge.CallSetup{Expected: 5, ExpectedFrom: "control calls"}),
			judge.Inconclusive, "1 call brought more messages than the control calls"},
		{"more than there can be", healthyCut + six, call(judge.CallSetup{Expected: 5, ExpectedFrom: "--expect"}), judge.Violated, "1 message corrupt"},
	} {
		setup := ledgerSetup()
		setup.Streams, setup.CutCalls = 0, 1
		if r.setup != nil {
			r.setup(&setup)
		}
		v := judgeScript(setup, parse(t, r.text+"\n"+canaryScript), wellTail())
		balance(t, v)
		if v.Word != r.word || !strings.Contains(v.Sentence+strings.Join(v.Why, "; "), r.says) {
			t.Errorf("%s: %s: %s %v", r.name, v.Word, v.Sentence, v.Why)
		}
	}
}

// TestLearnTotals: a total counts if each message names it, and truly.
func TestLearnTotals(t *testing.T) {
	for messages, want := range map[string]bool{"m 1-3 total=3": true, "m 1-3": false, "m 1-3 total=9": false, "m 1 total=1\nm 2 total=2\nm 3 total=3": false} {
		f := learn(t, "stream 1 session 1 control\npost\nhead 200 sse\nprime\n"+messages+"\nresponse\nend clean\nsettled completed")
		if f.Totals != want {
			t.Errorf("%q: totals %v", messages, f.Totals)
		}
		s := judge.Setup{Oracle: judge.OracleAuto, Calls: []judge.CallSetup{{Name: "a"}}}.With(f)
		if s.Calls[0].NoTotals == want || s.Calls[0].Longest < time.Millisecond {
			t.Errorf("%q: %+v", messages, s.Calls[0])
		}
	}
}
