package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/chaos/proxy"
)

// TestProxyCommand: the URL comes first, cuts happen, and the summary comes last.
func TestProxyCommand(t *testing.T) {
	const call = "id: 1\ndata:\n\nid: 2\ndata: {\"method\":\"x\"}\n\nid: 3\ndata: {\"id\":1,\"result\":{}}\n\n"
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/some/mcp" || r.Host != "renamed.example" {
			t.Errorf("upstream got %s %s", r.Host, r.URL)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, call)
	}))
	defer up.Close()
	halt := make(chan struct{})
	root := newRoot(halt)
	stdout, w := io.Pipe()
	var stderr bytes.Buffer
	root.SetOut(w)
	root.SetErr(&stderr)
	root.SetArgs([]string{"proxy", "--upstream", up.URL + "/some/mcp", "--addr", "127.0.0.1:0", "--host", "renamed.example",
		"--fault", "fin@after-priming:1", "--seed", "7"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(context.Background()); w.Close() }()
	lines := bufio.NewReader(stdout)
	url, err := lines.ReadString('\n')
	if err != nil || !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/some/mcp\n$`).MatchString(url) {
		t.Fatalf("first line %q, %v", url, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for range 3 {
		resp, err := client.Post(strings.TrimSpace(url), "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(resp.Body); string(got) != "id: 1\ndata:\n\n" {
			t.Errorf("got %q", got)
		}
		resp.Body.Close()
	}
	close(halt)
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"^3 links, 3 exchanges, 3 event streams, 3 events, 0 resumes\n", "\n3 injections, 0 of them approximate\n       3  fin@after-priming\n",
		"\nrepeat  gapless proxy --upstream http://127.* --host renamed.example --fault fin@after-priming:1 --seed 7\n$",
	} {
		if !regexp.MustCompile(want).Match(rest) {
			t.Errorf("summary lacks %q:\n%s", want, rest)
		}
	}
	if strings.Contains(stderr.String(), "ERROR") {
		t.Error(stderr.String())
	}
}

func TestProxyUsage(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"", "URL is missing"},
		{"--upstream https://127.0.0.1/mcp", "cannot stand before https"},
		{"--upstream 127.0.0.1:80", "not a URL"},
		{"--upstream http://127.0.0.1:80/?x", "nothing else"},
		{"--upstream http://127.0.0.1:80 --fault rst@mid-evnt", "mid-event"},
		{"--upstream http://127.0.0.1:80 --fault chunk-end@between-events --fault rts", `between-events.*\n.*"rst"`},
		{"--upstream http://127.0.0.1:80 more", `unknown command|accepts|no arguments`},
	} {
		code, stdout, stderr := gapless(t, append([]string{"proxy"}, strings.Fields(tc.name)...)...)
		if code != exitUsage || stdout != "" || !regexp.MustCompile(tc.want).MatchString(stderr) {
			t.Errorf("%q: exit code %d, %q; want %q", tc.name, code, stderr, tc.want)
		}
	}
}

func TestProxyProgress(t *testing.T) {
	got := proxyProgress(proxy.Snapshot{Open: 3, Exchanges: 120, Events: 4000, Resumes: 2, Cells: []proxy.Cell{{Count: 2}, {Count: 1}}})
	if want := "    3 links open      120 exchanges       4000 events      3 injections      2 resumes  0 refused"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
