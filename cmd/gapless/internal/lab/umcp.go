package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/profiles"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/fixtures"
	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// speaksUMCP tells a profile whose calls have their messages on the event stream of a session.
func speaksUMCP(p profiles.Profile) bool { return p.Target.Dialect == "umcp" }

// onGet moves the faults that a profile has between and inside the events of a call to the
// event stream of the session, where these come; the place draws which of the two it is.
func onGet(mix []chaos.Fault) {
	for i := range mix {
		var at []chaos.Place
		for _, place := range mix[i].At {
			if place == chaos.BetweenEvents || place == chaos.MidEvent {
				place = chaos.GetStream
			}
			if !slices.Contains(at, place) {
				at = append(at, place)
			}
		}
		mix[i].At = at
	}
}

// A Reference is a reference server of any dialect, ready to be served.
type Reference struct {
	// Admin is for a listener of its own: metrics, ledger, health and profiles.
	Admin http.Handler
	// Run serves the endpoint, its path is /mcp, on a listener until ctx is done.
	Run func(ctx context.Context, ln net.Listener) error
	// URL is that of the endpoint on a listener; nil: http or https, and /mcp.
	URL func(ln net.Listener) string
}

// NewReference builds the reference server of c.Dialect.
func NewReference(c ServeConfig) (*Reference, error) {
	switch c.Dialect {
	case "", "resume":
		f, err := NewFixture(c)
		if err != nil {
			return nil, err
		}
		return resumable(f), nil
	case "umcp":
		return newUMCP(c)
	case "streams":
		return newStreams(c)
	}
	return nil, fmt.Errorf("dialect %q is not one of the reference server: resume, umcp, streams", c.Dialect)
}

func resumable(f *refserver.Fixture) *Reference {
	return &Reference{Admin: f.Admin, Run: func(ctx context.Context, ln net.Listener) error {
		return refserver.Serve(ctx, ln, Root(f), f.Handler)
	}}
}

// newUMCP builds the server of the dialect umcp. Its listener has /healthz too.
func newUMCP(c ServeConfig) (*Reference, error) {
	ledger, err := refserver.NewLedger(refserver.LedgerConfig{})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gapless", Version: c.Version}, &mcp.ServerOptions{SupportedProtocolVersions: umcp.Versions()})
	if c.Fixtures {
		server = fixtures.NewServer(c.Version, umcp.Versions())
	}
	refserver.AddEmit(server, ledger)
	health := http.NewServeMux()
	registry := prometheus.NewRegistry()
	cfg := umcp.Config{Logger: c.Logger, Registerer: registry, Other: health, AllowedOrigins: c.Access.Origins}
	cfg.Limits.Sessions, cfg.Limits.Connections = c.Access.Sessions, c.Access.Connections
	if c.Access.Tokens != "" {
		if cfg.Verifier, err = refserver.TokensFromFile(c.Access.Tokens); err != nil {
			return nil, err
		}
	}
	s, err := umcp.New(server, cfg)
	if err != nil {
		return nil, err
	}
	health.HandleFunc("GET /healthz", healthz(s.Healthy))
	if err := refserver.ProcessMetrics(registry, c.Version); err != nil {
		return nil, fmt.Errorf("umcp: %w", err)
	}
	admin := refserver.Admin(refserver.AdminConfig{Healthy: s.Healthy, Ledger: ledger, Gatherer: registry})
	return &Reference{Admin: admin, Run: s.Serve}, nil
}
