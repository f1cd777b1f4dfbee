package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Columns of a timeline: where a finding begins, where cursors end.
const (
	findingColumn = 39
	cursorColumn  = 75
)

// A timeline of more than maxSteps steps shows how it began and how it ended.
const (
	maxSteps   = 40
	firstSteps = 24
	lastSteps  = 12
)

// Timeline writes what happened to one damaged stream.
func Timeline(w io.Writer, t *result.Timeline, o Options) error {
	p := newPage(o)
	p.line(about(t))
	if len(t.Findings) > 0 {
		at := len(p.lines)
		p.line(strings.Join(t.Findings, " · "))
		for i := range p.lines[at:] {
			p.lines[at+i] = p.paint(red, p.lines[at+i])
		}
	}
	width := timeWidth(t)
	p.lines = append(p.lines, header(width))
	p.steps(t.Steps, width)
	p.ending(t)
	return p.flush(w)
}

// steps leaves out the middle of a long timeline and says how much of it is there.
func (p *page) steps(steps []result.Step, width int) {
	begin, end := len(steps), len(steps)
	if len(steps) > maxSteps {
		begin, end = firstSteps, len(steps)-lastSteps
	}
	for _, s := range steps[:begin] {
		p.step(s, width)
	}
	if begin < end {
		p.line("  … " + more(steps[begin:end]))
	}
	for _, s := range steps[end:] {
		p.step(s, width)
	}
}

func more(hidden []result.Step) string {
	findings := int64(0)
	for _, s := range hidden {
		if s.Finding != "" {
			findings++
		}
	}
	text := count(int64(len(hidden))) + " more"
	if findings > 0 {
		text += ", with " + some(findings, "findings")
	}
	return text + "; result.json has them all"
}

// ending names the streams that look the same and how to repeat this one.
func (p *page) ending(t *result.Timeline) {
	line := same(t)
	if t.Repeat == "" {
		if line != "" {
			p.lines = append(p.lines, "  "+line)
		}
		return
	}
	if line != "" {
		line = pad(line, 32) + "     "
	}
	p.lines = append(p.lines, "  "+line+"repeat: ")
	p.command(t.Repeat)
}

func about(t *result.Timeline) string {
	parts := []string{fmt.Sprintf("stream %d", t.Stream), fmt.Sprintf("session %d", t.Session)}
	if t.Call != "" {
		parts = append(parts, cut(t.Call, 80))
	}
	if t.Request != "" {
		parts = append(parts, "request "+cut(t.Request, 20))
	}
	if t.Expected != "" {
		parts = append(parts, "expected "+cut(t.Expected, 60))
	}
	return strings.Join(parts, " · ")
}

// timeWidth is the width of the longest time.
func timeWidth(t *result.Timeline) int {
	w := 5
	for _, s := range t.Steps {
		w = max(w, len(clock(s.AtSeconds)))
	}
	return w
}

func clock(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) }

func header(timeWidth int) string {
	line := pad("  time", 4+timeWidth) + "link"
	return line + padLeft("cursor", cursorColumn-len(line))
}

// step writes time, link, direction, text, finding and cursor. A text that is
// too long for its line pushes the cursor to the right, by one space at least.
func (p *page) step(s result.Step, timeWidth int) {
	link := strconv.FormatUint(uint64(s.Link), 10)
	if s.Link == 0 {
		link = "-"
	}
	mark := clean(pad(s.Mark, 1)[:1])
	if s.Mark == result.Cut {
		mark = p.paint(red, mark)
	}
	left := "  " + padLeft(clock(s.AtSeconds), timeWidth) + "  " + link + "  "
	right := "  " + clean(cut(s.Text, 120))
	if s.Finding != "" {
		right = pad(right+"  ", findingColumn-columns(left)-1) + "! " + clean(cut(s.Finding, 100))
	}
	if s.Cursor >= 0 {
		cursor := "#" + strconv.FormatInt(s.Cursor, 10)
		right += " " + padLeft(cursor, cursorColumn-columns(left)-2-columns(right))
	}
	p.lines = append(p.lines, left+mark+right)
}

func same(t *result.Timeline) string {
	if len(t.Same) == 0 {
		return ""
	}
	var names []string
	for i, n := range t.Same {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(t.Same)-i))
			break
		}
		names = append(names, strconv.FormatUint(uint64(n), 10))
	}
	return fmt.Sprintf("Same shape: %s %s.", noun(int64(len(t.Same)), "streams"), strings.Join(names, ", "))
}
