//go:build e2e

package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What each client does in one run.
const (
	clientCalls    = 5
	clientMessages = 20
	clientInterval = 10 // ms
)

// TestE2EClients: clients that we did not write complete calls that are cut, against the
// reference server as it is shipped, and miss nothing. One cut a call: both clients forget
// where they were when they are cut a second time before anything new came.
func TestE2EClients(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatalf("these tests need Node 20: %v", err)
	}
	t.Logf("@modelcontextprotocol/sdk %s, go-sdk %s", installed(t, "@modelcontextprotocol/sdk"), installed(t, "github.com/modelcontextprotocol/go-sdk"))
	gapless := filepath.Join(t.TempDir(), "gapless")
	build := exec.Command("go", "build", "-o", gapless, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	clients := map[string]func(*testing.T, string) [][]float64{"typescript": typescriptCalls, "go": goCalls}
	for delivery, faults := range map[string][]string{
		"follow":  {"rst@between-events:1", "fin@after-priming:1", "rst@mid-event:1", "rst@before-response:1"},
		"handoff": {"fin@between-events:1", "rst@before-response:1"},
	} {
		for _, fault := range faults {
			for name, calls := range clients {
				t.Run(delivery+"/"+fault+"/"+name, func(t *testing.T) {
					cutCalls(t, gapless, delivery, fault, calls)
				})
			}
		}
	}
}

// cutCalls makes calls with a client through the proxy, and looks at what came of them.
func cutCalls(t *testing.T, gapless, delivery, fault string, calls func(*testing.T, string) [][]float64) {
	t.Helper()
	server := startProcess(t, gapless, "serve", "--addr", "127.0.0.1:0", "--retry", "50ms", "--delivery", delivery)
	proxy := startProcess(t, gapless, "proxy", "--upstream", server.url, "--addr", "127.0.0.1:0", "--fault", fault,
		"--messages", strconv.Itoa(clientMessages), "--seed", "7", "-q")
	for i, progress := range calls(t, proxy.url) {
		if !slices.Equal(progress, counted(clientMessages)) {
			t.Errorf("call %d: progress %v", i+1, progress)
		}
	}
	wantInjections(t, proxy.stop(t), fault, clientCalls)
	server.stop(t)
}

func counted(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = float64(i + 1)
	}
	return all
}

// wantInjections holds the proxy's summary against what was to happen: a cut that did not
// fire proves nothing.
func wantInjections(t *testing.T, summary, fault string, want int) {
	t.Helper()
	cell, _, _ := strings.Cut(fault, ":")
	m := regexp.MustCompile(`(?m)^ +(\d+)  ` + regexp.QuoteMeta(cell) + `$`).FindStringSubmatch(summary)
	if m == nil {
		t.Fatalf("the fault never fired:\n%s", summary)
	}
	if n, err := strconv.Atoi(m[1]); err != nil || n < want {
		t.Errorf("%s cuts in %d calls:\n%s", m[1], want, summary)
	}
}

// typescriptCalls makes the calls with the official TypeScript client and returns the
// progress of each.
func typescriptCalls(t *testing.T, url string) [][]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2eLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", url, strconv.Itoa(clientCalls), strconv.Itoa(clientMessages), strconv.Itoa(clientInterval))
	cmd.Dir, cmd.WaitDelay = nodeFolder, 5*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var said struct {
		Version string
		Calls   []struct {
			Progress []float64
			Text     string
		}
		Complaints []string
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if said.Version != "2025-11-25" || len(said.Calls) != clientCalls {
		t.Errorf("revision %q, %d calls", said.Version, len(said.Calls))
	}
	var all [][]float64
	for _, c := range said.Calls {
		if want := fmt.Sprintf("emitted %d", clientMessages); c.Text != want {
			t.Errorf("result %q, want %q", c.Text, want)
		}
		all = append(all, c.Progress)
	}
	return all
}

// goCalls makes the calls with the client of the Go SDK.
func goCalls(t *testing.T, url string) [][]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2eLimit)
	defer cancel()
	var mu sync.Mutex
	progress, came := map[any][]float64{}, make(chan struct{}, 2*clientCalls*clientMessages)
	client := mcp.NewClient(&mcp.Implementation{Name: "gapless-e2e", Version: "1.0.0"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress[r.Params.ProgressToken] = append(progress[r.Params.ProgressToken], r.Params.Progress)
			came <- struct{}{}
		},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if v := session.InitializeResult().ProtocolVersion; v != "2025-11-25" {
		t.Errorf("revision %q", v)
	}
	var all [][]float64
	for i := range clientCalls {
		params := &mcp.CallToolParams{Name: "emit", Arguments: map[string]any{"messages": clientMessages, "interval_ms": clientInterval}}
		token := fmt.Sprintf("call-%d", i+1)
		params.SetProgressToken(token)
		result, err := session.CallTool(ctx, params)
		if err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != fmt.Sprintf("emitted %d", clientMessages) {
			t.Errorf("call %d: result %+v", i+1, result.Content[0])
		}
		// CallTool may return before the last handlers have run.
		for range clientMessages {
			select {
			case <-came:
			case <-time.After(5 * time.Second):
				t.Errorf("call %d: less than %d progress notifications", i+1, clientMessages)
			}
		}
		mu.Lock()
		all = append(all, slices.Clone(progress[token]))
		mu.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	if len(progress) != clientCalls || len(came) > 0 {
		t.Errorf("progress of %d calls, %d notifications too many", len(progress), len(came))
	}
	return all
}

// A served is a gapless command that serves until it is told to stop.
type served struct {
	cmd    *exec.Cmd
	url    string
	rest   chan string // of its stdout, when it has ended
	stderr bytes.Buffer
}

// startProcess starts a command whose first line on stdout is its URL.
func startProcess(t *testing.T, name string, args ...string) *served {
	t.Helper()
	p := &served{cmd: exec.CommandContext(t.Context(), name, args...), rest: make(chan string, 1)}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n') // a process that dies prints none
		first <- strings.TrimSpace(line)
		rest, _ := io.ReadAll(r)
		p.rest <- string(rest)
	}()
	select {
	case p.url = <-first:
	case <-time.After(20 * time.Second):
	}
	if !strings.HasPrefix(p.url, "http://") {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		t.Fatalf("%v says %q where its URL should be\n%s", p.cmd, p.url, p.stderr.String())
	}
	return p
}

// stop interrupts the process, wants it to end well, and returns what it printed.
func (p *served) stop(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("%v has ended before its time: %v\n%s", p.cmd, err, p.stderr.String())
	}
	rest := <-p.rest // the pipe has to be empty before Wait
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %v\n%s", p.cmd, err, p.stderr.String())
	}
	return rest
}
