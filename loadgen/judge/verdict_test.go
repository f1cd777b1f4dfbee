package judge_test

import (
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// healthyCut is a call that was cut once and lost nothing.
const healthyCut = `
stream 1 session 1 load
post
head 200 sse
prime
m 1-2
cut rst mid-event
end reset
resume asked=100ms waited=105ms
head 200 sse missed=2
m 3-5
response
end clean
settled completed
ledger 5
`

func TestHealthyRunHolds(t *testing.T) {
	v := judgeScript(ledgerSetup(), parse(t, healthyCut+canaryScript), wellTail())
	if v.Word != judge.Holds {
		t.Fatalf("%s: %v", v.Word, v.Why)
	}
	balance(t, v)
	if v.Messages.Delivered != 5 || v.CutsAtRisk != 1 || v.JudgedCuts != 1 || v.LossBound95 != 1 || v.Resumes.ReplayedMessages != 2 {
		t.Errorf("%+v", v)
	}
	t.Log(v.Sentence)
}
