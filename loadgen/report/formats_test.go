package report_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// A renderer is one of the formats.
type renderer func(io.Writer, *result.Result, report.Options) error

func rendered(t *testing.T, f renderer, r *result.Result) string {
	t.Helper()
	var buf bytes.Buffer
	if err := f(&buf, r, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// limited holds, but for a threshold.
func limited() *result.Result {
	r := holding()
	r.Run.Started = time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	r.Run.DurationSeconds = 12.3456
	r.Notes = []string{"certificates are not checked (--insecure)"}
	r.Thresholds = []result.Threshold{
		{Figure: "resume_caught_up", Expression: "p(99)<1s", Value: 0.131, OK: true, Unit: result.Seconds},
		{Figure: "first_event", Expression: "p(99)<5ms", Value: 0.006, Unit: result.Seconds},
		{Figure: "failed", Expression: "rate<1%", Value: 0.02, Unit: result.Share},
		{Figure: "late", Expression: "count<1", Value: 1234, Unit: result.Times},
		{Figure: "event_gap", Expression: "p(99)<5ms", Unit: result.Seconds, Why: "nothing was seen to measure it on"},
	}
	return r
}

func damaged() *result.Result {
	r := violating()
	r.Timelines = []result.Timeline{*guilty()}
	return r
}

// hostileText is everything that a target can say in the worst way.
const hostileText = "a|b `c` ```\n```\n# <script>alert(1)</script> @team ![x](http://e.vil) www.e.vil \x1b[31m\x00\u202e ::error::x %0A\r\n::warning::y ]]> &amp; \xff"

func hostileResult() *result.Result {
	r := damaged()
	r.Sentence, r.Why, r.Seen, r.Next = hostileText, []string{hostileText}, []string{hostileText}, []string{hostileText}
	r.Notes = []string{hostileText}
	r.Run.Command, r.Run.Profile, r.Run.Target.URL, r.Run.Target.Name = hostileText, hostileText, hostileText, hostileText
	for i := range r.Invariants {
		r.Invariants[i].Name, r.Invariants[i].Claim, r.Invariants[i].Why, r.Invariants[i].Level = hostileText, hostileText, hostileText, hostileText
		r.Invariants[i].Evidence = []result.Evidence{{Stream: 1, Messages: hostileText, After: hostileText, Text: hostileText}}
	}
	r.Reached = []result.Reached{{Name: hostileText, Want: 1}}
	r.Thresholds = []result.Threshold{{Figure: hostileText, Expression: hostileText, Why: hostileText}}
	t := &r.Timelines[0]
	t.Call, t.Request, t.Repeat, t.Findings = hostileText, hostileText, hostileText, []string{hostileText}
	t.Steps[0].Text, t.Steps[0].Finding = hostileText, hostileText
	return r
}

func TestFormats(t *testing.T) {
	strict := limited()
	strict.Verdict, strict.Thresholds = result.Violated, nil
	for name, f := range map[string]renderer{"junit": report.JUnit, "md": report.Markdown, "github": report.Annotations, "text": report.Text} {
		for kind, r := range map[string]*result.Result{"limited": limited(), "violated": damaged(), "inconclusive": unsure(), "strict": strict, "empty": {}} {
			if name != "text" || kind == "limited" {
				golden(t, name+"-"+kind, rendered(t, f, r))
			}
		}
	}
	if got := rendered(t, report.Annotations, holding()); strings.Contains(got, "::error") || strings.Count(got, "::warning") != 1 {
		t.Errorf("a run that holds with one deviation says\n%s", got)
	}
}

// suites is what readers of JUnit look at.
type suites struct {
	Suites []struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string    `xml:"name,attr"`
			Class   string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestJUnitCounts(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		r                       *result.Result
		tests, fail, err, skips int
	}{
		{"holds, thresholds fail", limited(), 1 + 23 + 4 + 5, 4, 0, 3},
		{"violated", damaged(), 1 + 19, 1 + 3, 0, 1},
		{"inconclusive", unsure(), 1 + 2, 0, 1 + 1, 0},
		{"nothing", &result.Result{}, 1, 0, 1, 0},
		{"could not be told", &result.Result{Invariants: []result.Invariant{
			{Name: "no-loss", Role: "demanded", Verdict: result.Inconclusive, Checked: 3}, {Name: "primed", Role: "watched", Verdict: result.Inconclusive, Checked: 3},
		}}, 3, 0, 2, 1},
		{"hostile", hostileResult(), 1 + 19 + 1 + 1, 1 + 3 + 1, 1, 1},
	} {
		var got suites
		dec := xml.NewDecoder(strings.NewReader(rendered(t, report.JUnit, tc.r)))
		if err := dec.Decode(&got); err != nil || len(got.Suites) != 1 {
			t.Fatalf("%s: %v, %d suites", tc.name, err, len(got.Suites))
		}
		s := got.Suites[0]
		if s.Tests != tc.tests || s.Failures != tc.fail || s.Errors != tc.err || s.Skipped != tc.skips || len(s.Cases) != tc.tests {
			t.Errorf("%s: %d tests, %d failures, %d errors, %d skipped; want %d, %d, %d, %d", tc.name,
				s.Tests, s.Failures, s.Errors, s.Skipped, tc.tests, tc.fail, tc.err, tc.skips)
		}
		seen := [3]int{}
		for _, c := range s.Cases {
			for i, there := range []bool{c.Failure != nil, c.Error != nil, c.Skipped != nil} {
				if there {
					seen[i]++
				}
			}
		}
		if seen != [3]int{s.Failures, s.Errors, s.Skipped} {
			t.Errorf("%s: counted %v", tc.name, seen)
		}
	}
}

// What a target says stays inside its cell, its line or its block.
func TestMarkdownCannotBeBrokenOutOf(t *testing.T) {
	fence, cells, r := "", 0, hostileResult()
	r.Run.Command = "````" // a line of its own, which would end a fence of four
	for line := range strings.Lines(rendered(t, report.Markdown, r)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence != "":
			if line == fence {
				fence = ""
			} else if strings.HasPrefix(line, fence) {
				t.Errorf("a fence within the fence: %s", line)
			}
			continue
		case strings.HasPrefix(line, "```"):
			fence = strings.TrimRight(line, "extsh")
			continue
		}
		if strings.ContainsAny(strings.ReplaceAll(line, "**failed**", ""), "`<>[]*") || strings.Contains(line, "@") || strings.Contains(line, "www.") {
			t.Errorf("something that Markdown or HTML may read: %s", line)
		}
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "### gapless: ") {
			t.Errorf("a heading: %s", line)
		}
		n := strings.Count(line, "|")
		if n > 0 && cells > 0 && n != cells {
			t.Errorf("%d bars instead of %d: %s", n, cells, line)
		}
		cells = n
	}
	if fence != "" {
		t.Error("the last block is not closed")
	}
}

