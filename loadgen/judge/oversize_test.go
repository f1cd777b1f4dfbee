package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestOversize: a bound of ours convicts nobody. What it kept from us is undecided.
func TestOversize(t *testing.T) {
	const big, again = "junk illegal=16 noid\nend frame\n", "resume\nhead 200 sse\n"
	loops := start + "m 1-2\n" + cutAndResume + "m 3\n" + big + again + big + again + big + "settled failed\nledger 5"
	skips := start + "m 1-2\n" + cutAndResume + "m 3\n" + big + again + "m 5\nresponse\nend clean\nsettled completed\nledger 5"
	for _, r := range []struct {
		name, text string
		word       judge.Word
		why        string
		setup      func(*judge.Setup)
	}{
		{"each resume brings it again", loops, judge.Inconclusive, "1 event was larger than gapless reads (16 MiB of data, 64 KiB of a head or an id)", nil},
		{"each resume brings it again, numbered", loops, judge.Inconclusive, "1 event was larger than gapless reads", numbered},
		{"it is never brought again", skips, judge.Inconclusive, "1 event was larger than gapless reads", nil},
		{"the first event of all", "stream 1 session 1 load\npost\nhead 200 sse\n" + big + "settled failed\nledger 5 resp=0", judge.Inconclusive, "1 event was larger than gapless reads", nil},
		{"nested too deep", start + "m 1-2\n" + cutAndResume + "m 3\njunk illegal=16 bytes=9\nm 5\n" + done, judge.Inconclusive, "1 event was nested deeper than gapless reads", nil},
		{"two of one stream, and a loss elsewhere", skips + "\nstream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1\n" + cutAndResume + "m 3-5\n" + done,
			judge.Violated, "1 event was larger than gapless reads", nil},
		{"broken besides", start + "m 1-2\n" + cutAndResume + "m 3\njunk illegal=18 noid\nend frame\nresume\nhead 200 sse\nm 4-5\n" + done, judge.Violated, "larger", nil},
	} {
		setup := ledgerSetup()
		if r.setup != nil {
			r.setup(&setup)
		}
		v := judgeScript(setup, parse(t, r.text+canaryScript), wellTail())
		balance(t, v)
		if v.Word != r.word || !strings.Contains(strings.Join(v.Why, "; "), r.why) {
			t.Errorf("%s: %s: %s %v", r.name, v.Word, v.Sentence, v.Why)
		}
		if v.Word == judge.Inconclusive && !strings.Contains(v.Sentence, r.why) {
			t.Errorf("%s: %s", r.name, v.Sentence)
		}
	}
}
