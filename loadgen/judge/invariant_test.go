package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// A row is one situation and what one invariant says of it.
type row struct {
	name      string // invariant – situation – outcome
	invariant string
	text      string
	want      string // the invariant's State
	count     int64  // violations
	setup     func(*judge.Setup)
	tail      func(*judge.Tail)
}

func numbered(s *judge.Setup) { s.Oracle, s.Ledger = judge.OracleNumbered, false }

func strict(s *judge.Setup) { s.Strict = true }

func noFaults(s *judge.Setup) { s.Faults = 0 }

func both(fs ...func(*judge.Setup)) func(*judge.Setup) {
	return func(s *judge.Setup) {
		for _, f := range fs {
			f(s)
		}
	}
}

// Pieces of histories. start opens a primed stream, cutAndResume cuts it in the middle
// of an event, done ends it well.
const (
	start        = "stream 1 session 1 load\npost\nhead 200 sse\nprime\n"
	cutAndResume = "cut rst mid-event\nend reset\nresume asked=100ms waited=105ms\nhead 200 sse missed=2\n"
	done         = "response\nend clean\nsettled completed\nledger 5\n"
	unanswered   = "wait 40s\nend deadline\nsettled failed\nledger 5 resp=0\n"
)

// runRows judges every row, with the canary that any run has.
func runRows(t *testing.T, rows []row, invariant string) {
	t.Helper()
	for _, r := range rows {
		r.invariant = invariant
		t.Run(invariant+" – "+r.name, func(t *testing.T) {
			setup, tail := ledgerSetup(), wellTail()
			if r.setup != nil {
				r.setup(&setup)
			}
			if r.tail != nil {
				r.tail(&tail)
			}
			v := judgeScript(setup, parse(t, r.text+canaryScript), tail)
			balance(t, v)
			inv := invariantOf(t, v, r.invariant)
			if inv.State != r.want || inv.Violations != r.count {
				t.Errorf("%s: state %q with %d violations, want %q with %d\n%v", r.invariant, inv.State, inv.Violations, r.want, r.count, v.Why)
			}
			if r.count > 0 && inv.Decides && v.Word != judge.Violated {
				t.Errorf("the run is %s although %s is violated", v.Word, r.invariant)
			}
			if r.want == "inconclusive" && v.Word == judge.Holds {
				t.Errorf("the run holds although %s is inconclusive", r.invariant)
			}
			if r.count > 0 && (len(inv.Evidence) == 0 || inv.Streams == 0) {
				t.Errorf("no evidence for %s", r.invariant)
			}
		})
	}
}

func TestOneResponse(t *testing.T) {
	const hang = start + "m 1-5\n" + cutAndResume + unanswered
	runRows(t, []row{
		{name: "answered once – holds", text: healthyCut, want: "holds"},
		{name: "answered twice – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\n" + done, want: "violated", count: 1},
		{name: "ledger shows two – violated", text: start + "m 1-5\nresponse\nend clean\nsettled completed\nledger 5 resp=2", want: "violated", count: 1},
		{name: "silent past the deadline, generator well – violated", text: hang, want: "violated", count: 1},
		{name: "silent past the deadline, generator saturated – inconclusive", text: hang, want: "inconclusive",
			tail: func(t *judge.Tail) { t.Saturated = true }},
		{name: "silent past the deadline, generator late – inconclusive", text: hang, want: "inconclusive",
			tail: func(t *judge.Tail) { t.StartDelayP99 = 2e9 }},
		{name: "deadline after 2 s of silence – inconclusive", text: start + "m 1-5\n" + cutAndResume +
			"wait 2s\nend deadline\nsettled failed\nledger 5 resp=0", want: "inconclusive"},
		{name: "completed, but no record shows the response – violated", text: start + "m 1-5\n" + cutAndResume +
			"end clean\nsettled completed\nledger 5", want: "violated", count: 1},
		{name: "ended early by the target, no resume possible – violated", text: start + "m 1-5\nend clean\nsettled failed\nledger 5 resp=0",
			want: "violated", count: 1},
		{name: "cursor refused – violated", text: start + "m 1-5\n" + "cut rst mid-event\nend reset\nresume\nhead 400\nend status\nsettled refused\nledger 5",
			want: "violated", count: 1},
		{name: "cut before the first id – inconclusive", text: "stream 1 session 1 load\npost\nhead 200 sse\ncut rst before-first-id early\nend reset\nsettled indeterminate\nledger 5",
			want: "inconclusive"},
		{name: "stopped by ourselves – inconclusive", text: start + "m 1-2\nend stopped\nsettled undecided\nledger 5 resp=0", want: "inconclusive"},
		{name: "never settled – inconclusive", text: start + "m 1-2\nledger 5 resp=0", want: "inconclusive"},
		{name: "call refused – inconclusive", text: "stream 1 session 1 load\npost\nhead 503\nend status\nsettled refused\nunknown", want: "inconclusive"},
		{name: "not sent – inconclusive", text: "stream 1 session 1 load\npost\nend unreachable\nsettled not-sent\nunknown", want: "inconclusive"},
		{name: "cancelled – inconclusive", text: start + "m 1\nend stopped\nsettled cancelled\nledger 1 resp=0 cancelled", want: "inconclusive"},
	}, "one-response")
}

