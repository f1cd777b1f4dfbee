package api

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

const token = "0123456789abcdef"

// aLoad is a load that notes what it is asked.
type aLoad struct{ shares []float64 }

func (l *aLoad) Figures() Figures { return Figures{Planned: 5, Opened: 3, Open: 2, Strikes: 1} }
func (l *aLoad) Strike(share float64) int {
	l.shares = append(l.shares, share)
	return 2
}
func (l *aLoad) Thresholds() []result.Threshold {
	return []result.Threshold{{Figure: "first_event", Expression: "p(99)<1s", OK: true}}
}

func server(t *testing.T, paused bool) (s *Server, stopped *int) {
	t.Helper()
	stopped = new(int)
	s, err := New(Config{Token: token, Host: "load.example", Paused: paused, Stop: func() { *stopped++ }})
	if err != nil {
		t.Fatal(err)
	}
	return s, stopped
}

// ask makes one request as a well-behaved client does; change may spoil it.
func ask(s http.Handler, method, path, body string, change ...func(*http.Request)) (code int, answer string, head http.Header) {
	r := httptest.NewRequest(method, "http://127.0.0.1:1"+path, strings.NewReader(body))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}))
	r.Header.Set("Authorization", "Bearer "+token)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func TestARunFromItsStartToItsResult(t *testing.T) {
	s, stopped := server(t, true)
	load := new(aLoad)
	step := func(method, path, body string, code int, want string) {
		t.Helper()
		got, answer, head := ask(s, method, path, body)
		if got != code || !strings.Contains(answer, want) {
			t.Fatalf("%s %s: %d %s; want %d %s", method, path, got, answer, code, want)
		}
		if !json.Valid([]byte(answer)) || head.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: no JSON: %s", method, path, answer)
		}
	}
	step("GET", "/api/status", "", 200, `{"state":"waiting","elapsed_seconds":0,"planned":0,`)
	step("POST", "/api/inject", `{"share": 1}`, 409, "while the run is waiting")
	step("GET", "/api/result", "", 404, "the run is waiting")
	step("GET", "/api/thresholds", "", 200, `{"state":"waiting","thresholds":[]}`)
	select {
	case <-s.Started():
		t.Fatal("it has started by itself")
	default:
	}
	step("POST", "/api/start", "", 200, `{"state":"running"}`)
	<-s.Started()
	step("POST", "/api/start", "", 409, "begun already")
	step("POST", "/api/inject", `{"share": 1}`, 409, "has not begun")
	s.Armed(load)
	step("POST", "/api/inject", `{"share": 0.25}`, 200, `{"struck":2}`)
	step("POST", "/api/inject", "", 200, `{"struck":2}`)
	step("POST", "/api/inject", "{}", 200, `{"struck":2}`)
	if len(load.shares) != 3 || load.shares[0] != 0.25 || load.shares[1] != 1 || load.shares[2] != 1 {
		t.Errorf("struck %v", load.shares)
	}
	step("GET", "/api/status", "", 200, `"planned":5,"opened":3,"open":2,`)
	step("GET", "/api/thresholds", "", 200, `"expression":"p(99)\u003c1s"`)
	step("POST", "/api/stop", "", 200, `{"state":"draining"}`)
	step("POST", "/api/stop", "", 200, `{"state":"draining"}`)
	if *stopped != 1 {
		t.Errorf("stopped %d times", *stopped)
	}
	step("POST", "/api/inject", "", 409, "while the run is draining")
	if err := s.Done(&result.Result{Gapless: result.Format, Verdict: result.Holds}); err != nil {
		t.Fatal(err)
	}
	step("GET", "/api/status", "", 200, `"verdict":"holds"`)
	step("GET", "/api/result", "", 200, `"verdict": "holds"`)
	step("GET", "/api/thresholds", "", 200, `{"state":"done","thresholds":[]}`)
	select {
	case <-s.Left():
		t.Fatal("nobody has left")
	default:
	}
	step("POST", "/api/stop", "", 200, `{"state":"done"}`)
	step("POST", "/api/stop", "", 200, `{"state":"done"}`)
	<-s.Left()
}

func TestStoppedBeforeItBegan(t *testing.T) {
	s, stopped := server(t, true)
	ask(s, "POST", "/api/stop", "")
	if code, _, _ := ask(s, "POST", "/api/start", ""); code != 409 || *stopped != 1 {
		t.Errorf("%d, stopped %d times", code, *stopped)
	}
	s, stopped = server(t, false)
	s.Halted()
	if _, answer, _ := ask(s, "GET", "/api/status", ""); !strings.Contains(answer, "draining") || *stopped != 0 {
		t.Errorf("interrupted: %s", answer)
	}
}

