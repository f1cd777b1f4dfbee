package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// story writes the steps of a guilty stream, one per line, without times.
func story(g judge.Guilty) string {
	var b strings.Builder
	for _, s := range g.Steps {
		fmt.Fprintf(&b, "%d %s #%d", s.Link, s.Kind, s.Cursor)
		switch s.Kind {
		case "request":
			if s.Resume {
				fmt.Fprintf(&b, " waited %s asked %s", s.Waited, s.Asked)
			}
		case "head":
			fmt.Fprintf(&b, " %d %s retry %s", s.Status, s.Body, s.Retry)
		case "messages":
			fmt.Fprintf(&b, " %d-%d (%d)%s", s.First, s.Last, s.Count, s.Note)
		case "fault":
			fmt.Fprintf(&b, " %s@%s offset %d", s.Fault, s.Place, s.Offset)
		case "end":
			b.WriteString(" " + s.End)
		case "settled":
			b.WriteString(" " + s.Outcome)
		}
		if s.Mark != "" {
			b.WriteString(" ! " + s.Mark)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestTimeline tells the story of the last mock: 27 and 26 come swapped, 23-25 never.
func TestTimeline(t *testing.T) {
	text := "stream 41 session 5 load\npost\nhead 200 sse\nprime\nm 1-22 total=60\ncut rst mid-event\nend reset\nwait 500ms\n" +
		"resume asked=500ms waited=503ms\nhead 200 sse\nm 27\nm 26\nm 28-60\nresponse\nend clean\nsettled completed\n"
	same := "stream 43 session 5 load\npost\nhead 200 sse\nprime\nm 1-2 total=60\ncut rst mid-event\nend reset\n" +
		"resume asked=500ms waited=503ms\nhead 200 sse\nm 5\nm 4\nm 6-60\nresponse\nend clean\nsettled completed\n"
	setup := judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, IDs: true, Streams: 2, Faults: 2}
	v := judgeScript(setup, parse(t, same+text), wellTail())
	if len(v.Guilty) != 2 {
		t.Fatalf("%d guilty streams", len(v.Guilty))
	}
	g := v.Guilty[0]
	want := `3 request #0
3 head #0 200 sse retry 500ms
3 priming #1
3 messages #23 1-22 (22)
3 fault #23 rst@mid-event offset 61
3 end #23 reset
4 request #23 waited 503ms asked 500ms
4 head #23 200 sse retry 0s
4 messages #24 27-27 (1) ! expected 23
4 messages #25 26-26 (1)behind ! in-order
4 messages #58 28-60 (33)
4 response #59
4 end #59 clean
4 settled #59 completed ! no-loss: 23 24 25 never came
`
	if got := story(g); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := "LOST 23-25 · OUT OF ORDER 27 before 26 · PROGRESS-INCREASES"; g.Headline != want {
		t.Errorf("headline %q", g.Headline)
	}
	if g.Stream != 41 || g.Expected != 60 || g.ExpectedFrom != "params.total" || g.After != "rst@mid-event" {
		t.Errorf("%d expected %d from %q after %q", g.Stream, g.Expected, g.ExpectedFrom, g.After)
	}
	if !slices.Equal(g.Same, []uint32{43}) || g.SameCount != 1 {
		t.Errorf("same shape: %v, %d", g.Same, g.SameCount)
	}
	if len(v.After) != 1 || v.After[0] != (judge.AfterCount{After: "rst@mid-event", Streams: 2}) {
		t.Errorf("after %v", v.After)
	}
	inv := invariantOf(t, v, "no-loss")
	if e := inv.Evidence[0]; e.Stream != 41 || len(e.Ranges) != 1 || e.Ranges[0] != (judge.Range{First: 23, Last: 25}) || inv.Streams != 2 {
		t.Errorf("evidence %+v, %d streams", inv.Evidence, inv.Streams)
	}
	if first, second := g.Steps[3], g.Steps[8]; second.At-first.Until < 500*time.Millisecond || first.Until <= first.At {
		t.Errorf("times %v-%v, %v", first.At, first.Until, second.At)
	}
}

// TestHeadlineNamesNoDeviation: what a SHOULD is about damages nothing, unless it decides.
func TestHeadlineNamesNoDeviation(t *testing.T) {
	text := "stream 1 session 1 load\npost\nhead 200 sse\nm 1-2\n" + cutAndResume + "m 4-5\n" + done
	setup := ledgerSetup()
	if g := judgeScript(setup, parse(t, text), wellTail()).Guilty; len(g) != 1 || g[0].Headline != "LOST 3" {
		t.Errorf("%+v", g)
	}
	setup.Strict = true
	if g := judgeScript(setup, parse(t, text), wellTail()).Guilty; len(g) != 1 || g[0].Headline != "LOST 3 · PRIMED" {
		t.Errorf("%+v", g)
	}
}

// TestTimelineIsBounded: a stream that is cut a thousand times keeps its first steps,
// its last ones and those that show the damage.
func TestTimelineIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("stream 1 session 1 load\npost\nhead 200 sse\nprime\n")
	for i := range 1000 {
		seq := i + 1
		if i >= 500 {
			seq++ // 501 is skipped
		}
		fmt.Fprintf(&b, "m %d\ncut rst between-events\nend reset\nresume\nhead 200 sse\n", seq)
	}
	b.WriteString("response\nend clean\nsettled completed\n")
	setup := judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, Expected: 1001, IDs: true, Faults: 1000, Streams: 1}
	v := judgeScript(setup, parse(t, b.String()), wellTail())
	if len(v.Guilty) != 1 || v.Messages.Lost != 1 {
		t.Fatalf("%d guilty, %+v", len(v.Guilty), v.Messages)
	}
	steps := v.Guilty[0].Steps
	if len(steps) > 96 {
		t.Errorf("%d steps", len(steps))
	}
	omitted, marks := 0, ""
	for _, s := range steps {
		omitted += s.Omitted
		marks += s.Mark + ";"
	}
	if total := omitted + len(steps); total != 3+5*1000+3 {
		t.Errorf("%d steps kept and %d omitted are not all", len(steps), omitted)
	}
	if !strings.Contains(marks, "expected 501") || !strings.Contains(marks, "no-loss: 501 never came") {
		t.Errorf("marks %s", marks)
	}
	if steps[0].Kind != "request" || steps[0].Resume || steps[len(steps)-1].Kind != "settled" {
		t.Errorf("from %+v to %+v", steps[0], steps[len(steps)-1])
	}
}

