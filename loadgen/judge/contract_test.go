package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

func under(c judge.Contract) func(*judge.Setup) {
	return func(s *judge.Setup) { s.Contract = c }
}

func noIDs(s *judge.Setup) { s.IDs = false }

// TestContracts: the same history is right under one contract and wrong under another.
func TestContracts(t *testing.T) {
	const (
		// Every history begins like this: a primed stream with messages 1 and 2, cut.
		cut  = start + "m 1-2\ncut rst mid-event\nend reset\n"
		back = "resume\nhead 200 sse missed=2\n"
	)
	all := []judge.Contract{judge.ExactlyOnce, judge.AtLeastOnce, judge.Bounded, judge.NoPromise}
	rows := []struct {
		name, text string
		broken     string // the invariants that each contract finds broken, in the order of all; "-" none
	}{
		{"nothing lost", cut + back + "m 3-5\n" + done, "- - - -"},
		{"repeated after a resume", cut + back + "m 2-5\n" + done, "no-duplicate - no-duplicate no-duplicate"},
		{"repeated on one link", cut + back + "m 3\nm 3-5\n" + done, "no-duplicate no-duplicate no-duplicate no-duplicate"},
		{"repeated on a resumed link, twice", cut + back + "m 2\nm 2-5\n" + done, "no-duplicate no-duplicate no-duplicate no-duplicate"},
		{"repeated on each of two resumes", cut + back + "m 2\ncut fin at-live\nend truncated\n" + back + "m 2-5\n" + done, "no-duplicate - no-duplicate no-duplicate"},
		{"repeated with other bytes", cut + back + "m 2 hash=x\nm 3-5\n" + done, "no-duplicate,intact intact no-duplicate,intact no-duplicate,intact"},
		{"response again after a resume", cut + back + "m 3-5\nresponse\ncut rst after-response\nend reset\n" + back + done, "one-response - one-response one-response"},
		{"message and response again after a resume", cut + back + "m 3-5\nresponse\ncut rst after-response\nend reset\n" + back + "m 5\n" + done,
			"one-response,no-duplicate,silent-after-response - one-response,no-duplicate,silent-after-response one-response,no-duplicate,silent-after-response"},
		{"repeated behind the response of its link", cut + back + "m 3-5\nresponse\nm 2\nend clean\nsettled completed\nledger 5",
			"no-duplicate,silent-after-response silent-after-response no-duplicate,silent-after-response no-duplicate,silent-after-response"},
		{"response again on one link", cut + back + "m 3-5\nresponse\n" + done, "one-response one-response one-response one-response"},
		{"lost between two links", cut + back + "m 4-5\n" + done, "no-loss no-loss no-loss -"},
		{"all lost but the response", cut + back + done, "no-loss no-loss no-loss -"},
		{"lost within the first link", start + "m 2\ncut rst mid-event\nend reset\n" + back + "m 3-5\n" + done, "no-loss no-loss no-loss no-loss"},
		{"lost within the resumed link", cut + back + "m 3\nm 5\n" + done, "no-loss no-loss no-loss no-loss"},
		{"lost after a repeat on the resumed link", cut + back + "m 2\nm 4-5\n" + done, "no-loss,no-duplicate no-loss no-loss,no-duplicate no-loss,no-duplicate"},
		{"tail lost within one link", cut + back + "m 3-4\n" + done, "no-loss no-loss no-loss no-loss"},
		{"out of order after the cut", cut + back + "m 4\nm 3\nm 5\n" + done, "in-order,progress-increases in-order,progress-increases in-order,progress-increases in-order,progress-increases"},
		{"cursor refused with 404", cut + "resume\nhead 404\nend status\nsettled refused\nledger 5 resp=0", "one-response,no-loss one-response,no-loss - -"},
		{"cursor refused with 400", cut + "resume\nhead 400\nend status\nsettled refused\nledger 5 resp=0", "one-response,no-loss one-response,no-loss - -"},
		{"cursor refused with 410", cut + "resume\nhead 410\nend status\nsettled refused\nledger 5 resp=0", "one-response,no-loss one-response,no-loss one-response,no-loss -"},
		{"refused after a hole", start + "m 2\ncut rst mid-event\nend reset\nresume\nhead 404\nend status\nsettled refused\nledger 5 resp=0",
			"one-response,no-loss one-response,no-loss no-loss no-loss"},
		{"hangs after the cut", cut + back + unanswered, "one-response,resume-progress one-response,resume-progress one-response,resume-progress -"},
		{"hangs without a cut", start + "m 1-2\n" + unanswered, "one-response one-response one-response one-response"},
		{"cancelled, answered all the same", start + "m 1-2\nresponse\nend clean\nsettled cancelled\nledger 4 cancelled", "- - - -"},
		{"cancelled, not answered", start + "m 1-2\nend stopped\nsettled cancelled\nledger 4 resp=0 cancelled", "- - - -"},
		{"cancelled, a hole", start + "m 1\nm 3\nend stopped\nsettled cancelled\nledger 4 resp=0 cancelled", "no-loss no-loss no-loss no-loss"},
		{"cancelled, answered twice", start + "m 1-2\nresponse\nresponse\nend clean\nsettled cancelled\nledger 4 cancelled", "one-response one-response one-response one-response"},
	}
	for _, r := range rows {
		for i, want := range strings.Fields(r.broken) {
			for oracle, set := range map[string]func(*judge.Setup){"ledger": under(all[i]), "numbered": both(under(all[i]), numbered)} {
				if oracle == "numbered" && strings.Contains(r.name, "cancelled") && strings.Contains(r.text, "resp=0") {
					continue
				}
				setup := ledgerSetup()
				set(&setup)
				v := judgeScript(setup, parse(t, r.text+canaryScript), wellTail())
				balance(t, v)
				var broken []string
				for _, inv := range v.Invariants {
					if inv.Decides && inv.Violations > 0 {
						broken = append(broken, inv.Name)
					}
				}
				if got := strings.Join(broken, ","); got != strings.Trim(want, "-") && got != want {
					t.Errorf("%s, under %s by %s: broken %q, want %q\n%+v", r.name, all[i], oracle, got, want, v.Messages)
				}
			}
		}
	}
}

