package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

type runFlags struct {
	halt           <-chan struct{}
	seed           uint64
	plan           bool
	outputs        []string
	quiet, verbose bool
	yes            bool
	save, from     string
	stream         uint32
	failFast       bool
	linger         time.Duration
	http           httpFlags
}

func newRunCommand(halt <-chan struct{}) *cobra.Command {
	f := runFlags{halt: halt}
	cmd := &cobra.Command{
		Use:   "run [PROFILE]",
		Short: "Load, cut, resume, judge",
		Long: `Open tool-call streams, cut their connections, resume them, and judge what
arrived. PROFILE is a built-in name (gapless profiles) or a file; without it,
smoke against the reference server, third-party with --target.

Exit codes: 0 holds, 10 violated, 11 inconclusive, 99 holds but a threshold failed,
1 the tool failed, 2 bad flag or profile, 4 target not reachable.`,
		Example: `  gapless run
  gapless run --streams 5000 --messages 20 --fault rst:0.5
  gapless run --protocol 2026-07-28
  gapless run --dialect umcp --streams 100
  gapless run --target http://127.0.0.1:3000/mcp --tool long_job --args '{"steps": 60}'`,
		Args: usageArgs(atMostOne("profile")),
		RunE: func(cmd *cobra.Command, args []string) error { return runProfile(cmd, args, &f) },
	}
	addOverrides(cmd)
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 0, "key `N` of all draws (default: a new one, printed)")
	flags.BoolVar(&f.plan, "plan", false, "print the arrival plan and the fault plan, run nothing")
	outputFlags(cmd, &f, kindsOfRun())
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	flags.StringVar(&f.save, "save", "", "write history and result into the new `DIR`")
	flags.StringVar(&f.from, "from", "", "repeat the plan of the run saved in `DIR`")
	flags.Uint32Var(&f.stream, "stream", 0, "with --from: only stream `N` of it")
	flags.BoolVar(&f.failFast, "fail-fast", false, "stop at the first violation")
	flags.DurationVar(&f.linger, "linger", 0, "keep the reference server, and the API of --http, for `D` after the run")
	addHTTPFlags(cmd, &f.http)
	flags.BoolVar(&f.yes, "yes", false, "yes, load a target that is not on this machine")
	return cmd
}

func runProfile(cmd *cobra.Command, args []string, f *runFlags) error {
	for _, name := range []string{"save", "from"} { // an unset variable of a script
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usageError{fmt.Errorf("--%s: the value is empty", name)}
		}
	}
	p, offer, err := loadProfile(cmd, args, f)
	if err != nil {
		return usageError{err}
	}
	if f.linger < 0 {
		return usageError{errors.New("--linger: must not be negative")}
	}
	if !cmd.Flags().Changed("seed") && offer == nil {
		if f.seed, err = drawSeed(); err != nil {
			return err
		}
	}
	out, err := parseOutputs(f.outputs, kindsOfRun(), os.Getenv)
	if err != nil {
		return usageError{err}
	}
	if err := lab.Check(p); err != nil {
		return usageError{err}
	}
	if f.plan {
		return printPlan(cmd, p, offer, f)
	}
	if err := free(f.save); err != nil {
		return usageError{err}
	}
	if err := guardTarget(cmd, &p, f.yes); err != nil {
		return usageError{err}
	}
	if err := out.open(); err != nil {
		return usageError{err}
	}
	defer out.close() // what went well is closed already
	c, err := labConfig(cmd, p, f)
	if err != nil {
		return err
	}
	c.Offer, c.Only = offer, f.stream
	remote, err := openRemote(cmd, f)
	if err != nil {
		return usageError{err}
	}
	err = steer(cmd, f, c, out, remote)
	if bad := remote.close(); bad != nil {
		return fmt.Errorf("--http: %w", bad) // a tool that failed has no verdict
	}
	return err
}

