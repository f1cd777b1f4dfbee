//go:build e2e

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	umcpToken  = "token-of-a-client-0123456789"
	umcpOrigin = "https://app.example"
	umcpHost   = "mcp.example:8443"
)

// TestE2EUmcpProxies: "A reverse proxy must preserve Host, Authorization, Origin, Accept,
// Content-Type, MCP-Protocol-Version, Mcp-Session-Id, and Last-Event-ID without adding
// duplicate singleton headers. It must not add Transfer-Encoding to upstream requests.
// Disable response buffering for the event-stream GET and set upstream/read idle timeouts
// above the 15-second default keepalive interval." The configurations that docs/umcp.md
// shows do that, and so does our own proxy.
func TestE2EUmcpProxies(t *testing.T) {
	gapless := filepath.Join(t.TempDir(), "gapless")
	build := exec.Command("go", "build", "-o", gapless, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	for name, start := range map[string]func(*testing.T, string) func(context.Context) (net.Conn, error){
		"nginx": func(t *testing.T, upstream string) func(context.Context) (net.Conn, error) {
			return startProxy(t, "nginx.conf", "unix:", upstream, func(file string) *exec.Cmd { return exec.Command("nginx", "-e", "stderr", "-c", file) })
		},
		"haproxy": func(t *testing.T, upstream string) func(context.Context) (net.Conn, error) {
			return startProxy(t, "haproxy.cfg", "unix@", upstream, func(file string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", file) })
		},
		"gapless": func(t *testing.T, upstream string) func(context.Context) (net.Conn, error) {
			proxy := startProcess(t, gapless, "proxy", "--upstream", "http://"+upstream+"/mcp", "--addr", "127.0.0.1:0", "-q")
			at, err := url.Parse(proxy.url)
			if err != nil {
				t.Fatal(err)
			}
			return dialing("tcp", at.Host)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a comment
			behindProxy(t, gapless, start)
		})
	}
}

func dialing(network, addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
}

// startProxy starts a proxy by a configuration of testdata and waits until it listens.
func startProxy(t *testing.T, config, listen, upstream string, command func(string) *exec.Cmd) func(context.Context) (net.Conn, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy") // whose path fits into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(filepath.Join("testdata", "proxies", config))
	if err != nil {
		t.Fatal(err)
	}
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, config)
	filled := strings.NewReplacer("$LISTEN", listen+socket, "$UPSTREAM", upstream, "$DIR", dir).Replace(string(text))
	if err := os.WriteFile(file, []byte(filled), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("these tests need nginx and haproxy: %v", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have died, which is told below
		<-exited
		if t.Failed() {
			t.Logf("%s says: %s", config, said.String())
		}
	})
	dial := dialing("unix", socket)
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := dial(t.Context())
		if err == nil {
			conn.Close()
			return dial
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen: %v", config, err)
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", config, err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A tap passes connections on and keeps what clients sent.
type tap struct {
	ln net.Listener

	mu   sync.Mutex
	sent []*bytes.Buffer // one for each connection
}

func newTap(t *testing.T, upstream string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{ln: ln}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				client.Close()
				continue
			}
			kept := new(bytes.Buffer)
			p.mu.Lock()
			p.sent = append(p.sent, kept)
			p.mu.Unlock()
			go func() {
				_, _ = io.Copy(io.MultiWriter(server, p.keep(kept)), client) // ends with either
				server.Close()
			}()
			go func() {
				_, _ = io.Copy(client, server)
				client.Close()
			}()
		}
	}()
	return p
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (p *tap) keep(to *bytes.Buffer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return to.Write(b)
	})
}

// heads returns the header lines of all requests with a method, by lower-case name.
func (p *tap) heads(t *testing.T, method string) []map[string][]string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []map[string][]string
	for _, sent := range p.sent {
		for part := range strings.SplitSeq(sent.String(), "\r\n\r\n") {
			_, head, found := strings.Cut(part, method+" /mcp HTTP/1.1\r\n") // behind the body before
			if !found {
				continue
			}
			fields := map[string][]string{}
			for line := range strings.SplitSeq(head, "\r\n") {
				name, value, _ := strings.Cut(line, ":")
				name = strings.ToLower(name)
				fields[name] = append(fields[name], strings.TrimSpace(value))
			}
			all = append(all, fields)
		}
	}
	return all
}

