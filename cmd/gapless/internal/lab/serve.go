package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/profiles"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/fixtures"
	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
)

// storeShare is how many sessions can fill their share of the event store before
// the store as a whole is full.
const storeShare = 16

// ServeConfig says how the reference server runs.
type ServeConfig struct {
	// Dialect is resume, umcp or streams; empty means resume. Server is for resume alone,
	// Streams for streams.
	Dialect string
	Streams StreamsConfig
	Server  profiles.Server
	Version string
	Logger  *slog.Logger
	// Fixtures adds what the official conformance suite asks a server for.
	Fixtures bool
	Access   Access
}

// NewFixture builds the reference server that a profile describes.
func NewFixture(c ServeConfig) (*refserver.Fixture, error) {
	cfg := refserver.Config{Retry: c.Server.Retry.Std(), Logger: c.Logger, Modern: true}
	if c.Server.OnConflict == "409" {
		cfg.OnConflict = refserver.Refuse
	}
	if c.Server.Delivery == "handoff" {
		cfg.Delivery = refserver.Handoff
	}
	var err error
	if cfg.Lock, err = lock.Parse(c.Server.Lock); err != nil {
		return nil, err
	}
	planted, err := defect.Parse(c.Server.Defect)
	if err != nil {
		return nil, err
	}
	cfg.Defect = planted
	if err := c.Access.apply(&cfg); err != nil {
		return nil, err
	}
	if c.Server.Store != "none" {
		limits := c.Server.Limits
		cfg.Store, err = store.NewMemory(store.MemoryConfig{Lock: cfg.Lock, Limits: store.Limits{
			Events: limits.Events, Streams: limits.Streams,
			SessionBytes: int64(limits.Bytes), Bytes: storeShare * int64(limits.Bytes),
		}})
		if err != nil {
			return nil, err
		}
	}
	if c.Fixtures {
		return refserver.NewFixtureOn(fixtures.NewServer(c.Version, refserver.Revisions()), cfg, refserver.LedgerConfig{}, c.Version)
	}
	return refserver.NewFixture(cfg, refserver.LedgerConfig{}, c.Version)
}

// Check reports what a valid profile asks of the reference server or of the faults
// that they cannot do, as far as it can be told before the run.
func Check(p profiles.Profile) error {
	if p.Reference() {
		if _, err := defect.Parse(p.Server.Defect); err != nil {
			return err
		}
	}
	if _, err := calls(p, "check", 0); err != nil {
		return err
	}
	_, err := NewPlans(p, 0, Assume(p), 0)
	return err
}

// Root is the handler of the listener for clients: the endpoint and its health.
func Root(f *refserver.Fixture) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", f.Handler)
	mux.HandleFunc("GET /healthz", healthz(f.Handler.Healthy))
	return mux
}

// healthz says whether a server takes new sessions. Every dialect has it beside its endpoint.
func healthz(healthy func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !healthy() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // who asked has gone if this fails
	}
}

// Serve serves a fixture; see [Reference.Serve].
func Serve(ctx context.Context, f *refserver.Fixture, ln, admin net.Listener, out io.Writer) error {
	return resumable(f).Serve(ctx, ln, admin, out)
}

// Serve serves the endpoint on ln, and metrics, ledger and profiles on admin if that is
// not nil, until ctx is done. It prints the endpoint's URL as the first line of out and
// "admin URL" as the second.
func (r *Reference) Serve(ctx context.Context, ln, admin net.Listener, out io.Writer) error {
	url := endpointURL
	if r.URL != nil {
		url = r.URL
	}
	text := url(ln) + "\n"
	if admin != nil {
		text += "admin http://" + reachable(admin.Addr()) + "\n"
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group guard.Group
	var side error
	if admin != nil {
		group.Go(func() {
			defer cancel()
			side = refserver.Serve(ctx, admin, r.Admin)
		})
	}
	err := r.Run(ctx, ln)
	cancel()
	return errors.Join(err, group.Wait(), side)
}

// endpointURL is the URL of the MCP endpoint on a listener, as --target takes it.
func endpointURL(ln net.Listener) string {
	if a, ok := ln.Addr().(*net.UnixAddr); ok {
		name := a.Name
		if abs, err := filepath.Abs(name); err == nil {
			name = abs // the client may be elsewhere
		}
		return "http+unix://" + name + ":/mcp"
	}
	if _, ok := ln.(tlsListener); ok {
		return "https://" + reachable(ln.Addr()) + "/mcp"
	}
	return "http://" + reachable(ln.Addr()) + "/mcp"
}

// reachable is an address that a client on this machine can use: a listener on all
// addresses is reached on loopback.
func reachable(addr net.Addr) string {
	if a, ok := addr.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
	}
	return addr.String()
}

// ChildArgs are the arguments of `gapless serve` for the reference server of a run.
func ChildArgs(p profiles.Profile) []string {
	s := p.Server
	if speaksUMCP(p) { // which has nothing else to be set
		return []string{"serve", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--leave-with-stdin", "--dialect", "umcp"}
	}
	if drafted(p) {
		return draftedArgs(p)
	}
	args := []string{
		"serve", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--leave-with-stdin",
		"--store", s.Store, "--delivery", s.Delivery, "--lock", s.Lock, "--on-conflict", s.OnConflict, "--retry", s.Retry.String(),
		"--limit-events", strconv.Itoa(s.Limits.Events), "--limit-streams", strconv.Itoa(s.Limits.Streams),
		"--limit-bytes", s.Limits.Bytes.String(),
	}
	if s.Defect != "" {
		args = append(args, "--defect", s.Defect)
	}
	return args
}
