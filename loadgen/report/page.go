package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// A page collects lines. Text reaches it through methods that take control
// characters out, so nothing that a target says can move the cursor.
type page struct {
	o     Options
	lines []string
	width int
}

const (
	defaultWidth = 110
	maxText      = 400 // characters of one text, however often it is broken
)

func newPage(o Options) *page {
	width := o.Width
	if width <= 0 {
		width = defaultWidth
	}
	return &page{o: o, width: max(width, 40)}
}

func (p *page) flush(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, line := range p.lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (p *page) blank() { p.lines = append(p.lines, "") }

// line adds one line, broken at the width of the page. Its own indentation stays.
func (p *page) line(text string) {
	rest := strings.TrimLeft(text, " ")
	p.lines = append(p.lines, text[:len(text)-len(rest)])
	p.text(4, rest)
}

// row begins a line with a label; what follows starts at column at.
func (p *page) row(at int, label string) {
	p.lines = append(p.lines, pad("  "+clean(label), at))
}

// text goes on with the last line and breaks it between words where the page
// ends; further lines begin at column indent.
func (p *page) text(indent int, text string) {
	text = clean(cut(text, maxText))
	last := len(p.lines) - 1
	if p.width-indent < 24 {
		indent = 4
	}
	for i, word := range strings.Split(text, " ") {
		line, gap := p.lines[last], " "
		if i == 0 || strings.TrimSpace(line) == "" {
			gap = ""
		}
		begun := columns(strings.TrimRight(line, " ")) > indent || i > 0
		if begun && columns(line)+columns(gap)+columns(word) > p.width {
			p.lines[last] = strings.TrimRight(line, " ")
			p.lines = append(p.lines, pad("", indent)+word)
			last++
			continue
		}
		p.lines[last] += gap + word
	}
	p.lines[last] = strings.TrimRight(p.lines[last], " ")
}

// command goes on with the last line and never breaks it.
func (p *page) command(text string) {
	p.lines[len(p.lines)-1] += clean(cut(text, 4000))
}

// verdict writes the word and its sentences, each on a line of its own.
func (p *page) verdict(r *result.Result) {
	word, paint := strings.ToUpper(r.Verdict), yellow
	switch r.Verdict {
	case result.Holds:
		paint = green
	case result.Violated:
		paint = red
	default:
		word = "INCONCLUSIVE"
	}
	indent := len(word) + 2
	for i, sentence := range sentences(r.Sentence) {
		label := ""
		if i == 0 {
			label = word
		}
		p.lines = append(p.lines, pad(label, indent))
		at := len(p.lines) - 1
		p.text(indent, sentence)
		if i == 0 {
			p.lines[at] = p.paint(paint, word) + strings.TrimPrefix(p.lines[at], word)
		}
	}
}

// labelWidth is the column after the labels: as in the summaries by hand.
func (p *page) labelWidth(r *result.Result) int {
	if r.Verdict == result.Violated {
		return 12
	}
	return 15
}

type colour string

const (
	red    colour = "\x1b[1;31m"
	green  colour = "\x1b[1;32m"
	yellow colour = "\x1b[1;33m"
	plain  colour = "\x1b[0m"
)

func (p *page) paint(c colour, s string) string {
	if !p.o.Color {
		return s
	}
	return string(c) + s + string(plain)
}

// sentences splits after a full stop that a capital letter follows.
func sentences(s string) []string {
	var out []string
	s = strings.Join(strings.Fields(clean(s)), " ")
	start := 0
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '.' && s[i+1] == ' ' && s[i+2] >= 'A' && s[i+2] <= 'Z' {
			out = append(out, s[start:i+1])
			start = i + 2
		}
	}
	return append(out, s[start:])
}

// clean replaces what is not meant to be printed: control characters, marks that
// turn the direction of writing, broken UTF-8. Line breaks become spaces.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			return ' '
		case c == utf8.RuneError || unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count++; count > n {
			return s[:i] + "…"
		}
	}
	return s
}

// columns counts what is seen of s: our own colour codes take no room.
func columns(s string) int {
	n := utf8.RuneCountInString(s)
	for _, c := range []colour{red, green, yellow, plain} {
		n -= strings.Count(s, string(c)) * len(c)
	}
	return n
}

func pad(s string, n int) string {
	if missing := n - columns(s); missing > 0 {
		return s + strings.Repeat(" ", missing)
	}
	return s
}

func padLeft(s string, n int) string {
	if missing := n - columns(s); missing > 0 {
		return strings.Repeat(" ", missing) + s
	}
	return s
}
