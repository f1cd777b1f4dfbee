package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/fixtures"
	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// StreamsConfig is what the dialect streams has besides. Zero values mean the defaults.
type StreamsConfig struct {
	Min, Max, Window time.Duration
	Flat             bool
	// Transport is what the endpoint's URL is for: http (which has /mcp/ws beside it), ws
	// (which has /mcp beside it), or stdio: lines on a Unix socket, for [StreamsRelay].
	Transport string
}

// streamsServer is a server of the dialect streams, its ledger and its registry.
type streamsServer struct {
	*streams.Server
	ledger   *refserver.Ledger
	registry *prometheus.Registry
}

func newStreamsServer(c ServeConfig) (*streamsServer, error) {
	ledger, err := refserver.NewLedger(refserver.LedgerConfig{})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gapless", Version: c.Version}, &mcp.ServerOptions{SupportedProtocolVersions: streams.Versions()})
	if c.Fixtures {
		server = fixtures.NewServer(c.Version, streams.Versions())
	}
	refserver.AddEmit(server, ledger)
	registry := prometheus.NewRegistry()
	cfg := streams.Config{
		Min: c.Streams.Min, Max: c.Streams.Max, Window: c.Streams.Window, Flat: c.Streams.Flat,
		Logger: c.Logger, Registerer: registry, AllowedOrigins: c.Access.Origins, AllowedHosts: c.Access.Hosts,
	}
	cfg.Limits.Sessions = c.Access.Sessions
	if c.Access.Tokens != "" {
		if cfg.Verifier, err = refserver.TokensFromFile(c.Access.Tokens); err != nil {
			return nil, err
		}
	}
	s, err := streams.New(server, cfg)
	if err != nil {
		return nil, err
	}
	if err := refserver.ProcessMetrics(registry, c.Version); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	return &streamsServer{s, ledger, registry}, nil
}

// newStreams builds the server of the dialect streams for a listener.
func newStreams(c ServeConfig) (*Reference, error) {
	s, err := newStreamsServer(c)
	if err != nil {
		return nil, err
	}
	r := &Reference{Admin: refserver.Admin(refserver.AdminConfig{Healthy: s.Healthy, Ledger: s.ledger, Gatherer: s.registry})}
	if c.Streams.Transport == "stdio" {
		r.URL = func(ln net.Listener) string { return "unix:" + absolute(ln.Addr().String()) }
		r.Run = func(ctx context.Context, ln net.Listener) error {
			// Whoever can connect can use it: that is nobody but its owner.
			if err := os.Chmod(ln.Addr().String(), 0o600); err != nil {
				return errors.Join(fmt.Errorf("streams: the socket: %w", err), ln.Close())
			}
			err := s.ServeLines(ctx, ln)
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return errors.Join(err, s.Shutdown(grace))
		}
		return r, nil
	}
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("GET /healthz", healthz(s.Healthy))
	r.Run = func(ctx context.Context, ln net.Listener) error { return s.Serve(ctx, ln, mux) }
	if c.Streams.Transport == "ws" {
		r.URL = func(ln net.Listener) string {
			scheme := "ws://"
			if _, ok := ln.(tlsListener); ok {
				scheme = "wss://"
			}
			return scheme + reachable(ln.Addr()) + streams.WebSocketPath
		}
	}
	return r, nil
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs // whoever reads it may be elsewhere
	}
	return name
}

// StreamsOnPipes serves the dialect streams to one client on a pair of pipes, until in
// ends or ctx is done. The streams end with it.
func StreamsOnPipes(ctx context.Context, c ServeConfig, in io.Reader, out io.Writer) error {
	s, err := newStreamsServer(c)
	if err != nil {
		return err
	}
	err = s.ServeStdio(ctx, in, out)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, s.Shutdown(grace))
}

// StreamsRelay connects a pair of pipes with a server that listens on a Unix socket, until
// one of them ends or ctx is done. The streams go on there.
func StreamsRelay(ctx context.Context, socket string, in io.Reader, out io.Writer) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("the server is not there: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = streams.Relay(in, out, conn)
	if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
