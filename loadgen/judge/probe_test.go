package judge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

func probed(s *judge.Setup) { s.Probes, s.Sessions = 1, true }

func older(s *judge.Setup) { s.Revision = "2025-06-18" }

// sampled is a healthy stream that was cut, with probes before it settled.
func sampled(probes string) string {
	return start + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\n" + probes + "\nsettled completed\nledger 5"
}

func TestReplayProbes(t *testing.T) {
	lossy := func(came, rest string) string {
		return start + "m 1-2\n" + cutAndResume + came + "\nresponse\nend clean\n" + rest + "\nsettled completed\nledger 5"
	}
	runRows(t, []row{
		{name: "everything again – holds", text: sampled("probe replay want=3"), want: "holds", setup: probed},
		{name: "not sampled – not exercised", text: healthyCut, want: "not exercised"},
		{name: "sampled, no id to ask with – not exercised", text: sampled("probe replay not"), want: "not exercised", setup: probed},
		{name: "one message missing – violated", text: sampled("probe replay want=3 got=2"), want: "violated", count: 1, setup: probed},
		{name: "other messages – violated", text: sampled("probe replay want=3 wrong=1"), want: "violated", count: 1, setup: probed},
		{name: "what was lost the first time – holds", text: lossy("m 3\nm 5", "probe replay want=2 wrong=1"), want: "holds", setup: probed},
		{name: "the end that was lost – holds", text: lossy("m 3", "probe replay want=1 wrong=2"), want: "holds", setup: probed},
		{name: "in order what came out of order – holds", text: lossy("m 3\nm 5\nm 4", "probe replay want=2 wrong=1"), want: "holds", setup: probed},
		{name: "more than was lost – violated", text: lossy("m 3\nm 5", "probe replay want=2 wrong=2"), want: "violated", count: 1, setup: probed},
		{name: "what was lost, but not all – violated", text: lossy("m 3\nm 5", "probe replay want=2 got=1 wrong=1"), want: "violated", count: 1, setup: probed},
		{name: "what was garbled the first time – not exercised", text: lossy("m 3 hash=y\nm 4-5", "probe replay want=3 got=0 wrong=3"), want: "not exercised", setup: probed},
		{name: "slow, and left before its end – not exercised", text: sampled("probe replay want=3 got=2 noresponse end=deadline took=2s"), want: "not exercised", setup: probed},
		{name: "repeats, under at-least-once – holds", text: sampled("probe replay want=3 wrong=1"), want: "holds", setup: both(probed, under(judge.AtLeastOnce))},
		{name: "a message missing, under at-least-once – violated", text: sampled("probe replay want=3 got=2"), want: "violated", count: 1, setup: both(probed, under(judge.AtLeastOnce))},
		{name: "another stream's – violated", text: sampled("probe replay want=3 foreign=1"), want: "violated", count: 1, setup: probed},
		{name: "no response – violated", text: sampled("probe replay want=3 noresponse"), want: "violated", count: 1, setup: probed},
		{name: "refused – violated", text: sampled("probe replay status=404 end=status"), want: "violated", count: 1, setup: probed},
		{name: "refused, under bounded – holds", text: sampled("probe replay status=404 end=status"), want: "holds", setup: both(probed, under(judge.Bounded))},
		{name: "500 – violated", text: sampled("probe replay status=500 end=status"), want: "violated", count: 1, setup: probed},
		{name: "too much to do – not exercised", text: sampled("probe replay status=503 end=status\nprobe again status=429 end=status"), want: "not exercised", setup: probed},
		{name: "reset before any answer – violated", text: sampled("probe replay status=0 end=reset"), want: "violated", count: 1, setup: probed},
		{name: "405 – not exercised", text: sampled("probe replay status=405 end=status"), want: "not exercised", setup: probed},
		{name: "silent for 2 s – not exercised", text: sampled("probe replay status=0 end=deadline took=2s"), want: "not exercised", setup: probed},
		{name: "silent for 12 s – violated", text: sampled("probe replay status=0 end=deadline took=12s"), want: "violated", count: 1, setup: probed},
		{name: "silent for 12 s, generator saturated – not exercised", text: sampled("probe replay status=0 end=deadline took=12s"), want: "not exercised", setup: probed,
			tail: func(t *judge.Tail) { t.Saturated = true }},
		{name: "struck by a storm – not exercised", text: sampled("cut storm after-response wide\nprobe replay status=0 end=reset"), want: "not exercised", setup: probed},
		{name: "no promise – not applicable", text: sampled("probe replay want=3 got=2"), want: "not applicable", setup: both(probed, under(judge.NoPromise))},
	}, "replay-after-response")
	runRows(t, []row{
		{name: "the same twice – holds", text: sampled("probe replay want=3\nprobe again want=3"), want: "holds", setup: probed},
		{name: "refused twice – holds", text: sampled("probe replay status=404 end=status\nprobe again status=404 end=status"), want: "holds", setup: probed},
		{name: "the second time less – violated", text: sampled("probe replay want=3\nprobe again want=3 got=1"), want: "violated", count: 1, setup: probed},
		{name: "the second time refused – violated", text: sampled("probe replay want=3\nprobe again status=400 end=status"), want: "violated", count: 1, setup: probed},
		{name: "the second time without the response – violated", text: sampled("probe replay want=3\nprobe again want=3 noresponse"), want: "violated", count: 1, setup: probed},
		{name: "slow the second time – not exercised", text: sampled("probe replay want=3\nprobe again want=3 got=1 noresponse end=deadline took=2s"), want: "not exercised", setup: probed},
		{name: "the first time nothing could be told – not exercised", text: sampled("probe replay status=409 end=status\nprobe again want=3"), want: "not exercised", setup: probed},
		{name: "not sampled – not exercised", text: healthyCut, want: "not exercised"},
	}, "idempotent-resume")
	runRows(t, []row{
		{name: "still open after the replayed response – violated", text: sampled("probe replay want=3 end=open"), want: "violated", count: 1, setup: probed},
	}, "stream-ends")
}

