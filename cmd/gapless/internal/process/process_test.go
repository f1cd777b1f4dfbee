//go:build unix

package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
)

// patience is far more than anything here takes.
const patience = 20 * time.Second

// play is the variable that makes the test binary play a server instead of testing.
const play = "GAPLESS_PROCESS_TEST"

func TestMain(m *testing.M) {
	switch role, to, _ := strings.Cut(os.Getenv(play), " "); role {
	case "":
		os.Exit(m.Run())
	case "deaf": // dials and ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		dial(to)
	case "escape": // starts another that leaves the group and keeps the pipes
		again("deaf "+to, &syscall.SysProcAttr{Setsid: true})
	case "parent": // starts a server in its own group and goes on
		again("deaf "+to, nil)
		dial(to)
	case "owner": // a gapless that starts a server and is killed
		if _, err := process.Start(process.Config{Command: quote(os.Args[0]), Env: env("parent " + to)}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// dial lives as long as the link to the test does.
func dial(to string) {
	c, err := net.Dial("tcp", to)
	if err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

func again(role string, attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr = env(role), attr
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func env(role string) []string { return append(os.Environ(), play+"="+role) }

func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// links is where processes dial: a link that ended shows a process that did.
type links struct {
	t *testing.T
	l net.Listener
}

func listen(t *testing.T) links {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return links{t, l}
}

func (l links) addr() string { return l.l.Addr().String() }

func (l links) next() net.Conn {
	l.t.Helper()
	_ = l.l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	c, err := l.l.Accept()
	if err != nil {
		l.t.Fatalf("the process did not dial: %v", err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

func mustEnd(t *testing.T, who string, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s lives on: %v", who, err)
	}
}

func start(t *testing.T, c process.Config) *process.Process {
	t.Helper()
	p, err := process.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(0) })
	return p
}

func exited(t *testing.T, p *process.Process) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(patience):
		t.Fatal("it did not exit")
	}
}

// log may be written to by several goroutines, and watched for a text.
type log struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	text string
	seen chan struct{}
}

func waitFor(text string) *log { return &log{text: text, seen: make(chan struct{})} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := bytes.Contains(l.buf.Bytes(), []byte(l.text))
	n, err := l.buf.Write(p)
	if !before && bytes.Contains(l.buf.Bytes(), []byte(l.text)) {
		close(l.seen)
	}
	return n, err
}

func (l *log) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.seen:
	case <-time.After(patience):
		t.Fatalf("%q was not said", l.text)
	}
}

func TestDeathIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		tail    int
		want    string
	}{
		"status and words":   {`echo one; echo two >&2; exit 3`, 0, "exit status 3; its last words:\n"},
		"nothing said":       {`exit 0`, 0, "exit status 0; it said nothing"},
		"signal":             {`kill -9 $$`, 0, "signal: killed; it said nothing"},
		"no such program":    {`gapless-is-no-server`, 0, "exit status 127; its last words:\n"},
		"twenty lines":       {`i=0; while [ $i -lt 99 ]; do i=$((i+1)); echo line $i >&2; done; exit 1`, 0, "words:\nline 80\n"},
		"the last ones only": {`i=0; while [ $i -lt 99 ]; do i=$((i+1)); echo line $i >&2; done; exit 1`, 2, "words:\nline 98\nline 99"},
		"no orders to a terminal": {`printf '\033[31mred\033[0m\a\033]0;title\007 \342\200\256x\n' >&2; exit 1`, 0,
			"words:\nred]0;title x"},
		"long lines are cut": {`printf '%0999d\n' 7 >&2; exit 1`, 0, "words:\n" + strings.Repeat("0", 400) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, process.Config{Command: c.command, Tail: c.tail})
			exited(t, p)
			died := p.Died()
			if died == nil || !strings.HasPrefix(died.Error(), "the server died: ") || !strings.Contains(died.Error(), c.want) {
				t.Errorf("Died() = %v, want ...%q...", died, c.want)
			}
			if stop := p.Stop(time.Second); stop == nil || stop.Error() != died.Error() {
				t.Errorf("Stop() = %v, want the same", stop)
			}
		})
	}
}

