package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// modernServer serves 2026-07-28 alone, and as it should. Each of its answers may be
// replaced.
func modernServer(t *testing.T, other wrapper) string {
	t.Helper()
	h := http.Handler(http.HandlerFunc(serveModern))
	if other != nil {
		h = other(h)
	}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

func serveModern(w http.ResponseWriter, r *http.Request) {
	m := read(r)
	refuse := func(status, code int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		id := m.ID
		if id == nil {
			id = json.RawMessage("null")
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, id, code)
	}
	switch {
	case r.Method != "POST":
		w.WriteHeader(405)
	case m.ID == nil && m.Method != "":
		w.WriteHeader(202)
	case !strings.Contains(m.text, `io.modelcontextprotocol/protocolVersion`) && m.Method == "server/discover":
		refuse(400, -32602)
	case r.Header.Get("Mcp-Method") != m.Method:
		refuse(400, -32020)
	case r.Header.Get("Mcp-Protocol-Version") != "2026-07-28":
		refuse(400, -32022)
	case m.Method == "server/discover":
		result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}`)(w, r)
	case m.Method == "tools/list":
		result(`{"resultType":"complete","tools":[{"name":"emit","inputSchema":{}}]}`)(w, r)
	case m.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":"+string(m.ID)+",\"result\":{\"resultType\":\"complete\"}}\n\n")
	default:
		refuse(404, -32601)
	}
}

func TestAModernServerDeviatesNowhere(t *testing.T) {
	t.Parallel()
	rows := ask(t, quick(modernServer(t, nil)))
	for name, row := range rows {
		switch {
		case row.Group != "2026-07-28" && (row.Status != NotOffered || row.Seen != "the server has no initialize"):
			t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
		case row.Group == "2026-07-28" && row.Status != Conforming && name != "modern-silent-after-cut":
			t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
		}
	}
}

// modernQuirks make one row of 2026-07-28 deviate.
func modernQuirks() map[string]wrapper {
	of := func(method string) func(*http.Request, said) bool {
		return func(r *http.Request, _ said) bool { return r.Method == method }
	}
	discovering := func(is func(r *http.Request, m said) bool) func(*http.Request, said) bool {
		return func(r *http.Request, m said) bool { return m.Method == "server/discover" && is(r, m) }
	}
	const untyped = `{"supportedVersions":["2026-07-28"]}`
	return map[string]wrapper{
		"modern-discover":       when(posted("server/discover"), status(404)),
		"modern-result-type":    when(posted("server/discover"), result(untyped)),
		"modern-get":            when(of("GET"), status(200)),
		"modern-delete":         when(of("DELETE"), status(204)),
		"modern-no-session":     when(discovering(func(r *http.Request, _ said) bool { return r.Header.Get("Mcp-Session-Id") != "" }), status(404)),
		"modern-last-event-id":  when(discovering(func(r *http.Request, _ said) bool { return r.Header.Get("Last-Event-ID") != "" }), status(400)),
		"modern-unknown-method": when(posted("gapless/no-such-method"), status(400)),
		"modern-unknown-version": when(discovering(func(r *http.Request, _ said) bool {
			return r.Header.Get("Mcp-Protocol-Version") == farOff
		}), status(400)),
		"modern-header-mismatch": when(func(r *http.Request, m said) bool {
			return r.Header.Get("Mcp-Method") != "" && r.Header.Get("Mcp-Method") != m.Method
		}, result(`{}`)),
		"modern-header-missing": when(func(r *http.Request, m said) bool { return m.ID != nil && r.Header.Get("Mcp-Method") == "" }, result(`{}`)),
		"modern-meta-missing": when(discovering(func(_ *http.Request, m said) bool {
			return !strings.Contains(m.text, "protocolVersion")
		}), result(`{}`)),
		"modern-notification": when(posted("notifications/gapless"), status(200)),
		"modern-no-ids":       edited(posted("tools/call"), func(n int, e string) string { return fmt.Sprintf("id: %d\n%s", n, e) }),
	}
}

func TestModernRowsCanDeviate(t *testing.T) {
	t.Parallel()
	var servers []server
	for name, wrap := range modernQuirks() {
		servers = append(servers, server{modernServer(t, wrap), []string{name}})
	}
	deviates(t, servers)
}