// steer carries out a run that its API, if it has one, may hold, hurt and end.
func steer(cmd *cobra.Command, f *runFlags, c lab.Config, out *outputs, remote *remote) error {
	remote.arm(&c)
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with the run
		select {
		case <-f.halt:
			fmt.Fprintln(cmd.ErrOrStderr(), "gapless: interrupted; what is open drains and is judged, a second interrupt stops it")
		case <-over:
		}
	}()
	var ended time.Time
	c.Report = func(r *result.Result) error {
		if !f.quiet {
			newProgressLine(cmd.ErrOrStderr()).clear()
		}
		ended = time.Now()
		return errors.Join(out.write(cmd, r, f.verbose), remote.done(r))
	}
	var r *result.Result
	err := context.Canceled
	if remote.wait(cmd.Context()) {
		if err := out.observe(cmd, &c); err != nil { // not before: its times count from the start
			return err
		}
		r, err = lab.Run(cmd.Context(), c)
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(cmd.ErrOrStderr(), "gapless: interrupted before the load began: nothing was judged")
		return verdictError(result.Inconclusive)
	}
	if err != nil {
		return err
	}
	remote.linger(cmd, f, ended)
	return verdictOf(r)
}

// free tells that a run can be saved to dir, which is new or has nothing in it.
func free(dir string) error {
	if dir == "" {
		return nil
	}
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--save: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--save: %s has something in it; a run is saved into a new directory", dir)
	}
	return nil
}

func printPlan(cmd *cobra.Command, p profiles.Profile, offer *lab.Offer, f *runFlags) error {
	if offer == nil {
		assumed := lab.Assume(p)
		offer = &assumed
		if !p.Reference() { // on stderr: the plan itself is there to be compared
			fmt.Fprintf(cmd.ErrOrStderr(), "gapless: assumed: %d messages a call, event ids and a priming event; "+
				"a run learns from its control calls what is true, and its faults may lie elsewhere\n", assumed.Messages[0])
		}
	}
	plans, err := lab.NewPlans(p, f.seed, *offer, f.stream)
	if err != nil {
		return usageError{err}
	}
	_, err = plans.WriteTo(cmd.OutOrStdout())
	return err
}

// loadProfile reads the profile, or the one of a saved run with what its target
// offered, and puts the flags over it.
func loadProfile(cmd *cobra.Command, args []string, f *runFlags) (profiles.Profile, *lab.Offer, error) {
	if f.from != "" {
		return loadSaved(cmd, args, f)
	}
	if f.stream != 0 {
		return profiles.Profile{}, nil, errors.New("--stream: only with --from DIR")
	}
	name := "smoke"
	if cmd.Flags().Changed("target") || cmd.Flags().Changed("exec") {
		name = "third-party"
	}
	if len(args) > 0 {
		name = args[0]
	}
	if strings.Contains(name, "://") {
		return profiles.Profile{}, nil, mistaken(name)
	}
	p, err := profiles.Load(name)
	if err != nil {
		return p, nil, err
	}
	if err := applyOverrides(cmd, &p); err != nil {
		return p, nil, err
	}
	return p, nil, ownTools(p)
}

// ownTools tells that the reference server lacks what is called: it has one tool, so
// nothing but the target can have been forgotten.
func ownTools(p profiles.Profile) error {
	own := profiles.DefaultCall().Tool
	if !p.Reference() {
		return nil
	}
	for _, c := range p.Calls {
		if c.Tool != own {
			return fmt.Errorf("%q: without --target the reference server is tested, which has only the tool %s", cmp.Or(c.Tool, c.Resource, c.Prompt), own)
		}
	}
	return nil
}

