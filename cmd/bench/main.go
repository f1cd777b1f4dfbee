// Command bench measures gapless beside its peers, in one run and in turns, so that
// whatever else the machine does hits all alike.
//
//	go run . server            what an event, an idle stream and a resume cost a server
//	go run . server -short     the same in a third of a minute
//	go run . append            how long an append takes while slow readers replay
//
// It is a module of its own: what gapless is compared with is no dependency of
// gapless.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Exit codes.
const (
	exitOK     = 0
	exitMissed = 1 // a limit was missed, or something could not be measured
	exitUsage  = 2
)

const usage = `bench server [flags]   table of servers: CPU per event, memory per idle stream, replay
bench append [flags]   how long an append takes while slow readers replay
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	command := "help"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "server":
		err = serverCommand(ctx, args, out, errs)
	case "append":
		err = appendCommand(ctx, args, out, errs)
	case childCommand:
		err = runChild(args, in, out)
	default:
		_, _ = io.WriteString(errs, usage)
		return exitUsage
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, new(usageError)):
		fmt.Fprintf(errs, "bench %s: %v\n", command, err)
		return exitUsage
	}
	fmt.Fprintf(errs, "bench %s: %v\n", command, err)
	return exitMissed
}

// usageError is a wrong command line.
type usageError struct{ error }

// parse reads flags and refuses what is left over.
func parse(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if set.NArg() > 0 {
		return usageError{fmt.Errorf("%q is no flag", set.Arg(0))}
	}
	return nil
}
