// Package report renders a result for people: the summary, the timeline of a
// damaged stream, the line of progress.
//
// A summary starts with the verdict and ends with how to repeat the run. It
// fits 25 lines, puts what was wanted beside what was got, and shows a share
// only where the number it is a share of stands beside it. Text that came from
// the target is shown without control characters and cut to a bounded length.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Options says how to render. The zero value suits a file: no colour, lines of
// at most 110 columns.
type Options struct {
	Color   bool
	Verbose bool // list every invariant, place and probe
	// Width is the number of columns of the terminal; 0 means 110. Commands are
	// never broken: they are there to be copied.
	Width int
	// Saved is the directory that the run was saved to, "" when it was not.
	Saved string
	// Repeat is the command of the last line; "" means the run's own command.
	Repeat string
}

// Text writes the summary of r.
func Text(w io.Writer, r *result.Result, o Options) error {
	p := newPage(o)
	p.line(head(r))
	p.blank()
	p.verdict(r)
	p.blank()
	if len(r.Notes) > 0 {
		p.list("note", r.Notes)
	}
	switch r.Verdict {
	case result.Holds:
		holds(p, r)
	case result.Violated:
		violated(p, r)
	default:
		inconclusive(p, r)
	}
	thresholds(p, r)
	if o.Verbose {
		details(p, r)
	}
	stopped(p, r)
	p.row(p.labelWidth(r), "repeat")
	p.command(repeat(r, o))
	return p.flush(w)
}

func repeat(r *result.Result, o Options) string {
	if o.Repeat != "" {
		return o.Repeat
	}
	return r.Run.Command
}

// head names tool, profile, seed and target.
func head(r *result.Result) string {
	t := r.Run.Target
	target := cut(t.URL, 100)
	about := ""
	if t.Name != "" {
		about = cut(t.Name, 40)
		if t.Version != "" {
			about += " " + cut(t.Version, 20)
		}
	}
	if t.Store != "" {
		target, about = "reference server", ""
	}
	for _, more := range []string{t.Protocol, t.Store} {
		if more != "" && about != "" {
			about += ", "
		}
		about += cut(more, 60)
	}
	if about != "" {
		target += " (" + about + ")"
	}
	parts := []string{strings.TrimSpace("gapless " + r.Run.Version), cut(r.Run.Profile, 60), fmt.Sprintf("seed %d", r.Run.Seed), target}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// reached finds what the run wanted to meet under one of the names.
func reached(r *result.Result, names ...string) (result.Reached, bool) {
	for _, name := range names {
		for _, x := range r.Reached {
			if x.Name == name {
				return x, true
			}
		}
	}
	return result.Reached{}, false
}
