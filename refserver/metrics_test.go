package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// maxSeries is what one process may expose.
const maxSeries = 2000

// series returns all series of the process, without their values.
func series(r *rig) []string {
	r.t.Helper()
	var out []string
	for line := range strings.Lines(exposition(r)) {
		if line[0] != '#' {
			out = append(out, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return out
}

// count counts the metrics of a registry, of one name or of all.
func count(t *testing.T, from prometheus.Gatherer, name string) (n int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name == "" || f.GetName() == name {
			n += len(f.GetMetric())
		}
	}
	return n
}

// lint checks names, units and help texts.
func lint(t *testing.T, from prometheus.Gatherer) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	for _, f := range families {
		if ours := strings.HasPrefix(f.GetName(), "gapless_") || strings.HasPrefix(f.GetName(), "mcp_"); ours && !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: help %q is no sentence", f.GetName(), f.GetHelp())
		}
	}
}

func TestMetrics_SeriesDoNotGrowWithSessions_AndNamesAreClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{})})
		sessions := func(n int) []string {
			for range n {
				p := r.open(latest)
				first := p.emit(1, "a", `{"messages":1}`).rest()[0]
				p.resume(first.id).rest()
				r.status(ask{method: "DELETE", session: p.id})
			}
			return series(r)
		}
		before := sessions(1)
		if after := sessions(999); !slices.Equal(after, before) || len(before) < 500 {
			t.Errorf("%d series before, %d after", len(before), len(after))
		}
		lint(t, r.fixture.Registry)
	})
}

// contrary answers requests with all failures in turn, and with success.
func contrary(r *rig) []error {
	all := []error{nil, errors.New("a plain error")}
	for _, code := range []int64{-32700, -32600, -32601, -32602, -32603, -32002, -32042, -32000, 7} {
		all = append(all, &jsonrpc.Error{Code: code, Message: "no"})
	}
	n := 0
	r.fixture.Server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "initialize" || strings.HasPrefix(method, "notifications/") {
				return next(ctx, method, req)
			}
			n++
			return &mcp.CallToolResult{IsError: n%7 == 0}, all[n%len(all)]
		}
	})
	return all
}

