package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/probe"
	"github.com/gapless-dev/gapless/profiles"
)

// probed serves the reference server; refuse, if set, is asked before it.
func probed(t *testing.T, refuse func(*http.Request) bool) string {
	t.Helper()
	f, err := lab.NewFixture(lab.ServeConfig{Server: profiles.Default().Server, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse != nil && refuse(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = f.Handler.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

func TestProbe(t *testing.T) {
	url := probed(t, nil)
	file := filepath.Join(t.TempDir(), "probe.json")
	code, stdout, stderr := gapless(t, "probe", url, "--budget", "4s", "-o", "json="+file)
	if code != exitHolds || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		`^gapless probe  http://127\.0\.0\.1:\d+/mcp  gapless 1\n2025-11-25, dialects resume and modern, tool emit, \d+\.\d s\n`, `\n  ok ping +MUST `, `\n  ok priming +SHOULD `,
		`\n\d+ rows: \d+ conforming, 0 deviating, `,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no match for %s in\n%s", want, stdout)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r probe.Report
	if err := json.Unmarshal(raw, &r); err != nil || r.Gapless != probe.Format || r.Target.URL != url || r.Summary.Rows != len(r.Rows) {
		t.Errorf("%v: %+v", err, r.Summary)
	}
}

// TestProbeInAJobOfGitHub: nothing that the server says is taken for a command.
func TestProbeInAJobOfGitHub(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	code, stdout, _ := gapless(t, "probe", probed(t, nil), "--budget", "1s")
	token, rest, _ := strings.Cut(strings.TrimPrefix(stdout, "::stop-commands::"), "\n")
	if code != exitHolds || len(token) < 26 || !strings.HasPrefix(rest, "gapless probe") || !strings.HasSuffix(rest, "\n::"+token+"::\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestProbeExitCodes(t *testing.T) {
	refusing := probed(t, func(r *http.Request) bool { return r.Header.Get("Authorization") != "Bearer hush-hush" })
	odd := probed(t, func(r *http.Request) bool { return r.Method == "GET" && r.Header.Get("Mcp-Session-Id") == "" })
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	t.Setenv("PROBE_TOKEN", "hush-hush")
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"deviating", []string{odd, "--budget", "3s"}, exitHolds, `x  get-without-session `, `^$`},
		{"strict", []string{odd, "--budget", "3s", "--strict"}, exitViolated, `x  get-without-session `, `^$`},
		{"a token is missing", []string{refusing}, exitUnreachable, `^$`, `initialize: status 401`},
		{"a token from the environment", []string{refusing, "--budget", "1s", "--token-env", "PROBE_TOKEN"}, exitHolds, `ok ping`, `^$`},
		{"JSON to stdout", []string{odd, "--budget", "1s", "-o", "json"}, exitHolds, `^\{\n  "gapless": "probe/1"`, `^$`},
		{"nobody there", []string{"http://127.0.0.1:1/mcp"}, exitUnreachable, `^$`, `127\.0\.0\.1:1/mcp`},
		{"no MCP there", []string{web.URL}, exitUnreachable, `^$`, `initialize: the answer is neither`},
		{"no URL", nil, exitUsage, `^$`, `URL is missing`},
		{"not a URL", []string{"mcp"}, exitUsage, `^$`, `scheme`},
		{"somebody else's server", []string{"http://192.0.2.1/mcp"}, exitUsage, `^$`, `not on this machine: --yes`},
		{"arguments of no tool", []string{odd, "--args", "{}"}, exitUsage, `^$`, `--tool`},
		{"arguments that are no object", []string{odd, "--tool", "emit", "--args", "[]"}, exitUsage, `^$`, `JSON object`},
		{"no such tool", []string{odd, "--tool", "emti"}, exitUsage, `^$`, `no tool "emti"; did you mean emit\? the server offers:\n  emit `},
		{"too long", []string{odd, "--budget", "5m"}, exitUsage, `^$`, `--budget`},
		{"another format", []string{odd, "-o", "junit"}, exitUsage, `^$`, `json=FILE`},
		{"no such directory", []string{odd, "-o", "json=/nonexistent/x"}, exitUsage, `^$`, `nonexistent`},
		{"our header", []string{odd, "-H", "Host: x"}, exitUsage, `^$`, `host is set by gapless`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := gapless(t, append([]string{"probe"}, tc.args...)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d\n%s", code, tc.code, stderr)
			}
			if !regexp.MustCompile(tc.stdout).MatchString(stdout) || !regexp.MustCompile(tc.stderr).MatchString(stderr) {
				t.Errorf("stdout:\n%s\nstderr:\n%s", stdout, stderr)
			}
			if strings.Contains(stdout+stderr, "hush-hush") {
				t.Error("the token is printed")
			}
		})
	}
}
