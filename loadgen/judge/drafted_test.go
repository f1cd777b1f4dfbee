package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// draft is a setup of dialect streams.
func draft(s *judge.Setup) { s.Revision, s.Dialect = "2025-06-18", "streams" }

func draftAtLeastOnce(s *judge.Setup) {
	draft(s)
	s.Contract = judge.AtLeastOnce
}

const (
	drafted   = "stream 1 session 1 load\npost\nhead 200 sse\ncreate\n"
	overAgain = "response\nover\nanswer noid\nend clean\nsettled completed\nledger 5"
	cutDraft  = drafted + "m 1-2\n" + cutAndResume + "m 3-5\n" + overAgain
)

// polledDraft is cut after two messages and polled before it is resumed.
func polledDraft(poll, rest string) string {
	return drafted + "m 1-2\ncut rst mid-event\nend reset\npoll " + poll + "\nresume\nhead 200 sse\n" + rest
}

func TestEndLast(t *testing.T) {
	runRows(t, []row{
		{name: "once and last – holds", text: cutDraft, want: "holds", setup: draft},
		{name: "cut before it, brought by a resume – holds", text: drafted + "m 1-5\nresponse\n" + cutAndResume + "over\nanswer noid\nend clean\nsettled completed\nledger 5", want: "holds", setup: draft},
		{name: "twice – violated", text: drafted + "m 1-5\nresponse\nover\nover\nend clean\nsettled completed\nledger 5", want: "violated", count: 1, setup: draft},
		{name: "before the response – violated", text: drafted + "m 1-5\nover\nresponse\nend clean\nsettled completed\nledger 5", want: "violated", count: 2, setup: draft},
		{name: "a message after it – violated", text: drafted + "m 1-4\nresponse\nover\nm 5\nend clean\nsettled completed\nledger 5", want: "violated", count: 1, setup: draft},
		{name: "never – violated", text: drafted + "m 1-2\n" + cutAndResume + "m 3-5\nresponse\nend clean\nresume\nhead 200 sse\nend clean\nsettled failed\nledger 5", want: "violated", count: 1, setup: draft},
		{name: "silence instead – violated", text: drafted + "m 1-5\nresponse\nwait 20s\nend deadline\nsettled failed\nledger 5", want: "violated", count: 1, setup: draft},
		{name: "silence, generator saturated – inconclusive", text: drafted + "m 1-5\nresponse\nwait 20s\nend deadline\nsettled failed\nledger 5", want: "inconclusive", setup: draft,
			tail: func(t *judge.Tail) { t.Saturated = true }},
		{name: "a cancelled call without response – holds", text: drafted + "m 1\nover\nend clean\nsettled cancelled\nledger 1 resp=0 cancelled seen", want: "holds", setup: draft},
		{name: "stopped before it – inconclusive", text: drafted + "m 1-5\nresponse\nend stopped\nsettled undecided\nledger 5", want: "inconclusive", setup: draft},
		{name: "a call without a stream – inconclusive", text: start + "m 1-5\n" + done, want: "inconclusive", setup: draft},
		{name: "that of another stream – inconclusive", text: drafted + "m 1-5\nresponse\nover owner=nobody\nend stopped\nsettled undecided\nledger 5", want: "inconclusive", setup: draft},
		{name: "another dialect – not applicable", text: healthyCut, want: "not applicable"},
	}, "end-last")
}

func TestPollTruthful(t *testing.T) {
	rest := "m 3-5\n" + overAgain
	runRows(t, []row{
		{name: "live, and more came – holds", text: polledDraft("", rest), want: "holds", setup: draft},
		{name: "completed with messages pending – holds", text: polledDraft("completed pending", rest), want: "holds", setup: draft},
		{name: "completed with nothing pending, and nothing came but the end – holds", text: drafted + "m 1-5\nresponse\ncut rst after-response\nend reset\npoll completed\nresume\nhead 200 sse\nover\nanswer noid\nend clean\nsettled completed\nledger 5",
			want: "holds", setup: draft},
		{name: "completed with an error pending – holds", text: polledDraft("completed pending error", "m 3-5\nerror\nover\nanswer noid\nend clean\nsettled completed\nledger 5"), want: "holds", setup: draft},
		{name: "completed with nothing pending, and messages came – violated", text: polledDraft("completed", rest), want: "violated", count: 1, setup: draft},
		{name: "messages pending, and none came – violated", text: drafted + "m 1-5\nresponse\ncut rst after-response\nend reset\npoll completed pending\nresume\nhead 200 sse\nover\nanswer noid\nend clean\nsettled completed\nledger 5",
			want: "violated", count: 1, setup: draft},
		{name: "no error pending, and one came – violated", text: polledDraft("completed pending", "m 3-5\nerror\nover\nanswer noid\nend clean\nsettled completed\nledger 5"), want: "violated", count: 1, setup: draft},
		{name: "no request pending, and one came – violated", text: polledDraft("completed pending", "other class=request owner=unmarked\n"+rest), want: "violated", count: 1, setup: draft},
		{name: "an error pending and no message – violated", text: polledDraft("error", rest), want: "violated", count: 1, setup: draft},
		{name: "another stream – violated", text: polledDraft("strange", rest), want: "violated", count: 1, setup: draft},
		{name: "live after it was completed – violated", text: polledDraft("completed pending", "cut rst mid-event\nend reset\npoll pending\nresume\nhead 200 sse\n"+rest), want: "violated", count: 1, setup: draft},
		{name: "live after its end – violated", text: drafted + "m 1-5\nresponse\nover\nend clean\npoll\nsettled completed\nledger 5", want: "violated", count: 1, setup: draft},
		{name: "completed after its end – holds", text: drafted + "m 1-5\nresponse\nover\nend clean\npoll completed\nsettled completed\nledger 5", want: "holds", setup: draft},
		{name: "pending, and we cut what should have come – holds", text: drafted + "m 1-5\nresponse\ncut rst after-response\nend reset\npoll completed pending\nresume\nhead 200 sse\nover\ncut chunk-end mid-event\nend clean\nsettled completed\nledger 5",
			want: "holds", setup: draft},
		{name: "live with nothing pending is overtaken – holds", text: polledDraft("", rest), want: "holds", setup: draft},
		{name: "brought again under at-least-once, as was said – holds", text: polledDraft("completed pending", "m 2-5\n"+overAgain), want: "holds", setup: draftAtLeastOnce},
		{name: "refused – inconclusive", text: polledDraft("refused", rest), want: "not exercised", setup: draft},
		{name: "no answer that is one – inconclusive", text: polledDraft("unanswered", rest), want: "not exercised", setup: draft},
		{name: "never polled – inconclusive", text: cutDraft, want: "not exercised", setup: draft},
		{name: "another dialect – not applicable", text: healthyCut, want: "not applicable"},
	}, "poll-truthful")
}

