package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
)

// streamsFlags are those of the dialect streams alone.
type streamsFlags struct {
	config   lab.StreamsConfig
	stdio    bool
	upstream string
}

func addStreamsFlags(cmd *cobra.Command, f *streamsFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.config.Transport, "transport", "http", "dialect streams: print the URL of http or ws, which are both served; or stdio: lines on the Unix socket of --addr")
	flags.DurationVar(&f.config.Min, "resume-min", 5*time.Second, "dialect streams: resumeInterval.min")
	flags.DurationVar(&f.config.Max, "resume-max", time.Hour, "dialect streams: resumeInterval.max, after which a stream is abandoned")
	flags.DurationVar(&f.config.Window, "window", 2*time.Minute, "dialect streams: how long messages that were sent are kept while the link lives")
	flags.BoolVar(&f.config.Flat, "flat", false, "dialect streams: notifications/stream/create without params.stream around its fields")
	flags.BoolVar(&f.stdio, "stdio", false, "dialect streams: serve one client on stdin and stdout")
	flags.StringVar(&f.upstream, "upstream", "", "with --stdio: pass all on to the server of --transport stdio on `unix:PATH`, which outlives this process")
}

// streamsOnly are the flags that other dialects do not have.
func streamsOnly() []string {
	return []string{"transport", "resume-min", "resume-max", "window", "flat", "upstream"}
}

// fitStreams refuses the flags that mean nothing to the dialect streams.
func (f *serveFlags) fitStreams(changed func(string) bool) error {
	if changed("store") && f.server.Store != "none" {
		return fmt.Errorf("--store %s: dialect streams has buffers of its own: leave it out, or say none", f.server.Store)
	}
	for _, name := range []string{"delivery", "lock", "on-conflict", "defect", "retry", "limit-events", "limit-bytes", "limit-streams"} {
		if changed(name) {
			return fmt.Errorf("--%s: dialect streams has no event store", name)
		}
	}
	f.server.Store = "none"
	c := f.streams.config
	for name, d := range map[string]time.Duration{"resume-min": c.Min, "resume-max": c.Max, "window": c.Window} {
		if d <= 0 {
			return fmt.Errorf("--%s %v: it has to be more than 0", name, d)
		}
	}
	switch c.Transport {
	case "http", "ws":
		return nil
	case "stdio":
	default:
		return fmt.Errorf("--transport %s: it is http, ws or stdio", c.Transport)
	}
	if !strings.HasPrefix(f.addr, "unix:") {
		return errors.New("--transport stdio: lines are served on a Unix socket alone, where no web page gets: --addr unix:PATH")
	}
	return refuseFlags(changed, "--transport stdio has neither HTTP nor tokens", "tokens", "allow-origin", "allow-host", "tls-cert", "tls-key")
}

// fitStdio refuses the flags that mean nothing to --stdio.
func (f *serveFlags) fitStdio(changed func(string) bool) error {
	if changed("dialect") && f.dialect != "streams" {
		return fmt.Errorf("--stdio: it belongs to dialect streams, not to %s", f.dialect)
	}
	if err := refuseFlags(changed, "--stdio listens nowhere", "addr", "http", "yes", "transport", "leave-with-stdin",
		"tokens", "allow-origin", "allow-host", "tls-cert", "tls-key", "max-sessions", "max-connections"); err != nil {
		return err
	}
	if err := f.fitStreams(changed); err != nil || !changed("upstream") {
		return err
	}
	if !strings.HasPrefix(f.streams.upstream, "unix:") {
		return fmt.Errorf("--upstream %s: it is unix:PATH, as printed by serve --dialect streams --transport stdio", f.streams.upstream)
	}
	return refuseFlags(changed, "it is for the server behind --upstream to say", "resume-min", "resume-max", "window", "flat", "fixtures")
}

func refuseFlags(changed func(string) bool, why string, names ...string) error {
	for _, name := range names {
		if changed(name) {
			return fmt.Errorf("--%s: %s", name, why)
		}
	}
	return nil
}

// serveStdio prints nothing but the protocol on stdout.
func (f *serveFlags) serveStdio(ctx context.Context, cmd *cobra.Command) error {
	if socket, ok := strings.CutPrefix(f.streams.upstream, "unix:"); ok {
		return lab.StreamsRelay(ctx, socket, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return lab.StreamsOnPipes(ctx, lab.ServeConfig{
		Streams: f.streams.config, Version: version(), Fixtures: f.fixtures,
		Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
	}, cmd.InOrStdin(), cmd.OutOrStdout())
}
