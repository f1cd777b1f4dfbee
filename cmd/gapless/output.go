package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/export"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// Kinds of -o by command: those of a run as it happens, of a result, and of report,
// whose text has a name.
func kindsOfRun() []string    { return []string{"json", "junit", "md", "k6", "vegeta"} }
func kindsOfResult() []string { return []string{"json", "junit", "md"} }
func kindsOfReport() []string { return []string{"text", "json", "junit", "md"} }

// outputFlags declares -o and -v.
func outputFlags(cmd *cobra.Command, f *runFlags, kinds []string) {
	cmd.Flags().StringArrayVarP(&f.outputs, "output", "o", nil,
		strings.Join(kinds, ", ")+": to stdout in place of the text, or with `KIND[=FILE]` to a file beside it; repeatable")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list every invariant, place and probe")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoSpace)) // the flag is there
}

// outputs says where the result goes.
type outputs struct {
	list     []output
	actions  actions
	exporter *export.Exporter // nil: nothing is written while the run goes on
}

// An output is one -o.
type output struct {
	kind, file string
	to         *os.File // nil: stdout
}

// live tells whether the kind is written while the run goes on.
func (o output) live() bool { return o.kind == "k6" || o.kind == "vegeta" }

// parseOutputs reads the values of -o. getenv tells whether this is a job of GitHub's.
func parseOutputs(values, kinds []string, getenv func(string) string) (*outputs, error) {
	all := &outputs{actions: actions{on: inJob(getenv), summary: getenv("GITHUB_STEP_SUMMARY")}}
	for _, value := range values {
		kind, file, named := strings.Cut(value, "=")
		switch {
		case kind == "html":
			return nil, fmt.Errorf("-o html: not built yet; known: %s", strings.Join(kinds, ", "))
		case !slices.Contains(kinds, kind) && output{kind: kind}.live():
			return nil, fmt.Errorf("-o %s: only while a run goes on, so with gapless run; known here: %s", kind, strings.Join(kinds, ", "))
		case !slices.Contains(kinds, kind):
			return nil, fmt.Errorf("-o %q: unknown; known: %s", kind, strings.Join(kinds, ", "))
		case named && file == "":
			return nil, fmt.Errorf("-o %s=: the file is missing", kind)
		}
		for _, other := range all.list {
			switch {
			case other.file == file && file == "":
				return nil, fmt.Errorf("-o %s and -o %s: only one of them can go to stdout; give the other a file", other.kind, kind)
			case other.file == file:
				return nil, fmt.Errorf("-o %s and -o %s: both go to %s", other.kind, kind, file)
			}
		}
		all.list = append(all.list, output{kind: kind, file: file})
	}
	return all, nil
}

// open makes the files before a run is made for them. Evidence is about somebody's
// server, so they are for their owner alone. What is in them already stays until there is
// something to put in its place.
func (o *outputs) open() error {
	for i := range o.list {
		out := &o.list[i]
		if out.file == "" {
			continue
		}
		var err error
		if out.to, err = os.OpenFile(out.file, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return errors.Join(fmt.Errorf("-o %s: %w", out.kind, err), o.close())
		}
	}
	return nil
}

// observe begins what is written while the run goes on.
func (o *outputs) observe(cmd *cobra.Command, c *lab.Config) error {
	for _, out := range o.list {
		if !out.live() {
			continue
		}
		if o.exporter == nil {
			o.exporter = export.New(export.Run{
				Profile: c.Profile.Name, URL: targetOf(c.Profile), Calls: callNames(c.Profile), Started: time.Now(),
			})
			c.Observer = o.exporter
		}
		w := cmd.OutOrStdout()
		if out.to != nil {
			if err := empty(out.to); err != nil {
				return fmt.Errorf("-o %s: %w", out.kind, err)
			}
			w = out.to
		}
		if out.kind == "k6" {
			o.exporter.K6(w)
		} else {
			o.exporter.Vegeta(w)
		}
	}
	return nil
}

// targetOf names the target without anything secret.
func targetOf(p profiles.Profile) string {
	switch {
	case p.Reference():
		return "reference server"
	case p.Target.URL == "":
		return p.Target.Transport
	}
	return lab.Withhold(p.Target).URL
}

// callNames says what each call of the profile calls.
func callNames(p profiles.Profile) []string {
	var names []string
	for _, c := range p.Calls {
		names = append(names, cmp.Or(c.Tool, c.Resource, c.Prompt))
	}
	return names
}