// What the dialect says otherwise than 2025-11-25.
func TestTheRestOfTheDraft(t *testing.T) {
	runRows(t, []row{
		{name: "created – holds", text: cutDraft, want: "holds", setup: draft},
		{name: "primed – violated", text: start + "m 1-5\n" + overAgain, want: "violated", count: 1, setup: draft},
	}, "primed")
	runRows(t, []row{
		{name: "closed once it was created – holds", text: drafted + "m 1-2\nend clean\nresume asked=1s\nhead 200 sse\nm 3-5\n" + overAgain, want: "holds", setup: draft},
		{name: "closed before – violated", text: start + "end clean\nsettled failed\nledger 5 resp=0", want: "violated", count: 1, setup: draft},
	}, "no-early-close")
	runRows(t, []row{
		{name: "with a time – holds", text: drafted + "m 1-2\nend clean\nresume asked=1s\nhead 200 sse\nm 3-5\n" + overAgain, want: "holds", setup: draft},
		{name: "without – violated", text: drafted + "m 1-2\nend clean\nresume\nhead 200 sse\nm 3-5\n" + overAgain, want: "violated", count: 1, setup: draft},
	}, "retry-announced")
	runRows(t, []row{
		{name: "nothing but the end – holds", text: cutDraft, want: "holds", setup: draft},
		{name: "a message – violated", text: drafted + "m 1-4\nresponse\nm 5\nover\nend clean\nsettled completed\nledger 5", want: "violated", count: 1, setup: draft},
	}, "silent-after-response")
	runRows(t, []row{
		{name: "behind the end – holds", text: cutDraft, want: "holds", setup: draft},
		{name: "disconnected before it – not exercised", text: drafted + "m 1-5\nresponse\nend truncated\nresume\nhead 200 sse\nover\nanswer noid\nend clean\nsettled completed\nledger 5", want: "not exercised", setup: draft},
		{name: "open behind it – violated", text: drafted + "m 1-5\nresponse\nover\nend open\nsettled completed\nledger 5", want: "violated", count: 1, setup: draft},
	}, "stream-ends")
	runRows(t, []row{
		{name: "refused by an error – holds", text: drafted + "m 1-2\n" + cutAndResume + "refusal noid\nend clean\nsettled refused\nledger 5 resp=0", want: "holds", setup: draft},
		{name: "skipped – violated", text: drafted + "m 1-2\n" + cutAndResume + "m 5\n" + overAgain, want: "violated", count: 1, setup: draft},
		{name: "one is missing, which is loss – not exercised", text: drafted + "m 1-2\n" + cutAndResume + "m 4-5\n" + overAgain, want: "not exercised", setup: draft},
	}, "honest-retention")
	runRows(t, []row{{name: "a cursor confirms what came before it – not applicable", text: cutDraft, want: "not applicable", setup: draft}}, "replay-after-response")
	runRows(t, []row{
		{name: "leads on to the end alone – holds", text: drafted + "m 1-5\nresponse\n" + cutAndResume + "over\nanswer noid\nend clean\nsettled completed\nledger 5", want: "holds", setup: draft},
		{name: "refused – inconclusive", text: drafted + "m 1-2\n" + cutAndResume + "refusal noid\nend clean\nsettled refused\nledger 5 resp=0", want: "inconclusive", setup: draft},
	}, "resume-progress")
}

// A resume that is refused by an error is loss, but for a target that promises bounded
// retention.
func TestRefusedByAnError(t *testing.T) {
	refused := drafted + "m 1-2\n" + cutAndResume + "refusal noid\nend clean\nsettled refused\nledger 5 resp=0\n"
	for contract, want := range map[judge.Contract]judge.Word{judge.ExactlyOnce: judge.Violated, judge.AtLeastOnce: judge.Violated, judge.Bounded: judge.Holds} {
		setup := ledgerSetup()
		draft(&setup)
		setup.Contract = contract
		setup.Streams, setup.Faults = 2, 2
		text := refused + strings.ReplaceAll(cutDraft, "stream 1", "stream 2") + "\n" + strings.Replace(canaryScript, "end clean", "over\nend clean", 1)
		v := judgeScript(setup, parse(t, text), wellTail())
		balance(t, v)
		if v.Word != want || v.Resumes.Refused != 1 || v.Resumes.Succeeded != 1 {
			t.Errorf("%s: %s, %+v: %s %v", contract, v.Word, v.Resumes, v.Sentence, v.Why)
		}
	}
}