func TestAnnotationsCannotBeBrokenOutOf(t *testing.T) {
	r := hostileResult()
	for range 30 {
		r.Thresholds = append(r.Thresholds, r.Thresholds[0])
	}
	got := rendered(t, report.Annotations, r)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 10 {
		t.Errorf("%d annotations, GitHub shows 10", len(lines))
	}
	for _, line := range lines {
		title, text, ok := strings.Cut(strings.TrimPrefix(line, "::error title="), "::")
		if !strings.HasPrefix(line, "::error title=gapless%3A ") || !ok || strings.ContainsAny(title, ":,\r\n") ||
			strings.ContainsAny(text, "\r\x1b") || strings.Contains(text, "%0A") && !strings.Contains(text, "%250A") {
			t.Errorf("not one whole annotation: %q", line)
		}
	}
}

func TestFormatsReturnWriteErrors(t *testing.T) {
	for _, f := range []renderer{report.JUnit, report.Markdown, report.Annotations} {
		if f(brokenWriter{}, damaged(), report.Options{}) == nil {
			t.Error("a write error is lost")
		}
	}
	c := result.Compare(holding(), damaged())
	if report.Comparison(brokenWriter{}, c, report.Options{}) == nil || report.ComparisonMarkdown(brokenWriter{}, c, report.Options{}) == nil {
		t.Error("a write error of a comparison is lost")
	}
}

func TestComparisons(t *testing.T) {
	f := func(p50, p99 float64, low, high float64) result.Figures {
		return result.Figures{Count: 1000, P50: p50, P90: p50 * 1.5, P99: p99,
			P50Interval: result.Range{Low: p50 * low, High: p50 * high}, P90Interval: result.Range{Low: p50 * 1.5 * low, High: p50 * 1.5 * high},
			P99Interval: result.Range{Low: p99 * low, High: p99 * high}}
	}
	before, slower, other := limited(), limited(), hostileResult()
	before.Latency = result.Latency{FirstEvent: f(0.001, 0.006, 0.9, 1.1), ResumeCaughtUp: f(0.104, 0.131, 0.99, 1.02), StartDelay: f(0.01, 0.02, 0.9, 1.1)}
	slower.Latency = result.Latency{FirstEvent: f(0.0011, 0.0061, 0.9, 1.1), ResumeCaughtUp: f(0.204, 0.431, 0.9, 1.2), StartDelay: f(0.1, 0.2, 0.9, 1.1)}
	slower.Streams.Failed, slower.Streams.Completed, slower.Messages.Expected = 60, 140, 9000
	slower.Invariants[0].Verdict, slower.Run.Seed = result.Violated, 8
	for _, tc := range []struct {
		name          string
		before, after *result.Result
		o             report.Options
	}{
		{"same", before, before, report.Options{}}, {"slower", before, slower, report.Options{}},
		{"slower-verbose", before, slower, report.Options{Verbose: true}}, {"other", before, other, report.Options{}},
	} {
		c := result.Compare(tc.before, tc.after)
		var plain, md bytes.Buffer
		if err := report.Comparison(&plain, c, tc.o); err != nil {
			t.Fatal(err)
		}
		if err := report.ComparisonMarkdown(&md, c, tc.o); err != nil {
			t.Fatal(err)
		}
		golden(t, "compare-"+tc.name, plain.String())
		golden(t, "compare-md-"+tc.name, md.String())
		if slices.ContainsFunc(plain.Bytes(), func(b byte) bool { return b < ' ' && b != '\n' }) || strings.ContainsAny(md.String(), "<`") {
			t.Errorf("%s: what a target says reaches the terminal or the page\n%s\n%s", tc.name, plain.String(), md.String())
		}
	}
}
