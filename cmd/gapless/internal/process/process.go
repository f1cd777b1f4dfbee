// Package process runs the user's own server for the time of a run and no longer.
//
//	gapless ──── starts, reads, signals, reaps ────► the command ──► its children
//	   │                                                ▲               ▲
//	   └─ lifeline (a pipe) ─► watcher ── ends the group when the pipe ends
//
// The command and everything it starts share a process group, so that a server behind
// a shell or npm ends with them. Where there are process groups (Unix), a watcher, a
// shell that waits for the end of a pipe whose other side only this process holds,
// leads that group: however this process ends, SIGKILL included, the pipe ends and the
// watcher ends the group. The parent death signal of Linux is not used: it strikes when
// the thread that forked ends, which the Go runtime may do at any time, and it does not
// reach grandchildren. What leaves the group on purpose (setsid, a daemon) is out of
// reach, unless it is the command itself and this process lives.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
)

const (
	// lastOutput is how long output is waited for that a process left in its pipes, on a
	// machine that is busy too: children that live on may hold them open.
	lastOutput = time.Second
	// killed is how long the system may take to end a process that it was told to kill.
	killed = 5 * time.Second
)

// A Config says what to run. Only Command is needed.
type Config struct {
	// Command is a line for the shell: sh -c, cmd /c on Windows.
	Command string
	Dir     string   // "": the current one
	Env     []string // nil: the environment of this process
	// Stdin and Stdout make pipes of the two, see [Process.Stdin] and [Process.Stdout].
	// Else stdin is empty and stdout is read like stderr.
	Stdin, Stdout bool
	// Log gets all that is read, in pieces and never by two goroutines of one Process at
	// once; its errors are ignored, as the server must never block on what it says. nil: none.
	Log io.Writer
	// Tail is how many of the last lines are kept; 0: 20.
	Tail int
}

// A Process is a started command. Its methods may be called by any goroutine. Stop must be
// called once it is not needed any more, also when it has exited by itself.
type Process struct {
	cmd    *exec.Cmd
	leash  *leash
	words  *words
	stdin  *os.File // our side; nil unless piped
	stdout *os.File // our side; nil unless piped
	read   []*os.File
	group  guard.Group

	silent chan struct{} // closed when all output that is read has ended
	exited chan struct{}
	how    error // how it ended, nil for status 0; valid once exited is closed

	once    sync.Once
	stopped error
	mu      sync.Mutex
	asked   bool // Stop was called before it had exited
}

// Start runs the command. Its error says why nothing was started.
func Start(c Config) (*Process, error) {
	p := &Process{
		words:  &words{lines: c.Tail, log: c.Log},
		silent: make(chan struct{}), exited: make(chan struct{}),
	}
	if c.Tail <= 0 {
		p.words.lines = 20
	}
	leash, err := newLeash()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p.leash = leash
	p.cmd = leash.command(c.Command)
	p.cmd.Dir, p.cmd.Env = c.Dir, c.Env
	theirs, err := p.pipes(c)
	if err == nil {
		err = p.cmd.Start()
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		p.closeOurs()
		leash.release()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p.group.Go(p.listen)
	p.group.Go(p.reap)
	return p, nil
}

// pipes connects the command with this process and returns the command's ends. They are
// plain files, so that the exit of the command is known while its children hold them open.
func (p *Process) pipes(c Config) (theirs []*os.File, err error) {
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	take := func(ours, his *os.File) *os.File {
		if err == nil {
			theirs = append(theirs, his)
		}
		return ours
	}
	r, w := pipe()
	if stderr := take(r, w); err == nil {
		p.cmd.Stderr, p.read = w, append(p.read, stderr)
	}
	r, w = pipe()
	if stdout := take(r, w); err == nil {
		p.cmd.Stdout = w
		if c.Stdout {
			p.stdout = stdout
		} else {
			p.read = append(p.read, stdout)
		}
	}
	if c.Stdin {
		r, w = pipe()
		if stdin := take(w, r); err == nil {
			p.cmd.Stdin, p.stdin = r, stdin
		}
	}
	return theirs, err
}

func (p *Process) closeOurs() {
	for _, f := range append(p.read, p.stdin, p.stdout) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// listen reads what the command says until nobody can say any more.
func (p *Process) listen() {
	defer close(p.silent)
	var readers guard.Group
	for _, f := range p.read {
		readers.Go(func() { _, _ = io.Copy(p.words, f) })
	}
	if err := readers.Wait(); err != nil {
		panic(err)
	}
}

// reap waits for the command, and a moment for its last words.
func (p *Process) reap() {
	p.how = p.cmd.Wait()
	if !within(lastOutput, p.silent) {
		p.words.leftBehind()
	}
	close(p.exited)
}

// PID is the process id of the shell that runs the command; of the command itself where
// the shell replaces itself with a single command, as most do.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the command has exited, whatever its children do.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stdin is the write side of the command's stdin, nil unless Config.Stdin.
func (p *Process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return nil
	}
	return p.stdin
}

// Stdout is the read side of the command's stdout, nil unless Config.Stdout. It has to be
// read, or the command blocks on it. Stop closes it.
func (p *Process) Stdout() io.ReadCloser {
	if p.stdout == nil {
		return nil
	}
	return p.stdout
}

// LastWords are the last lines that were read, joined by LF, without what a terminal would
// obey; "" if there were none.
func (p *Process) LastWords() string { return p.words.String() }

// Died says how the command ended, with its last words, if it has ended before it was told
// to; else nil.
func (p *Process) Died() error {
	if !within(0, p.exited) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return nil
	}
	return p.died()
}

func (p *Process) died() error {
	how := "exit status 0"
	if p.how != nil {
		how = p.how.Error()
	}
	if p.words.background() {
		how += ", and left children in the background: the command has to stay in the foreground"
	}
	text := p.words.String()
	if text == "" {
		return fmt.Errorf("the server died: %s; it said nothing", how)
	}
	return fmt.Errorf("the server died: %s; its last words:\n%s", how, text)
}

// Stop ends the command and its process group and waits until nothing of them is left: a
// piped stdin is closed first, which for half the grace may be enough; then they are told to
// end (SIGTERM), and after the grace they are killed. The error is [Process.Died], nil when
// it had to be killed. Later calls return what the first did, when that is done.
func (p *Process) Stop(grace time.Duration) error {
	p.once.Do(func() { p.stopped = p.stop(grace) })
	return p.stopped
}

func (p *Process) stop(grace time.Duration) error {
	var err error
	p.mu.Lock()
	if within(0, p.exited) {
		err = p.died()
	} else {
		p.asked = true
	}
	p.mu.Unlock()
	gone := false
	if p.stdin != nil {
		_ = p.stdin.Close()
		gone = within(grace/2, p.exited, p.silent)
		grace -= grace / 2
	}
	if !gone && p.leash.end(p.cmd.Process) {
		within(grace, p.exited, p.silent)
	}
	p.leash.kill(p.cmd.Process)
	if !within(killed, p.exited) {
		return errors.Join(err, fmt.Errorf("the server (pid %d) is still there %v after it was killed", p.PID(), killed))
	}
	within(lastOutput, p.silent)
	p.closeOurs()
	p.leash.release()
	return errors.Join(err, p.group.Wait())
}

// within waits until all of the channels are closed, at most for d, and says whether they are.
func within(d time.Duration, all ...<-chan struct{}) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for _, c := range all {
		select {
		case <-c:
			continue
		default:
		}
		if d <= 0 {
			return false
		}
		select {
		case <-c:
		case <-timeout.C:
			return false
		}
	}
	return true
}
