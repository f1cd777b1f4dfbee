package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// appendSizes says how much a run of append does.
type appendSizes struct {
	Sessions int           `json:"sessions"` // each with one writer and one reader
	Interval time.Duration `json:"interval_ns"`
	Backlog  int           `json:"backlog"` // events that a resume has to replay
	Quiet    time.Duration `json:"quiet_ns"`
	Replay   time.Duration `json:"replay_ns"`
}

// quantiles are what appends took, in ns.
type quantiles struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p99.9"`
	Max   int64 `json:"max"`
}

// appendRow is one server: its appends while readers keep up, and while they replay.
type appendRow struct {
	Server  string    `json:"server"`
	Quiet   quantiles `json:"quiet"`
	Replay  quantiles `json:"replay"`
	Resumes int64     `json:"resumes"`
	Missing int64     `json:"events_missing"`
}

// fillTime is what writers get to write the past that will be replayed.
const fillTime = 500 * time.Millisecond

// maxAppend is the limit of p99.9 while slow readers replay.
const maxAppend = 200 * time.Microsecond

func appendCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	var z appendSizes
	set := flag.NewFlagSet("append", flag.ContinueOnError)
	set.SetOutput(errs)
	set.IntVar(&z.Sessions, "sessions", 50, "sessions, each with one writer and one reader")
	set.DurationVar(&z.Interval, "interval", 5*time.Millisecond, "time between two events of a writer")
	set.IntVar(&z.Backlog, "backlog", 1000, "events that each resume has to replay")
	set.DurationVar(&z.Quiet, "quiet", 2*time.Second, "time to measure before anybody resumes")
	set.DurationVar(&z.Replay, "replay", 8*time.Second, "time to measure while all resume")
	only := set.String("only", "", "servers whose name contains this `TEXT`")
	check := set.Bool("check", false, "exit 1 if p99.9 is above 200 µs while readers replay")
	if err := parse(set, args); err != nil {
		return err
	}
	if z.Sessions < 1 || z.Interval <= 0 || z.Backlog < 1 || z.Backlog > ringSize/2 || z.Quiet < 0 || z.Replay <= 0 {
		return usageError{fmt.Errorf("all sizes are above 0, the backlog at most %d", ringSize/2)}
	}
	var rows []appendRow
	for _, k := range kinds() {
		if !strings.HasPrefix(k.name, appendKind) || !strings.Contains(k.name, *only) {
			continue
		}
		row, err := measureAppends(ctx, k.name, z)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		rows = append(rows, row)
	}
	if err := printAppends(out, z, rows); err != nil {
		return err
	}
	if *check {
		return checkAppends(rows)
	}
	return nil
}

func checkAppends(rows []appendRow) error {
	var errs []error
	for _, r := range rows {
		if r.Replay.P999 > maxAppend.Nanoseconds() {
			errs = append(errs, fmt.Errorf("%s: p99.9 of appends is %s, above %s", r.Server, time.Duration(r.Replay.P999), maxAppend))
		}
		if r.Missing > 0 || r.Resumes == 0 {
			errs = append(errs, fmt.Errorf("%s: %d resumes, %d events missing", r.Server, r.Resumes, r.Missing))
		}
	}
	if len(rows) == 0 {
		errs = append(errs, errors.New("nothing was measured"))
	}
	return errors.Join(errs...)
}

func printAppends(out io.Writer, z appendSizes, rows []appendRow) error {
	fmt.Fprintf(out, `Appends of %d writers, one event every %s each, in µs: while all readers keep up, then
while each reads %d events of its past slowly, over and over.

`, z.Sessions, z.Interval, z.Backlog)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tkeeping up\t\t\t\treplaying\t\t\t\t\tevents\t")
	fmt.Fprintln(t, "\tp50\tp99\tp99.9\tmax\tp50\tp99\tp99.9\tmax\tresumes\tmissing\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s%s%d\t%d\t\n", r.Server, r.Quiet, r.Replay, r.Resumes, r.Missing)
	}
	return t.Flush()
}

// String gives the four cells of a table.
func (q quantiles) String() string {
	us := func(ns int64) string { return fmt.Sprintf("%.1f\t", float64(ns)/1000) }
	return us(q.P50) + us(q.P99) + us(q.P999) + us(q.Max)
}

// measureAppends runs one server: a writer in each session, whose appends it times
// itself, and a reader that first keeps up and then resumes over and over.
func measureAppends(ctx context.Context, name string, z appendSizes) (row appendRow, err error) {
	row.Server = name
	ctx, cancel := context.WithTimeout(ctx, z.Quiet+z.Replay+oneTime)
	defer cancel()
	server, err := start(ctx, name)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	all, err := sessions(ctx, server.addr, z.Sessions)
	if err != nil {
		return row, err
	}
	var resuming atomic.Bool
	replaying, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	readers, failures := make([]*pastReader, len(all)), make([]error, len(all))
	for i, c := range all {
		readers[i] = &pastReader{client: c, backlog: z.Backlog, interval: z.Interval}
		group.Go(func() { failures[i] = readers[i].run(replaying, &resuming) })
	}
	row.Quiet, row.Replay, err = timeAppends(replaying, server, z, &resuming)
	stop()
	group.Wait()
	for _, r := range readers {
		row.Resumes += r.resumes
		row.Missing += r.missing
	}
	return row, errors.Join(err, first(failures))
}

// timeAppends waits until there is a past to replay, then through both phases.
func timeAppends(ctx context.Context, server *child, z appendSizes, resuming *atomic.Bool) (quiet, replay quantiles, err error) {
	phase := func(d time.Duration) (q quantiles, err error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return q, ctx.Err()
		}
		line, err := server.ask(askAppend)
		if err != nil {
			return q, err
		}
		return q, json.Unmarshal([]byte(line), &q)
	}
	if _, err = phase(fillTime); err != nil {
		return quiet, replay, err
	}
	if quiet, err = phase(z.Quiet); err != nil {
		return quiet, replay, err
	}
	resuming.Store(true)
	replay, err = phase(z.Replay)
	return quiet, replay, err
}