func TestNoLoss(t *testing.T) {
	lostInMiddle := start + "m 1-2\n" + cutAndResume + "m 5\n" + done
	runRows(t, []row{
		{name: "all came – holds", text: healthyCut, want: "holds"},
		{name: "two below the last – violated", text: lostInMiddle, want: "violated", count: 2},
		{name: "a cut call answered with an error, numbered – violated", text: start + "m 1-2\n" + cutAndResume + "m 3\nerror\nend clean\nsettled completed", want: "violated", count: 2, setup: numbered},
		{name: "two below the last, numbered – violated", text: lostInMiddle, want: "violated", count: 2, setup: numbered},
		{name: "tail missing though answered – violated", text: start + "m 1-2\n" + cutAndResume + done, want: "violated", count: 3},
		{name: "tail missing though answered, numbered by total – violated", text: start + "m 1-2 total=5\n" + cutAndResume + done,
			want: "violated", count: 3, setup: both(numbered, func(s *judge.Setup) { s.Expected = 0 })},
		{name: "tail missing, unanswered – holds, since one-response answers for it", text: start + "m 1-2\n" + cutAndResume + unanswered, want: "holds"},
		{name: "hole below, unanswered – violated", text: start + "m 1\nm 3\n" + cutAndResume + unanswered, want: "violated", count: 1},
		{name: "a hole after one that was filled – violated", text: start + "m 1\nm 3\nm 2\nm 4\n" + cutAndResume +
			"m 6\nresponse\nend clean\nsettled completed\nledger 6", want: "violated", count: 1},
		{name: "answered without its last message, never settled – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-4\nresponse\nend clean\nledger 5",
			want: "violated", count: 1},
		{name: "cursor refused – violated", text: start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 404\nend status\nsettled refused\nledger 5",
			want: "violated", count: 3},
		{name: "append result unknown – holds", text: start + "m 1-2\n" + cutAndResume + "m 4-5\nresponse\nend clean\nsettled completed\nledger 5 unknown=3", want: "holds"},
		{name: "unstored with a store fault – holds", text: start + "m 1-2\n" + cutAndResume + "m 4-5\nresponse\nend clean\nsettled completed\nledger 5 unstored=3",
			want: "holds", setup: func(s *judge.Setup) { s.StoreFaults = true }},
		{name: "unstored without a store fault – violated", text: start + "m 1-2\n" + cutAndResume + "m 4-5\nresponse\nend clean\nsettled completed\nledger 5 unstored=3",
			want: "violated", count: 1},
		{name: "came late only – violated", text: start + "m 1-2\n" + cutAndResume + "m 3 late\nm 4-5\n" + done, want: "violated", count: 1},
		{name: "never cut – inconclusive", text: start + "m 1-5\n" + done, want: "inconclusive"},
		{name: "no faults planned – inconclusive", text: start + "m 1-5\n" + done, want: "inconclusive", setup: noFaults},
		{name: "too few cut calls – inconclusive", text: healthyCut, want: "inconclusive",
			setup: func(s *judge.Setup) { s.Faults, s.Streams = 100, 100 }},
		{name: "cut but undecided – inconclusive", text: start + "m 1-2\n" + cutAndResume + "end stopped\nsettled undecided\nledger 5", want: "inconclusive"},
		{name: "no oracle – inconclusive", text: healthyCut, want: "inconclusive", setup: func(s *judge.Setup) { s.Oracle = "" }},
		{name: "ignored – not applicable", text: lostInMiddle, want: "not applicable", setup: func(s *judge.Setup) { s.Ignore = []string{"no-loss"} }},
	}, "no-loss")
}

