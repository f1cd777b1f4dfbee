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
	access         lab.Access
	yes            bool
	dialect        string
	streams        streamsFlags
}

func newServeCommand(halt <-chan struct{}) *cobra.Command {
	f := serveFlags{halt: halt, server: profiles.Default().Server}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the reference server",
		Long: `Run the reference server: a go-sdk server whose streams resume, with the tool
emit. Requests of 2026-07-28, which has no sessions, are served beside them.
--dialect umcp is another server: an event stream per session, and nothing
resumes. --dialect streams is a third: streams that resume on any link, over HTTP,
WebSocket and pipes. The URL of the endpoint is the first line on stdout; with
--http, "admin URL" is the second: /metrics, /ledger/take, /healthz and
/debug/pprof. With --stdio nothing is on stdout but the protocol.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &f) },
	}
	flags, s := cmd.Flags(), &f.server
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8931", "listen on `HOST:PORT` or unix:PATH; port 0 picks one")
	flags.StringVar(&f.http, "http", "", "listen on `HOST:PORT` for metrics, ledger and profiles; empty: not at all")
	flags.StringVar(&f.dialect, "dialect", "resume", "`DIALECT` of its streams: resume, umcp or streams")
	flags.StringVar(&s.Store, "store", s.Store, "event `STORE`: memory or none")
	flags.StringVar(&s.Delivery, "delivery", s.Delivery, "how events get to connections: follow (walk the log) or handoff (replay, then attach)")
	flags.StringVar(&s.Lock, "lock", s.Lock, "which streams share the locks of store and delivery: stream, session or global")
	flags.StringVar(&s.OnConflict, "on-conflict", s.OnConflict, "resume of a stream that is attached: takeover or 409")
	flags.StringVar(&s.Defect, "defect", "", "plant a bug: `CODE[,key=value]`, such as S03b,k=10")
	flags.StringVar(&f.retry, "retry", s.Retry.String(), "reconnection time that clients are asked for")
	flags.IntVar(&s.Limits.Events, "limit-events", s.Limits.Events, "events kept per stream")
	flags.StringVar(&f.bytes, "limit-bytes", s.Limits.Bytes.String(), "bytes kept per session; 16 times as many of all sessions")
	flags.IntVar(&s.Limits.Streams, "limit-streams", s.Limits.Streams, "streams kept")
	flags.BoolVar(&f.fixtures, "fixtures", false, "add the tools, prompts and resources of the official conformance suite")
	flags.BoolVar(&f.yes, "yes", false, "other machines may reach --http")
	addAccessFlags(cmd, &f.access)
	addStreamsFlags(cmd, &f.streams)
	flags.BoolVar(&f.leaveWithStdin, "leave-with-stdin", false, "end when stdin does")
	cobra.CheckErr(flags.MarkHidden("leave-with-stdin"))
	return cmd
}

func addAccessFlags(cmd *cobra.Command, a *lab.Access) {
	flags := cmd.Flags()
	flags.StringVar(&a.Tokens, "tokens", "", "only bearer tokens of `FILE` may use the server; a line is: principal token")
	flags.StringArrayVar(&a.Origins, "allow-origin", nil, "requests with this `ORIGIN` are served too, such as https://app.example; repeatable")
	flags.StringArrayVar(&a.Hosts, "allow-host", nil, "the server is also called `NAME`, when it listens on loopback behind a proxy; repeatable")
	flags.StringVar(&a.Cert, "tls-cert", "", "serve https with the certificate in `FILE` (PEM)")
	flags.StringVar(&a.Key, "tls-key", "", "private key of --tls-cert in `FILE` (PEM)")
	flags.IntVar(&a.Sessions, "max-sessions", 10_000, "sessions open at once; umcp: 1024 unless it is given")
	flags.IntVar(&a.Connections, "max-connections", 50_000, "connections open at once; 0: as many as the system takes")
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
	if err := f.fitDialect(cmd.Flags().Changed); err != nil {
		return usageError{err}
	}
	p := profiles.Default()
	p.Server = f.server
	if err := p.Validate(); err != nil {
		return usageError{err}
	}
	if err := p.Built(); err != nil {
		return usageError{err}
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
	if f.streams.stdio {
		return f.serveStdio(ctx, cmd)
	}
	reference, err := lab.NewReference(lab.ServeConfig{
		Dialect: f.dialect, Streams: f.streams.config, Server: f.server, Version: version(), Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
		Fixtures: f.fixtures, Access: f.access,
	})
	if err != nil {
		return usageError{err}
	}
	ln, admin, err := f.listen()
	if err != nil {
		return usageError{err}
	}
	if warning := f.access.Warning(ln); warning != "" {
		cmd.PrintErrln("warning:", warning)
	}
	if f.leaveWithStdin {
		go func() { // ends with stdin or with the process
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			cancel()
		}()
	}
	return reference.Serve(ctx, ln, admin, cmd.OutOrStdout())
}

// fitDialect refuses the flags that mean nothing to the dialect.
func (f *serveFlags) fitDialect(changed func(string) bool) error {
	if f.streams.stdio {
		return f.fitStdio(changed)
	}
	if f.dialect == "streams" {
		return f.fitStreams(changed)
	}
	if err := refuseFlags(changed, "it belongs to dialect streams", streamsOnly()...); err != nil {
		return err
	}
	switch f.dialect {
	case "resume":
		return nil
	case "umcp":
	default:
		return fmt.Errorf("--dialect %s: it is resume, umcp or streams", f.dialect)
	}
	if changed("store") && f.server.Store != "none" {
		return fmt.Errorf("--store %s: dialect umcp keeps no events: leave it out, or say none", f.server.Store)
	}
	for _, name := range []string{"delivery", "lock", "on-conflict", "defect", "retry", "limit-events", "limit-bytes", "limit-streams"} {
		if changed(name) {
			return fmt.Errorf("--%s: dialect umcp has no event store, and nothing resumes", name)
		}
	}
	for _, name := range []string{"tls-cert", "tls-key"} {
		if changed(name) {
			return fmt.Errorf("--%s: dialect umcp leaves TLS to a reverse proxy (docs/umcp.md)", name)
		}
	}
	if changed("allow-host") {
		return errors.New("--allow-host: dialect umcp is served by any name: a reverse proxy keeps the one it was called by")
	}
	f.server.Store = "none"
	if !changed("max-sessions") {
		f.access.Sessions = 0 // that of the contract
	}
	return nil
}

// listen opens the listener of the endpoint and, if there is to be one, that of the
// administration, which keeps to this machine unless somebody says yes.
func (f *serveFlags) listen() (ln, admin net.Listener, err error) {
	if ln, err = f.access.Listen(f.addr); err != nil {
		return nil, nil, fmt.Errorf("--addr: %w", err)
	}
	if f.http == "" {
		return ln, nil, nil
	}
	admin, err = lab.Listen(f.http)
	if err == nil && !f.yes {
		admin, err = lab.LoopbackOnly(admin)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--http %s: %w", f.http, err), ln.Close())
	}
	return ln, admin, nil
}