func TestWhatIsRefused(t *testing.T) {
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	head := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	from := func(ip string) func(*http.Request) {
		return func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}))
		}
	}
	all := func(changes ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			for _, c := range changes {
				c(r)
			}
		}
	}
	for name, tc := range map[string]struct {
		method, path, body string
		change             func(*http.Request)
		code               int
		want               string
	}{
		"localhost":                   {"GET", "/api/status", "", host("localhost:7"), 200, "running"},
		"another loopback address":    {"GET", "/api/status", "", host("[::1]:7"), 200, "running"},
		"the name it was given":       {"GET", "/api/status", "", host("Load.Example"), 200, "running"},
		"the address it was asked at": {"GET", "/api/status", "", all(from("192.0.2.7"), host("192.0.2.7:1")), 200, "running"},
		"a bound name":                {"GET", "/api/status", "", host("rebound.example:1"), 403, "Host"},
		"a name before an address":    {"GET", "/api/status", "", host("127.0.0.1.example"), 403, "Host"},
		"localhost from elsewhere":    {"GET", "/api/status", "", all(from("192.0.2.7"), host("localhost")), 403, "Host"},
		"another address":             {"GET", "/api/status", "", host("192.0.2.7"), 403, "Host"},
		"no host":                     {"GET", "/api/status", "", host(""), 403, "Host"},
		"password":                    {"GET", "/api/status", "", func(r *http.Request) { r.SetBasicAuth("any", token) }, 200, "running"},
		"no token":                    {"GET", "/api/status", "", head("Authorization", ""), 401, "Bearer TOKEN"},
		"wrong token":                 {"GET", "/api/status", "", head("Authorization", "Bearer "+token+"0"), 401, "token"},
		"bare token":                  {"GET", "/api/status", "", head("Authorization", token), 401, "token"},
		"token of the root":           {"GET", "/", "", head("Authorization", ""), 401, "token"},
		"token of the profiles":       {"GET", "/debug/pprof/heap", "", head("Authorization", ""), 401, "token"},
		"another origin":              {"POST", "/api/stop", "", head("Origin", "http://evil.example"), 403, "origin"},
		"a page of another site":      {"POST", "/api/stop", "", head("Sec-Fetch-Site", "cross-site"), 403, "origin"},
		"wrong method":                {"GET", "/api/stop", "", nil, 405, "/api/stop takes POST"},
		"wrong method, too":           {"POST", "/api/status", "", nil, 405, "/api/status takes GET"},
		"live page":                   {"GET", "/", "", nil, 404, "neither a live page nor metrics"},
		"metrics":                     {"GET", "/metrics", "", nil, 404, "neither a live page nor metrics"},
		"unknown":                     {"GET", "/api/stats", "", nil, 404, "GET /api/status, POST /api/start"},
		"no JSON":                     {"POST", "/api/inject", "all", nil, 400, "is not of the form"},
		"unknown field":               {"POST", "/api/inject", `{"shares": 1}`, nil, 400, "shares"},
		"more behind":                 {"POST", "/api/inject", `{"share": 1} {}`, nil, 400, "follows"},
		"nothing to strike":           {"POST", "/api/inject", `{"share": 0}`, nil, 400, "more than 0"},
		"too much to strike":          {"POST", "/api/inject", `{"share": 1.5}`, nil, 400, "at most 1"},
		"endless body":                {"POST", "/api/inject", `{"share": ` + strings.Repeat(" ", 1<<20) + `1}`, nil, 413, "4096 bytes"},
		"the command line":            {"GET", "/debug/pprof/cmdline", "", nil, 404, "Unknown profile"},
		"a profile":                   {"GET", "/debug/pprof/goroutine?debug=1", "", nil, 200, "goroutine profile"},
	} {
		t.Run(name, func(t *testing.T) {
			s, stopped := server(t, false)
			s.Armed(new(aLoad))
			change := tc.change
			if change == nil {
				change = func(*http.Request) {}
			}
			code, answer, _ := ask(s, tc.method, tc.path, tc.body, change)
			if code != tc.code || !strings.Contains(answer, tc.want) {
				t.Errorf("%d %s; want %d %s", code, answer, tc.code, tc.want)
			}
			if strings.Contains(answer, token) || *stopped != 0 {
				t.Errorf("stopped %d times, or the token is in %s", *stopped, answer)
			}
		})
	}
}

func TestTokensThatCanBeGuessed(t *testing.T) {
	for _, bad := range []string{"", "short", strings.Repeat("a b", 10), strings.Repeat("é", 20), strings.Repeat("a", 20) + "\n"} {
		if _, err := New(Config{Token: bad}); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestServing: over a real listener, until the context ends.
func TestServing(t *testing.T) {
	s, _ := server(t, false)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/api/status", nil)
	req.SetBasicAuth("", token)
	client := &http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || !strings.Contains(string(body), "running") {
		t.Errorf("%s: %s", resp.Status, body)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := client.Do(req); err == nil {
		t.Error("it still serves")
	}
}