func TestCursorProbes(t *testing.T) {
	runRows(t, []row{
		{name: "400 – holds", text: sampled("probe unknown-cursor status=400 end=status\nprobe malformed-cursor status=400 end=status"), want: "holds", setup: probed},
		{name: "200 and the end – holds", text: sampled("probe unknown-cursor"), want: "holds", setup: probed},
		{name: "404 – holds", text: sampled("probe unknown-cursor status=404 end=status"), want: "holds", setup: probed},
		{name: "404, strict – violated", text: sampled("probe unknown-cursor status=404 end=status"), want: "violated", count: 1, setup: both(probed, strict)},
		{name: "200 and silence – violated", text: sampled("probe unknown-cursor end=deadline took=2s"), want: "violated", count: 1, setup: probed},
		{name: "200 and silence, generator saturated – not exercised", text: sampled("probe unknown-cursor end=deadline took=2s"), want: "not exercised", setup: probed,
			tail: func(t *judge.Tail) { t.Saturated = true }},
		{name: "500 – violated", text: sampled("probe malformed-cursor status=500 end=status"), want: "violated", count: 1, setup: probed},
		{name: "other data – violated", text: sampled("probe unknown-cursor wrong=2"), want: "violated", count: 2, setup: probed},
		{name: "messages of another session – violated", text: sampled("probe foreign-cursor foreign=3"), want: "violated", count: 3, setup: probed},
		{name: "403 on a foreign cursor – holds", text: sampled("probe foreign-cursor status=403 end=status"), want: "holds", setup: probed},
		{name: "405 – not exercised", text: sampled("probe unknown-cursor status=405 end=status"), want: "not exercised", setup: probed},
		{name: "not sampled – not exercised", text: healthyCut, want: "not exercised"},
	}, "cursor-verdict")
	runRows(t, []row{
		{name: "a foreign cursor brings its messages – violated", text: sampled("probe foreign-cursor foreign=3"), want: "violated", count: 3, setup: probed},
	}, "own-session")
}

