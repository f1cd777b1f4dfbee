package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

type serverFlags struct {
	sizes  sizes
	short  bool
	check  bool
	only   string
	output string
}

func serverCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	var f serverFlags
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	set.SetOutput(errs)
	set.BoolVar(&f.short, "short", false, "a third of a minute: fewer events, one round of idle streams")
	set.BoolVar(&f.check, "check", false, "exit 1 if gapless misses a limit; ratios within the run only")
	set.StringVar(&f.only, "only", "", "servers whose name contains this `TEXT`, and the raw ones")
	set.StringVar(&f.output, "o", "", "write all figures to a file as well: `json=FILE`")
	rounds := set.Int("rounds", 0, "rounds, each of which measures every server once (0: 3)")
	events := set.Int("events", 0, "events per stream and round in a burst (0: 7000, short 2000)")
	if err := parse(set, args); err != nil {
		return err
	}
	if *rounds < 0 || *events < 0 {
		return usageError{errors.New("-rounds and -events are not negative")}
	}
	f.sizes = sized(f.short)
	if *rounds > 0 {
		f.sizes.Rounds = *rounds
	}
	if *events > 0 {
		f.sizes.BurstEvents = *events
	}
	file, ok := strings.CutPrefix(f.output, "json=")
	if f.output != "" && (!ok || file == "") {
		return usageError{fmt.Errorf("-o %q is not json=FILE", f.output)}
	}
	report, err := measureServers(ctx, f, errs)
	if err != nil {
		return err
	}
	if err := report.print(out); err != nil {
		return err
	}
	if file != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if f.check {
		return report.check()
	}
	return nil
}

func sized(short bool) sizes {
	z := sizes{
		Rounds: 3, BurstStreams: 50, BurstEvents: 7000, LiveStreams: 200, LiveRate: 100, LiveSeconds: 2.5,
		IdleStreams: 2000, Resumes: 40, ReplayEvents: 1000, IdleRoundsMax: 1,
	}
	if short {
		z.BurstStreams, z.BurstEvents, z.LiveStreams, z.LiveSeconds, z.IdleStreams, z.Resumes = 10, 2000, 100, 0.4, 300, 10
	}
	return z
}

// measureServers measures every server in every regime, round after round. Each
// measurement gets a process of its own.
func measureServers(ctx context.Context, f serverFlags, progress io.Writer) (*report, error) {
	r := newReport(f.sizes)
	for _, k := range kinds() {
		raw := k.name == rawEach || k.name == rawBatched
		if !k.hidden && (f.only == "" || raw || strings.Contains(k.name, f.only)) {
			r.add(k)
		}
	}
	begun := time.Now()
	for round := range f.sizes.Rounds {
		for _, g := range regimes() {
			if g.name == "idle" && round >= f.sizes.IdleRoundsMax {
				continue
			}
			for _, row := range r.Rows {
				if g.resumes && !row.kind.store {
					continue
				}
				s, err := measureOne(ctx, row.kind, g, f.sizes)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", row.Server, g.name, err)
				}
				row.take(g.name, s)
			}
			fmt.Fprintf(progress, "round %d of %d: %s measured, %.0f s\n", round+1, f.sizes.Rounds, g.name, time.Since(begun).Seconds())
		}
	}
	r.Seconds = time.Since(begun).Seconds()
	return r, nil
}

// oneTime bounds one measurement.
const oneTime = time.Minute

func measureOne(ctx context.Context, k kind, g regime, z sizes) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneTime)
	defer cancel()
	server, err := start(ctx, k.name)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	// A server that hangs ends with the context, and its streams with it.
	return g.measure(ctx, server, z)
}