// behindProxy looks at what a proxy makes of requests and of an event stream.
func behindProxy(t *testing.T, gapless string, start func(*testing.T, string) func(context.Context) (net.Conn, error)) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("client "+umcpToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startProcess(t, gapless, "serve", "--dialect", "umcp", "--addr", "127.0.0.1:0", "--tokens", tokens, "--allow-origin", umcpOrigin)
	at, err := url.Parse(server.url)
	if err != nil {
		t.Fatal(err)
	}
	seen := newTap(t, at.Host)
	dial := start(t, seen.ln.Addr().String())
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	u := &umcpClient{t: t, client: &http.Client{Transport: transport}}

	u.session = u.do("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, 200).Header.Get("Mcp-Session-Id")
	if u.session == "" {
		t.Fatal("no Mcp-Session-Id came through")
	}
	stream := u.do("GET", "", 200)
	if stream.Header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id" {
		t.Errorf("header %v", stream.Header)
	}
	events := make(chan string, 100)
	go func() {
		for in := bufio.NewScanner(stream.Body); in.Scan(); {
			if in.Text() != "" {
				events <- in.Text()
			}
		}
		close(events)
	}()
	u.do("GET", "", 409)
	for i := range 5 {
		u.emits(i, events)
	}
	quiet := time.Now()
	if line := nextLine(t, events, 20*time.Second); !strings.HasPrefix(line, ":") {
		t.Errorf("instead of a comment: %q", line)
	}
	t.Logf("a comment came after %s", time.Since(quiet).Round(time.Millisecond))
	u.emits(9, events)
	u.do("DELETE", "", 204)
	if line, more := <-events; more {
		t.Errorf("after DELETE: %q", line)
	}
	u.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`+strings.Repeat(" ", 1<<20), 404) // the session has ended; a large body
	u.arrived(seen)
	server.stop(t)
}

// umcpClient makes requests with all eight headers.
type umcpClient struct {
	t       *testing.T
	client  *http.Client
	session string
}

// headers are the eight that a proxy has to preserve. Of a session there is none in
// initialize.
func (u *umcpClient) headers(method string) map[string]string {
	h := map[string]string{
		"Host": umcpHost, "Authorization": "Bearer " + umcpToken, "Origin": umcpOrigin, "Accept": "application/json, text/event-stream",
		"Content-Type": "application/json; charset=utf-8", "MCP-Protocol-Version": "2025-03-26", "Last-Event-ID": "event 1, not 2",
	}
	if method == http.MethodGet {
		h["Accept"] = "text/event-stream"
	}
	if u.session != "" {
		h["Mcp-Session-Id"] = u.session
	}
	return h
}

// do makes a request and wants a status. The body of an event stream is left open.
func (u *umcpClient) do(method, body string, want int) *http.Response {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, "http://proxy/mcp", strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	for name, value := range u.headers(method) {
		req.Header.Set(name, value)
	}
	req.Host = umcpHost
	resp, err := u.client.Do(req)
	if err != nil {
		u.t.Fatalf("%s: %v", method, err)
	}
	if method == http.MethodGet && resp.StatusCode == http.StatusOK {
		u.t.Cleanup(func() { resp.Body.Close() })
	} else {
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != want {
			u.t.Fatalf("%s: %s %s, %v; want %d", method, resp.Status, text, err, want)
		}
	}
	if resp.StatusCode != want {
		u.t.Fatalf("%s: %s, want %d", method, resp.Status, want)
	}
	return resp
}

// emits calls emit, whose one small event has to come through at once.
func (u *umcpClient) emits(id int, events <-chan string) {
	u.t.Helper()
	begun := time.Now()
	u.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":{"messages":1},"_meta":{"progressToken":"t%d"}}}`, id+10, id), 200)
	if line := nextLine(u.t, events, 5*time.Second); !strings.Contains(line, fmt.Sprintf(`"progressToken":"t%d"`, id)) {
		u.t.Errorf("event %d is %q", id, line)
	}
	if took := time.Since(begun); took > 3*time.Second {
		u.t.Errorf("event %d took %s: it was held back", id, took)
	}
}

func nextLine(t *testing.T, events <-chan string, within time.Duration) string {
	t.Helper()
	select {
	case line, more := <-events:
		if !more {
			t.Fatal("the event stream ended")
		}
		return line
	case <-time.After(within):
		t.Fatalf("nothing came within %s", within)
	}
	return ""
}

// arrived holds what the server was sent against what the client sent.
func (u *umcpClient) arrived(seen *tap) {
	u.t.Helper()
	for method, want := range map[string]int{"POST": 8, "GET": 2, "DELETE": 1} {
		heads := seen.heads(u.t, method)
		if len(heads) != want {
			u.t.Errorf("%d times %s, want %d", len(heads), method, want)
		}
		for i, head := range heads {
			for name, value := range u.headers(method) {
				if method == http.MethodPost && i == 0 && name == "Mcp-Session-Id" {
					continue // which is not there before initialize
				}
				if got := head[strings.ToLower(name)]; !slices.Equal(got, []string{value}) {
					u.t.Errorf("%s %d: %s is %q, want %q once", method, i+1, name, got, value)
				}
			}
			if got := head["transfer-encoding"]; got != nil {
				u.t.Errorf("%s %d: Transfer-Encoding %q", method, i+1, got)
			}
		}
	}
}