func TestStopAsksFirst(t *testing.T) {
	said := waitFor("ready")
	p := start(t, process.Config{Command: `trap 'echo bye >&2; exit 0' TERM; sleep 100 >/dev/null 2>&1 & echo ready; wait`, Log: said})
	said.wait(t)
	if p.Died() != nil {
		t.Errorf("it is alive, and Died() = %v", p.Died())
	}
	if err := p.Stop(patience); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if p.LastWords() != "ready\nbye" {
		t.Errorf("last words %q: it was not asked to end", p.LastWords())
	}
	if p.Died() != nil {
		t.Errorf("it was stopped, and Died() = %v", p.Died())
	}
	if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
		t.Errorf("pid %d: %v; want it reaped", p.PID(), err)
	}
}

func TestStopKillsTheGroup(t *testing.T) {
	l := listen(t)
	p := start(t, process.Config{Command: quote(os.Args[0]) + "; echo end", Env: env("parent " + l.addr())})
	one, two := l.next(), l.next()
	if err := p.Stop(50 * time.Millisecond); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	mustEnd(t, "a member of the group", one)
	mustEnd(t, "a member of the group", two)
}

func TestChildrenInTheBackground(t *testing.T) {
	l := listen(t)
	p := start(t, process.Config{Command: quote(os.Args[0]) + " & exit 0", Env: env("deaf " + l.addr())})
	c := l.next()
	exited(t, p)
	if err := p.Died(); err == nil || !strings.Contains(err.Error(), "exit status 0, and left children in the background") {
		t.Errorf("Died() = %v", err)
	}
	if p.Stop(0) == nil {
		t.Error("Stop() says nothing about a death")
	}
	mustEnd(t, "the child", c)
}

// A child that left the group keeps the pipes open: nobody may wait for it.
func TestStopWaitsForNobodyElse(t *testing.T) {
	l := listen(t)
	p := start(t, process.Config{Command: quote(os.Args[0]), Env: env("escape " + l.addr())})
	l.next() // ends the child as the test ends
	exited(t, p)
	done := make(chan error, 1)
	go func() { done <- p.Stop(0) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Stop() waits for a process that is not its own")
	}
}

func TestNothingOutlivesUs(t *testing.T) {
	l := listen(t)
	owner := exec.Command(os.Args[0])
	owner.Env = env("owner " + l.addr())
	owner.Stderr = os.Stderr
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	one, two := l.next(), l.next()
	_ = owner.Process.Kill()
	_ = owner.Wait()
	mustEnd(t, "the server", one)
	mustEnd(t, "its child", two)
}

func TestOutputNeverBlocks(t *testing.T) {
	var out bytes.Buffer // one Process never writes twice at once
	p := start(t, process.Config{Log: &out, Tail: 5000, Command: `i=0; while [ $i -lt 4000 ]; do i=$((i+1)); printf '%0200d\n' $i; printf '%0200d\n' $i >&2; done`})
	exited(t, p)
	_ = p.Stop(0)
	if out.Len() != 2*4000*201 {
		t.Errorf("%d bytes in the log, want %d", out.Len(), 2*4000*201)
	}
	if n := len(p.LastWords()); n < 15<<10 || n > 16<<10 {
		t.Errorf("%d bytes of last words are kept, want 16 KiB", n)
	}
}

func TestPipes(t *testing.T) {
	p := start(t, process.Config{Command: "cat; echo $WORD >&2; pwd >&2", Stdin: true, Stdout: true,
		Dir: "/", Env: []string{"WORD=hello", "PATH=" + os.Getenv("PATH")}})
	if _, err := io.WriteString(p.Stdin(), "there and back"); err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	got, err := io.ReadAll(p.Stdout())
	if string(got) != "there and back" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	exited(t, p)
	if p.LastWords() != "hello\n/" {
		t.Errorf("last words %q", p.LastWords())
	}
	if q := start(t, process.Config{Command: "exit 0"}); q.Stdin() != nil || q.Stdout() != nil {
		t.Error("there are pipes that nobody asked for")
	}
}

// A server that ends with its stdin is not sent a signal.
func TestStopClosesStdin(t *testing.T) {
	p := start(t, process.Config{Command: `trap 'echo signal >&2' TERM; cat; echo clean >&2`, Stdin: true})
	if err := p.Stop(patience); err != nil || p.LastWords() != "clean" {
		t.Errorf("Stop() = %v, last words %q", err, p.LastWords())
	}
}

func TestStartFails(t *testing.T) {
	_, err := process.Start(process.Config{Command: "true", Dir: "/no/such/folder"})
	if err == nil || !strings.Contains(err.Error(), "start the server: ") {
		t.Errorf("Start() = %v", err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	before, files := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		p := start(t, process.Config{Command: "cat", Stdin: true})
		if err := p.Stop(patience); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}