// loadSaved reads what --from repeats. Its plan is that of the saved run, so no flag
// may change what the plan is made of.
func loadSaved(cmd *cobra.Command, args []string, f *runFlags) (profiles.Profile, *lab.Offer, error) {
	if len(args) > 0 || cmd.Flags().Changed("seed") {
		return profiles.Profile{}, nil, errors.New("--from: profile and seed are those of the saved run")
	}
	saved, err := lab.Load(f.from)
	if err != nil {
		return profiles.Profile{}, nil, fmt.Errorf("--from: %w", missingDir(f.from, err))
	}
	for _, o := range overrides() {
		if cmd.Flags().Changed(o.name) && !strings.HasPrefix(o.path, "target.") && !strings.HasPrefix(o.path, "server.") {
			return profiles.Profile{}, nil, fmt.Errorf("--%s: the plan of a saved run is repeated as it is", o.name)
		}
	}
	for _, name := range []string{"fault", "stage"} {
		if cmd.Flags().Changed(name) {
			return profiles.Profile{}, nil, fmt.Errorf("--%s: the plan of a saved run is repeated as it is", name)
		}
	}
	f.seed = saved.Seed
	if f.stream != 0 {
		saved.Profile.Reach, saved.Profile.Load.Hold = profiles.Reach{}, false
	}
	if cmd.Flags().Changed("target") {
		saved.Profile.Forget("server") // which the saved run may have started
	}
	if err := applyOverrides(cmd, &saved.Profile); err != nil {
		return saved.Profile, nil, err
	}
	return saved.Profile, &saved.Offer, lab.Lacking(saved.Profile.Target)
}

// labConfig draws what no two runs may share and says how the target is reached.
func labConfig(cmd *cobra.Command, p profiles.Profile, f *runFlags) (lab.Config, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return lab.Config{}, err
	}
	name := make([]byte, 4)
	if _, err := rand.Read(name); err != nil {
		return lab.Config{}, err
	}
	c := lab.Config{
		Profile: p, Seed: f.seed, Name: hex.EncodeToString(name), Secret: secret,
		Version: version(), Command: repeatCommand(cmd, p, f.seed), Halt: f.halt,
		Save: f.save, FailFast: f.failFast, Linger: f.linger,
	}
	if line := newProgressLine(cmd.ErrOrStderr()); !f.quiet {
		c.Progress = func(p report.Progress) { line.show(p.String()) }
		c.Interval = line.interval()
	}
	if !p.Reference() {
		start, err := lab.Target(p.Target, os.Getenv)
		if err != nil {
			return lab.Config{}, usageError{err}
		}
		c.Start = start
		return c, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return lab.Config{}, fmt.Errorf("reference server: %w", err)
	}
	c.Start = lab.Child(exe, lab.ChildArgs(p)...)
	return c, nil
}

// drawSeed draws a seed that a person can type.
func drawSeed() (uint64, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return 0, err
	}
	return n.Uint64(), nil
}

// guardTarget keeps a mistyped URL from loading somebody else's server.
func guardTarget(cmd *cobra.Command, p *profiles.Profile, yes bool) error {
	if p.Target.URL == "" {
		return nil
	}
	e, err := lab.NewEndpoint(p.Target, os.Getenv)
	if err != nil || e.Local() {
		return err
	}
	if !yes {
		return fmt.Errorf("%s is not on this machine: --yes says that you may load it", e.Shown())
	}
	if p.Target.MaxRate == 0 && !cmd.Flags().Changed("rate") && !cmd.Flags().Changed("stage") {
		p.Target.MaxRate = gentleRate
	}
	if cmd.Flags().Changed("from") {
		return nil // a saved run is repeated as it was
	}
	gentle(cmd, &p.Load)
	return nil
}

// gentleRate is how many starts per second a target gets that is not on this machine,
// gentleStreams how many streams at once.
const (
	gentleRate    = 10
	gentleStreams = 20
)

// gentle bounds the load on a target that is not on this machine to what DESIGN §4
// allows, unless a flag said otherwise.
func gentle(cmd *cobra.Command, l *profiles.LoadModel) {
	if !cmd.Flags().Changed("streams") {
		l.Streams = min(l.Streams, gentleStreams)
	}
	l.Ramp = max(l.Ramp, profiles.Duration(l.Streams)*profiles.Duration(time.Second/gentleRate))
	if !cmd.Flags().Changed("rate") {
		l.Rate = min(l.Rate, gentleRate)
	}
	if !cmd.Flags().Changed("stage") {
		l.Stages = slices.Clone(l.Stages)
		for i := range l.Stages {
			l.Stages[i].Rate = min(l.Stages[i].Rate, gentleRate)
		}
	}
}