func TestSessionProbes(t *testing.T) {
	runRows(t, []row{
		{name: "404 and 400 – holds", text: sampled("probe missing-session status=400 end=status\nprobe dead-session status=404 end=status"), want: "holds", setup: probed},
		{name: "served after its end – violated", text: sampled("probe dead-session"), want: "violated", count: 1, setup: probed},
		{name: "400 after its end – violated", text: sampled("probe dead-session status=400 end=status"), want: "violated", count: 1, setup: probed},
		{name: "served without an id – holds", text: sampled("probe missing-session"), want: "holds", setup: probed},
		{name: "served without an id, strict – violated", text: sampled("probe missing-session"), want: "violated", count: 1, setup: both(probed, strict)},
		{name: "too much to do – inconclusive", text: sampled("probe missing-session status=503 end=status\nprobe dead-session status=429 end=status"), want: "inconclusive", setup: probed},
		{name: "no sessions – not exercised", text: sampled("probe missing-session not"), want: "not exercised", setup: func(s *judge.Setup) { s.Probes = 1 }},
		{name: "sessions, and nobody asked – inconclusive", text: healthyCut, want: "inconclusive", setup: probed},
	}, "session-status")
	runRows(t, []row{
		{name: "403 – holds", text: sampled("probe origin status=403 end=status"), want: "holds", setup: probed},
		{name: "served – violated", text: sampled("probe origin"), want: "violated", count: 1, setup: probed},
		{name: "400 – violated", text: sampled("probe origin status=400 end=status"), want: "violated", count: 1, setup: probed},
		{name: "400, older revision – holds", text: sampled("probe origin status=400 end=status"), want: "holds", setup: both(probed, older)},
		{name: "too much to do – inconclusive", text: sampled("probe origin status=429 end=status"), want: "inconclusive", setup: probed},
		{name: "nobody asked – inconclusive", text: healthyCut, want: "inconclusive", setup: probed},
		{name: "not sampled – not exercised", text: healthyCut, want: "not exercised"},
	}, "origin-refused")
}

func TestRetention(t *testing.T) {
	const cut = start + "m 1\ncut rst mid-event\nend reset\nresume\n"
	runRows(t, []row{
		{name: "refused – holds", text: cut + "head 404\nend status\nsettled refused\nledger 5 resp=0", want: "holds"},
		{name: "refused after the response – holds", text: sampled("probe replay status=404 end=status"), want: "holds", setup: probed},
		{name: "the replay begins three later – violated", text: cut + "head 200 sse missed=2\nm 5\nresponse\nend clean\nsettled completed\nledger 5", want: "violated", count: 1},
		{name: "one is missing – not exercised", text: cut + "head 200 sse missed=2\nm 3-5\n" + done, want: "not exercised"},
		{name: "what is missing comes later – not exercised", text: cut + "head 200 sse missed=4\nm 5\nm 2-4\n" + done, want: "not exercised"},
		{name: "live again, nothing replayed – not exercised", text: cut + "head 200 sse missed=0\nm 5\n" + done, want: "not exercised"},
		{name: "nobody says what is replayed – not exercised", text: cut + "head 200 sse\nm 5\n" + done, want: "not exercised"},
		{name: "a probe skips – violated", text: sampled("probe replay want=5 got=0 wrong=2"), want: "violated", count: 3, setup: probed},
		{name: "a probe brings the one behind the cursor – not exercised", text: sampled("probe replay want=5 got=1 wrong=1"), want: "not exercised", setup: probed},
		{name: "a probe skips, and nobody says what is replayed – not exercised", text: strings.Replace(sampled("probe replay want=5 got=0 wrong=2"), " missed=2", "", 1), want: "not exercised", setup: probed},
		{name: "no promise – not applicable", text: healthyCut, want: "not applicable", setup: under(judge.NoPromise)},
	}, "honest-retention")
}

