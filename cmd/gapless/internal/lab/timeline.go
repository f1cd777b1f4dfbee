package lab

import (
	"fmt"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// timeline puts the story of a stream into words.
func timeline(g *judge.Guilty, call, repeat string) result.Timeline {
	t := result.Timeline{Session: g.Session, Stream: g.Stream, Call: call, Same: g.Same, Repeat: repeat}
	if g.Headline != "" {
		t.Findings = strings.Split(g.Headline, " · ")
	}
	if g.Expected > 0 {
		t.Expected = fmt.Sprintf("1-%d (%s)", g.Expected, g.ExpectedFrom)
	}
	links := map[uint32]uint32{0: 0} // the run's numbers to the stream's own
	for i := range g.Steps {
		s := &g.Steps[i]
		if _, seen := links[s.Link]; !seen {
			links[s.Link] = uint32(len(links))
		}
		at := (s.At - g.Steps[0].At).Seconds()
		if s.Omitted > 0 {
			t.Steps = append(t.Steps, result.Step{
				AtSeconds: at, Mark: result.Received, Text: fmt.Sprintf("… %d steps left out", s.Omitted), Cursor: -1,
			})
		}
		if i > 0 && joins(&g.Steps[i-1], s) {
			join(&t.Steps[len(t.Steps)-1], s)
			continue
		}
		mark, text := words(s)
		step := result.Step{AtSeconds: at, Link: links[s.Link], Mark: mark, Text: text, Finding: s.Mark, Cursor: int64(s.Cursor) - 1}
		if s.Kind == "request" || s.Kind == "settled" {
			step.Cursor = -1
		}
		t.Steps = append(t.Steps, step)
	}
	return t
}

// joins tells whether a step says so little beyond the one before it that both fit on
// one line: the priming event of a head, the end that a fault or a response brought,
// the outcome that an end leads to.
func joins(before, s *judge.Step) bool {
	switch s.Kind {
	case "priming":
		return before.Kind == "head" && before.Mark == ""
	case "end":
		return before.Kind == "fault" || before.Kind == "response"
	case "settled":
		return before.Kind == "end" || before.Kind == "response"
	}
	return false
}

// join adds what s says to the line before it.
func join(line *result.Step, s *judge.Step) {
	switch s.Kind {
	case "priming":
		line.Text, line.Cursor = strings.Replace(line.Text, "; ", "; priming, ", 1), int64(s.Cursor)-1
		if !strings.Contains(line.Text, "priming") {
			line.Text += "; priming"
		}
	case "end":
		if line.Mark != result.Cut {
			line.Text += "; end"
			if s.End != "clean" {
				line.Text += ": " + s.End
			}
		}
	case "settled":
		if s.Outcome != "completed" {
			line.Text += "; " + s.Outcome
		}
	}
	if s.Mark != "" && line.Finding != "" {
		line.Finding += "; "
	}
	line.Finding += s.Mark
}

// words says what a step was and in which direction it went.
func words(s *judge.Step) (mark, text string) {
	switch s.Kind {
	case "request":
		return result.Sent, request(s)
	case "head":
		return result.Received, head(s)
	case "priming":
		return result.Received, "priming"
	case "fault":
		return result.Cut, fault(s)
	case "end":
		return result.Received, "end: " + s.End
	case "settled":
		return result.Received, "outcome: " + s.Outcome
	case "probe":
		return result.Received, probe(s)
	case "response":
		return result.Received, noted("response", s.Note)
	}
	return result.Received, messages(s)
}

func request(s *judge.Step) string {
	switch {
	case s.Get && !s.Resume:
		return "GET, and POST tools/call beside it"
	case !s.Resume:
		return "POST tools/call"
	}
	text := "GET Last-Event-ID"
	if s.Get && s.Cursor == 0 {
		text = "GET"
	}
	if s.Cursor > 0 {
		text += fmt.Sprintf(" #%d", s.Cursor-1)
	}
	text += fmt.Sprintf("   waited %s", brief(s.Waited))
	if s.Asked > 0 {
		text += fmt.Sprintf(", asked %s", brief(s.Asked))
	}
	return text
}

func head(s *judge.Step) string {
	text := fmt.Sprintf("%d", s.Status)
	switch s.Body {
	case "sse":
		text += " text/event-stream"
	case "json":
		text += " application/json"
	}
	if s.Missed >= 0 && s.Attempt > 0 {
		text += fmt.Sprintf("; %d to replay", s.Missed)
	}
	if s.Retry > 0 {
		text += fmt.Sprintf("; retry %s", brief(s.Retry))
	}
	return text
}

func fault(s *judge.Step) string {
	text := strings.ToUpper(s.Fault) + " " + s.Place
	if s.Place == "mid-event" || s.Place == "mid-response" {
		text += fmt.Sprintf(": %d bytes of the next event, no blank line", s.Offset)
	}
	return text
}

// probe is an extra exchange after the response, which asks one question.
func probe(s *judge.Step) string {
	text := "probe " + s.Probe
	if s.Status > 0 {
		text += fmt.Sprintf(": %d", s.Status)
	}
	if s.Count > 0 || s.Want > 0 {
		text += fmt.Sprintf(", %d of %d messages", s.Count, s.Want)
	}
	return text
}

func messages(s *judge.Step) string {
	if s.First == 0 {
		text := fmt.Sprintf("%d events", s.Count)
		if s.Count == 1 {
			text = "1 event"
		}
		return noted(text+" without a number", s.Note)
	}
	text := span(s.First, s.Last)
	if s.Count > 1 {
		text += fmt.Sprintf(" (%d events, %.3f s)", s.Count, (s.Until - s.At).Seconds())
	}
	return noted(text, s.Note)
}

func noted(text, note string) string {
	if note == "" {
		return text
	}
	return text + ", " + note
}

// brief rounds a duration to what a reader compares: whole milliseconds.
func brief(d time.Duration) string { return d.Round(time.Millisecond).String() }
