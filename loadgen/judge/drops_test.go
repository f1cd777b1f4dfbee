package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// modern sets up a run against a target of 2026-07-28.
func modern(s *judge.Setup) {
	*s = judge.Setup{Revision: "2026-07-28", Modern: true, Oracle: judge.OracleNumbered, Streams: 1, Faults: 1, Probes: 20,
		Calls: []judge.CallSetup{{Name: "count", Expected: 5}}}
}

// Pieces of histories without ids: a call that is cut after two messages, and one that
// nothing happens to.
const (
	lostCall  = "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1-2\ncut rst mid-event\nend reset\n"
	wholeCall = "stream 2 session 1 load\nnoids\npost\nhead 200 sse\nm 1-5\n" + finish
	bareCall  = "stream 90 session 9 control\nnoids\npost\nhead 200 sse\nm 1-5\n" + finish
	given     = "settled indeterminate\n"
)

func TestModern(t *testing.T) {
	const again = "probe reissue want=5 took=1200ms\n"
	silent := func(s *judge.Setup) {
		modern(s)
		s.Oracle, s.Calls[0] = judge.OracleResponse, judge.CallSetup{Name: "ping", ResponseOnly: true}
	}
	for _, c := range []told{
		{"made again and answered – holds", bareCall + lostCall + again + given + wholeCall, modern, twinCanary, judge.Holds, "",
			"7 messages in 2 streams met 1 cut: a cut call is lost by design in 2026-07-28; 1 of 1 was made again and answered, and nothing of a cut call came on the stream of its re-issue.\nA re-issue costs p50 1.2 s and all 5 messages again (1 of 1 re-issued call was answered)"},
		{"never made again – inconclusive", lostCall + given + wholeCall, modern, twinCanary, judge.Inconclusive, "", "reissues: wanted 1, got 0"},
		{"not made again, and what a cut costs", lostCall + given + wholeCall, modern, twinCanary, judge.Inconclusive, "",
			"1 of 1 cut call never got its response (50 % of all calls with this fault mix); 1 of 1 uncut call complete\nwhether the handler of a cut call ran on cannot be told from outside"},
		{"its messages came after the cut", lostCall + "probe reissue want=5 foreign=3\n" + given + wholeCall, modern, twinCanary, judge.Violated, "silent-after-cut", "silent-after-cut is violated 3 times"},
		{"made again and not answered", lostCall + "probe reissue want=5 got=5 noresponse\n" + given, modern, twinCanary, judge.Violated, "reissue-answered", ""},
		{"made again and refused", lostCall + "probe reissue status=404 end=status noresponse\n" + given, modern, twinCanary, judge.Violated, "reissue-answered", ""},
		{"made again and told to come back later – inconclusive", lostCall + "probe reissue status=429 end=status noresponse\n" + given, modern, twinCanary, judge.Inconclusive, "", ""},
		{"made again, with little time – inconclusive", lostCall + "probe reissue got=2 want=5 noresponse took=2s end=deadline\n" + given, modern, twinCanary, judge.Inconclusive, "", ""},
		{"made again, and silence", lostCall + "probe reissue got=2 want=5 noresponse took=20s end=deadline\n" + given, modern, twinCanary, judge.Violated, "reissue-answered", ""},
		{"a hole before the cut", "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1\nm 3\ncut rst mid-event\nend reset\n" + again + given, modern, twinCanary, judge.Violated, "no-loss", ""},
		{"ids all the same – holds", "stream 1 session 1 load\npost\nhead 200 sse\nprime\nm 1-2\ncut rst mid-event\nend reset\n" + again + given + wholeCall, modern, twinCanary, judge.Holds, "", ""},
		{"ids all the same, but not on this call – holds", lostCall + again + given + wholeCall, func(s *judge.Setup) { modern(s); s.IDs = true }, twinCanary, judge.Holds, "", ""},
		{"an answer that was complete at the cut – inconclusive", "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1-5\nresponse\ncut rst after-response\nend reset\nsettled completed\n", modern, twinCanary, judge.Inconclusive, "", "reissues"},
		{"responses alone – holds", "stream 1 session 1 load\nnoids\npost\nhead 200 sse\ncut rst mid-event early\nend reset\n" + again + given + load("2", "0") + finish, silent, muteCanaryScript, judge.Holds, "",
			"1 response in 2 streams met 1 cut: a cut call is lost by design"},
	} {
		v := c.run(t)
		if inv := invariantOf(t, v, "silent-after-cut"); inv.Role != "demanded" {
			t.Errorf("%s: silent-after-cut is %s", c.name, inv.Role)
		}
		for _, inv := range v.Invariants {
			if na := inv.State == "not applicable"; na != slices.Contains(strings.Fields("unique-ids stable-ids resume-progress replay-after-response idempotent-resume"+
				" cursor-verdict honest-retention session-status primed retry-announced executed-once poll-truthful end-last"), inv.Name) && !(na && c.canary == muteCanaryScript) {
				t.Errorf("%s: %s is %s", c.name, inv.Name, inv.State)
			}
		}
	}
	if inv := invariantOf(t, judgeScript(ledgerSetup(), parse(t, healthyCut), wellTail()), "silent-after-cut"); inv.State != "not applicable" {
		t.Errorf("silent-after-cut under 2025-11-25 is %s", inv.State)
	}
}

