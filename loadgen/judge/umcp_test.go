package judge_test

import (
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// TestUMCP: between two links messages may be missing, and nothing else may be wrong; the
// response has a link of its own.
func TestUMCP(t *testing.T) {
	setup := func(s *judge.Setup) {
		*s = judge.Setup{Revision: "2025-03-26", Dialect: "umcp", Oracle: judge.OracleNumbered, Streams: 1, Faults: 1,
			Calls: []judge.CallSetup{{Name: "count", Expected: 5}}}
	}
	const (
		first = "stream 1 session 1 load\nnoids\npost\nhead 200 sse\nm 1-2\ncut rst get-stream\nend reset\n"
		busy  = "resume\nhead 409\nend status\n"
		next  = "resume\nhead 200 sse\n"
		over  = "end open\nsettled completed\n"
	)
	for _, c := range []told{
		{"a gap – holds", first + busy + next + "m 4-5\nresponse\n" + over, setup, twinCanary, judge.Holds, "", "1 fell between two links"},
		{"the end went with the cut – holds", first + "response\n" + next + "end idle\nsettled completed\n", setup, twinCanary, judge.Holds, "", "3 fell between two links"},
		{"a hole on a live link", first + next + "m 3\nm 5\nresponse\n" + over, setup, twinCanary, judge.Violated, "no-loss", ""},
		{"the end missing on a live link", first + next + "m 3-4\nresponse\nend idle\nsettled completed\n", setup, twinCanary, judge.Violated, "no-loss", ""},
		{"a repeat behind the gap", first + next + "m 2\nm 3-5\nresponse\n" + over, setup, twinCanary, judge.Violated, "no-duplicate", ""},
		{"no response, though its link was not hurt", first + next + "m 3-5\nend clean\nsettled failed\n", setup, twinCanary, judge.Violated, "one-response,resume-progress", ""},
		{"of another session", first + next + "m 1 owner=session from=4\nm 3-5\nresponse\n" + over, setup, twinCanary, judge.Violated, "own-session", ""},
		{"a message behind the response – holds", first + next + "m 3-4\nresponse\nm 5\n" + over, setup, twinCanary, judge.Holds, "", ""},
	} {
		c.run(t)
	}
}
