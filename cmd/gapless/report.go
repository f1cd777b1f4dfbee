package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

func newReportCommand() *cobra.Command {
	var f runFlags
	var before string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the result of a saved run, the timeline of one stream, or what differs from another run",
		Long: `Print the result of the run in DIR (gapless run --save DIR), the timeline of one of
its streams, or how it differs from an earlier run.

A comparison fails, with exit code 99, if the verdict got worse, an invariant is newly
violated, a threshold is newly failed, or a latency is slower beyond chance (99.9 %) and by
a tenth and a millisecond at least. If gapless itself was slower to start calls, the machine
was busier, and slower latencies prove nothing: exit code 11. So it is for runs that made
other calls, whose latencies are not judged. Otherwise it is 0, whatever the verdict.`,
		Example: `  gapless report out
  gapless report out --stream 41
  gapless report out --compare baseline -o md`,
		Args: usageArgs(exactlyOne("DIR", "gapless report out")),
		RunE: func(cmd *cobra.Command, args []string) error {
			compares, streams := cmd.Flags().Changed("compare"), cmd.Flags().Changed("stream")
			if compares && streams {
				return usageError{errors.New("--compare and --stream: runs are compared as a whole")}
			}
			if compares && before == "" { // an unset variable of a script
				return usageError{errors.New("--compare: the value is empty")}
			}
			for _, dir := range append(args, before) {
				if err := savedDir(dir); err != nil {
					return err
				}
			}
			switch {
			case streams:
				return reportStream(cmd, args[0], &f)
			case compares:
				return compare(cmd, args[0], before, &f)
			}
			return reportResult(cmd, args[0], &f)
		},
	}
	outputFlags(cmd, &f, kindsOfReport())
	cmd.Flags().Uint32Var(&f.stream, "stream", 0, "the timeline of stream `N`, damaged or not")
	cmd.Flags().StringVar(&before, "compare", "", "what differs from the earlier run saved in `DIR`")
	return cmd
}

// reportResult prints the result that was saved.
func reportResult(cmd *cobra.Command, dir string, f *runFlags) error {
	out, err := parseOutputs(f.outputs, kindsOfReport(), noEnvironment)
	if err != nil {
		return usageError{err}
	}
	r, err := lab.ReadResult(dir)
	if err != nil {
		return missingDir(dir, err)
	}
	if err := out.open(); err != nil {
		return usageError{err}
	}
	return out.write(cmd, r, f.verbose)
}

// noEnvironment: whoever looks at a saved run is in no job that has to be told.
func noEnvironment(string) string { return "" }

// reportStream prints the timeline of one stream.
func reportStream(cmd *cobra.Command, dir string, f *runFlags) error {
	if f.stream == 0 {
		return usageError{errors.New("--stream: streams count from 1")}
	}
	return single(cmd, f, map[string]func(io.Writer) error{
		"text": func(w io.Writer) error {
			t, err := story(dir, f.stream)
			if err != nil {
				return err
			}
			return report.Timeline(w, t, report.Options{Color: isTerminal(w)})
		},
		"json": func(w io.Writer) error {
			t, err := story(dir, f.stream)
			if err != nil {
				return err
			}
			return encode(w, t)
		},
	})
}

// story reads the timeline; a stream that is not there is an error of the caller.
func story(dir string, stream uint32) (*result.Timeline, error) {
	t, err := lab.Story(dir, stream)
	var none *lab.NoStreamError
	if errors.As(err, &none) {
		return nil, usageError{err}
	}
	return t, missingDir(dir, err)
}

// compare prints how the run in dir differs from the one before.
func compare(cmd *cobra.Command, dir, before string, f *runFlags) error {
	var runs [2]*result.Result
	for i, d := range []string{before, dir} {
		r, err := lab.ReadResult(d)
		if err != nil {
			return missingDir(d, err)
		}
		runs[i] = r
	}
	c := result.Compare(runs[0], runs[1], otherCalls(before, dir)...)
	err := single(cmd, f, map[string]func(io.Writer) error{
		"text": func(w io.Writer) error {
			return report.Comparison(w, c, report.Options{Color: isTerminal(w), Verbose: f.verbose})
		},
		"json": func(w io.Writer) error { return encode(w, c) },
		"md":   func(w io.Writer) error { return report.ComparisonMarkdown(w, c, report.Options{}) },
	})
	switch {
	case err != nil:
		return err
	case len(c.Regressions) > 0:
		return verdictError(pastLimit)
	case c.Doubt != "":
		return verdictError(result.Inconclusive)
	}
	return nil
}

// otherCalls names what the calls of two saved runs differ in, as far as it is recorded.
// Arguments may be secrets: they are not shown.
func otherCalls(before, after string) []string {
	x, err := lab.Load(before)
	y, bad := lab.Load(after)
	if err != nil || bad != nil {
		return nil // the results say what they can
	}
	var other []string
	b, a := x.Profile, y.Profile
	if was, is := strings.Join(callNames(b), ", "), strings.Join(callNames(a), ", "); was != is {
		return []string{fmt.Sprintf("calls %s, then %s", was, is)}
	}
	emits := slices.ContainsFunc(a.Calls, func(c profiles.Call) bool { return c.Tool == profiles.DefaultCall().Tool })
	if emits && !reflect.DeepEqual(b.Emit, a.Emit) {
		other = append(other, "what emit sends")
	}
	if !slices.EqualFunc(b.Calls, a.Calls, func(x, y profiles.Call) bool { return maps.EqualFunc(x.Args, y.Args, reflect.DeepEqual) }) {
		other = append(other, "args of "+strings.Join(callNames(a), ", "))
	}
	if !slices.EqualFunc(b.Calls, a.Calls, func(x, y profiles.Call) bool { return x.Weight == y.Weight }) {
		other = append(other, "weights of the calls")
	}
	return other
}

// single writes what has fewer forms than a result: as text, or in those that -o names.
func single(cmd *cobra.Command, f *runFlags, forms map[string]func(io.Writer) error) error {
	kinds := []string{}
	for _, kind := range kindsOfReport() {
		if forms[kind] != nil {
			kinds = append(kinds, kind)
		}
	}
	out, err := parseOutputs(f.outputs, kinds, noEnvironment)
	if err != nil {
		return usageError{err}
	}
	if err := out.open(); err != nil {
		return usageError{err}
	}
	onStdout := "text"
	for _, o := range out.list {
		if o.to == nil {
			onStdout = o.kind
			continue
		}
		if err := errors.Join(empty(o.to), forms[o.kind](o.to)); err != nil {
			return errors.Join(err, out.close())
		}
	}
	return errors.Join(forms[onStdout](cmd.OutOrStdout()), out.close())
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// savedDir tells a file from a directory: the file in it is what many people try first.
func savedDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usageError{fmt.Errorf("%s is a file; give the directory that gapless run --save made", dir)}
	}
	return nil
}

// missingDir makes a directory that is not there, or is no saved run, a usage error.
func missingDir(dir string, err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, gone := os.Stat(dir); gone != nil {
		return usageError{fmt.Errorf("%s: no such directory; gapless run --save DIR makes one", dir)}
	}
	return usageError{fmt.Errorf("%s is not a saved run (gapless run --save DIR makes one): %w", dir, err)}
}
