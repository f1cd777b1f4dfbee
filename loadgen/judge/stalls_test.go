package judge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// Pieces of calls that are cut after two messages, and whose next link is silent until we
// leave it.
const (
	stalled = "cut rst mid-event\nend reset\nwait 100ms\nresume\nhead 200 sse\nwait 30s\nend idle\nwait 100ms\n"
	waited  = stalled + "resume\nhead 200 sse\nm 3-5\n" + done
)

// several repeats what follows the first messages of a call in n streams.
func several(n int, rest string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "stream %d session 1 load\npost\nhead 200 sse\nprime\nm 1-2\n%s", i+1, rest)
	}
	return b.String()
}

func TestStalledResume(t *testing.T) {
	const late = "cut rst mid-event\nend reset\nresume\nhead 200 sse\nwait 20s\nm 3-5\n" + done
	for _, r := range []struct {
		name, text string
		word       judge.Word
		count      int64
		with       func(*judge.Setup, *judge.Tail)
	}{
		{name: "what waited comes on the next resume", text: several(5, waited), word: judge.Violated, count: 5},
		{name: "the response alone", text: several(5, "m 3-5\n"+stalled+"resume\nhead 200 sse\n"+done), word: judge.Violated, count: 5},
		{name: "after a replay", text: several(5, strings.Replace(waited, "sse\nwait 30s", "sse\nm 3\nwait 30s", 1)), word: judge.Violated, count: 5},
		{name: "once may be chance", text: several(1, waited), word: judge.Inconclusive},
		{name: "late calls get the rest live", text: several(1, waited) + strings.ReplaceAll(several(9, late), "session 1", "session 2"), word: judge.Holds},
		{name: "many do and many do not", text: several(7, waited) + strings.ReplaceAll(several(9, late), "session 1", "session 2"), word: judge.Inconclusive},
		{name: "the tool may be silent for so long", text: several(5, waited), word: judge.Holds,
			with: func(s *judge.Setup, _ *judge.Tail) { s.Longest = 25 * time.Second }},
		{name: "nobody knows how long a call takes", text: several(5, waited), word: judge.Holds,
			with: func(s *judge.Setup, _ *judge.Tail) { s.Longest = 0 }},
		{name: "we were slow", text: several(5, waited), word: judge.Inconclusive, with: func(_ *judge.Setup, t *judge.Tail) { t.Saturated = true }},
		{name: "no resume is promised", text: several(5, waited), word: judge.Holds, with: func(s *judge.Setup, _ *judge.Tail) { s.Contract = judge.NoPromise }},
		{name: "the next resume brings it later", text: several(5, strings.Replace(waited, "sse\nm 3", "sse\nwait 1s\nm 3", 1)), word: judge.Holds},
		{name: "the next head is late too", text: several(5, strings.Replace(waited, "resume\nhead 200 sse\nm 3", "resume\nwait 2s\nhead 200 sse\nm 3", 1)), word: judge.Holds},
		{name: "a fault of ours starved it", text: several(5, strings.Replace(waited, "wait 30s", "cut stall at-live suffers for=20s\nwait 30s", 1)), word: judge.Holds},
		{name: "a fault of ours still acts", text: several(5, strings.Replace(waited, "cut rst mid-event\n", "cut stall at-live suffers for=20s\ncut rst mid-event\n", 1)), word: judge.Holds},
		{name: "asked for patience", text: several(5, strings.Replace(waited, "wait 100ms\nresume\nhead 200 sse\nm 3", "resume\nhead 429\nend status\nresume\nhead 200 sse\nm 3", 1)), word: judge.Holds},
		{name: "the first link was silent", text: several(5, "wait 30s\nend idle\nresume\nhead 200 sse\nm 3-5\n"+done), word: judge.Holds},
	} {
		setup, tail := ledgerSetup(), wellTail()
		setup.Longest = 2 * time.Second
		if r.with != nil {
			r.with(&setup, &tail)
		}
		if strings.Contains(r.name, "first link") {
			setup.Faults, setup.Reach = 1, []judge.Want{{Name: "judged_cuts"}}
			r.text += strings.ReplaceAll(several(1, cutAndResume+"m 3-5\n"+done), "session 1", "session 2")
		}
		v := judgeScript(setup, parse(t, r.text+canaryScript), tail)
		balance(t, v)
		inv := invariantOf(t, v, "resume-progress")
		if v.Word != r.word || inv.Violations != r.count || inv.Streams != r.count || v.Streams.Damaged != r.count {
			t.Errorf("%s: %s with %d in %d streams: %s %v", r.name, v.Word, inv.Violations, inv.Streams, v.Sentence, v.Why)
		}
		if (len(v.Guilty) > 0) != (r.count > 0) || (len(inv.Evidence) > 0) != (r.count > 0) {
			t.Errorf("%s: %d guilty, %d times evidence", r.name, len(v.Guilty), len(inv.Evidence))
		}
	}
}

// TestSlowToolsAreNoStalls: tools that are late and end at random, whether a link is there
// or not, convict no target.
func TestSlowToolsAreNoStalls(t *testing.T) {
	for seed := range 300 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		setup := ledgerSetup()
		setup.Longest = 2 * time.Second
		idle := time.Duration(2+rng.IntN(28)) * time.Second
		back := time.Duration(50+rng.IntN(950)) * time.Millisecond
		var b strings.Builder
		for i := range 1 + rng.IntN(30) {
			fmt.Fprintf(&b, "stream %d session 1 load\npost\nhead 200 sse\nprime\nm 1-2\ncut rst mid-event\nend reset\n", i+1)
			ends := time.Duration(rng.Int64N(int64(2 * time.Minute)))
			for {
				fmt.Fprintf(&b, "wait %s\nresume\nhead 200 sse\n", back)
				if ends -= back; ends <= idle {
					fmt.Fprintf(&b, "wait %s\nm 3-5\n%s", max(0, ends), done)
					break
				}
				fmt.Fprintf(&b, "wait %s\nend idle\n", idle)
				ends -= idle
			}
		}
		v := judgeScript(setup, parse(t, b.String()+canaryScript), wellTail())
		if v.Word == judge.Violated {
			t.Errorf("seed %d: idle %s, back-off %s: %s", seed, idle, back, v.Sentence)
		}
	}
}

// TestStalledGet: once the response of the call has come on its POST, everything of it is
// due on the GET stream.
func TestStalledGet(t *testing.T) {
	setup := ledgerSetup()
	setup.Longest = time.Hour
	var b strings.Builder
	for i := range 5 {
		fmt.Fprintf(&b, "stream %d session 1 get\npost\nhead 200 sse\nprime\nm 1-2\nresponse noid\n%sresume\nhead 200 sse\nm 3-5\nend clean\nsettled completed\nledger 5\n", i+1, stalled)
	}
	s := parse(t, b.String()+canaryScript)
	for _, records := range s.streams[:5] {
		records[0].Exchange = history.Exchange{}
	}
	v := judgeScript(setup, s, wellTail())
	if inv := invariantOf(t, v, "resume-progress"); inv.Violations != 5 {
		t.Errorf("%d violations: %s %v", inv.Violations, v.Sentence, v.Why)
	}
}
