package judge_test

import (
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

func TestValidate(t *testing.T) {
	rows := []struct {
		name  string
		setup judge.Setup
		want  []string // parts of the error; none means valid
	}{
		{"zero – valid", judge.Setup{}, nil},
		{"ledger – valid", ledgerSetup(), nil},
		{"every contract – valid", judge.Setup{Contract: judge.NoPromise}, nil},
		{"unknown contract – said", judge.Setup{Contract: "never"}, []string{"is unknown"}},
		{"twin, response – valid", judge.Setup{Oracle: judge.OracleTwin, Calls: []judge.CallSetup{{Twin: 5}, {ResponseOnly: true}}}, nil},
		{"oracles to come – said", judge.Setup{Oracle: judge.OracleWire}, []string{`oracle "wire" is not built yet`}},
		{"2026-07-28 – valid", judge.Setup{Modern: true, Dialect: "modern", Transport: "http"}, nil},
		{"2026-07-28 that resumes – said", judge.Setup{Modern: true, Contract: judge.ExactlyOnce}, []string{"2026-07-28 resumes nothing"}},
		{"unknown transport, bad call – said", judge.Setup{Transport: "pigeon", Calls: []judge.CallSetup{{Name: "count", Deadline: -1}}}, []string{`transport "pigeon"`, "call count"}},
		{"unresolved auto – said", judge.Setup{Oracle: judge.OracleAuto}, []string{"auto is not resolved"}},
		{"ledger oracle without a ledger – said", judge.Setup{Oracle: judge.OracleLedger}, []string{"needs a target that keeps a ledger"}},
		{"all complaints at once", judge.Setup{Oracle: "x", Dialect: "morse", Expected: -1, Ignore: []string{"no-lust"}, Reach: []judge.Want{{Name: "cats"}}},
			[]string{`oracle "x"`, `dialect "morse"`, "negative", `"no-lust"`, `"cats"`}},
	}
	for _, r := range rows {
		err := r.setup.Validate()
		if (err != nil) != (len(r.want) > 0) {
			t.Errorf("%s: %v", r.name, err)
		}
		for _, part := range r.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %q", r.name, err, part)
			}
		}
	}
}

func learn(t *testing.T, texts ...string) judge.Facts {
	var calls []judge.ControlStream
	for _, text := range texts {
		calls = append(calls, judge.ControlStream{Records: parse(t, text).streams[0]})
	}
	return judge.Learn(calls)
}

func TestLearnAndResolve(t *testing.T) {
	call := func(body string) string {
		return "stream 1 session 1 control\npost\nhead 200 sse\nprime\n" + body + "\nresponse\nend clean\nsettled completed"
	}
	rows := []struct {
		name     string
		calls    []string
		setup    judge.Setup
		oracle   judge.Oracle
		expected int64
		complete int
	}{
		{"no calls – no oracle", nil, judge.Setup{}, judge.OracleNone, 0, 0},
		{"ledger offered – ledger", []string{call("m 1-5")}, judge.Setup{Ledger: true}, judge.OracleLedger, 0, 1},
		{"numbered alike – numbered", []string{call("m 1-5"), call("m 1-5")}, judge.Setup{}, judge.OracleNumbered, 5, 2},
		{"numbered, expected given – numbered", []string{call("m 1-5")}, judge.Setup{Expected: 6}, judge.OracleNumbered, 6, 1},
		{"numbered differently – no oracle", []string{call("m 1-5"), call("m 1-6")}, judge.Setup{}, judge.OracleNone, 0, 2},
		{"numbered differently, expected given – numbered", []string{call("m 1-5"), call("m 1-6")}, judge.Setup{Expected: 5}, judge.OracleNumbered, 5, 2},
		{"0, 50, 100 is no numbering – no oracle", []string{call("m 50\nm 100")}, judge.Setup{}, judge.OracleNone, 0, 0},
		{"progress without a number – no oracle", []string{call("m 1 p=0.5")}, judge.Setup{}, judge.OracleNone, 0, 0},
		{"a hole – no oracle", []string{call("m 1-2\nm 4")}, judge.Setup{}, judge.OracleNone, 0, 0},
		{"messages of others – no oracle", []string{call("m 1-2\nm 3 owner=other")}, judge.Setup{}, judge.OracleNone, 0, 0},
		{"a log line beside – numbered", []string{call("m 1-2\nother\nm 3")}, judge.Setup{}, judge.OracleNumbered, 3, 1},
		{"asked for – kept", []string{call("m 1-5")}, judge.Setup{Oracle: judge.OracleNumbered, Ledger: true}, judge.OracleNumbered, 5, 1},
	}
	for _, r := range rows {
		f := learn(t, r.calls...)
		if r.setup.Oracle == "" {
			r.setup.Oracle = judge.OracleAuto
		}
		s := r.setup.With(f)
		if s.Oracle != r.oracle || s.Expected != r.expected || f.Complete != r.complete {
			t.Errorf("%s: oracle %q, expected %d, complete %d", r.name, s.Oracle, s.Expected, f.Complete)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	f := learn(t, call("wait 2s\nm 1-5 total=5"))
	if !f.IDs || !f.Primed || !f.SSE || !f.Totals || f.Longest < 2e9 || f.Answered != 1 {
		t.Errorf("%+v", f)
	}
	bare := learn(t, "stream 1 session 1 control\nnoids\npost\nhead 200 json\nresponse\nend clean\nsettled completed")
	if bare.IDs || bare.Primed || bare.SSE || bare.Totals || bare.Numbered {
		t.Errorf("%+v", bare)
	}
}
