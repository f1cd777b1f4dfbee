package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestUnreachable: where nothing is promised, a fault that was to strike a resume could
// not, if the resumes of its call brought nothing. Only the cut that was to lead there
// tells that there was one.
func TestUnreachable(t *testing.T) {
	const (
		cut    = "cut rst mid-event opening\nend reset\n"
		empty  = "resume\nhead 200 sse\nend clean\nsettled failed\nledger 5 resp=0\n"
		brings = "resume\nhead 200 sse\nm 3-5\nresponse\nend clean\nsettled completed\nledger 5\n"
	)
	calls := func(n, first int, rest string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "stream %d session %d load\npost\nhead 200 sse\nprime\nm 1-2\n%s", first+i, first, rest)
		}
		return b.String()
	}
	for _, r := range []struct {
		name, text string
		contract   judge.Contract
		want       int64
	}{
		{"they brought nothing", calls(6, 1, cut+empty) + calls(4, 50, cut+brings), judge.NoPromise, 12}, // of 20-6
		{"nothing led back", calls(6, 1, cut+"settled indeterminate\nledger 5 resp=0\n") + calls(4, 50, cut+brings), judge.NoPromise, 12},
		{"it struck", calls(6, 1, cut+"resume\ncut rst resume-before-headers\nend reset\n"+empty) + calls(4, 50, cut+brings), judge.NoPromise, 16},
		{"they brought something", calls(10, 1, cut+"resume\nhead 200 sse\nm 3\nend clean\nsettled failed\nledger 5 resp=0\n"), judge.NoPromise, 16},
		{"a resume is promised", calls(6, 1, cut+empty) + calls(4, 50, cut+brings), judge.Bounded, 16},
	} {
		setup := ledgerSetup()
		setup.Contract, setup.Streams, setup.Faults = r.contract, 10, 20
		v := judgeScript(setup, parse(t, r.text+canaryScript), wellTail())
		balance(t, v)
		if got := v.Reached[0]; got.Name != "injections" || got.Want != r.want {
			t.Errorf("%s: %+v, want %d", r.name, got, r.want)
		}
	}
}