// TestSentencesOfContracts: what a contract allows is counted and said.
func TestSentencesOfContracts(t *testing.T) {
	rows := []struct {
		name, text string
		setup      func(*judge.Setup)
		want       string
		also       string
	}{
		{"at-least-once", start + "m 1-2\n" + cutAndResume + "m 2-5\n" + done, under(judge.AtLeastOnce),
			`5 messages in 1 stream survived 1 cut: none lost, all in order; 1 came again after a resume, as the contract "at-least-once" allows.`, ""},
		{"bounded", start + "m 1-2\n" + cutAndResume + "m 3-5\n" + done +
			"stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\ncut rst mid-event\nend reset\nwait 1s\nresume\nhead 404\nend status\nsettled refused\nledger 5 resp=0",
			under(judge.Bounded),
			`7 messages in 2 streams survived 2 cuts: none lost otherwise, none repeated, all in order; 3 went with a refused cursor and 1 response of a cut call never came, as the contract "bounded" allows.`,
			"that is retention, not silent loss"},
		{"none, with ids", start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done, under(judge.NoPromise),
			`4 messages in 1 stream survived 1 cut: none lost otherwise, none repeated, all in order; 1 fell between two links, as the contract "none" allows.`, ""},
		{"none, without ids", "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1-2\ncut rst mid-event early\nend reset\nsettled indeterminate\nledger 5 resp=0 cancelled\n" +
			"stream 2 session 1 load\nnoids\npost\nhead 200 sse\nm 1-5\n" + done, both(under(judge.NoPromise), noIDs),
			`7 messages in 2 streams survived 1 cut: none lost otherwise, none repeated, all in order; 3 went with a cut call and 1 response of a cut call never came, as the contract "none" allows.`, ""},
	}
	for _, r := range rows {
		setup := ledgerSetup()
		r.setup(&setup)
		v := judgeScript(setup, parse(t, r.text+canaryScript), wellTail())
		balance(t, v)
		if v.Word != judge.Holds || v.Sentence != r.want || !strings.Contains(strings.Join(v.Also, " "), r.also) {
			t.Errorf("%s: %s: %s\n%v %v", r.name, v.Word, v.Sentence, v.Why, v.Also)
		}
		if v.Messages.LostAllowed > 0 && v.LossBound95 != 0 {
			t.Errorf("%s: a bound though something was lost", r.name)
		}
	}
	// Where the target gives out ids, a call cut before its first one stays indeterminate.
	v := judgeScript(setupWith(under(judge.NoPromise)), parse(t, "stream 1 session 1 load\npost\nhead 200 sse\ncut rst before-first-id early\nend reset\nsettled indeterminate\nunknown"+canaryScript), wellTail())
	if v.Streams.Indeterminate != 1 || v.JudgedCuts != 0 || v.Word != judge.Inconclusive {
		t.Errorf("%s, %+v", v.Word, v.Streams)
	}
}

func setupWith(f func(*judge.Setup)) judge.Setup {
	s := ledgerSetup()
	f(&s)
	return s
}