// TestDrops has the figures of a target that resumes nothing.
func TestDrops(t *testing.T) {
	var b strings.Builder
	for n := range 7 {
		fmt.Fprintf(&b, "%sprobe reissue want=5 took=%dms\n%s", strings.Replace(lostCall, "stream 1 ", fmt.Sprintf("stream %d ", n+10), 1), 1000+100*n, given)
		fmt.Fprintf(&b, "ledger 5 resp=%d\n", min(1, n%4)) // every fourth still runs
	}
	text := bareCall + "ledger 5\n" + b.String() + strings.Replace(lostCall, "stream 1 ", "stream 30 ", 1) + given + "ledger 3 resp=0 cancelled\n" +
		wholeCall + "ledger 5\n" + strings.Replace(wholeCall, "stream 2 ", "stream 3 ", 1) + "ledger 5\n"
	setup := judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleLedger, Ledger: true, Expected: 5, Streams: 10, Faults: 8}
	v := judgeScript(setup, parse(t, text+canaryScript), wellTail())
	balance(t, v)
	d := v.Drops
	if d.Cut != 8 || d.Unanswered != 8 || d.Uncut != 2 || d.UncutComplete != 2 || d.Share != 0.8 {
		t.Errorf("%+v", d)
	}
	if d.Handlers != (judge.Handlers{Known: 8, Finished: 5, Cancelled: 1, Running: 2}) {
		t.Errorf("%+v", d.Handlers)
	}
	r := d.Reissues
	if r.Asked != 7 || r.Answered != 7 || r.Messages != 35 || r.Want != 35 || r.Twice != 7 || r.TwiceKnown != 7 || r.Max != 1600*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.P50 < 1260*time.Millisecond || r.P50 > 1340*time.Millisecond || r.P95 < 1540*time.Millisecond {
		t.Errorf("p50 %v, p95 %v", r.P50, r.P95)
	}
	want := []string{"8 of 8 cut calls never got their response (80 % of all calls with this fault mix); 2 of 2 uncut calls complete",
		"of 8 cut calls 5 ran to the end, 1 was cancelled, 2 had not ended when the ledger was asked (ledger)",
		"a re-issue costs p50 1.3 s and all 5 messages again (7 of 7 re-issued calls were answered); 7 of 7 ran twice (ledger)"}
	if got := append([]string{v.Seen}, v.SeenAlso...); !slices.Equal(got, want) || v.Word != judge.Inconclusive || !strings.Contains(v.Sentence, "no resumption") {
		t.Errorf("%s %s\n%s\nwant\n%s", v.Word, v.Sentence, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if inv := invariantOf(t, v, "executed-once"); inv.Violations != 0 { // the re-issue is another call
		t.Errorf("%+v", inv)
	}
	if v.Sampled != 0 {
		t.Errorf("a call that is made again is no sample: %d", v.Sampled)
	}
}

// TestReissueOfALegacyCall: what belongs to the call that was cut has no place on the
// stream of its re-issue, and a target that no longer answers is found out.
func TestReissueOfALegacyCall(t *testing.T) {
	setup := func(s *judge.Setup) {
		*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, Expected: 5, Streams: 1, Faults: 1}
	}
	for _, c := range []told{
		{"answered – inconclusive, since nothing is resumed", lostCall + "probe reissue want=5 took=850ms\n" + given + wholeCall, setup, twinCanary, judge.Inconclusive, "", "a re-issue costs p50 850 ms and all 5 messages again (1 of 1 re-issued call was answered); whether they ran twice cannot be told from outside"},
		{"fewer messages than before", lostCall + "probe reissue want=5 got=3 took=12s\n" + given + wholeCall, setup, twinCanary, judge.Inconclusive, "", "a re-issue costs p50 12 s and 3 messages again"},
		{"messages of the cut call come", lostCall + "probe reissue want=5 foreign=2\n" + given + wholeCall, setup, twinCanary, judge.Violated, "own-stream", ""},
		{"not answered", lostCall + "probe reissue want=5 got=0 noresponse\n" + given + wholeCall, setup, twinCanary, judge.Violated, "reissue-answered", ""},
		{"closed, as a polling server may", lostCall + "probe reissue want=5 got=0 noresponse\n" + given + wholeCall, func(s *judge.Setup) { setup(s); s.IDs = true }, twinCanary, judge.Inconclusive, "", ""},
		{"under a contract that promises nothing – holds", bareCall + lostCall + "probe reissue want=5\n" + given + wholeCall, both(setup, under(judge.NoPromise)), twinCanary, judge.Holds, "", "A re-issue costs p50 1 ms and all 5 messages again"},
	} {
		c.run(t)
	}
}

