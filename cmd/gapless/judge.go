package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
)

func newJudgeCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a saved run again",
		Long: `Judge the history in DIR (gapless run --save DIR) again, from its records alone.
A history that is cut short or damaged is inconclusive, and the output says where.
Thresholds are those of the run. Exit codes are those of run.`,
		Args: usageArgs(exactlyOne("DIR", "gapless judge out")),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := parseOutputs(f.outputs, kindsOfResult(), os.Getenv)
			if err != nil {
				return usageError{err}
			}
			if err := savedDir(args[0]); err != nil {
				return err
			}
			r, err := lab.Judge(args[0])
			if err != nil {
				return missingDir(args[0], err)
			}
			if err := out.open(); err != nil {
				return usageError{err}
			}
			if err := out.write(cmd, r, f.verbose); err != nil {
				return err
			}
			return verdictOf(r)
		},
	}
	outputFlags(cmd, &f, kindsOfResult())
	return cmd
}