// TestInjections: only what cuts a link is a cut, and only what ended it is an excuse.
func TestInjections(t *testing.T) {
	rows := []struct {
		name, text     string
		injected, cuts int64
		word           judge.Word
		why            string
	}{
		{"a delay – an injection, no cut", start + "m 1\ncut delay between-events suffers for=1s\nm 2\n" + cutAndResume + "m 3-5\n" + done, 2, 1, judge.Holds, ""},
		{"lost while a link was throttled – violated", start + "cut throttle between-events suffers for=1s\nm 1-2\n" + cutAndResume + "m 4-5\n" + done, 2, 1, judge.Violated, ""},
		{"an early end while a link was stalled – violated", "stream 1 session 1 load\npost\nhead 200 sse\ncut stall headers early suffers for=1s\nend clean\nsettled indeterminate\nledger 5 resp=0", 1, 0, judge.Violated, ""},
		{"made-up 503 on a resume – not the target's", start + "m 1-2\ncut rst mid-event\nend reset\nresume\ncut status resume-before-headers\nhead 503\nend status\nresume\nhead 200 sse\nm 3-5\n" + done, 2, 1, judge.Holds, ""},
		{"made-up 404 that ended it all – undecided", start + "m 1-2\n" + cutAndResume + "m 3\ncut rst mid-event\nend reset\nresume\ncut status resume-before-headers\nhead 404\nend status\nsettled refused\nledger 5 resp=0", 3, 2, judge.Inconclusive, "1 stream is undecided"},
		{"silence is counted from the heal – undecided", start + "m 1-2\n" + cutAndResume + "cut stall at-live suffers for=35s\nwait 40s\nend deadline\nsettled failed\nledger 5 resp=0", 2, 1, judge.Inconclusive, "1 stream is undecided"},
		{"silence long after the heal – violated", start + "m 1-2\n" + cutAndResume + "cut stall at-live suffers for=5s\nwait 40s\nend deadline\nsettled failed\nledger 5 resp=0", 2, 1, judge.Violated, ""},
		{"exact, and the id came – violated", "stream 2 session 1 load\nnoids\npost\nhead 200 sse\ncut rst after-priming after\nend reset\nsettled indeterminate\nledger 5 resp=0\n" + healthyCut, 2, 2, judge.Violated, ""},
		{"approximate, the id may have been lost – indeterminate", "stream 2 session 1 load\nnoids\npost\nhead 200 sse\ncut rst after-priming vague after\nend reset\nsettled indeterminate\nledger 5 resp=0\n" + healthyCut, 2, 2, judge.Holds, ""},
	}
	for _, r := range rows {
		setup := ledgerSetup()
		if strings.Contains(r.text, "stream 2") {
			setup.Streams = 2
		}
		v := judgeScript(setup, parse(t, r.text+canaryScript), wellTail())
		balance(t, v)
		if v.Word != r.word || v.Faults.Injected != r.injected || v.Faults.Cuts != r.cuts || !strings.Contains(strings.Join(v.Why, "\n"), r.why) {
			t.Errorf("%s: %s, %d injected, %d cuts\n%s\n%v", r.name, v.Word, v.Faults.Injected, v.Faults.Cuts, v.Sentence, v.Why)
		}
	}
}

// TestBounds: per place, and a storm counts once however many links it cut.
func TestBounds(t *testing.T) {
	var text strings.Builder
	for n := range 6 {
		wide := ""
		if n < 4 {
			wide = " wide"
		}
		text.WriteString(strings.NewReplacer("stream 1", "stream "+string(rune('1'+n)), "rst mid-event", []string{
			"storm between-events", "storm mid-event", "storm mid-event", "storm mid-event", "rst mid-event", "fin at-live"}[n]+wide).Replace(healthyCut))
	}
	setup := ledgerSetup()
	setup.Streams, setup.Faults = 6, 6
	tail := wellTail()
	tail.Storms = 2
	v := judgeScript(setup, parse(t, text.String()+canaryScript), tail)
	want := []judge.PlaceBound{{Place: "at-live", AtRisk: 1, Bound: 1}, {Place: "between-events", AtRisk: 1, Bound: 1}, {Place: "mid-event", AtRisk: 3, Bound: 1}}
	if v.CutsAtRisk != 4 || len(v.Bounds) != 3 || v.Bounds[0] != want[0] || v.Bounds[1] != want[1] || v.Bounds[2] != want[2] || v.LossBound95 != 0.75 {
		t.Errorf("%d at risk, bound %v, %+v", v.CutsAtRisk, v.LossBound95, v.Bounds)
	}
	if v.JudgedCuts != 6 || v.Word != judge.Holds {
		t.Errorf("%s, %d judged cuts: %v", v.Word, v.JudgedCuts, v.Why)
	}
}

