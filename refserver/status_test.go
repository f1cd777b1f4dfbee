package refserver_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

type statusTest struct {
	name   string
	ask    ask // "S" in session stands for the session's id
	status int
}

// headerTests are about sessions, revisions and media types.
func headerTests() []statusTest {
	return []statusTest{
		{"request answered", ask{method: "POST", session: "S", body: ping}, 200},
		{"notification", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`}, 202},
		{"response", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":99,"result":{}}`}, 202},
		{"error response", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"no"}}`}, 202},
		{"session missing on POST", ask{method: "POST", body: ping}, 400},
		{"session missing on GET", ask{method: "GET"}, 400},
		{"session missing on DELETE", ask{method: "DELETE"}, 400},
		{"session unknown on POST", ask{method: "POST", session: "nobody", body: ping}, 404},
		{"session unknown on GET", ask{method: "GET", session: "nobody"}, 404},
		{"session unknown on resume", ask{method: "GET", session: "nobody", cursor: "x-1"}, 404},
		{"session unknown on DELETE", ask{method: "DELETE", session: "nobody"}, 404},
		{"version unsupported", ask{method: "POST", session: "S", version: "2024-01-01", body: ping}, 400},
		{"version nonsense on GET", ask{method: "GET", session: "S", version: "x"}, 400},
		{"version unsupported on initialize", ask{method: "POST", version: "1", body: initBody(latest)}, 400},
		{"version absent", ask{method: "POST", session: "S", body: ping}, 200},
		{"Accept without SSE", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Accept": "application/json"}}, 406},
		{"Accept without JSON", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Accept": "text/event-stream"}}, 406},
		{"Accept missing", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Accept": "-"}}, 406},
		{"Accept refuses SSE", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Accept": "application/json, text/event-stream;q=0"}}, 406},
		{"Accept anything", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Accept": "*/*"}}, 200},
		{"Accept of GET without SSE", ask{method: "GET", session: "S", header: map[string]string{"Accept": "application/json"}}, 406},
		{"Content-Type wrong", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Content-Type": "text/plain"}}, 415},
		{"Content-Type missing", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Content-Type": "-"}}, 415},
		{"Content-Type with charset", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Content-Type": "application/json; charset=utf-8"}}, 200},
		{"method PUT", ask{method: "PUT", session: "S", body: ping}, 405},
		{"method OPTIONS", ask{method: "OPTIONS"}, 405},
	}
}

// contentTests are about origins and bodies.
func contentTests() []statusTest {
	return []statusTest{
		{"origin foreign", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "http://evil.example"}}, 403},
		{"origin foreign on GET", ask{method: "GET", session: "S", header: map[string]string{"Origin": "http://evil.example"}}, 403},
		{"origin foreign on DELETE", ask{method: "DELETE", session: "S", header: map[string]string{"Origin": "http://evil.example"}}, 403},
		{"origin that begins like loopback", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "http://localhost.evil.example"}}, 403},
		{"origin null", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "null"}}, 403},
		{"origin loopback", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "http://localhost:3000"}}, 200},
		{"origin loopback address", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "http://127.0.0.1"}}, 200},
		{"origin allowed", ask{method: "POST", session: "S", body: ping, header: map[string]string{"Origin": "https://app.example"}}, 200},
		{"body too large", ask{method: "POST", session: "S", body: `{"x":"` + strings.Repeat("x", 5000) + `"}`}, 413},
		{"body no JSON", ask{method: "POST", session: "S", body: `{`}, 400},
		{"body empty", ask{method: "POST", session: "S"}, 400},
		{"body a batch", ask{method: "POST", session: "S", body: "[" + ping + "]"}, 400},
		{"body JSON-RPC 1", ask{method: "POST", session: "S", body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`}, 400},
		{"body neither", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":1}`}, 400},
		{"body both", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`}, 400},
		{"body with other letter case", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","ID":1,"Method":"ping"}`}, 400},
		{"id null", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`}, 400},
		{"id a fraction", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`}, 400},
		{"id an object", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`}, 400},
		{"id too large to repeat", ask{method: "POST", session: "S", body: `{"jsonrpc":"2.0","id":9007199254740994,"method":"ping"}`}, 400},
		{"initialize without params", ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"initialize"}`}, 200},
	}
}

func TestStatus(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{
				Store: newStore(t, store.Limits{}), AllowedOrigins: []string{"https://app.example"},
				Limits: refserver.Limits{Body: 4096}, KeepConnections: keep,
			})
			p := r.open(latest)
			for _, tt := range append(headerTests(), contentTests()...) {
				if tt.ask.session == "S" {
					tt.ask.session = p.id
				}
				code, body := r.status(tt.ask)
				if code != tt.status {
					t.Errorf("%s: %d, want %d: %s", tt.name, code, tt.status, body)
				}
				if code >= 400 {
					checkRefusal(t, tt.name, body)
				}
				if code == 202 && body != "" {
					t.Errorf("%s: 202 with body %q", tt.name, body)
				}
			}
			pass(time.Second) // net/http takes a moment to close the link of a 413
		})
	}
}

func checkRefusal(t *testing.T, name, body string) {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &m); err != nil || m["error"] == nil || string(m["id"]) != "null" {
		t.Errorf("%s: the refusal is no JSON-RPC error without id: %s", name, body)
	}
}

func TestInitialize_VersionsWeDoNotServe_GetTheNewestWeDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{})
		for _, asked := range []string{"2026-07-28", "2024-11-05", "1999-01-01", ""} {
			if p := r.open(asked); p.revision != latest {
				t.Errorf("asked for %q, got %s", asked, p.revision)
			}
		}
	})
}

func TestSessionIDs_AreVisibleASCIIAndDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{})
		seen := map[string]bool{}
		for range 20 {
			id := r.open(latest).id
			if !store.ValidID(id) || len(id) < 26 || seen[id] {
				t.Errorf("session id %q", id)
			}
			seen[id] = true
		}
	})
}

// An id in flight is refused before the SDK sees it, which would answer nothing.
func TestRequestID_InFlight_IsRefusedAndTheFirstCallUnharmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Store: newStore(t, store.Limits{})}).open(latest)
		s := p.emit(1, "a", twenty)
		s.take(3)
		code, body := p.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if code != 400 || !strings.Contains(body, "-32600") {
			t.Errorf("second request with the id: %d %s", code, body)
		}
		if got := len(s.rest()); got != 19 {
			t.Errorf("the first call got %d more events", got)
		}
		if code, _ := p.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); code != 200 {
			t.Errorf("after the response: %d", code)
		}
	})
}
