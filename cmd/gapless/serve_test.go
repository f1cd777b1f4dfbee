package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const annToken = "token-of-ann-0123456789"

// serveFiles are what serve needs for TLS and tokens, and a client that trusts it.
func serveFiles(t *testing.T) (cert, key, tokens string, client *http.Client) {
	t.Helper()
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	own := pair.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert = write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	key = write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	tokens = write("tokens", []byte("# who may\nann "+annToken+"\n"))
	roots := pair.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return cert, key, tokens, &http.Client{Transport: transport}
}

// served runs serve in this process until the test ends, and returns the lines it prints.
func served(t *testing.T, lines int, args ...string) []string {
	t.Helper()
	out, stdout := io.Pipe()
	stdin, closing := io.Pipe()
	var stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(append([]string{"serve", "--addr", "127.0.0.1:0", "--leave-with-stdin"}, args...), stdin, stdout, &stderr)
		stdout.Close()
	}()
	t.Cleanup(func() {
		closing.Close()
		if got := <-code; got != 0 {
			t.Errorf("serve ended with %d: %s", got, stderr.String())
		}
		if strings.Contains(stderr.String(), annToken) {
			t.Errorf("serve says the token: %s", stderr.String())
		}
	})
	var said []string
	for r := bufio.NewReader(out); len(said) < lines; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said = append(said, strings.TrimSuffix(line, "\n"))
	}
	return said
}

func TestServe_WithTokensAndTLS(t *testing.T) {
	cert, key, tokens, client := serveFiles(t)
	said := served(t, 2, "--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tokens", tokens,
		"--allow-host", "mcp.example", "--allow-origin", "https://app.example", "--max-connections", "20", "--max-sessions", "3")
	if !regexp.MustCompile(`^https://127\.0\.0\.1:\d+/mcp$`).MatchString(said[0]) || !strings.HasPrefix(said[1], "admin http://127.0.0.1:") {
		t.Fatalf("it says %q", said)
	}
	ask := func(method, url, bearer, host, origin string) int {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+bearer)
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for name, got := range map[string][2]int{
		"wrong token":    {ask("POST", said[0], annToken+"x", "", ""), 401},
		"foreign host":   {ask("POST", said[0], annToken, "evil.example", ""), 403},
		"foreign origin": {ask("POST", said[0], annToken, "", "https://evil.example"), 403},
		"allowed":        {ask("POST", said[0], annToken, "mcp.example", "https://app.example"), 200},
		"second session": {ask("POST", said[0], annToken, "", ""), 200},
		"third of three": {ask("POST", said[0], annToken, "", ""), 429}, // of one principal, that is
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	admin := strings.TrimPrefix(said[1], "admin ")
	for path, method := range map[string]string{"/metrics": "GET", "/debug/pprof/": "GET", "/debug/pprof/cmdline": "GET", "/ledger/take": "POST"} {
		if got := ask(method, strings.TrimSuffix(said[0], "/mcp")+path, annToken, "", ""); got != 404 {
			t.Errorf("%s on the listener of the endpoint: %d", path, got)
		}
		if got := ask(method, admin+path, "", "", ""); got != 200 && path != "/ledger/take" || got == 404 {
			t.Errorf("%s on the listener of the administration: %d", path, got)
		}
	}
}

// TestServe_Fixtures: the flag adds what the conformance suite asks for, in each revision
// and beside the tool of the runs.
func TestServe_Fixtures(t *testing.T) {
	for revision, flags := range map[string][]string{"2025-11-25": {"--fixtures"}, "2026-07-28": {"--fixtures"}, "": nil} {
		url := served(t, 1, flags...)[0]
		client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		got := make(map[string]bool)
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got[tool.Name] = true
		}
		if !got["emit"] || got["test_reconnection"] != (flags != nil) {
			t.Errorf("%v, %s: %v", flags, revision, got)
		}
		if is := session.InitializeResult().ProtocolVersion; revision != "" && is != revision {
			t.Errorf("asked for %s, got %s", revision, is)
		}
		if flags == nil {
			continue
		}
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_simple_text"})
		if err != nil || r.Content[0].(*mcp.TextContent).Text != "This is a simple text response for testing." {
			t.Errorf("%s: %v %v", revision, r, err)
		}
	}
}