// TestEvidenceIsBounded: thousands of damaged streams leave a bounded verdict, in
// which a rare damage is not crowded out, whatever the order of the streams.
func TestEvidenceIsBounded(t *testing.T) {
	setup := ledgerSetup()
	run := func(order []int) judge.Verdict {
		j := judge.New(setup)
		for _, n := range order {
			text := start + "m 1-2\n" + cutAndResume + "m 2-5\n" + done
			if n == 1999 {
				text = start + "m 1-2\n" + cutAndResume + "m 4-5\n" + done
			}
			s := parse(t, strings.Replace(text, "stream 1 ", fmt.Sprintf("stream %d ", n), 1))
			st := j.Open(1, uint32(n), history.StreamLoad)
			for k := range s.streams[0] {
				st.Observe(&s.streams[0][k])
			}
			st.Close()
		}
		return j.Finish(wellTail())
	}
	order := make([]int, 2000)
	for i := range order {
		order[i] = i + 1
	}
	v := run(order)
	slices.Reverse(order)
	w := run(order)
	for _, v := range []judge.Verdict{v, w} {
		inv := invariantOf(t, v, "no-duplicate")
		if len(v.Guilty) > 32 || len(inv.Evidence) > 16 || v.Streams.Damaged != 2000 || inv.Violations != 1999 {
			t.Errorf("%d guilty, %d evidences, %d damaged, %d violations", len(v.Guilty), len(inv.Evidence), v.Streams.Damaged, inv.Violations)
		}
		if len(v.Guilty) < 2 || v.Guilty[0].Stream != 1 || v.Guilty[1].Stream != 1999 || len(v.Guilty[1].Lost) != 1 {
			t.Errorf("the rare damage is not shown: %d", len(v.Guilty))
		}
		if g := v.Guilty[0]; len(g.Same) != 16 || g.SameCount != 1998 || g.Same[0] != 2 {
			t.Errorf("same shape: %v, %d", g.Same, g.SameCount)
		}
	}
}

// TestTimelineOfRepeats: a replayed run is one line with one mark, whatever its
// length; runs that do not follow one another are not joined.
func TestTimelineOfRepeats(t *testing.T) {
	text := "stream 1 session 1 load\npost\nhead 200 sse\nm 1-40\ncut rst mid-event\nend reset\n" +
		"resume\nhead 200 sse\nm 1-40\nm 7\nm 41-50\nresponse\nend clean\nsettled completed\n"
	setup := judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleNumbered, Expected: 50, IDs: true, Streams: 1, Faults: 1}
	v := judgeScript(setup, parse(t, text), wellTail())
	got := story(v.Guilty[0])
	want := `2 messages #80 1-40 (40)again ! no-duplicate
2 messages #81 7-7 (1)again ! no-duplicate
2 messages #91 41-50 (10)
`
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}

// TestGuiltyIsBounded: many shapes of damage, and no more than 32 streams are told.
func TestGuiltyIsBounded(t *testing.T) {
	var b strings.Builder
	for n := range 100 {
		cut := strings.Replace(cutAndResume, "mid-event", fmt.Sprintf("place-%d", n%20), 1)
		b.WriteString(strings.Replace(start, "stream 1 ", fmt.Sprintf("stream %d ", n+1), 1) + "m 1-2\n" + cut + "m 4-5\n" + done)
	}
	v := judgeScript(ledgerSetup(), parse(t, b.String()), wellTail())
	if len(v.Guilty) != 32 || len(v.After) != 20 {
		t.Fatalf("%d guilty, %d rows of what came before", len(v.Guilty), len(v.After))
	}
	seen := map[string]bool{}
	for _, g := range v.Guilty {
		seen[g.After] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d of 20 shapes are told", len(seen))
	}
}

// TestMarkOnce: what is found many times at the end of a stream is one mark with a number.
func TestMarkOnce(t *testing.T) {
	text := start + "m 1 id=x\nm 2 id=x\nm 3 id=y\nm 4 id=y\nm 5 id=x\n" + done +
		"stream 2 session 1 load\npost\nhead 200 sse\nprime\nm 1-3\nm 4 id=y\nm 5\n" + done
	v := judgeScript(ledgerSetup(), parse(t, text+canaryScript), wellTail())
	var marks []string
	for _, g := range v.Guilty {
		for _, s := range g.Steps {
			if s.Mark != "" {
				marks = append(marks, s.Mark)
			}
		}
	}
	if want := []string{"unique-ids ×3", "unique-ids"}; !slices.Equal(marks, want) {
		t.Errorf("%q, want %q", marks, want)
	}
}
