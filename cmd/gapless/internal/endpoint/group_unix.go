//go:build unix

package endpoint

import (
	"os/exec"
	"syscall"
)

// lead makes the command the leader of a process group, all of which ends with its context.
// The number of the group is its own until it is reaped, and it is only ended before.
func lead(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