func TestServe_SaysWhatItCannotDo(t *testing.T) {
	cert, _, tokens, _ := serveFiles(t)
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, []byte("ann "+annToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"metrics for all of the network": {[]string{"--http", "0.0.0.0:0"}, `--http 0\.0\.0\.0:0: it can be reached from other machines.*--yes`},
		"metrics without a host":         {[]string{"--http", ":0"}, `--http :0: .*--yes`},
		"tokens for everybody to read":   {[]string{"--tokens", open}, `mode 0644.*chmod 600`},
		"no tokens":                      {[]string{"--tokens", cert + "x"}, `tokens: .*no such file`},
		"not tokens":                     {[]string{"--tokens", cert}, `line 2`},
		"certificate without a key":      {[]string{"--tls-cert", cert}, `--addr: TLS needs both a certificate and its key`},
		"key without a certificate":      {[]string{"--tls-key", cert}, `--addr: TLS needs both`},
		"store that is not built":        {[]string{"--store", "bbolt:events.db"}, `not built yet: store bbolt:events\.db`},
		"key that is none":               {[]string{"--tls-cert", cert, "--tls-key", tokens}, `--addr: certificate and key`},
		"origin that is none":            {[]string{"--allow-origin", "app.example"}, `origin "app\.example" is not http`},
		"host with a port":               {[]string{"--allow-host", "app.example:80"}, `host "app\.example:80" is not a name without a port`},
		"negative sessions":              {[]string{"--max-sessions", "-1"}, `a limit is negative`},
		"dialect that is none":           {[]string{"--dialect", "tea"}, `--dialect tea: it is resume, umcp or streams`},
		"umcp with a store":              {[]string{"--dialect", "umcp", "--store", "memory"}, `--store memory: dialect umcp keeps no events`},
		"umcp with a delivery":           {[]string{"--dialect", "umcp", "--store", "none", "--delivery", "follow"}, `--delivery: dialect umcp`},
		"umcp with a defect":             {[]string{"--dialect", "umcp", "--defect", "S03a"}, `--defect: dialect umcp`},
		"umcp with TLS":                  {[]string{"--dialect", "umcp", "--tls-cert", cert, "--tls-key", tokens}, `--tls-cert: dialect umcp leaves TLS`},
		"umcp with an origin":            {[]string{"--dialect", "umcp", "--allow-origin", "app.example"}, `origin "app\.example" is not http`},
		"negative connections":           {[]string{"--max-connections", "-1"}, `connections is negative`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := gapless(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--leave-with-stdin"}, tc.args...)...)
			if code != exitUsage || stdout != "" || !regexp.MustCompile(tc.want).MatchString(stderr) || strings.Contains(stderr, annToken) {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
		})
	}
	if said := served(t, 2, "--http", "0.0.0.0:0", "--yes"); !strings.HasPrefix(said[1], "admin http://") {
		t.Errorf("it says %q", said)
	}
}

// The dialect umcp is another server behind the same two lines, with the same ledger.
func TestServe_Umcp(t *testing.T) {
	said := served(t, 2, "--dialect", "umcp", "--http", "127.0.0.1:0", "--store", "none", "--fixtures")
	url, admin := said[0], strings.TrimPrefix(said[1], "admin ")
	post := func(url, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("MCP-Protocol-Version", "2025-03-26")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	resp, text := post(url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if resp.Header.Get("Mcp-Session-Id") == "" || resp.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, `"2024-11-05"`) {
		t.Errorf("initialize: %v %s", resp.Header, text)
	}
	if _, text := post(url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"emit","arguments":{"messages":3},"_meta":{"progressToken":"tea"}}}`); !strings.Contains(text, "emitted 3") {
		t.Errorf("emit: %s", text)
	}
	if _, text := post(url, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(text, "test_simple_text") {
		t.Errorf("tools: %s", text)
	}
	if _, text := post(admin+"/ledger/take", `{"calls":["tea"]}`); !strings.Contains(text, `"emitted":3`) {
		t.Errorf("ledger: %s", text)
	}
	for _, health := range []string{strings.TrimSuffix(url, "/mcp"), admin} {
		resp, err := http.Get(health + "/healthz")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", health, resp, err)
		}
	}
}
