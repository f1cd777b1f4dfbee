package lab

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestEachIssueRunsOnce: a call that was made again, and then ran twice, convicts; the
// ledger is asked for it, so that it can forget it.
func TestEachIssueRunsOnce(t *testing.T) {
	for _, c := range []struct {
		runs       int32
		violations int64
	}{{1, 0}, {2, 1}} {
		asked := 0
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var ask struct{ Calls []string }
			if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
				t.Error(err)
			}
			var answer ledgerAnswer
			for _, call := range ask.Calls {
				one := ledgerCall{Call: call, Known: true, Executions: 1, Cancelled: true}
				if strings.Count(call, ".") == 4 { // it has a part more
					one.Executions, one.Cancelled, one.Responses = c.runs, false, 1
					asked++
				}
				answer.Calls = append(answer.Calls, one)
			}
			_ = json.NewEncoder(w).Encode(answer)
		}))
		defer web.Close()
		j := judge.New(judge.Setup{Revision: "2026-07-28", Modern: true, Oracle: judge.OracleLedger, Ledger: true, Streams: 1, Faults: 1, Expected: 1})
		faults, err := chaos.NewPlan(chaos.PlanConfig{Streams: 1, Messages: 1})
		if err != nil {
			t.Fatal(err)
		}
		court := newCourt(j, faults, loadgen.NewMarks("0badcafe", []byte("s")), &ledger{url: web.URL, client: web.Client()}, nil, nil)
		stream := court.Open(loadgen.Arrival{Stream: 1, Session: 1, Kind: history.StreamLoad})
		for _, r := range []history.Record{
			{Kind: history.KindAttempt},
			{Kind: history.KindHead, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: -1}},
			{Kind: history.KindInjection, Injection: history.Injection{Kind: "rst", Place: "mid-event", Ends: true}},
			{Kind: history.KindEnd, End: history.EndReset},
			{Kind: history.KindProbe, Probe: history.Probe{Name: history.ProbeReissue, Offered: true, Status: 200, Response: true}},
			{Kind: history.KindSettled, Outcome: history.OutcomeIndeterminate},
		} {
			r.Session, r.Stream = 1, 1
			stream.Observe(&r)
		}
		if err := court.close(); err != nil || court.failed != nil {
			t.Fatal(err, court.failed)
		}
		for _, inv := range j.Finish(judge.Tail{Trailer: true, Planned: 1}).Invariants {
			if inv.Name == "executed-once" && (inv.Violations != c.violations || asked != 1) {
				t.Errorf("%d runs: %d violations, asked %d times", c.runs, inv.Violations, asked)
			}
		}
	}
}
