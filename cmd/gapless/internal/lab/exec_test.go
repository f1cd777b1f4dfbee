package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// standIn lets the test binary stand in for a user's server, which listens at addr.
func standIn(how, addr string) {
	switch how {
	case "never": // answers
		fmt.Fprintln(os.Stderr, "still reading my configuration")
		select {}
	case "stdio":
		_ = countServer().Run(context.Background(), &mcp.StdioTransport{})
		os.Exit(0)
	case "gone":
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(3)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fixture, err := NewFixture(ServeConfig{Server: profiles.Default().Server, Version: "test"})
	if err != nil {
		os.Exit(1)
	}
	// Requests until it ends: when it is asked what it offers, in the handshake of the
	// control calls, in the middle of the load.
	if last := map[string]int64{"shy": 4, "frail": 10, "mortal": 40}[how]; last > 0 {
		var calls atomic.Int64
		root := Root(fixture)
		_ = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == last {
				fmt.Fprintln(os.Stderr, "out of file descriptors")
				os.Exit(7)
			}
			root.ServeHTTP(w, r)
		}))
	}
	fmt.Fprintln(os.Stderr, "hello from the server")
	_ = Serve(context.Background(), fixture, ln, nil, io.Discard)
}

// started is a small load for a server that the run starts itself.
func started(t *testing.T, how string) profiles.Profile {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t, "tcp", "127.0.0.1:0") // a port that is free, or was a moment ago
	addr := ln.Addr().String()
	_ = ln.Close()
	p := thirdParty(t)
	p.Target.URL, p.Target.Exec = "http://"+addr+"/mcp", fmt.Sprintf("exec '%s' server %s %s", exe, how, addr)
	return p
}

func TestExecStartsAndStopsTheServer(t *testing.T) {
	p := started(t, "well")
	start, err := Target(p.Target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	r := mustRun(t, Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Version: "test", Start: start, Save: dir})
	if r.Verdict != result.Holds || r.Run.Target.PID == 0 || r.Run.Target.PID == int64(os.Getpid()) {
		t.Errorf("%s %s, pid %d", r.Verdict, r.Sentence, r.Run.Target.PID)
	}
	if log, err := os.ReadFile(filepath.Join(dir, logFile)); err != nil || !strings.Contains(string(log), "hello from the server") {
		t.Errorf("%s: %q, %v", logFile, log, err)
	}
	if conn, err := net.Dial("tcp", hostOf(p.Target.URL)); err == nil {
		_ = conn.Close()
		t.Error("the server is still there")
	}
}

func TestExecOfAServerThatIsNoServer(t *testing.T) {
	for how, want := range map[string][]string{
		"gone":  {"exit status 3", "no such database"},
		"never": {"did not answer initialize", "within 3s", "still reading my configuration"},
	} {
		t.Run(how, func(t *testing.T) {
			p := started(t, how)
			p.Target.ReadyTimeout = profiles.Duration(3 * time.Second) // it has to come to its words
			if how == "gone" {
				p.Target.ReadyTimeout = profiles.Duration(10 * time.Second)
			}
			start, err := Target(p.Target, os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: start})
			for _, text := range want {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("error %v does not say %q", err, text)
				}
			}
			var none *UnreachableError
			if !errors.As(err, &none) {
				t.Errorf("%v is not about a target that cannot be reached", err)
			}
		})
	}
}

// TestAnInterruptEndsTheWaitForAServer: nobody waits half a minute for what was given up.
func TestAnInterruptEndsTheWaitForAServer(t *testing.T) {
	p := started(t, "never")
	start, err := Target(p.Target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	halt, began := make(chan struct{}), time.Now()
	time.AfterFunc(200*time.Millisecond, func() { close(halt) })
	_, err = Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: start, Halt: halt})
	if !errors.Is(err, context.Canceled) || time.Since(began) > 15*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestExecAtAWrongURL: a server that is there, but not at this URL, is told soon.
func TestExecAtAWrongURL(t *testing.T) {
	p := started(t, "well")
	p.Target.URL = strings.Replace(p.Target.URL, "/mcp", "/mpc", 1)
	start, err := Target(p.Target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = start(t.Context())
	for _, want := range []string{"404", "is this the URL of its MCP endpoint?", "hello from the server"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if time.Since(began) > 20*time.Second {
		t.Errorf("it took %v", time.Since(began))
	}
}

// TestExecBesideAnotherServer: what answers already would be tested instead.
func TestExecBesideAnotherServer(t *testing.T) {
	p := started(t, "well")
	p.Target.URL = "http://" + plainServer(t) + "/mcp"
	start, err := Target(p.Target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(t.Context()); err == nil || !strings.Contains(err.Error(), "before the server was started") {
		t.Errorf("error %v", err)
	}
}

// TestStdioServersCannotBeResumed: one pipe, nothing to come back to.
func TestStdioServersCannotBeResumed(t *testing.T) {
	p := started(t, "stdio")
	p.Target.URL, p.Target.Transport = "", "stdio"
	p.Calls = []profiles.Call{profiles.DefaultCall()}
	p.Calls[0].Tool, p.Calls[0].Args = "count", map[string]any{"n": 10, "interval_ms": 5}
	r := load(t, p)
	if r.Verdict != result.Inconclusive || !strings.Contains(r.Sentence, "stdio") || r.Control.Complete != 3 {
		t.Errorf("%s %s %v %+v", r.Verdict, r.Sentence, r.Why, r.Control)
	}
}

// TestAServerThatDiesUnderLoad: what was seen until then is judged, and its last words
// are the first thing to read.
func TestAServerThatDiesUnderLoad(t *testing.T) {
	r := load(t, started(t, "mortal"))
	if r.Verdict == result.Holds || r.Run.Stopped != result.TargetDied {
		t.Errorf("%s, stopped %q: %s", r.Verdict, r.Run.Stopped, r.Sentence)
	}
	if why := strings.Join(r.Notes, "\n"); !strings.Contains(why, "exit status 7") || !strings.Contains(why, "out of file descriptors") {
		t.Errorf("notes: %s", why)
	}
}

// TestAServerThatDiesBeforeTheLoad is no run that somebody interrupted, and no target that
// was never there: its last words say what happened.
func TestAServerThatDiesBeforeTheLoad(t *testing.T) {
	for _, how := range []string{"shy", "frail"} {
		t.Run(how, func(t *testing.T) {
			p := started(t, how)
			start, err := Target(p.Target, os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Run(t.Context(), Config{Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Start: start})
			var none *UnreachableError
			if !errors.As(err, &none) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "out of file descriptors") {
				t.Errorf("error %v", err)
			}
		})
	}
}
