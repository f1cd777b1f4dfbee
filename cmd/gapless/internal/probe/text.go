package probe

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// width is the most columns a line takes.
const width = 110

// Columns of a row: mark, name, level, what was seen.
const (
	nameWidth  = 24
	levelWidth = 11
	seenColumn = 2 + 2 + nameWidth + 1 + levelWidth + 1
)

var marks = map[Status]string{Conforming: "ok", Deviating: "x ", Open: ". ", NotOffered: "- ", Unsure: "? "}

// Text writes the report for people: what deviates first, then the rows in their groups.
// With clauses each row is followed by its clause.
func (r *Report) Text(w io.Writer, clauses bool) error {
	var b bytes.Buffer
	head := "gapless probe  " + r.Target.URL
	if who := strings.TrimSpace(r.Target.Name + " " + r.Target.Version); who != "" {
		head += "  " + who
	}
	fmt.Fprintf(&b, "%s\n%s, %s%s, %.1f s\n", head, r.Target.Revision, r.dialects(), r.tool(), r.Seconds)
	r.section(&b, "deviating", clauses, func(row Row) bool { return row.Status == Deviating })
	group := ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			r.group(&b, group, clauses)
		}
	}
	b.WriteByte('\n')
	writeWrapped(&b, r.Summary.text(), 4)
	for i, what := range r.LeftOver {
		lead := "left behind: "
		if i > 0 {
			lead = "             "
		}
		writeWrapped(&b, lead+what, len(lead))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) dialects() string {
	if len(r.Target.Dialects) == 0 {
		return ""
	}
	word := "dialect "
	if len(r.Target.Dialects) > 1 {
		word = "dialects "
	}
	return word + strings.Join(r.Target.Dialects, " and ") + ", "
}

func (r *Report) tool() string {
	if r.Target.Tool == "" {
		return "no tool that streams"
	}
	return "tool " + r.Target.Tool
}

// group writes a group, in one line if all of its rows say the same.
func (r *Report) group(b *bytes.Buffer, name string, clauses bool) {
	in := func(row Row) bool { return row.Group == name }
	n, same, first := 0, true, Row{}
	for _, row := range r.Rows {
		if in(row) {
			if n == 0 {
				first = row
			}
			n++
			same = same && row.Status == first.Status && row.Seen == first.Seen
		}
	}
	if same && n > 1 && !clauses {
		fmt.Fprintf(b, "\n%s\n", name)
		writeWrapped(b, fmt.Sprintf("  %s all %d rows %s: %s", marks[first.Status], n, first.Status, first.Seen), 5)
		return
	}
	r.section(b, name, clauses, in)
}

func (r *Report) section(b *bytes.Buffer, title string, clauses bool, in func(Row) bool) {
	empty := true
	for _, row := range r.Rows {
		if !in(row) {
			continue
		}
		if empty {
			fmt.Fprintf(b, "\n%s\n", title)
			empty = false
		}
		writeWrapped(b, fmt.Sprintf("  %s %-*s %-*s %s", marks[row.Status], nameWidth, row.Name, levelWidth, row.Level, row.Seen), seenColumn+1)
		if clauses || title == "deviating" {
			writeWrapped(b, strings.Repeat(" ", 5)+row.Asks+" ("+row.Clause+")", 7)
		}
	}
}

// writeWrapped writes a line, broken at spaces so that it fits; what follows is indented.
func writeWrapped(b *bytes.Buffer, line string, indent int) {
	for len(line) > width {
		at := strings.LastIndexByte(line[:width+1], ' ')
		if at <= indent {
			at = width
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (s Summary) text() string {
	deviating := fmt.Sprintf("%d deviating", s.Deviating)
	if s.Must > 0 || s.Should > 0 {
		deviating += fmt.Sprintf(" (%d MUST, %d SHOULD)", s.Must, s.Should)
	}
	return fmt.Sprintf("%d rows: %d conforming, %s, %d unspecified (.), %d not offered (-), %d could not tell (?)",
		s.Rows, s.Conforming, deviating, s.Unspecified, s.NotOffered, s.Unsure)
}
