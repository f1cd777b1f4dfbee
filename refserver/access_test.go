package refserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reached is the status of a handshake that came in at a local address.
func reached(t testing.TB, h http.Handler, local net.Addr, host string, origins ...string) int {
	t.Helper()
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(initBody(latest)))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if len(origins) > 0 {
		r.Header["Origin"] = origins
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func accessHandler(t testing.TB) *refserver.Handler {
	t.Helper()
	h, err := refserver.New(mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil), refserver.Config{
		AllowedHosts:   []string{"mcp.example", "2001:db8::1"},
		AllowedOrigins: []string{"https://app.example", "http://Dev.example:8080", "https://[2001:db8::1]:8443", "https://port.example:443"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func loopback() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func TestHost_OnLoopback_IsLoopbackOrAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := accessHandler(t)
		for host, want := range map[string]int{
			"localhost": 200, "localhost:8931": 200, "LOCALHOST:8931": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "127.9.8.7:1": 200,
			"[::1]": 200, "[::1]:8931": 200, "[::ffff:127.0.0.1]:8931": 200,
			"mcp.example": 200, "MCP.Example:443": 200, "[2001:db8::1]:443": 200,
			"evil.example": 403, "evil.example:8931": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "notlocalhost": 403,
			"x.mcp.example": 403, "mcp.example.evil": 403, "": 403, ":8931": 403, "192.168.1.1": 403, "0.0.0.0:8931": 403, "[::]:1": 403, "[::1": 403,
			"[fe80::1%lo]:1": 403, "2130706433": 403, "localhost:1:2": 403, "evil.example@localhost": 403,
		} {
			if got := reached(t, h, loopback(), host); got != want {
				t.Errorf("host %q: %d, want %d", host, got, want)
			}
			if got := reached(t, h, &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, host); got != want {
				t.Errorf("host %q on ::1: %d, want %d", host, got, want)
			}
		}
		for name, local := range map[string]net.Addr{
			"another address": &net.TCPAddr{IP: net.IPv4(192, 168, 1, 2), Port: 80},
			"a Unix socket":   &net.UnixAddr{Name: "s", Net: "unix"},
		} {
			if got := reached(t, h, local, "evil.example"); got != 200 {
				t.Errorf("%s: %d", name, got)
			}
		}
	})
}

func TestOrigin_IsComparedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := accessHandler(t)
		for origin, want := range map[string]int{
			"http://localhost": 200, "https://localhost:3000": 200, "http://LocalHost:3000": 200, "http://127.0.0.1": 200, "http://127.1.2.3:99": 200,
			"http://[::1]:8931": 200, "http://[::1]": 200, "HTTP://localhost": 200,
			"https://app.example": 200, "https://APP.example": 200, "https://app.example:443": 200, "http://dev.example:8080": 200,
			"https://[2001:db8::1]:8443": 200, "https://[2001:DB8::1]:8443": 200, "https://port.example": 200,
			"http://app.example": 403, "https://app.example:80": 403, "https://app.example:8443": 403, "https://x.app.example": 403,
			"https://app.example.evil": 403, "http://dev.example": 403, "https://[2001:db8::1]": 403, "http://mcp.example": 403,
			"null": 403, "": 403, "*": 403, "localhost": 403, "http://": 403, "http://localhost.evil.example": 403, "http://evil.example": 403,
			"http://localhost/": 403, "http://localhost/path": 403, "http://localhost?q": 403, "http://user@localhost": 403, "http://localhost#": 403,
			"file://localhost": 403, "chrome-extension://localhost": 403, "http://localhost http://evil.example": 403, "http://localhost,http://evil.example": 403,
			"http://127.0.0.1.evil.example": 403, "http://[::1": 403, "http://%6cocalhost": 403,
		} {
			if got := reached(t, h, loopback(), "localhost", origin); got != want {
				t.Errorf("origin %q: %d, want %d", origin, got, want)
			}
		}
		if got := reached(t, h, loopback(), "localhost", "http://localhost", "http://localhost"); got != 403 {
			t.Errorf("two origins: %d", got)
		}
		if got := reached(t, h, loopback(), "localhost", "http://localhost", "http://evil.example"); got != 403 {
			t.Errorf("a good and a bad origin: %d", got)
		}
		// What the conformance suite looks at: rebinding is refused, the server's own host is not.
		if got := reached(t, h, loopback(), "127.0.0.1:8931", "http://127.0.0.1:8931"); got != 200 {
			t.Errorf("own host and origin: %d", got)
		}
		if got := reached(t, h, loopback(), "evil.example.com", "http://evil.example.com"); got != 403 {
			t.Errorf("rebinding: %d", got)
		}
	})
}

