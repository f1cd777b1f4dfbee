//go:build unix

package lab

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// measure reads the usage of this process; a system that does not tell gives 0.
func measure() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	rss := int64(r.Maxrss)
	if runtime.GOOS != "darwin" { // there alone it is in bytes, elsewhere in KiB
		rss <<= 10
	}
	return usage{cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano()), rss: rss}
}

// ownGroup puts a child into a process group of its own: an interrupt at the terminal is
// for the run, which needs the server until everything is drained.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
