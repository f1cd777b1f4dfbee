package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// A steeredRun is a run of this process with an API.
type steeredRun struct {
	t          *testing.T
	url, token string
	code       chan int
	stdout     *bytes.Buffer
}

func startSteered(t *testing.T, args ...string) *steeredRun {
	t.Helper()
	r, w := io.Pipe()
	s := &steeredRun{t: t, code: make(chan int, 1), stdout: new(bytes.Buffer)}
	go func() {
		s.code <- run(small(append([]string{"--http", "127.0.0.1:0"}, args...)...), strings.NewReader(""), s.stdout, w)
		w.Close()
	}()
	lines := bufio.NewReader(r)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v after %q", err, first)
	}
	said := regexp.MustCompile(`^gapless: API at (http://127\.0\.0\.1:\d+)/api, token (in )?(\S{5,})\n$`).FindStringSubmatch(first)
	if said == nil {
		t.Fatalf("it says %q", first)
	}
	s.url, s.token = said[1], said[3]
	go io.Copy(io.Discard, lines) // ends with the run
	return s
}

func (s *steeredRun) ask(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// until asks for the status until it says so.
func (s *steeredRun) until(what string, so func(status map[string]any) bool) {
	s.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, text := s.ask("GET", "/api/status", "")
		var status map[string]any
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		if so(status) {
			return
		}
		select {
		case <-deadline.C:
			s.t.Fatalf("%s is not reached: %s", what, text)
		case <-tick.C:
		}
	}
}

func (s *steeredRun) ends(code int) {
	s.t.Helper()
	select {
	case got := <-s.code:
		if got != code {
			s.t.Errorf("exit code %d, want %d\n%s", got, code, s.stdout)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatal("the run does not end")
	}
}

// TestARunThatIsSteered: paused, started, hurt, judged, fetched, let go.
func TestARunThatIsSteered(t *testing.T) {
	s := startSteered(t, "--paused", "--linger", "1h", "--interval", "200ms", "--threshold", "first_event:p(99)<1m")
	s.until("waiting", func(status map[string]any) bool { return status["state"] == "waiting" })
	if code, text := s.ask("POST", "/api/start", ""); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	// Some have come on each stream: one that has none yet could not be resumed.
	s.until("an open load", func(status map[string]any) bool {
		return status["open"].(float64) == 30 && status["delivered"].(float64) >= 60
	})
	var struck struct{ Struck int64 }
	code, text := s.ask("POST", "/api/inject", `{"share": 1}`)
	if err := json.Unmarshal([]byte(text), &struck); err != nil || code != 200 || struck.Struck == 0 {
		t.Errorf("inject: %d %s", code, text)
	}
	s.until("done", func(status map[string]any) bool { return status["state"] == "done" })
	code, text = s.ask("GET", "/api/result", "")
	r, err := result.Decode(strings.NewReader(text))
	if err != nil || code != 200 {
		t.Fatalf("%d %v: %s", code, err, text)
	}
	if r.Verdict != result.Holds || r.Faults.Unplanned != struck.Struck || r.Faults.Storms != 0 {
		t.Errorf("%s %v: %+v", r.Verdict, r.Why, r.Faults)
	}
	if code, text := s.ask("GET", "/api/thresholds", ""); code != 200 || !strings.Contains(text, `"ok":true`) {
		t.Errorf("thresholds: %d %s", code, text)
	}
	if code, text := s.ask("POST", "/api/stop", ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	s.ends(exitHolds)
	for _, part := range []string{"HOLDS  ", "1 storm was asked for while the run went on"} {
		if !strings.Contains(strings.Join(strings.Fields(s.stdout.String()), " "), strings.Join(strings.Fields(part), " ")) {
			t.Errorf("%q is not said:\n%s", part, s.stdout)
		}
	}
	if strings.Contains(s.stdout.String(), s.token) {
		t.Error("the token is in the output")
	}
}

func TestARunThatIsStopped(t *testing.T) {
	s := startSteered(t, "--paused")
	s.ask("POST", "/api/stop", "")
	s.ends(exitInconclusive)
	secret := strings.Repeat("x", 16)
	t.Setenv("GX_TOKEN", secret)
	s = startSteered(t, "--http-token-env", "GX_TOKEN", "--interval", "100ms", "--linger", "1h")
	if s.token != "GX_TOKEN" {
		t.Fatalf("it says %q", s.token)
	}
	s.token = secret
	s.until("an open load", func(status map[string]any) bool { return status["open"].(float64) == 30 })
	if _, text := s.ask("POST", "/api/stop", ""); !strings.Contains(text, "draining") {
		t.Errorf("stop: %s", text)
	}
	s.until("done", func(status map[string]any) bool { return status["state"] == "done" })
	if _, text := s.ask("GET", "/api/result", ""); !strings.Contains(text, `"stopped": "interrupted"`) {
		t.Errorf("result: %s", text)
	}
	s.ask("POST", "/api/stop", "")
	s.ends(exitInconclusive)
}

// TestARunThatNeverStarts leaves what is written while a run goes on as it was.
func TestARunThatNeverStarts(t *testing.T) {
	points := filepath.Join(t.TempDir(), "points.json")
	if err := os.WriteFile(points, []byte("of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startSteered(t, "--paused", "-o", "k6="+points)
	s.ask("POST", "/api/stop", "")
	s.ends(exitInconclusive)
	if text, err := os.ReadFile(points); err != nil || string(text) != "of yesterday" {
		t.Errorf("%v: %q", err, text)
	}
}

func TestWhereTheAPIMayListen(t *testing.T) {
	t.Setenv("GX_SHORT", "short")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"all of the network":  {[]string{"--http", "0.0.0.0:0"}, `--http: 0\.0\.0\.0:0 can be reached from other machines.*--yes`},
		"no host":             {[]string{"--http", ":0"}, `--yes`},
		"no address":          {[]string{"--http", "here"}, `--http: .*here`},
		"paused for ever":     {[]string{"--paused"}, `--paused: .*--http`},
		"token of nothing":    {[]string{"--http-token-env", "GX_SHORT"}, `no API without --http`},
		"no token":            {[]string{"--http", "127.0.0.1:0", "--http-token-env", "GX_NONE"}, `GX_NONE is not set`},
		"token to be guessed": {[]string{"--http", "127.0.0.1:0", "--http-token-env", "GX_SHORT"}, `--http-token-env: .*16 characters`},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, stderr := gapless(t, small(tc.args...)...); code != exitUsage || !regexp.MustCompile(tc.want).MatchString(stderr) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
	sock := filepath.Join(t.TempDir(), "api")
	if code, _, stderr := gapless(t, small("--http", "unix:"+sock)...); code != exitHolds || !strings.Contains(stderr, fmt.Sprintf("API at unix:%s/api", sock)) {
		t.Errorf("Unix socket: exit code %d: %s", code, stderr)
	}
}