// Over real links: the local address is where the check finds it.
func TestTCP_Rebinding_IsRefused_OnTCPAlone(t *testing.T) {
	r := real(t, refserver.Config{})
	for host, want := range map[string]int{"evil.example": 403, "localhost:1": 200} {
		if got := handshakeAs(t, r, host); got != want {
			t.Errorf("host %s: %d", host, got)
		}
	}
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	r = serve(t, refserver.Config{}, ln, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", ln.Addr().String())
	})
	r.url = "http://anything.example/mcp"
	if got := handshakeAs(t, r, "anything.example"); got != 200 {
		t.Errorf("over a socket: %d", got)
	}
}

func handshakeAs(t testing.TB, r *rig, host string) int {
	t.Helper()
	req, err := http.NewRequest("POST", r.url, strings.NewReader(initBody(latest)))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Metrics and profiles are as open to a page that rebinds its name.
func TestAdmin_IsOfLoopbackNamesAlone(t *testing.T) {
	f, err := refserver.NewFixture(refserver.Config{}, refserver.LedgerConfig{}, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/healthz", "/metrics", "/debug/pprof/cmdline"} {
		for host, want := range map[string]int{"evil.example": 403, "localhost:9": 200, "[::1]:9": 200} {
			r := httptest.NewRequest("GET", path, nil)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, loopback()))
			r.Host = host
			w := httptest.NewRecorder()
			f.Admin.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s for %s: %d", path, host, w.Code)
			}
		}
	}
}

func TestHeaderLines_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{}).open(latest)
		for extra, want := range map[int]int{90: 200, 120: 431} {
			header := map[string]string{}
			for i := range extra {
				header[fmt.Sprintf("X-%d", i)] = "v"
			}
			if code, _ := p.status(ask{method: "POST", session: p.id, body: ping, header: header}); code != want {
				t.Errorf("%d more header lines: %d", extra, code)
			}
		}
	})
}

func TestConfig_Access_IsValidated(t *testing.T) {
	verify := tokens(t)
	bad := map[string]refserver.Config{
		"origin with a path":      {AllowedOrigins: []string{"https://a.example/"}},
		"origin without scheme":   {AllowedOrigins: []string{"a.example"}},
		"origin null":             {AllowedOrigins: []string{"null"}},
		"host with a port":        {AllowedHosts: []string{"a.example:80"}},
		"host empty":              {AllowedHosts: []string{""}},
		"any host":                {AllowedHosts: []string{"*"}},
		"host a URL":              {AllowedHosts: []string{"http://a.example"}},
		"scopes without verifier": {Scopes: []string{"a"}},
		"scope with a quote":      {Verifier: verify, Scopes: []string{`a"b`}},
		"metadata no URL":         {Verifier: verify, ResourceMetadataURL: "a.example"},
		"negative limit":          {Limits: refserver.Limits{PrincipalSessions: -1}},
	}
	for name, cfg := range bad {
		if cfg.Validate() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	good := refserver.Config{
		Verifier: verify, Scopes: []string{"a", "b:c"}, ResourceMetadataURL: "https://a.example/.well-known/oauth-protected-resource",
		AllowedHosts: []string{"a.example", "::1"}, AllowedOrigins: []string{"https://a.example:8443"},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
