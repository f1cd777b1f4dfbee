package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/profiles"
)

type serveFlags struct {
	halt           <-chan struct{}
	addr, http     string
	server         profiles.Server
	retry, bytes   string
	leaveWithStdin bool
	fixtures       bool
}

func newServeCommand(halt <-chan struct{}) *cobra.Command {
	f := serveFlags{halt: halt, server: profiles.Default().Server}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the reference server",
		Long: `Run the reference server: a go-sdk server whose streams resume, with the tool
emit. Requests of 2026-07-28, which has no sessions, are served beside them. The
URL of the endpoint is the first line on stdout; with --http, "admin URL" is the
second: /metrics, /ledger/take, /healthz and /debug/pprof.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &f) },
	}
	flags, s := cmd.Flags(), &f.server
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8931", "listen on `HOST:PORT` or unix:PATH; port 0 picks one")
	flags.StringVar(&f.http, "http", "", "listen on `HOST:PORT` for metrics, ledger and profiles; empty: not at all")
	flags.StringVar(&s.Store, "store", s.Store, "event `STORE`: memory or none")
	flags.StringVar(&s.Delivery, "delivery", s.Delivery, "how events get to connections: follow (walk the log) or handoff (replay, then attach)")
	flags.StringVar(&s.Lock, "lock", s.Lock, "which streams share the locks of store and delivery: stream, session or global")
	flags.StringVar(&s.OnConflict, "on-conflict", s.OnConflict, "resume of a stream that is attached: takeover or 409")
	flags.StringVar(&s.Defect, "defect", "", "plant a bug: `CODE[,key=value]`, such as S03b,k=10")
	flags.StringVar(&f.retry, "retry", s.Retry.String(), "reconnection time that clients are asked for")
	flags.IntVar(&s.Limits.Events, "limit-events", s.Limits.Events, "events kept per stream")
	flags.StringVar(&f.bytes, "limit-bytes", s.Limits.Bytes.String(), "bytes kept per session")
	flags.IntVar(&s.Limits.Streams, "limit-streams", s.Limits.Streams, "streams kept")
	flags.BoolVar(&f.fixtures, "fixtures", false, "add the tools, prompts and resources of the official conformance suite")
	flags.BoolVar(&f.leaveWithStdin, "leave-with-stdin", false, "end when stdin does")
	cobra.CheckErr(flags.MarkHidden("leave-with-stdin"))
	return cmd
}

// profileContention has the runtime record where mutexes are waited for and held, for
// /debug/pprof: one contention in ten, and blocking of 10 µs and more. That these cost
// nothing one can measure was tried.
func profileContention() {
	runtime.SetMutexProfileFraction(10)
	runtime.SetBlockProfileRate(10_000)
}

func serve(cmd *cobra.Command, f *serveFlags) error {
	profileContention()
	if err := f.server.Retry.UnmarshalText([]byte(f.retry)); err != nil {
		return usageError{fmt.Errorf("--retry: %w", err)}
	}
	if err := f.server.Limits.Bytes.UnmarshalText([]byte(f.bytes)); err != nil {
		return usageError{fmt.Errorf("--limit-bytes: %w", err)}
	}
	p := profiles.Default()
	p.Server = f.server
	if err := p.Validate(); err != nil {
		return usageError{err}
	}
	fixture, err := lab.NewFixture(lab.ServeConfig{
		Server: f.server, Version: version(), Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
		Fixtures: f.fixtures,
	})
	if err != nil {
		return usageError{err}
	}
	ln, err := lab.Listen(f.addr)
	if err != nil {
		return usageError{fmt.Errorf("--addr: %w", err)}
	}
	var admin net.Listener
	if f.http != "" {
		if admin, err = lab.Listen(f.http); err != nil {
			return errors.Join(usageError{fmt.Errorf("--http: %w", err)}, ln.Close())
		}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() { // ends with the command
		select {
		case <-f.halt:
			cancel()
		case <-ctx.Done():
		}
	}()
	if f.leaveWithStdin {
		go func() { // ends with stdin or with the process
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			cancel()
		}()
	}
	return lab.Serve(ctx, fixture, ln, admin, cmd.OutOrStdout())
}
