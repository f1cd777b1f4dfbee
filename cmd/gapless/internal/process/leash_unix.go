//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// watch is what the watcher runs: it outlives what is sent to its group, waits for the end
// of its stdin, and then ends the group and with it itself.
const watch = `trap '' TERM INT HUP QUIT; read -r _; kill -s TERM 0; sleep 2; kill -s KILL 0`

// A leash is the process group of a command, led by the watcher. So the number of the group
// is not given to anybody else as long as the watcher is not reaped, and no signal of ours
// strikes a stranger.
type leash struct {
	watcher  *exec.Cmd
	lifeline io.Closer
}

func newLeash() (*leash, error) {
	w := exec.Command("sh", "-c", watch)
	w.Dir = "/"
	w.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := w.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("the watcher: %w", err)
	}
	return &leash{watcher: w, lifeline: lifeline}, nil
}

func (l *leash) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: l.watcher.Process.Pid}
	return cmd
}

// end asks the group and the command, which may have left it, to end.
func (l *leash) end(p *os.Process) bool {
	l.signal(p, syscall.SIGTERM)
	return true
}

// kill ends the group, the watcher included, and the command.
func (l *leash) kill(p *os.Process) { l.signal(p, syscall.SIGKILL) }

func (l *leash) signal(p *os.Process, s syscall.Signal) {
	_ = syscall.Kill(-l.watcher.Process.Pid, s)
	_ = p.Signal(s) // refused by the library once it is reaped
}

// release ends the watcher and frees the number of the group.
func (l *leash) release() {
	_ = l.watcher.Process.Kill()
	_ = l.lifeline.Close()
	_ = l.watcher.Wait()
}
