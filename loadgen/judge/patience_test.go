package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestAskedToWait: what did not come while we waited, as the server had asked, convicts
// nobody; and the run says who asked.
func TestAskedToWait(t *testing.T) {
	const (
		hour  = "the server asks to wait 1h0m0s before a resume, longer than the calls may take (1m0s)"
		left  = "the server asks to wait 30s before a resume, longer than 1 call had left"
		tail  = "ledger 5 resp=0\n"
		begun = start + "m 1-2\n"
		cuts  = "cut rst mid-event\nend reset\n"
	)
	within := func(longest, deadline time.Duration) func(*judge.Setup) {
		return func(s *judge.Setup) {
			s.Calls = []judge.CallSetup{{Name: "count", Expected: 5, Longest: longest, Deadline: deadline}}
		}
	}
	minute := within(2*time.Second, time.Minute)
	polled := func(n int, asked, wait string) string {
		return strings.Repeat("wait "+wait+"\nresume asked="+asked+" waited="+wait+"\nhead 200 sse\nend clean\n", n)
	}
	for _, c := range []struct {
		name, text string
		setup      func(*judge.Setup)
		word       judge.Word
		first      string // reason
	}{
		{"an hour, after a cut", begun + cuts + "wait 60s\nsettled failed asked=1h\n" + tail, minute, judge.Inconclusive, hour},
		{"an hour, and the server closed the link", begun + "end clean\nwait 60s\nsettled failed asked=1h\n" + tail, minute, judge.Inconclusive, hour},
		{"an hour, and the server reset the link", begun + "end reset\nwait 60s\nsettled failed asked=1h\n" + tail, minute, judge.Inconclusive, hour},
		{"an hour, by a client that came back at once", begun + cuts + "resume asked=1h\nhead 200 sse\nend clean\nwait 60s\nsettled undecided\n" + tail, minute, judge.Inconclusive, hour},
		{"less than the calls may take", begun + "end clean\nwait 30s\nresume asked=30s waited=30s\nhead 200 sse\nm 3\nend clean\nwait 30s\nsettled failed\n" + tail, minute, judge.Inconclusive, left},
		{"nobody knows how long calls may take", begun + "end clean\nwait 30s\nsettled failed asked=30s\n" + tail, within(0, 0), judge.Inconclusive, left},
		{"the link after the wait was short", begun + cuts + "wait 50s\nresume asked=50s waited=50s\nhead 200 sse\nwait 9s\nend deadline\nsettled failed\n" + tail, minute, judge.Inconclusive, ""},
		{"a silent link that we left", begun + cuts + "resume\nhead 200 sse\nwait 30s\nend idle\nwait 29s\nsettled failed asked=1h\n" + tail, minute, judge.Inconclusive, hour},
		{"the link after the wait was silent", begun + cuts + "wait 40s\nresume asked=40s waited=40s\nhead 200 sse\nwait 20s\nend deadline\nsettled failed\n" + tail, minute, judge.Violated, ""},
		{"nobody asked", begun + "end clean\nwait 60s\nsettled failed\n" + tail, minute, judge.Violated, ""},
		{"we waited for longer than it asked", begun + "end clean\nwait 60s\nsettled failed asked=1s\n" + tail, minute, judge.Violated, ""},
		{"it was unreachable", begun + cuts + "resume asked=20s waited=20s\nend unreachable\nwait 60s\nsettled failed asked=55s\n" + tail, minute, judge.Violated, ""},
		{"the attempts were used up", begun + "end clean\nresume asked=2s waited=2s\nhead 200 sse\nend clean\nsettled failed\n" + tail, minute, judge.Violated, ""},
		{"again and again for nothing", begun + "end clean\n" + polled(8, "7s", "7s") + "wait 5s\nsettled failed\n" + tail, minute, judge.Violated, ""},
		{"again and again while the tool may run", begun + "end clean\n" + polled(8, "7s", "7s") + "settled undecided\n" + tail, within(50*time.Second, time.Minute), judge.Inconclusive, ""},
		{"it was answered in the end", begun + cuts + "wait 30s\nresume asked=30s waited=30s\nhead 200 sse\nm 3-5\n" + done, minute, judge.Holds, ""},
		{"an hour, and what did come was repeated", begun + "m 2\nend clean\nwait 60s\nsettled failed asked=1h\n" + tail, minute, judge.Violated, hour},
	} {
		setup := ledgerSetup()
		setup.Streams, setup.CutCalls = 0, 1
		c.setup(&setup)
		v := judgeScript(setup, parse(t, c.text+strings.ReplaceAll(healthyCut, "stream 1 ", "stream 2 ")+canaryScript), wellTail())
		balance(t, v)
		why := strings.Join(v.Why, "; ")
		if v.Word != c.word || !strings.HasPrefix(why, c.first) || strings.Contains(why, "asks to wait") != (c.first != "") {
			t.Errorf("%s: %s: %s %q\nwant %s %q", c.name, v.Word, v.Sentence, v.Why, c.word, c.first)
		}
		if c.first != "" && c.word == judge.Inconclusive && (!strings.Contains(v.Sentence, c.first) || !strings.Contains(v.Next, "shorter retry")) {
			t.Errorf("%s: %q, next %q", c.name, v.Sentence, v.Next)
		}
	}
}

// TestAskedToStayAway: a link that is silent after it has said when to come back is no
// stall.
func TestAskedToStayAway(t *testing.T) {
	for asked, word := range map[string]judge.Word{"29s": judge.Violated, "45s": judge.Holds} {
		setup := ledgerSetup()
		setup.Longest = 2 * time.Second
		text := several(5, strings.Replace(waited, "resume\nhead 200 sse\nm 3", "resume asked="+asked+"\nhead 200 sse\nm 3", 1))
		v := judgeScript(setup, parse(t, text+canaryScript), wellTail())
		if v.Word != word {
			t.Errorf("asked for %s: %s: %s %v", asked, v.Word, v.Sentence, v.Why)
		}
	}
}
