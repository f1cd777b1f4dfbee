package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Markdown writes r as a page of GitHub's Markdown, such as the summary of a step:
// verdict, wanted beside got, findings, the timeline of the first damaged stream, how to
// repeat it. Text of the target cannot break out of its cell or block.
func Markdown(w io.Writer, r *result.Result, o Options) error {
	var m markdown
	m.line("### gapless: %s", strings.ToUpper(verdictWord(r)))
	for _, s := range sentences(r.Sentence) {
		m.line("")
		m.line("%s", escape(cut(s, maxText)))
	}
	m.line("")
	m.line("%s", escape(head(r)))
	m.wanted(r)
	m.findings(r)
	m.thresholds(r)
	m.causes(r)
	if len(r.Timelines) > 0 {
		var story bytes.Buffer
		if err := Timeline(&story, &r.Timelines[0], Options{}); err != nil {
			return err
		}
		m.line("")
		m.fence("text", story.String())
	}
	if r.Run.Stopped != "" {
		m.line("")
		m.line("Stopped %s after %s.", escape(cut(r.Run.Stopped, 60)), span(r.Run.DurationSeconds))
	}
	m.line("")
	m.line("Repeat:")
	m.line("")
	m.fence("sh", clean(cut(repeat(r, o), 4000)))
	if _, err := w.Write(m.Bytes()); err != nil {
		return fmt.Errorf("write markdown: %w", err)
	}
	return nil
}

func verdictWord(r *result.Result) string {
	switch r.Verdict {
	case result.Holds, result.Violated:
		return r.Verdict
	}
	return result.Inconclusive
}

type markdown struct{ bytes.Buffer }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// row writes cells that are escaped already.
func (m *markdown) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

// table writes the head of a table; alignment is a letter per column, l or r.
func (m *markdown) table(alignment string, names ...string) {
	m.line("")
	m.row(names...)
	rule := "|"
	for _, a := range alignment {
		rule += map[rune]string{'l': " --- |", 'r': " ---: |"}[a]
	}
	m.line("%s", rule)
}

// fence writes a block of code with a fence that is longer than any within.
func (m *markdown) fence(language, text string) {
	longest, run := 2, 0
	for _, c := range text {
		if c != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	m.line("%s%s\n%s\n%s", fence, language, strings.TrimRight(text, "\n"), fence)
}

// escape makes text plain: whatever may mean something to Markdown or HTML becomes a
// character reference, line breaks become spaces, nothing becomes a link, nobody is
// mentioned.
func escape(text string) string {
	var b strings.Builder
	for _, c := range clean(text) {
		switch {
		case c == '@':
			b.WriteString("&#64;\u200b") // mentions are looked for after references are resolved
		case c > ' ' && c < 0x7f && !plainInMarkdown(c):
			fmt.Fprintf(&b, "&#%d;", c)
		default:
			b.WriteRune(c)
		}
	}
	return strings.NewReplacer("www.", "www&#46;", "://", "&#58;//").Replace(b.String())
}

func plainInMarkdown(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune(".,:;?/%'\"-+=()", c)
}

// wanted puts what was wanted beside what was got.
func (m *markdown) wanted(r *result.Result) {
	m.table("lrrl", "", "wanted", "got", "")
	mark := func(ok bool) string {
		if ok {
			return ""
		}
		return "not reached"
	}
	for _, x := range r.Reached {
		m.row(escape(asked(r, x.Name)), count(x.Want), count(x.Got), mark(x.OK))
	}
	m.row("streams", count(r.Streams.Planned), count(r.Streams.Judged()), escape(outcomes(r)))
	m.row("messages", count(r.Messages.Expected), count(r.Messages.Delivered), fmt.Sprintf("%s lost, %s repeated, %s out of order",
		count(r.Messages.Lost), count(r.Messages.Duplicated), count(r.Messages.Misordered)))
	m.row("faults planned", count(r.Faults.Planned), count(r.Faults.Injected), some(r.Faults.Cuts, "cuts"))
	for _, f := range r.Latency.All() {
		if f.Count > 0 && (f.Name == "first_event" || f.Name == "resume_caught_up") {
			m.row(strings.ReplaceAll(f.Name, "_", " "), "", "p50 "+span(f.P50), fmt.Sprintf("p99 %s, max %s", span(f.P99), span(f.Max)))
		}
	}
}

// asked is what had to be reached, in the words of the text.
func asked(r *result.Result, name string) string {
	if name != "injections" {
		return strings.ReplaceAll(cut(name, 40), "_", " ")
	}
	if _, both := reached(r, "cuts"); !both && cuts(r) == r.Faults.Injected {
		return "cuts"
	}
	return "faults"
}

// findings lists what is violated and what only deviates.
func (m *markdown) findings(r *result.Result) {
	t := tally(r)
	var rows [][]string
	for _, inv := range r.Invariants {
		if inv.Verdict == result.Violated && applies(inv) {
			rows = append(rows, []string{escape(cut(inv.Name, 40)), escape(inv.Level),
				fmt.Sprintf("%s %s", count(inv.Violations), unit(inv)), count(inv.Streams), escape(firstSeen(inv))})
		}
	}
	if len(rows) > 0 {
		m.table("llrrl", "violated", "level", "how often", "streams", "")
		for _, row := range rows {
			m.row(row...)
		}
	}
	m.line("")
	m.line("Invariants: %d hold, %d violated, %d inconclusive, %s.", t[kept], t[broken], t[unsure], escape(deviations(r)))
}

func (m *markdown) thresholds(r *result.Result) {
	if len(r.Thresholds) == 0 {
		return
	}
	m.table("lll", "threshold", "", "")
	for _, t := range r.Thresholds {
		word := "passed"
		if !t.OK {
			word = "**failed**"
		}
		m.row(escape(t.Figure+" "+cut(t.Expression, 60)), word, escape(got(t)))
	}
}

// causes lists what one has to know of the way to the target, why a run could not tell,
// and what to do about it.
func (m *markdown) causes(r *result.Result) {
	for _, part := range []struct {
		label string
		texts []string
	}{{"Notes", r.Notes}, {"Why", r.Why}, {"Seen", r.Seen}, {"Next", r.Next}} {
		if len(part.texts) == 0 || r.Verdict == result.Holds && part.label != "Notes" {
			continue
		}
		m.line("")
		m.line("%s:", part.label)
		m.line("")
		for i, text := range part.texts {
			if i == maxTexts {
				m.line("- and %d more", len(part.texts)-i)
				break
			}
			m.line("- %s", escape(cut(text, maxText)))
		}
	}
}