// empty takes away what is in a file. Pipes and devices have nothing to take away.
func empty(f *os.File) error {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

// write writes the result in every form that was asked for. A form that cannot be
// written keeps none of the others from being.
func (o *outputs) write(cmd *cobra.Command, r *result.Result, verbose bool) error {
	var all []error
	if o.exporter != nil {
		all = append(all, o.exporter.Close(r))
		o.exporter = nil
	}
	kind := "text"
	for i := range o.list {
		switch out := &o.list[i]; {
		case out.to == nil:
			kind = out.kind
		case out.live():
		default:
			err := empty(out.to)
			if err == nil {
				err = render(out.kind, out.to, r, verbose)
			}
			if err != nil {
				all = append(all, fmt.Errorf("-o %s: %w", out.kind, err))
			}
		}
	}
	all = append(all, o.close(), o.show(cmd, kind, r, verbose))
	return errors.Join(all...)
}

// show prints what goes to stdout. In a job of GitHub's no line of it is taken for a
// command of the job; the annotations, which are, follow.
func (o *outputs) show(cmd *cobra.Command, kind string, r *result.Result, verbose bool) error {
	stdout, commands := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if kind == "k6" || kind == "vegeta" { // it is there already
		return o.actions.tell(commands, cmd.ErrOrStderr(), r)
	}
	if kind == "text" {
		commands = stdout
	}
	write := func() error { return render(kind, stdout, r, verbose) }
	if err := silenced(stdout, o.actions.on && kind == "text", write); err != nil {
		return err
	}
	return o.actions.tell(commands, cmd.ErrOrStderr(), r)
}

// close closes the files, whether anything was written or not.
func (o *outputs) close() error {
	var all []error
	if o.exporter != nil {
		all = append(all, o.exporter.Close(nil))
		o.exporter = nil
	}
	for i := range o.list {
		if f := o.list[i].to; f != nil {
			if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				all = append(all, fmt.Errorf("-o %s: %w", o.list[i].kind, err))
			}
		}
	}
	return errors.Join(all...)
}

// render writes the result in one form.
func render(kind string, w io.Writer, r *result.Result, verbose bool) error {
	o := report.Options{Color: isTerminal(w), Verbose: verbose, Saved: r.History.Dir}
	if o.Saved != "" && len(r.Timelines) > 0 {
		o.Repeat = r.Timelines[0].Repeat
	}
	switch kind {
	case "json":
		return r.Encode(w)
	case "junit":
		return report.JUnit(w, r, o)
	case "md":
		return report.Markdown(w, r, o)
	}
	if err := report.Text(w, r, o); err != nil || len(r.Timelines) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil { // where something is wrong, the story of one stream follows
		return err
	}
	return report.Timeline(w, &r.Timelines[0], o)
}

// inJob tells whether GitHub reads what is printed.
func inJob(getenv func(string) string) bool { return getenv("GITHUB_ACTIONS") == "true" }

// actions is the surroundings of a job of GitHub's.
type actions struct {
	on      bool
	summary string // file of the step's summary
}

// silenced writes to w what a target may have words in; in a job of GitHub's no line of it
// is taken for a command.
func silenced(w io.Writer, inJob bool, write func() error) error {
	if !inJob {
		return write()
	}
	token := rand.Text()
	if _, err := fmt.Fprintf(w, "::stop-commands::%s\n", token); err != nil {
		return err
	}
	err := write()
	_, resumed := fmt.Fprintf(w, "::%s::\n", token)
	return errors.Join(err, resumed)
}

// tell writes the annotations and adds the page to the step's summary. That the page
// cannot be written is told, and changes no verdict.
func (a actions) tell(commands, stderr io.Writer, r *result.Result) error {
	if !a.on {
		return nil
	}
	if a.summary != "" {
		if err := a.append(r); err != nil {
			fmt.Fprintln(stderr, "gapless: GITHUB_STEP_SUMMARY:", err)
		}
	}
	return report.Annotations(commands, r, report.Options{})
}

func (a actions) append(r *result.Result) error {
	f, err := os.OpenFile(a.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(render("md", f, r, false), f.Close())
}

// verdictOf is nil for a run that holds and keeps its limits. Correctness goes before
// limits, but for a run that a limit ended: it could not be carried out, and that is why.
func verdictOf(r *result.Result) error {
	switch {
	case r.Verdict == result.Violated:
	case len(r.FailedThresholds()) > 0 && (r.Verdict == result.Holds || r.Run.Stopped == result.AtThreshold):
		return verdictError(pastLimit)
	case r.Verdict == result.Holds:
		return nil
	}
	return verdictError(r.Verdict)
}