func TestMessages(t *testing.T) {
	again := start + "m 1-2\n" + cutAndResume + "m 2-5\n" + done
	swapped := start + "m 1-2\n" + cutAndResume + "m 4\nm 3\nm 5\n" + done
	nothing := "stream 1 session 1 load\npost\nend unreachable\nsettled not-sent\nunknown"
	runRows(t, []row{
		{name: "each once – holds", text: healthyCut, want: "holds"},
		{name: "cursor inclusive – violated", text: again, want: "violated", count: 1},
		{name: "repeated on one link – violated", text: start + "m 1-2\nm 1\n" + cutAndResume + "m 3-5\n" + done, want: "violated", count: 1},
		{name: "read late from the old link – holds", text: start + "m 1-2\n" + cutAndResume + "m 2 late\nm 3-5\n" + done, want: "holds"},
		{name: "nothing came – inconclusive", text: nothing, want: "inconclusive"},
	}, "no-duplicate")
	runRows(t, []row{
		{name: "ascending – holds", text: healthyCut, want: "holds"},
		{name: "two swapped – violated", text: swapped, want: "violated", count: 1},
		{name: "a repeat is no disorder – holds", text: again, want: "holds"},
		{name: "nothing came – inconclusive", text: nothing, want: "inconclusive"},
	}, "in-order")
	runRows(t, []row{
		{name: "as emitted – holds", text: healthyCut, want: "holds"},
		{name: "other bytes than emitted – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\nsettled completed\nledger 5 corrupt=4",
			want: "violated", count: 1},
		{name: "never emitted – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-7\n" + done, want: "violated", count: 2},
		{name: "above the total – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-7\n" + done, want: "violated", count: 2, setup: numbered},
		{name: "repeated with other bytes – violated", text: start + "m 1-2\n" + cutAndResume + "m 2 hash=x\nm 3-5\n" + done, want: "violated", count: 1, setup: numbered},
		{name: "nothing to compare – not exercised", text: healthyCut, want: "not exercised", setup: numbered},
		{name: "no ledger entry – inconclusive", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\nsettled completed", want: "inconclusive"},
		{name: "ledger entry with a hole – inconclusive", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\nsettled completed\nledger 5 short",
			want: "inconclusive"},
	}, "intact")
	runRows(t, []row{
		{name: "ascending – holds", text: healthyCut, want: "holds"},
		{name: "equal twice – violated", text: start + "m 1 p=0.5\nm 2 p=0.5\n" + cutAndResume + "m 1-5 p=1\n" + done, want: "violated", count: 5},
		{name: "a repeat is no first delivery – holds", text: again, want: "holds"},
		{name: "falls – violated", text: swapped, want: "violated", count: 1},
		{name: "no progress – inconclusive", text: start + "other\n" + cutAndResume + "response\nend clean\nsettled completed\nledger 0", want: "inconclusive"},
	}, "progress-increases")
}

func TestOwners(t *testing.T) {
	silent := "stream 1 session 1 load\npost\nend unreachable\nsettled not-sent\nunknown"
	runRows(t, []row{
		{name: "own messages – holds", text: healthyCut, want: "holds"},
		{name: "message of a sibling – violated", text: start + "m 1-2\n" + cutAndResume + "m 7 owner=other from=2\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "response of a sibling – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse owner=other from=2\n" + done, want: "violated", count: 1},
		{name: "another session's – holds", text: start + "m 1-2\n" + cutAndResume + "m 7 owner=session\nm 3-5\n" + done, want: "holds"},
		{name: "nothing came – inconclusive", text: silent, want: "inconclusive"},
		{name: "nothing marked came, no oracle – not exercised", text: silent, want: "not exercised", setup: func(s *judge.Setup) { s.Oracle = "" }},
	}, "own-stream")
	runRows(t, []row{
		{name: "own messages – holds", text: healthyCut, want: "holds"},
		{name: "another session's message – violated", text: start + "m 1-2\n" + cutAndResume + "m 7 owner=session\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "a mark nobody was given – violated", text: start + "m 1-2\n" + cutAndResume + "m 7 owner=nobody\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "a sibling's – holds", text: start + "m 1-2\n" + cutAndResume + "m 7 owner=other from=2\nm 3-5\n" + done, want: "holds"},
		{name: "nothing came – inconclusive", text: silent, want: "inconclusive"},
	}, "own-session")
}

func TestIDs(t *testing.T) {
	second := "stream 2 session 1 load\npost\nhead 200 sse\nprime id=p2\nm 1-5\n" + done
	noIDs := "stream 1 session 1 load\npost\nhead 200 sse\nnoids\nm 1-5\n" + done
	runRows(t, []row{
		{name: "all different – holds", text: healthyCut + second, want: "holds"},
		{name: "twice on one link – violated", text: start + "m 1 id=x\nm 2 id=x\n" + cutAndResume + "m 3-5\n" + done, want: "violated", count: 1},
		{name: "constant priming id – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\nprime id=p2\nm 1-5\n" + done + second, want: "violated", count: 1},
		{name: "a session replayed on another stream – holds", want: "holds", // own-stream tells
			text: "stream 1 session 1 load\npost\nhead 200 sse\nprime id=p1\nm 1-2\nm 3 id=x hash=y\nm 4-5\n" + done +
				"stream 2 session 1 load\npost\nhead 200 sse\nprime id=p2\nprime id=p1\nm 3 id=x hash=y owner=other from=1\nm 1-5\n" + done},
		{name: "the same words under one id on two streams – violated", want: "violated", count: 1,
			text: "stream 1 session 1 load\npost\nhead 200 sse\nprime id=p1\nm 1-2\nm 3 id=x hash=y\nm 4-5\n" + strings.Replace(done, "ledger 5", "unknown", 1) +
				"stream 2 session 1 load\npost\nhead 200 sse\nprime id=p2\nm 1-2\nm 3 id=x hash=y\nm 4-5\n" + done},
		{name: "another message of another stream under one id – violated", want: "violated", count: 1,
			text: "stream 1 session 1 load\npost\nhead 200 sse\nprime id=p1\nm 1-2\nm 3 id=x\nm 4-5\n" + done +
				"stream 2 session 1 load\npost\nhead 200 sse\nprime id=p2\nm 3 id=x owner=other from=1\nm 1-5\n" + done},
		{name: "same id in another session – holds", text: "stream 1 session 2 load\npost\nhead 200 sse\nprime id=p2\nm 1-5\n" + done + second, want: "holds"},
		{name: "the cursor primed again – holds", text: start + "m 1-2 \nm 3 id=x\n" + cutAndResume + "prime id=x\nm 4-5\n" + done, want: "holds"},
		{name: "replayed under its id – holds", text: start + "m 1\nm 2 id=x\n" + cutAndResume + "m 2 id=x\nm 3-5\n" + done, want: "holds"},
		{name: "none came though promised – inconclusive", text: noIDs, want: "inconclusive"},
		{name: "none came, none promised – not exercised", text: noIDs, want: "not exercised", setup: func(s *judge.Setup) { s.IDs = false }},
	}, "unique-ids")
	runRows(t, []row{
		{name: "replayed under its id – holds", text: start + "m 1\nm 2 id=x\n" + cutAndResume + "m 2 id=x\nm 3-5\n" + done, want: "holds"},
		{name: "another message under the id – violated", text: start + "m 1\nm 2 id=x\n" + cutAndResume + "m 3 id=x\nm 4-5\n" + done, want: "violated", count: 1},
		{name: "the cursor primed again – not exercised", text: start + "m 1-2 \nm 3 id=x\n" + cutAndResume + "prime id=x\nm 4-5\n" + done, want: "not exercised"},
		{name: "nothing replayed – not exercised", text: healthyCut, want: "not exercised"},
	}, "stable-ids")
}

func TestFrames(t *testing.T) {
	runRows(t, []row{
		{name: "legal – holds", text: healthyCut, want: "holds"},
		{name: "broken JSON – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-4\nother illegal=2\nm 5\n" + done, want: "violated", count: 1},
		{name: "an id outside visible ASCII – holds", text: start + "m 1-2\n" + cutAndResume + "m 3-4\nm 5 illegal=8\n" + done, want: "holds"},
		{name: "an id outside visible ASCII, strict – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-4\nm 5 illegal=8\n" + done, want: "violated", count: 1, setup: strict},
		{name: "broken framing – violated", text: start + "m 1-2\nend frame\nresume\nhead 200 sse\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "broken framing, reported by an event – violated", text: start + "m 1-2\nother illegal=32\nend frame\nresume\nhead 200 sse\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "broken by our own cut – holds", text: start + "m 1-2\ncut rst mid-event\nend frame\nresume\nhead 200 sse\nm 3-5\n" + done, want: "holds"},
		{name: "no frame – inconclusive", text: "stream 1 session 1 load\npost\nend unreachable\nsettled not-sent\nunknown", want: "inconclusive"},
	}, "legal-frames")
	runRows(t, []row{
		{name: "nothing after – holds", text: healthyCut, want: "holds"},
		{name: "a message after – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-4\nresponse\nm 5\nend clean\nsettled completed\nledger 5", want: "violated", count: 1},
		{name: "a keep-alive after – holds", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nprime\nend clean\nsettled completed\nledger 5", want: "holds"},
		{name: "what is for no call after – holds", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nother owner=unmarked\nother class=request owner=unmarked\nend clean\nsettled completed\nledger 5", want: "holds"},
		{name: "what is for no call after, strict – violated", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nother owner=unmarked\nend clean\nsettled completed\nledger 5", want: "violated", count: 1, setup: strict},
		{name: "an empty object after – holds", text: start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\njunk illegal=4\nend clean\nsettled completed\nledger 5", want: "holds"}, // legal-frames tells
		{name: "no response – inconclusive", text: start + "m 1-2\n" + cutAndResume + unanswered, want: "inconclusive"},
	}, "silent-after-response")
	runRows(t, []row{
		{name: "an id and empty data – holds", text: healthyCut, want: "holds"},
		{name: "a message first – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\nm 1-5\n" + done, want: "violated", count: 1},
		{name: "a message first, strict – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\nm 1-5\n" + done, want: "violated", count: 1, setup: strict},
		{name: "empty data without id – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\nprime noid\nm 1-5\n" + done, want: "violated", count: 1},
		{name: "older revision – not applicable", text: healthyCut, want: "not applicable", setup: func(s *judge.Setup) { s.Revision = "2025-06-18" }},
		{name: "cut before anything came – not exercised", text: "stream 1 session 1 load\npost\nhead 200 sse\ncut rst before-first-id early\nend reset\nsettled indeterminate\nunknown",
			want: "not exercised"},
		{name: "a JSON body – not exercised", text: "stream 1 session 1 load\npost\nhead 200 json\nresponse noid\nend clean\nsettled completed\nledger 0", want: "not exercised"},
	}, "primed")
	runRows(t, []row{
		{name: "ends – holds", text: healthyCut, want: "holds"},
		{name: "stays open – violated", text: start + "m 1-5\nresponse\nend open\nsettled completed\nledger 5", want: "violated", count: 1},
		{name: "resets – violated", text: start + "m 1-5\nresponse\nend reset\nsettled completed\nledger 5", want: "violated", count: 1},
		{name: "we cut it – not exercised", text: start + "m 1-5\nresponse\ncut rst after-response\nend reset\nsettled completed\nledger 5", want: "not exercised"},
	}, "stream-ends")
}

func TestResumeProgress(t *testing.T) {
	refused409 := "resume\nhead 409\nend status\n"
	runRows(t, []row{
		{name: "leads on – holds", text: healthyCut, want: "holds"},
		{name: "hangs – violated", text: start + "m 1-2\n" + cutAndResume + unanswered, want: "violated", count: 1},
		{name: "hangs, generator saturated – inconclusive", text: start + "m 1-2\n" + cutAndResume + unanswered, want: "inconclusive",
			tail: func(t *judge.Tail) { t.Saturated = true }},
		{name: "empty answers until we give up – violated", text: start + "m 1-2\n" + cutAndResume +
			"end clean\nresume\nhead 200 sse\nend clean\nsettled failed\nledger 5 resp=0", want: "violated", count: 1},
		{name: "the target closes early many times – holds", text: start + "m 1-2\nend clean\nresume\nhead 200 sse\nend clean\nresume\nhead 200 sse\nend clean\nresume\nhead 200 sse\nm 3-5\n" + done,
			want: "holds"},
		{name: "our own last cut – inconclusive", text: start + "m 1-2\n" + cutAndResume + "cut rst resume-before-first-event\nend reset\nsettled failed\nledger 5 resp=0",
			want: "inconclusive"},
		{name: "409 for a while – holds", text: start + "m 1-2\ncut rst mid-event\nend reset\n" + refused409 + "wait 30s\n" + refused409 +
			"resume\nhead 200 sse\nm 3-5\n" + done, want: "holds"},
		{name: "409 after 60 s – violated", text: start + "m 1-2\ncut rst mid-event\nend reset\n" + refused409 + "wait 61s\n" + refused409 +
			"resume\nhead 200 sse\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "409 until a short deadline – inconclusive", text: start + "m 1-2\ncut rst mid-event\nend reset\n" + refused409 + "wait 20s\n" + refused409 +
			"settled failed\nledger 5 resp=0", want: "inconclusive"},
		{name: "endless 502 – violated", text: start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 502\nend status\nresume\nhead 502\nend status\nsettled failed\nledger 5 resp=0",
			want: "violated", count: 1},
		{name: "told to come back later until the end – inconclusive", text: start + "m 1-2\ncut rst mid-event\nend reset\nresume\nhead 503\nend status\nresume\nhead 503\nend status\nsettled failed\nledger 5 resp=0",
			want: "inconclusive"},
		{name: "indeterminate without a fault of ours – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\nend clean\nsettled indeterminate\nledger 5",
			want: "violated", count: 1},
		{name: "never resumed – inconclusive", text: start + "m 1-5\n" + done, want: "inconclusive"},
		{name: "never resumed, no faults planned – not exercised", text: start + "m 1-5\n" + done, want: "not exercised", setup: noFaults},
	}, "resume-progress")
}

func TestExecutedOnce(t *testing.T) {
	answered := start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\nsettled completed\n"
	runRows(t, []row{
		{name: "once – holds", text: healthyCut, want: "holds"},
		{name: "twice – violated", text: answered + "ledger 5 exec=2", want: "violated", count: 1},
		{name: "never, though answered – violated", text: answered + "ledger 5 exec=0", want: "violated", count: 1},
		{name: "twice, though cut before the first id – violated", text: "stream 1 session 1 load\npost\nhead 200 sse\ncut rst before-first-id early\nend reset\nsettled indeterminate\nledger 5 exec=2",
			want: "violated", count: 1},
		{name: "cancelled by the disconnection – violated", text: start + "m 1-2\n" + cutAndResume + "end clean\nsettled failed\nledger 2 resp=0 cancelled",
			want: "violated", count: 1},
		{name: "given up by us, who told the target – holds", text: start + "m 1-2\n" + cutAndResume + "end clean\nsettled failed\nledger 2 resp=0 cancelled seen", want: "holds"},
		{name: "cancelled by us – holds", text: start + "m 1\nend stopped\nsettled cancelled\nledger 1 resp=0 cancelled", want: "holds"},
		{name: "no ledger – not applicable", text: healthyCut, want: "not applicable", setup: numbered},
		{name: "no entry – inconclusive", text: answered, want: "inconclusive"},
	}, "executed-once")
}
