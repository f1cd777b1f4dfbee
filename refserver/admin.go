package refserver

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig configures [Admin]. Nil fields leave their part out.
type AdminConfig struct {
	Handler  *Handler            // for /healthz
	Healthy  func() bool         // for /healthz, where there is no Handler
	Ledger   *Ledger             // for /ledger/take
	Gatherer prometheus.Gatherer // for /metrics
}

// Bounds of one request to /ledger/take.
const (
	takeCalls = 1000
	takeBytes = 1 << 20
)

// Admin returns what belongs on a loopback listener of its own, never on that of the
// MCP endpoint: /healthz, /metrics, /ledger/take and /debug/pprof. On a loopback address
// it answers to loopback names only: a web page might read it by DNS rebinding.
func Admin(cfg AdminConfig) http.Handler {
	healthy := cfg.Healthy
	if cfg.Handler != nil {
		healthy = cfg.Handler.Healthy
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if healthy != nil && !healthy() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // who asked has gone if this fails
	})
	if cfg.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if cfg.Ledger != nil {
		mux.HandleFunc("POST /ledger/take", cfg.Ledger.serveTake)
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreignHost(r, nil) {
			http.Error(w, "this host is not allowed", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serveTake answers POST /ledger/take: {"calls":[token,…]} gives the account of each,
// in the same order, and forgets it.
func (l *Ledger) serveTake(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Calls []string `json:"calls"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, takeBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		http.Error(w, "the body is not {\"calls\":[…]} of at most 1 MiB", http.StatusBadRequest)
		return
	}
	if len(asked.Calls) > takeCalls {
		http.Error(w, "more than 1000 calls", http.StatusBadRequest)
		return
	}
	answer := struct {
		Calls   []Call `json:"calls"`
		Dropped int64  `json:"dropped"`
	}{l.Take(asked.Calls), l.Dropped()}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that has gone asks again and is told "unknown"
}
