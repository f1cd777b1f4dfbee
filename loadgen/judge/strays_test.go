package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// canaryWith is the canary with lines behind its priming event.
func canaryWith(lines string) string {
	return strings.Replace(canaryScript, "prime\n", "prime\n"+lines, 1)
}

// TestStrays: a message that reached another stream than its own is not lost, and it came
// twice only if its own stream got it too.
func TestStrays(t *testing.T) {
	const lacks3, whole = start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done, start + "m 1-2\n" + cutAndResume + "m 3-5\n" + done
	for _, r := range []struct {
		name, text          string
		lost, own, oneTwice int64
	}{
		{"to the canary alone", lacks3 + canaryWith("m 3 owner=other from=1\n"), 0, 1, 0},
		{"to the canary too", whole + canaryWith("m 3 owner=other from=1\n"), 0, 1, 1},
		{"of another session to the canary", whole + canaryWith("m 3 owner=session from=1\n"), 0, 0, 0},
		{"from the canary, which dropped it", start + "m 1-2\nm 2 owner=other from=99\n" + cutAndResume + "m 3-5\n" + done + canaryScript, 0, 1, 0},
		{"from the canary, which had it", start + "m 1-2\nm 1 owner=other from=99\n" + cutAndResume + "m 3-5\n" + done + canaryScript, 0, 1, 1},
		{"nowhere", lacks3 + canaryScript, 1, 0, 0},
	} {
		v := judgeScript(ledgerSetup(), parse(t, healthyControl+r.text), wellTail())
		balance(t, v)
		own, twice := invariantOf(t, v, "own-stream").Violations, invariantOf(t, v, "one-stream-per-message").Violations
		if v.Messages.Lost != r.lost || own != r.own || twice != r.oneTwice || v.Word != judge.Violated || !v.Canary.Convicted {
			t.Errorf("%s: %d lost, own-stream %d, one-stream-per-message %d: %s", r.name, v.Messages.Lost, own, twice, v.Sentence)
		}
		if loss := invariantOf(t, v, "no-loss"); loss.Violations != r.lost || int64(len(loss.Evidence)) != r.lost || loss.Streams != r.lost {
			t.Errorf("%s: no-loss %+v", r.name, loss)
		}
		for _, g := range v.Guilty {
			if strings.Contains(g.Headline, "LOST") != (r.lost > 0) {
				t.Errorf("%s: headline %q", r.name, g.Headline)
			}
		}
	}
}

// TestStrayCaps: past the caps nobody knows whether a message is lost or came elsewhere.
func TestStrayCaps(t *testing.T) {
	const n = 100
	setup := ledgerSetup()
	setup.Expected = n
	text := start + "m 1\n" + cutAndResume + "m 100\nresponse\nend clean\nsettled completed\nledger 100\n" +
		"stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 2-99 owner=other from=1\nm 1-100\nresponse\nend clean\nsettled completed\nledger 100\n"
	v := judgeScript(setup, parse(t, text+canaryScript), wellTail())
	balance(t, v)
	if m := v.Messages; m.Lost != 0 || m.Undecided != 98-64 || m.Delivered != 200-34 {
		t.Errorf("%+v", m)
	}
	said := fmt.Sprintf("%d messages were lost or came on another stream", 98-64)
	if v.Word != judge.Violated || !strings.Contains(strings.Join(v.Why, "; "), said) {
		t.Errorf("%s: %s %v", v.Word, v.Sentence, v.Why)
	}
}

// TestStraysOfManyGaps: a message whose number is past those that are kept of a loss may
// be the one that came elsewhere.
func TestStraysOfManyGaps(t *testing.T) {
	setup := ledgerSetup()
	setup.Expected = 100
	var own, other strings.Builder
	for seq := 1; seq <= 100; seq += 2 {
		fmt.Fprintf(&own, "m %d\n", seq)
		fmt.Fprintf(&other, "m %d owner=other from=1\n", seq+1)
	}
	text := start + own.String() + "response\nend clean\nsettled completed\nledger 100\n" +
		"stream 2 session 1 load\npost\nhead 200 sse\nprime\n" + other.String() + "m 1-100\nresponse\nend clean\nsettled completed\nledger 100\n"
	v := judgeScript(setup, parse(t, text+canaryScript), wellTail())
	balance(t, v)
	if m := v.Messages; m.Lost != 0 || m.Undecided != 50-16 || m.Delivered != 200-34 {
		t.Errorf("%+v", m)
	}
}