// Whatever clients ask for and in whatever way it fails, a process has a bounded number of
// series, and nothing that a client wrote is in them.
func TestMetrics_HostileMethodsAndRevisions_StayBounded(t *testing.T) {
	methods := []string{
		"ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
		"resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel",
	}
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Delivery: refserver.Handoff})
		failures := contrary(r)
		for _, revision := range []string{latest, "2025-06-18", "2025-03-26"} {
			p := r.open(revision)
			id := 0
			for _, method := range methods {
				for range failures {
					id++
					p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":"x","uri":"x:y","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"x","value":"x"},"level":"info"}}`, id, method))
				}
			}
			for i := range 100 {
				p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"h%d","method":"hostile-%d\"}{\n"}`, i, i))
				p.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/hostile-%d"}`, i))
				r.status(ask{method: "POST", session: p.id, version: fmt.Sprintf("hostile-%d", i), body: `{}`})
				r.status(ask{method: "POST", body: initBody(fmt.Sprintf("hostile-%d", i))})
			}
			for _, name := range []string{"initialized", "cancelled", "progress", "roots/list_changed"} {
				p.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{"requestId":99,"progressToken":"x","progress":1}}`, name))
			}
		}
		synctest.Wait()
		all := series(r)
		if len(all) > maxSeries {
			t.Errorf("%d series, more than %d", len(all), maxSeries)
		}
		for _, s := range all {
			if strings.Contains(s, "hostile") {
				t.Errorf("a client chose %s", s)
			}
		}
		got := values(r)
		for _, failure := range []string{"", "_OTHER"} {
			if got[operations("_OTHER", failure, "")] == 0 {
				t.Errorf("nothing fell into the rest of failures %q: the bound was not reached", failure)
			}
		}
		if again := series(r); !slices.Equal(again, all) {
			t.Error("a scrape changes the series")
		}
	})
}

// Appends to a fast store are measured one in sixteen, to a slow one each, and all are
// counted.
func TestMetrics_AppendsAreSampled_SlowAndFailingOnesAreNot(t *testing.T) {
	const count, took = `store_op_duration_seconds_count{op="append",outcome=%q,store="custom"}`, `store_op_duration_seconds_sum{op="append",outcome=%q,store="custom"}`
	tests := []struct {
		name    string
		before  func(store.Event) error
		outcome string
		measured,
		counted int
		seconds float64
	}{
		{"fast", func(store.Event) error { return nil }, "ok", 7, 101, 0},
		{"slow", func(store.Event) error { pass(20 * time.Millisecond); return nil }, "ok", 101, 101, 2.02},
		{"refusing", func(store.Event) error { return errors.New("no space") }, "error", 101, 101, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Store: &hooked{newStore(t, store.Limits{}), tt.before}})
			p := r.open("2025-06-18")
			p.emit(1, "a", `{"messages":100}`).rest()
			synctest.Wait()
			got := values(r)
			for series, want := range map[string]float64{
				fmt.Sprintf(count, tt.outcome): float64(tt.measured), fmt.Sprintf(took, tt.outcome): tt.seconds,
				fmt.Sprintf(`store_ops_total{op="append",outcome=%q,store="custom"}`, tt.outcome): float64(tt.counted),
			} {
				if v := got["gapless_server_"+series]; v < want-1e-9 || v > want+1e-9 {
					t.Errorf("%s: %s is %v, want %v", tt.name, series, v, want)
				}
			}
		})
	}
}

// Times are those that passed.
func TestMetrics_TimesAreThoseThatPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{})})
		p := r.open(latest)
		s := p.emit(1, "slow", `{"messages":2,"bytes":200000}`)
		cursor := s.take(1)[0].id
		pass(3 * time.Second)
		s.rest()
		again := p.resume(cursor)
		pass(2 * time.Second)
		again.rest()
		p.emit(2, "long", `{"messages":3,"interval_ms":1000}`).rest()
		p.status(ask{method: "DELETE", session: p.id})
		synctest.Wait()
		got := values(r)
		for series, want := range map[string]float64{
			"gapless_server_write_stall_seconds_sum":                                   5,
			`gapless_server_resume_duration_seconds_sum{phase="lookup"}`:               0,
			`gapless_server_resume_duration_seconds_sum{phase="first_byte"}`:           0,
			`gapless_server_resume_duration_seconds_sum{phase="caught_up"}`:            2,
			strings.Replace(operations("tools/call", "", latest), "_count", "_sum", 1): 2,
			strings.Replace(sessionsEnded("", latest), "_count", "_sum", 1):            7,
		} {
			if got[series] != want {
				t.Errorf("%s is %v, want %v", series, got[series], want)
			}
		}
	})
}

// New registers all metrics or none.
func TestNew_MetricsThatCannotBeRegistered_AreAnErrorThatLeavesNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil) }
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "gapless_server_write_stall_seconds", Help: "Of somebody else."}))
	_, err := refserver.New(server(), refserver.Config{Registerer: registry, Store: newStore(t, store.Limits{})})
	if err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
		t.Errorf("a name was taken: %v", err)
	}
	if n := count(t, registry, ""); n != 1 {
		t.Errorf("%d series are left", n)
	}
	shared := prometheus.NewRegistry()
	for i, endpoint := range []string{"first", "first", "second"} {
		to := prometheus.WrapRegistererWith(prometheus.Labels{"endpoint": endpoint}, shared)
		_, err := refserver.New(server(), refserver.Config{Registerer: to, Store: newStore(t, store.Limits{})})
		if refused := i == 1; (err != nil) != refused {
			t.Errorf("handler %d: %v", i+1, err)
		}
	}
	if n := count(t, shared, "gapless_server_sessions"); n != 2 {
		t.Errorf("%d handlers are in the registry", n)
	}
	lint(t, shared)
}

func TestProcessMetrics_AllOrNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	if err := refserver.ProcessMetrics(registry, "v"); err == nil {
		t.Error("the Go collector was there already")
	}
	if n := count(t, registry, "gapless_build_info"); n != 0 {
		t.Errorf("%d series are left", n)
	}
	fresh := prometheus.NewRegistry()
	if err := refserver.ProcessMetrics(fresh, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gapless_build_info", "go_sync_mutex_wait_total_seconds_total", "go_sched_latencies_seconds", "go_goroutines", "process_cpu_seconds_total"} {
		if n := count(t, fresh, name); n != 1 {
			t.Errorf("%s: %d series", name, n)
		}
	}
}

func TestMetrics_NameTheTransport(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, refserver.Config{Store: newStore(t, store.Limits{})}, ln, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", ln.Addr().String())
	})
	r.url = "http://localhost/mcp"
	r.open(latest).emit(1, "a", `{"messages":1}`).rest()
	series := strings.Replace(operations("tools/call", "", latest), `="tcp"`, `="unix"`, 1)
	if n := values(r)[series]; n != 1 {
		t.Errorf("%s is %v", series, n)
	}
}
