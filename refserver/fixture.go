package refserver

import (
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// Fixture is the server that gapless runs its load against: an SDK server with the
// tool emit, a ledger, and a listener's worth of administration.
type Fixture struct {
	Server   *mcp.Server
	Handler  *Handler // the MCP endpoint
	Ledger   *Ledger
	Registry *prometheus.Registry
	Admin    http.Handler // for a loopback listener of its own
}

// NewFixture builds a fixture. Config.Registerer is replaced by the registry of the
// fixture, which also holds the metrics of the process and of the Go runtime. Version
// is what the server says of itself to clients.
func NewFixture(cfg Config, ledger LedgerConfig, version string) (*Fixture, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "gapless", Version: version}, &mcp.ServerOptions{SupportedProtocolVersions: Revisions()})
	return NewFixtureOn(server, cfg, ledger, version)
}

// NewFixtureOn builds a fixture on a server that may have tools, prompts and resources
// already. The rest is as for [NewFixture].
func NewFixtureOn(server *mcp.Server, cfg Config, ledger LedgerConfig, version string) (*Fixture, error) {
	f := &Fixture{Server: server, Registry: prometheus.NewRegistry()}
	var err error
	if f.Ledger, err = NewLedger(ledger); err != nil {
		return nil, err
	}
	AddEmit(f.Server, f.Ledger)
	cfg.Registerer = f.Registry
	if f.Handler, err = New(f.Server, cfg); err != nil {
		return nil, err
	}
	if err = ProcessMetrics(f.Registry, version); err != nil {
		return nil, fmt.Errorf("refserver: %w", err)
	}
	f.Admin = Admin(AdminConfig{Handler: f.Handler, Ledger: f.Ledger, Gatherer: f.Registry})
	return f, nil
}
