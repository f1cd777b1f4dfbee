// Command gapless proves that an MCP server's streams resume with no gap and no
// repeat, or shows which message was lost, where and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
)

// Exit codes (DESIGN §6). A crash must not look like a verdict, so none of them
// is 0 or 10 by accident.
const (
	exitHolds        = 0
	exitToolFailed   = 1
	exitUsage        = 2
	exitUnreachable  = 4
	exitViolated     = 10
	exitInconclusive = 11
	exitPastLimit    = 99 // k6's number
)

// pastLimit is what a verdictError says where everything holds but a threshold, or where
// a comparison found a regression.
const pastLimit = "past a limit"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with everything it touches passed in. It returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(stderr, "gapless: panic: %v\n\n%s", v, debug.Stack())
			code = exitToolFailed
		}
	}()
	ctx, halt, stop := interrupts()
	defer stop()
	root := newRoot(halt)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var word verdictError
	if err != nil && !errors.As(err, &word) {
		_ = silenced(stderr, inJob(os.Getenv), func() error { // nothing can be done where stderr is gone
			_, err := fmt.Fprintln(stderr, "gapless:", err)
			return err
		})
	}
	return exitCode(err)
}

// interrupts turns the first interrupt into the end of halt (stop the faults, drain,
// judge) and the second into the end of ctx; a third ends the process.
func interrupts() (ctx context.Context, halt <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	halted := make(chan struct{})
	go func() { // ends with ctx
		for _, then := range []func(){func() { close(halted) }, cancel} {
			select {
			case <-signals:
				then()
			case <-ctx.Done():
				return
			}
		}
		signal.Stop(signals)
	}()
	return ctx, halted, func() {
		signal.Stop(signals)
		cancel()
	}
}

// A usageError is a bad flag, argument or profile.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A verdictError is a verdict other than "holds": the result has been printed,
// only the exit code is left to say.
type verdictError string

func (e verdictError) Error() string { return string(e) }

func exitCode(err error) int {
	var usage usageError
	var misused *lab.MisusedError
	var unreachable *lab.UnreachableError
	var word verdictError
	switch {
	case err == nil:
		return exitHolds
	case errors.As(err, &usage), errors.As(err, &misused):
		return exitUsage
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &word) && word == "violated":
		return exitViolated
	case errors.As(err, &word) && word == "inconclusive":
		return exitInconclusive
	case errors.As(err, &word) && word == pastLimit:
		return exitPastLimit
	}
	return exitToolFailed
}

func newRoot(halt <-chan struct{}) *cobra.Command {
	root := &cobra.Command{
		Use:   "gapless",
		Short: "Prove that an MCP server's streams resume with no gap and no repeat",
		Long: `gapless opens thousands of MCP tool-call streams, cuts their connections at
chosen places, resumes them, and proves that no message was lost or repeated,
or shows which one, where and why.

  gapless run                                  the reference server, a few seconds
  gapless run --target http://127.0.0.1:3000/mcp --tool long_job`,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args:                       usageArgs(cobra.NoArgs),
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(newRunCommand(halt), newServeCommand(halt), newJudgeCommand(), newReportCommand(), newProxyCommand(halt), newProbeCommand(halt), newProfilesCommand(), newVersionCommand())
	root.SetHelpCommand(newHelpCommand())
	completeWords(root)
	return root
}
