package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/endpoint"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/probe"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/survey"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/wire"
	"github.com/gapless-dev/gapless/profiles"
)

type probeFlags struct {
	halt            <-chan struct{}
	tool, args      string
	output          string
	budget          time.Duration
	strict, clauses bool
	yes             bool
}

// Bounds of --budget: less tells too little, more is no probe.
const (
	leastBudget = time.Second
	mostBudget  = 55 * time.Second
)

func newProbeCommand(halt <-chan struct{}) *cobra.Command {
	f := probeFlags{halt: halt}
	cmd := &cobra.Command{
		Use:   "probe URL",
		Short: "Ask a server, clause by clause, how its streams resume",
		Long: `Ask the MCP endpoint at URL, from outside and without load, what it does at each
clause that resuming rests on, and where the specification is silent: one row
each, conforming, deviating, unspecified, not offered or could not tell. It takes
about 17 seconds and never more than 60, deletes the sessions that it opened, and
says what stays behind.

Most rows need a tool that streams: emit of the reference server is found, any
other is named by --tool. It is called about 15 times.

Exit codes: 0 the questions were asked, whatever the answers were; 10 with
--strict if a row deviates; 1 the tool failed, 2 bad flag, 4 not reachable.`,
		Example: `  gapless probe http://127.0.0.1:8931/mcp
  gapless probe http://127.0.0.1:3000/mcp --tool long_job --args '{"steps": 20}'
  gapless probe https://mcp.example.com/mcp --yes --token-env TOKEN -o json=probe.json`,
		Args: usageArgs(exactlyOne("URL", "gapless probe http://127.0.0.1:3000/mcp")),
		RunE: func(cmd *cobra.Command, args []string) error { return runProbe(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tool, "tool", "", "`NAME` of a tool that streams messages for some seconds")
	flags.StringVar(&f.args, "args", "", "arguments of --tool, a `JSON` object")
	flags.StringVarP(&f.output, "output", "o", "", "json or json=`FILE`: the rows for programs")
	flags.BoolVarP(&f.clauses, "verbose", "v", false, "the clause and its source under each row")
	flags.BoolVar(&f.strict, "strict", false, "exit code 10 if any row deviates")
	flags.DurationVar(&f.budget, "budget", mostBudget, "what is not asked within `D` could not be told")
	flags.BoolVar(&f.yes, "yes", false, "yes, probe a target that is not on this machine")
	addReachFlags(cmd)
	return cmd
}

func runProbe(cmd *cobra.Command, url string, f *probeFlags) (err error) {
	c := probe.Config{Tool: f.tool, Budget: f.budget}
	if c.Args, err = probeArgs(f.args, f.tool); err != nil {
		return usageError{err}
	}
	if f.budget < leastBudget || f.budget > mostBudget {
		return usageError{fmt.Errorf("--budget: %s to %s", leastBudget, mostBudget)}
	}
	e, err := dialTarget(cmd, &c, url, f.yes)
	if err != nil {
		return usageError{err}
	}
	out, err := probeOutput(f.output)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, out.close()) }()
	report, err := haltable(cmd.Context(), f.halt, c)
	var far *client.UnreachableError
	var bug *guard.PanicError
	var misnamed *probe.NoToolError
	switch {
	case errors.As(err, &misnamed):
		return usageError{complain(cmd.Context(), c.Client, misnamed)}
	case errors.As(err, &far):
		return &lab.UnreachableError{Err: far.Err}
	case errors.As(err, &bug):
		return err
	case err != nil: // nothing there speaks MCP
		return &lab.UnreachableError{Err: fmt.Errorf("%s: %w", c.Shown, err)}
	}
	for _, note := range e.Notes() {
		fmt.Fprintln(cmd.ErrOrStderr(), "gapless:", note)
	}
	if err := out.write(cmd, report, f.clauses); err != nil {
		return err
	}
	if f.strict && report.Summary.Deviating > 0 {
		return verdictError("violated")
	}
	return nil
}

// complain says what tools there are instead of the one that was named.
func complain(ctx context.Context, c client.Config, err *probe.NoToolError) error {
	s, failed := client.New(c).Initialize(ctx, string(profiles.Default().Target.Protocol))
	if failed != nil {
		return err // without the list
	}
	defer s.Close(ctx)
	offers, failed := survey.List(ctx, s)
	if failed != nil {
		return err
	}
	return errors.New(offers.Complain(err.Name))
}

// haltable runs the probe; the first interrupt ends what is being asked, not the report.
func haltable(ctx context.Context, halt <-chan struct{}, c probe.Config) (*probe.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the probe
		select {
		case <-halt:
			cancel()
		case <-ctx.Done():
		}
	}()
	return probe.Run(ctx, c)
}

// dialTarget says how the endpoint is reached. What it returns knows what a summary must
// say of the way.
func dialTarget(cmd *cobra.Command, c *probe.Config, url string, yes bool) (*endpoint.Endpoint, error) {
	p := profiles.Default()
	p.Target.URL = url
	if err := applyReach(cmd, &p); err != nil {
		return nil, err
	}
	e, err := lab.NewEndpoint(p.Target, os.Getenv)
	if err != nil {
		return nil, err
	}
	if !e.Local() && !yes {
		return nil, fmt.Errorf("%s is not on this machine: --yes says that you may probe it", e.Shown())
	}
	c.Shown = e.Shown()
	c.Client = client.Config{URL: e.URL(), Dial: e.Dial, Credential: e.Credential()}
	for _, name := range slices.Sorted(maps.Keys(p.Target.Headers)) {
		c.Client.Header = append(c.Client.Header, wire.Field{Name: name, Value: p.Target.Headers[name]})
	}
	return e, nil
}

func probeArgs(text, tool string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	var args map[string]any
	if err := json.Unmarshal([]byte(text), &args); err != nil || args == nil {
		return nil, errors.New(`--args: must be a JSON object, such as '{"n": 60}'`)
	}
	if tool == "" {
		return nil, errors.New("--args: of which tool? name it with --tool")
	}
	return json.RawMessage(text), nil
}

// A probeSink is where the rows go for programs.
type probeSink struct {
	json bool
	file *os.File // nil: stdout, in place of the text
}

// probeOutput reads -o and makes the file before a probe is made for it. What is in it
// stays until there is something to put in its place.
func probeOutput(s string) (probeSink, error) {
	kind, name, named := strings.Cut(s, "=")
	switch {
	case s == "":
		return probeSink{}, nil
	case kind != "json":
		return probeSink{}, fmt.Errorf("-o %s: a probe writes json or json=FILE", kind)
	case named && name == "":
		return probeSink{}, errors.New("-o json=: the file is missing")
	case !named:
		return probeSink{json: true}, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return probeSink{}, fmt.Errorf("-o: %w", err)
	}
	return probeSink{json: true, file: f}, nil
}

// close closes the file, if there is one.
func (p probeSink) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// write gives the text to stdout, or the JSON if that is where it goes.
func (p probeSink) write(cmd *cobra.Command, r *probe.Report, clauses bool) error {
	if p.json && p.file == nil {
		return r.Encode(cmd.OutOrStdout())
	}
	if p.json {
		if err := errors.Join(p.file.Truncate(0), r.Encode(p.file)); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
	}
	return silenced(cmd.OutOrStdout(), inJob(os.Getenv), func() error { return r.Text(cmd.OutOrStdout(), clauses) })
}
