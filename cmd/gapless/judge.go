package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
)

func newJudgeCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a saved run again",
		Long: `Judge the history in DIR (gapless run --save DIR) again, from its records alone.
A history that is cut short or damaged is inconclusive, and the output says where.
Exit codes are those of run.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := parseOutput(f.output)
			if err != nil {
				return usageError{err}
			}
			r, err := lab.Judge(args[0])
			if err != nil {
				return missingDir(err)
			}
			if err := out.write(cmd, r, &f); err != nil {
				return err
			}
			return verdictOf(r)
		},
	}
	outputFlags(cmd, &f)
	return cmd
}

func newReportCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the result of a saved run, or the timeline of one stream",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := parseOutput(f.output)
			if err != nil {
				return usageError{err}
			}
			if f.stream != 0 {
				t, err := lab.Story(args[0], f.stream)
				if err != nil {
					return missingDir(err)
				}
				return report.Timeline(cmd.OutOrStdout(), t, report.Options{Color: isTerminal(cmd.OutOrStdout())})
			}
			r, err := lab.ReadResult(args[0])
			if err != nil {
				return missingDir(err)
			}
			return out.write(cmd, r, &f)
		},
	}
	outputFlags(cmd, &f)
	cmd.Flags().Uint32Var(&f.stream, "stream", 0, "the timeline of stream `N`, damaged or not")
	return cmd
}

func outputFlags(cmd *cobra.Command, f *runFlags) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "`json[=FILE]`: the result as JSON, to stdout in place of the text or to a file beside it")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list every invariant")
}

// missingDir makes a directory that is not there, or is no saved run, a usage error.
func missingDir(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return usageError{fmt.Errorf("not a saved run (gapless run --save DIR makes one): %w", err)}
	}
	return err
}

// verdictOf is nil for a run that holds.
func verdictOf(r *result.Result) error {
	if r.Verdict == result.Holds {
		return nil
	}
	return verdictError(r.Verdict)
}
