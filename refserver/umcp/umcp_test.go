package umcp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestNew_ReportsAllThatIsWrong(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	_, err := umcp.New(server, umcp.Config{
		KeepAlive: -1, Limits: umcp.Limits{Sessions: -1}, AllowedOrigins: []string{"app.example"},
	})
	for _, want := range []string{"time limit is negative", "a limit is negative", `"app.example"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v says nothing of %s", err, want)
		}
	}
	registry := prometheus.NewRegistry()
	if _, err := umcp.New(server, umcp.Config{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := umcp.New(server, umcp.Config{Registerer: registry}); err == nil || !strings.Contains(err.Error(), "metrics") {
		t.Errorf("two servers in one registry: %v", err)
	}
}

// Every metric moves, by what it counts.
func TestMetrics_Count(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := virtual(t, umcp.Config{Registerer: registry, Other: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		})})
		p, q := r.open(newer), r.open(newer)
		p.call("emit", `{"messages":4}`)
		stream, short := p.listen(), q.listen()
		p.call("emit", `{"messages":3}`)
		p.send(request("GET", "/mcp", "", p.fields()...)).reply(409)
		stream.progress(3)
		short.Close()
		q.call("emit", `{"messages":5}`)
		p.send("x\r\n\r\n").reply(400)
		r.link().send(request("OPTIONS", "/mcp", ""), request("GET", "/tea", "")).reply(204)
		synctest.Wait()
		want := map[string]float64{
			"gapless_server_connections": 4, // those of two sessions, one lingering, of a stream and of OPTIONS
			"gapless_server_sessions":    2,

			"gapless_server_streams get live":            1,
			"gapless_server_streams_opened_total get":    2,
			"gapless_server_streams_closed_total client": 1,
			"gapless_server_streams_closed_total server": 0, "gapless_server_streams_closed_total timeout": 0,
			"gapless_server_events_total live":      3,
			"gapless_server_event_bytes_total live": 3 * float64(len("data: \n\n")+len(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"","progress":1,"progressToken":"t2","total":3}}`)),
			"gapless_server_events_dropped_total":   9,

			"gapless_server_responses_total 200": 7, "gapless_server_responses_total 202": 2, "gapless_server_responses_total 204": 1,
			"gapless_server_responses_total 400": 1, "gapless_server_responses_total _OTHER": 1, "gapless_server_responses_total 409": 1,
		}
		for name, got := range values(t, registry) {
			if got != want[name] {
				t.Errorf("%s is %v, want %v", name, got, want[name])
			}
			delete(want, name)
		}
		for name := range want {
			t.Errorf("there is no %s", name)
		}
	})
}

// values returns what a registry holds, by name and label values.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, family := range all {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}