// TestStdio: no cut puts a pipe to the test, but what is wrong without one is wrong.
func TestStdio(t *testing.T) {
	setup := func(s *judge.Setup) {
		*s = judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, Expected: 5, Streams: 1, Faults: 1, Transport: "stdio"}
	}
	for _, c := range []told{
		{"cut", lostCall + given + wholeCall, setup, twinCanary, judge.Inconclusive, "", "This run cannot say whether messages survive: a stdio server has one pipe and nothing to come back to."},
		{"what to do", lostCall + given + wholeCall, setup, twinCanary, judge.Inconclusive, "", "test the same server over HTTP"},
		{"under the weakest contract", lostCall + given + wholeCall, both(setup, under(judge.NoPromise)), twinCanary, judge.Inconclusive, "", "a stdio server"},
		{"repeated all the same", lostCall + given + strings.Replace(wholeCall, "m 1-5", "m 1-3\nm 3-5", 1), setup, twinCanary, judge.Violated, "no-duplicate", ""},
	} {
		if v := c.run(t); slices.ContainsFunc(v.Why, func(w string) bool { return strings.Contains(w, "event id") }) {
			t.Errorf("%s: %v", c.name, v.Why)
		}
	}
}

// TestThrottled: a target that limits the rate lost nothing.
func TestThrottled(t *testing.T) {
	plain := func(*judge.Setup) {}
	base := func(more func(*judge.Setup)) func(*judge.Setup) {
		return func(s *judge.Setup) { *s = ledgerSetup(); more(s) }
	}
	const begun = start + "m 1-2\ncut rst mid-event\nend reset\n"
	for _, c := range []told{
		{"a resume, to the deadline", begun + "resume\nhead 429\nend status\nwait 60s\nsettled failed\nledger 5 resp=0\n", base(plain), canaryScript, judge.Inconclusive, "", "1 call was given up while the target answered 429 or 503: it limits the rate"},
		{"a resume, as the generator sees it", begun + "resume\nhead 503\nend status\nsettled undecided\nledger 5 resp=0\n", base(plain), canaryScript, judge.Inconclusive, "", "--max-rate"},
		{"a resume, said to be refused", begun + "resume\nhead 429\nend status\nsettled refused\nledger 5 resp=0\n", base(plain), canaryScript, judge.Inconclusive, "", "limits the rate"},
		{"a call that was never let in", healthyCut + "stream 2 session 1 load\npost\nhead 429\nend status\nsettled not-sent\nunknown\n", base(plain), canaryScript, judge.Inconclusive, "", "limits the rate"},
		{"first 429, then served", begun + "resume\nhead 429\nend status\nresume\nhead 200 sse\nm 3-5\n" + done, base(plain), canaryScript, judge.Holds, "", ""},
		{"429 made up by us, then a hang", begun + "resume\ncut status resume-before-headers\nhead 429\nend status\nresume\nhead 200 sse\n" + unanswered, base(plain), canaryScript, judge.Violated, "one-response,resume-progress", ""},
		{"429 made up by us, at the end", begun + "resume\ncut status resume-before-headers\nhead 429\nend status\nsettled undecided\nledger 5 resp=0\n", base(plain), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"429, then a hang", begun + "resume\nhead 429\nend status\nresume\nhead 200 sse\n" + unanswered, base(plain), canaryScript, judge.Violated, "one-response,resume-progress", ""},
	} {
		v := c.run(t)
		if limited := strings.Contains(c.says, "rate"); (v.Throttled > 0) != limited {
			t.Errorf("%s: %d throttled", c.name, v.Throttled)
		}
	}
}