func TestPolling(t *testing.T) {
	const again = "resume asked=50ms waited=55ms\nhead 200 sse missed=0\n"
	bare := "stream 1 session 1 load\npost\nhead 200 sse\n"
	runRows(t, []row{
		{name: "after an id – holds", text: start + "m 1-2\nend clean\n" + again + "m 3-5\n" + done, want: "holds"},
		{name: "before any id – violated", text: bare + "end clean\nsettled indeterminate\nledger 5 resp=0", want: "violated", count: 1},
		{name: "reset before any id – violated", text: bare + "end reset\nsettled indeterminate\nledger 5 resp=0", want: "violated", count: 1},
		{name: "our own cut – not exercised", text: bare + "cut rst before-first-id early\nend reset\nsettled indeterminate\nledger 5 resp=0", want: "not exercised"},
		{name: "while it was delayed – violated", text: bare + "cut delay before-first-id early suffers\nend clean\nsettled indeterminate\nledger 5 resp=0", want: "violated", count: 1},
		{name: "after an id, older revision – violated", text: start + "m 1-2\nend clean\n" + again + "m 3-5\n" + done, want: "violated", count: 1, setup: older},
		{name: "a GET stream – not exercised", text: "stream 1 session 1 get\npost\nhead 200 sse\nend clean\nsettled undecided\nledger 5", want: "not exercised"},
	}, "no-early-close")
	runRows(t, []row{
		{name: "announced – holds", text: start + "m 1-2\nend clean\n" + again + "m 3-5\n" + done, want: "holds"},
		{name: "not announced – violated", text: start + "m 1-2\nend clean\nresume waited=55ms\nhead 200 sse\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "for days – violated", text: start + "m 1-2\nend clean\nresume asked=240h\nhead 200 sse\nm 3-5\n" + done, want: "violated", count: 1},
		{name: "our own cut – not exercised", text: start + "m 1-2\ncut rst mid-event\nend reset\nresume waited=55ms\nhead 200 sse\nm 3-5\n" + done, want: "not exercised"},
		{name: "older revision – not applicable", text: healthyCut, want: "not applicable", setup: older},
	}, "retry-announced")
}

func TestOneStreamPerMessage(t *testing.T) {
	sibling := "stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-5\n" + done
	silent := "stream 1 session 1 load\npost\nend unreachable\nsettled not-sent\nunknown"
	stray := start + "m 1-2\n" + cutAndResume + "m 4 owner=other from=2\nm 3-5\n" + done
	runRows(t, []row{
		{name: "each on its own – holds", text: healthyCut + sibling, want: "holds"},
		{name: "here and there – violated", text: stray + sibling, want: "violated", count: 1},
		{name: "here and there, closed the other way round – violated", text: sibling + stray, want: "violated", count: 1},
		{name: "here and not there – holds", text: stray + "stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-3\nm 5\n" + done, want: "holds"},
		{name: "here, and the other was cut before – holds", text: stray + "stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-3\nend stopped\nsettled undecided\nledger 5", want: "holds"},
		{name: "late, but emitted before – holds", text: start + "m 1-2\n" + cutAndResume + "m 3-4 late\nm 3-5\n" + done, want: "holds"},
		{name: "both links live – violated", text: start + "m 1\ncut rst mid-event\nend reset\nresume\nhead 200 sse missed=1\nm 2-5\nm 4-5 late\n" + done, want: "violated", count: 2},
		{name: "both links live, the old one ahead – violated", text: start + "m 1\ncut rst mid-event\nend reset\nresume\nm 2-5 late\nhead 200 sse missed=1\nm 2-5\n" + done, want: "violated", count: 1},
		{name: "nothing came – inconclusive", text: silent, want: "inconclusive"},
	}, "one-stream-per-message")
}

// TestProbeCounts: the result says how many were asked, and a probe is a line of the
// stream's story.
func TestProbeCounts(t *testing.T) {
	setup := ledgerSetup()
	probed(&setup)
	v := judgeScript(setup, parse(t, sampled("probe replay want=3 got=2\nprobe again want=3 got=2\nprobe unknown-cursor status=409 end=status\nprobe missing-session not")+canaryScript), wellTail())
	want := []judge.ProbeCount{{Name: "replay", Asked: 1, Deviating: 1}, {Name: "again", Asked: 1, Conforming: 1}, {Name: "unknown-cursor", Asked: 1}}
	if !slices.Equal(v.Probes, want) || v.Sampled != 1 {
		t.Errorf("%d sampled, %+v", v.Sampled, v.Probes)
	}
	i := slices.IndexFunc(v.Guilty[0].Steps, func(s judge.Step) bool { return s.Kind == "probe" })
	if i < 0 {
		t.Fatal("no step shows the probe")
	}
	if s := v.Guilty[0].Steps[i]; s.Probe != "replay" || s.Status != 200 || s.End != "clean" || s.Count != 2 || s.Want != 3 || s.Mark != "replay-after-response" {
		t.Errorf("%+v", s)
	}
	if d := invariantOf(t, judgeScript(setup, parse(t, sampled("probe missing-session")+canaryScript), wellTail()), "session-status"); d.Deviations != 1 || d.Violations != 0 || len(d.Evidence) != 1 {
		t.Errorf("a SHOULD beside a MUST: %+v", d)
	}
}

// TestProbesThatWereNeverMade: a sample that nobody asked must not look like one that
// had nothing to say.
func TestProbesThatWereNeverMade(t *testing.T) {
	setup := ledgerSetup()
	probed(&setup)
	const why = "no stream was probed, though 1 was to be"
	v := judgeScript(setup, parse(t, healthyCut+canaryScript), wellTail())
	if v.Word == judge.Holds || !slices.Contains(v.Why, why) {
		t.Errorf("without a probe: %s, %q", v.Word, v.Why)
	}
	v = judgeScript(setup, parse(t, sampled("probe replay status=409 end=status")+canaryScript), wellTail())
	if slices.Contains(v.Why, why) {
		t.Errorf("with a probe that could not be told: %s, %q", v.Word, v.Why)
	}
}
