package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// How long the reference server may take to print its addresses, and to leave
// after it was told to.
const (
	childReady = 10 * time.Second
	childLeave = 10 * time.Second
)

// dialTimeout bounds the opening of one link, so that a target that is not there is
// told within five seconds.
const dialTimeout = 3 * time.Second

// An Endpoint is a target that the lab can reach.
type Endpoint struct {
	// URL is the MCP endpoint; Admin is the base URL of the reference server's own
	// listener (ledger, metrics), empty for any other target.
	URL, Admin string
	// Shown is the URL as a person wrote it; "" means URL.
	Shown string
	// Credential gives the value of the Authorization header, asked before each exchange;
	// nil: none.
	Credential func(context.Context) (string, error)
	// Notes are sentences about the way to the target that a summary has to carry, as far
	// as links have shown it; nil: there are none.
	Notes func() []string
	// PID is the process of the target, 0 when it is not known.
	PID int
	// Dial opens a TCP connection, or what stands for one in a test.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Stop ends what was started for the run and reports how it died if it had died
	// before. It is called once.
	Stop func() error
	// exited is closed when a child process has; nil without one.
	exited <-chan struct{}
	// died says how a user's server died, nil while it has not. The reference server has
	// none: its death is a failure of the tool, not of the target.
	died func() error
	// log is what a started server printed, nil without one.
	log *tail
}

// Child starts the program exe as the reference server (see startChild) when the run
// begins.
func Child(exe string, args ...string) func(context.Context) (*Endpoint, error) {
	return func(ctx context.Context) (*Endpoint, error) { return startChild(ctx, exe, args...) }
}

// startChild runs the program exe with args as the reference server in a process
// of its own. The program prints the endpoint's URL as its first line on stdout
// and "admin URL" as the second, and ends when its stdin does: a server does not
// outlive its run, however the run ends.
func startChild(ctx context.Context, exe string, args ...string) (*Endpoint, error) {
	cmd := exec.Command(exe, args...)
	ownGroup(cmd)
	stderr := &tail{limit: 8 << 10}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("reference server: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("reference server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("reference server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, stderr: stderr, exited: make(chan struct{})}
	lines := make(chan [2]string, 1)
	go func() { // ends with the process: it owns the read side of stdout and reaps
		in := bufio.NewReader(stdout)
		lines <- [2]string{readLine(in), readLine(in)}
		_, _ = io.Copy(io.Discard, in)
		c.err = cmd.Wait()
		close(c.exited)
	}()
	var got [2]string
	timeout := time.NewTimer(childReady)
	defer timeout.Stop()
	select {
	case got = <-lines:
	case <-timeout.C:
	case <-ctx.Done():
	}
	admin, ok := strings.CutPrefix(got[1], "admin ")
	if !ok {
		return nil, errors.Join(fmt.Errorf("reference server: no address on its stdout within %v", childReady), c.stop())
	}
	d := net.Dialer{Timeout: dialTimeout}
	return &Endpoint{URL: got[0], Admin: admin, Dial: d.DialContext, Stop: c.stop, exited: c.exited}, nil
}

func readLine(in *bufio.Reader) string {
	line, _ := in.ReadString('\n')
	return strings.TrimSpace(line)
}

type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *tail
	exited chan struct{}
	err    error // of Wait; valid once exited is closed
}

// stop ends the process and says, with its last words, if it had ended by itself.
func (c *child) stop() error {
	select {
	case <-c.exited:
		return fmt.Errorf("the reference server died: %v\n%s", c.err, c.stderr)
	default:
	}
	_ = c.stdin.Close()
	timeout := time.NewTimer(childLeave)
	defer timeout.Stop()
	select {
	case <-c.exited:
	case <-timeout.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
		return fmt.Errorf("the reference server did not leave within %v and was killed", childLeave)
	}
	if c.err != nil {
		return fmt.Errorf("the reference server failed as it left: %v\n%s", c.err, c.stderr)
	}
	return nil
}

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	data  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.limit { // not each time: a server that talks much would cost us a core
		t.data = t.data[:copy(t.data, t.end())]
	}
	return len(p), nil
}

func (t *tail) end() []byte { return t.data[max(0, len(t.data)-t.limit):] }

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end()))
}