// TestUnplannedStorms: what somebody asked for while the run went on cuts like any storm,
// counts for the bound, and reaches nothing that the run set out to do.
func TestUnplannedStorms(t *testing.T) {
	struck := func(n, how string) string {
		return strings.NewReplacer("stream 1", "stream "+n, "rst mid-event", "storm mid-event wide"+how).Replace(healthyCut)
	}
	setup := ledgerSetup()
	setup.Streams, setup.Faults = 2, 1
	tail := wellTail()
	tail.Strikes = 2
	v := judgeScript(setup, parse(t, struck("1", " unplanned")+struck("2", " unplanned")+canaryScript), tail)
	if v.Word != judge.Inconclusive || v.Messages.Lost != 0 || !strings.Contains(strings.Join(v.Why, "\n"), "injections: wanted 1, got 0") {
		t.Errorf("nothing that was planned fired: %s %v", v.Word, v.Why)
	}
	if f := v.Faults; f.Injected != 2 || f.Unplanned != 2 || f.Cuts != 2 || v.CutsAtRisk != 2 || v.JudgedCuts != 2 {
		t.Errorf("%+v, %d at risk, %d judged cuts", f, v.CutsAtRisk, v.JudgedCuts)
	}
	setup.Reach = []judge.Want{{Name: "storms", Want: 1}}
	if v := judgeScript(setup, parse(t, struck("1", " unplanned")+struck("2", "")+canaryScript), tail); v.Word != judge.Inconclusive ||
		!strings.Contains(strings.Join(v.Why, "\n"), "storms: wanted 1, got 0") {
		t.Errorf("no storm of the plan was let go: %s %v", v.Word, v.Why)
	}
	tail.Storms = 1
	if v := judgeScript(setup, parse(t, struck("1", " unplanned")+struck("2", "")+canaryScript), tail); v.Word != judge.Holds {
		t.Errorf("the planned one was: %s %v", v.Word, v.Why)
	}
}

func TestGetStreams(t *testing.T) {
	const get = "stream 1 session 1 get\npost\nhead 200 sse\n"
	rows := []struct {
		name, text, broken string
	}{
		{"answered at once, then everything – holds", get + "prime\nresponse noid\nm 1-2\n" + cutAndResume + "m 3-5\nend stopped\nsettled completed\nledger 5", ""},
		{"no priming, stays open – holds", get + "m 1-2\n" + cutAndResume + "m 3-5\nresponse noid\nend open\nsettled completed\nledger 5", ""},
		{"a hole – no-loss", get + "prime\nresponse noid\nm 1-2\n" + cutAndResume + "m 4-5\nend stopped\nsettled completed\nledger 5", "no-loss"},
		{"the tail never came – no-loss", get + "prime\nresponse noid\nm 1-2\n" + cutAndResume + "m 3\nwait 40s\nend idle\nsettled failed\nledger 5", "no-loss,resume-progress"},
		{"the tail never came, no cut – no-loss", get + "prime\nresponse noid\nm 1-3\nwait 40s\nend idle\nsettled failed\nledger 5", "no-loss"},
		{"answered, then every resume ends empty – no-loss", get + "prime\nresponse noid\nm 1-2\n" + cutAndResume + "end clean\nresume asked=1s\nhead 200 sse\nend clean\nsettled failed\nledger 5", "no-loss,resume-progress"},
		{"answered, then the cursor is refused – no-loss", get + "prime\nresponse noid\nm 1-2\ncut rst get-stream\nend reset\nresume\nhead 404\nend status\nsettled refused\nledger 5", "no-loss"},
		{"no response – one-response", get + "prime\nm 1-2\n" + cutAndResume + "m 3-5\nwait 40s\nend deadline\nsettled failed\nledger 5 resp=0", "one-response,resume-progress"},
		{"two responses – one-response", get + "prime\nresponse noid\nresponse noid\nm 1-2\n" + cutAndResume + "m 3-5\nend stopped\nsettled completed\nledger 5", "one-response"},
	}
	for _, r := range rows {
		v := judgeScript(ledgerSetup(), parse(t, r.text+canaryScript), wellTail())
		balance(t, v)
		var broken []string
		for _, inv := range v.Invariants {
			if inv.Violations > 0 {
				broken = append(broken, inv.Name)
			}
		}
		if got := strings.Join(broken, ","); got != r.broken || v.Streams.Opened != 1 {
			t.Errorf("%s: broken %q\n%+v %+v", r.name, got, v.Messages, v.Streams)
		}
	}
}
