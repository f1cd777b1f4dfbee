package process

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// A leash stands for the process group that there is not: children are found by the tree of
// parents, as long as it is whole, and a server outlives a gapless that was killed.
type leash struct{}

func newLeash() (*leash, error) { return &leash{}, nil }

func (*leash) command(line string) *exec.Cmd {
	cmd := exec.Command("cmd")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CmdLine:       `cmd /d /s /c "` + line + `"`,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
	return cmd
}

// end asks nobody: a console program has no way to be asked from outside its console.
func (*leash) end(*os.Process) bool { return false }

func (*leash) kill(p *os.Process) {
	_ = exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(p.Pid)).Run()
	_ = p.Kill()
}

func (*leash) release() {}
