package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Comparison writes how one run differs from an earlier one: what got worse first, then
// words, counts and latencies with what chance may do. With Verbose it also lists the
// quantiles that hardly differ.
func Comparison(w io.Writer, c result.Comparison, o Options) error {
	p := newPage(o)
	p.line("before  " + ran(c.Before))
	p.line("after   " + ran(c.After))
	if len(c.NotTheSame) > 0 {
		p.line("not the same experiment: " + strings.Join(c.NotTheSame, "; "))
	}
	p.blank()
	word, sentence, paint := outcomeOf(c)
	p.lines = append(p.lines, pad(word, len(word)+2))
	at := len(p.lines) - 1
	p.text(len(word)+2, sentence)
	p.lines[at] = p.paint(paint, word) + strings.TrimPrefix(p.lines[at], word)
	if c.Doubt != "" && word != "INCONCLUSIVE" {
		p.line("Latencies: " + c.Doubt + ".")
	}
	words(p, c)
	counts(p, c)
	quantiles(p, c)
	return p.flush(w)
}

// ran names a run.
func ran(r result.Run) string {
	text := head(&result.Result{Run: r})
	if !r.Started.IsZero() {
		text += " · " + r.Started.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	return text
}

func outcomeOf(c result.Comparison) (word, sentence string, paint colour) {
	switch {
	case len(c.Regressions) > 0:
		return "REGRESSION", strings.Join(c.Regressions, "; "), red
	case c.Doubt != "":
		return "INCONCLUSIVE", c.Doubt, yellow
	case c.Different():
		return "NO REGRESSION", "nothing got worse beyond chance", green
	}
	return "NO DIFFERENCE", "verdict, counts and latencies are the same", green
}

// Columns of a comparison: numbers end at before and after.
const (
	beforeColumn = 38
	afterColumn  = 52
	noteColumn   = 55
)

func (p *page) pair(name, before, after, note string) {
	left := pad("  "+clean(cut(name, 60)), 12)
	left += " " + padLeft(clean(before), beforeColumn-1-columns(left))
	left += " " + padLeft(clean(after), afterColumn-1-columns(left))
	p.lines = append(p.lines, left)
	if note != "" {
		p.lines[len(p.lines)-1] = pad(left, noteColumn)
		p.text(noteColumn, note)
	}
}

func (p *page) pairs(title string) {
	p.blank()
	p.lines = append(p.lines, pad("  "+title, beforeColumn-len("before"))+"before"+padLeft("after", afterColumn-beforeColumn))
}

func words(p *page, c result.Comparison) {
	if len(c.Changes) > 0 {
		p.pairs("verdicts")
	}
	for _, x := range c.Changes {
		note := ""
		if x.Worse {
			note = "worse"
		}
		p.pair(x.Name, x.Before, x.After, note)
	}
}

func counts(p *page, c result.Comparison) {
	if len(c.Counts) > 0 {
		p.pairs("counts that differ")
	}
	for _, x := range c.Counts {
		note := x.Word
		if x.Word != "" {
			note = fmt.Sprintf("of %s and %s; %s", count(x.BeforeOf), count(x.AfterOf), x.Word)
		}
		p.pair(x.Name, count(x.Before), count(x.After), note)
	}
}

// dull is what nobody asks about: what did not change, less than a millisecond, the 90th
// percentile within noise.
func dull(l result.LatencyChange) bool {
	chance := l.Word != result.Slower && l.Word != result.Faster
	return l.Word == result.Same || max(l.Before, l.After) < 0.001 || chance && l.Quantile == 90
}

// quantiles lists medians, 90th and 99th percentiles.
func quantiles(p *page, c result.Comparison) {
	begun := false
	for _, l := range c.Latencies {
		if !p.o.Verbose && dull(l) {
			continue
		}
		if !begun {
			p.pairs("latency")
			begun = true
		}
		p.pair(fmt.Sprintf("%s p%g", strings.ReplaceAll(l.Figure, "_", " "), l.Quantile), span(l.Before), span(l.After), chances(l))
	}
}

// chances says what a difference is worth, with where it lies.
func chances(l result.LatencyChange) string {
	switch l.Word {
	case result.Same, result.TooFew, result.OfOthers:
		return l.Word
	}
	text := l.Word + ": "
	if l.Before > 0 {
		text += fmt.Sprintf("%+.0f %%, ", 100*(l.After-l.Before)/l.Before)
	}
	text += signed(l.Low) + " to " + signed(l.High)
	switch {
	case l.Figure == "start_delay", l.Figure == "resume_detect", l.Figure == "resume_backoff":
		text += "; gapless itself, not the target"
	case l.Word == result.Slower && !l.Worse && l.Figure != "event_gap":
		text += "; too little to matter"
	}
	return text
}

func signed(seconds float64) string {
	switch {
	case seconds <= -0.00005:
		return "-" + span(-seconds)
	case seconds < 0.00005:
		return "0ms"
	}
	return "+" + span(seconds)
}

// ComparisonMarkdown writes the same for GitHub.
func ComparisonMarkdown(w io.Writer, c result.Comparison, _ Options) error {
	var m markdown
	word, sentence, _ := outcomeOf(c)
	m.line("### gapless: %s", word)
	m.line("")
	m.line("%s", escape(sentence))
	m.line("")
	m.line("- before: %s", escape(ran(c.Before)))
	m.line("- after: %s", escape(ran(c.After)))
	for _, x := range c.NotTheSame {
		m.line("- not the same experiment: %s", escape(x))
	}
	if c.Doubt != "" && word != "INCONCLUSIVE" {
		m.line("- latencies: %s", escape(c.Doubt))
	}
	m.table("lrrl", "", "before", "after", "")
	for _, x := range c.Changes {
		m.row(escape(cut(x.Name, 60)), escape(x.Before), escape(x.After), map[bool]string{true: "**worse**"}[x.Worse])
	}
	for _, x := range c.Counts {
		m.row(escape(x.Name), count(x.Before), count(x.After), escape(x.Word))
	}
	for _, l := range c.Latencies {
		if !dull(l) {
			m.row(escape(fmt.Sprintf("%s p%g", strings.ReplaceAll(l.Figure, "_", " "), l.Quantile)), span(l.Before), span(l.After), escape(chances(l)))
		}
	}
	if _, err := w.Write(m.Bytes()); err != nil {
		return fmt.Errorf("write markdown: %w", err)
	}
	return nil
}