// TestEmptyAnswers: resumes that are accepted and bring nothing are a loop, once the
// time of the call is over, however short it was.
func TestEmptyAnswers(t *testing.T) {
	setup := func(deadline time.Duration, c judge.Contract) func(*judge.Setup) {
		return func(s *judge.Setup) {
			*s = ledgerSetup()
			s.Contract = c
			s.Calls = []judge.CallSetup{{Name: "count", Expected: 5, Deadline: deadline}}
		}
	}
	const begun = start + "m 1-2\ncut rst mid-event\nend reset\n"
	empty := func(n int, body string) string {
		return begun + strings.Repeat("wait 800ms\nresume\nhead 200 sse\n"+body+"end clean\n", n) + "settled undecided\nledger 5 resp=0\n"
	}
	once, none := judge.ExactlyOnce, judge.NoPromise
	other := strings.Replace(healthyCut, "stream 1 ", "stream 2 ", 1)
	for _, c := range []told{
		{"six, to the deadline", empty(6, ""), setup(5*time.Second, once), canaryScript, judge.Violated, "one-response,resume-progress", ""},
		{"four, to the deadline – undecided", empty(4, "") + other, setup(3*time.Second, once), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"six, and then stopped by us – undecided", empty(6, "") + other, setup(time.Minute, once), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"six, the deadline not known – undecided", empty(6, "") + other, setup(0, once), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"six that were primed, as a poll is – undecided", empty(6, "prime\n") + other, setup(5*time.Second, once), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"six, of which we cut the last – undecided", empty(6, "cut rst resume-before-first-event\n") + other, setup(5*time.Second, once), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"nothing is promised – holds", empty(6, "") + other, setup(5*time.Second, none), canaryScript, judge.Holds, "", "1 response of a cut call never came"},
		{"nothing is promised, four – holds", empty(4, "") + other, setup(0, none), canaryScript, judge.Holds, "", "1 response of a cut call never came"},
		{"nothing is promised, silence to our stop – holds", begun + "resume\nhead 200 sse\nwait 12s\nend stopped\nsettled undecided\nledger 5 resp=0\n" + other, setup(0, none), canaryScript, judge.Holds, "", ""},
		{"nothing is promised, stopped early – undecided", begun + "resume\nhead 200 sse\nwait 2s\nend stopped\nsettled undecided\nledger 5 resp=0\n" + other, setup(0, none), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
		{"nothing is promised, never cut – undecided", start + "m 1-2\nend clean\n" + "resume\nhead 200 sse\nend clean\nsettled undecided\nledger 5 resp=0\n" + other, setup(0, none), canaryScript, judge.Inconclusive, "", "1 stream is undecided"},
	} {
		c.run(t)
	}
}

// TestAnsweredCallsDropNothing: a cut call that was answered tells nothing of handlers
// that nobody waits for.
func TestAnsweredCallsDropNothing(t *testing.T) {
	d := judgeScript(ledgerSetup(), parse(t, healthyCut+canaryScript), wellTail()).Drops
	if d != (judge.Drops{Cut: 1}) {
		t.Errorf("%+v", d)
	}
}

// TestClaims: an invariant claims no more than the run can show, and counts nothing as
// checked that the contract lets go missing.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		told    told
		name    string
		claim   string
		checked int64
	}{
		{told{"modern", lostCall + "probe reissue want=5 took=1s\n" + given + wholeCall, modern, twinCanary, 0, "", ""}, "no-loss", "each message of a call arrives up to its cut", 7},
		{told{"modern", lostCall + "probe reissue want=5 took=1s\n" + given + wholeCall, modern, twinCanary, 0, "", ""}, "one-response", "every call that met no cut gets exactly one response, and none gets two", 1},
		{told{"modern", lostCall + "probe reissue want=5 took=1s\n" + given + wholeCall, modern, twinCanary, 0, "", ""}, "silent-after-cut", "no message of a cut call comes on the stream of its re-issue", 1},
		{told{"no head", lostCall + "probe reissue status=0 noresponse end=deadline took=1s\n" + given + wholeCall, modern, twinCanary, 0, "", ""}, "silent-after-cut", "no message of a cut call comes on the stream of its re-issue", 0},
		{told{"resumed", healthyCut, func(*judge.Setup) {}, canaryScript, 0, "", ""}, "no-loss", "each accepted message arrives", 5},
	} {
		setup := ledgerSetup()
		c.told.setup(&setup)
		inv := invariantOf(t, judgeScript(setup, parse(t, c.told.text+c.told.canary), wellTail()), c.name)
		if inv.Claim != c.claim || inv.Checked != c.checked {
			t.Errorf("%s: %d checked; %s", c.told.name, inv.Checked, inv.Claim)
		}
	}
}

// TestCutCancels: in 2026-07-28 the handler of a call that was cut long before its end must
// not run on, as far as the ledger tells.
func TestCutCancels(t *testing.T) {
	const again = "probe reissue want=5 took=1200ms\n"
	ledger := func(longest time.Duration) func(*judge.Setup) {
		return func(s *judge.Setup) {
			modern(s)
			s.Oracle, s.Ledger, s.Calls[0].Longest = judge.OracleLedger, true, longest
		}
	}
	whole := wholeCall + "ledger 5\n"
	for _, c := range []told{
		{"cancelled – holds", lostCall + again + given + "ledger 3 resp=0 cancelled\n" + whole, ledger(time.Second), canaryScript, judge.Holds, "", "Of 1 cut call 0 ran to the end, 1 was cancelled (ledger)."},
		{"ran on to its end", lostCall + again + given + "ledger 5\n" + whole, ledger(time.Second), canaryScript, judge.Violated, "silent-after-cut", "silent-after-cut is violated 1 time"},
		{"still running when asked – holds", lostCall + again + given + "ledger 4 resp=0\n" + whole, ledger(time.Second), canaryScript, judge.Holds, "", ""},
		{"cut close to its end – holds", strings.Replace(lostCall, "m 1-2\n", "m 1-2\nwait 700ms\n", 1) + again + given + "ledger 5\n" + whole, ledger(time.Second), canaryScript, judge.Holds, "", ""},
		{"nobody knows how long it runs – holds", lostCall + again + given + "ledger 5\n" + whole, ledger(0), canaryScript, judge.Holds, "", ""},
	} {
		c.run(t)
	}
	setup := ledgerSetup()
	ledger(time.Second)(&setup)
	v := judgeScript(setup, parse(t, lostCall+again+given+"ledger 3 resp=0 cancelled\n"+whole+canaryScript), wellTail())
	if inv := invariantOf(t, v, "silent-after-cut"); inv.Checked != 2 || inv.Claim != "a cut cancels the call, and no message of it comes on the stream of its re-issue" {
		t.Errorf("%+v", inv)
	}
}
