package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childCommand makes this program the server that is measured: a process of its own,
// whose CPU time and memory are the server's alone.
const childCommand = "child"

// What a child is asked on its stdin, one word a line. It answers in one line.
const (
	askCPU    = "cpu"    // CPU time used so far, in ns
	askRSS    = "rss"    // resident bytes, after what can be given back was given back
	askAppend = "append" // quantiles of what appends took, in ns; see [quantiles]
)

// stopTime is how long a child may take to leave.
const stopTime = 5 * time.Second

// runChild serves one kind of server until in ends. The first line of out is its
// address.
func runChild(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return usageError{errors.New("a child needs the name of a server")}
	}
	k, err := kindOf(args[0])
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- k.serve(ln) }() // ends with the process
	if _, err := fmt.Fprintln(out, ln.Addr()); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- answerQuestions(k, in, out) }() // ends with in or with the process
	select {
	case err = <-failed:
		return fmt.Errorf("%s: %w", k.name, err)
	case err = <-ended:
		return err
	}
}

func answerQuestions(k kind, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var answer string
		switch lines.Text() {
		case askCPU:
			answer = strconv.FormatInt(cpuTime(), 10)
		case askRSS:
			answer = strconv.FormatInt(resident(), 10)
		case askAppend:
			if k.timed != nil {
				answer = k.timed.quantiles()
			}
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// cpuTime returns the CPU time of this process, in ns.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// resident returns the bytes of this process that are in memory, 0 where the system
// does not tell.
func resident() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// child is a server that runs, seen from the process that measures it.
type child struct {
	addr   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	cancel context.CancelFunc
}

// start starts this program again as the server of that name.
func start(ctx context.Context, name string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &child{cmd: exec.CommandContext(ctx, self, childCommand, name), cancel: cancel}
	c.cmd.Stderr = os.Stderr
	c.cmd.WaitDelay = stopTime
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	pipe, err := c.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	c.out = bufio.NewReader(pipe)
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("server %s did not start: %w", name, errors.Join(err, c.stop()))
	}
	c.addr = strings.TrimSpace(line)
	return c, nil
}

// ask asks the child one thing.
func (c *child) ask(what string) (string, error) {
	if _, err := io.WriteString(c.in, what+"\n"); err != nil {
		return "", fmt.Errorf("asking a server for its %s: %w", what, err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("asking a server for its %s: %w", what, err)
	}
	return strings.TrimSpace(line), nil
}

func (c *child) number(what string) (int64, error) {
	line, err := c.ask(what)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(line, 10, 64)
}

// stop ends the child: its stdin ends, and it has a few seconds to leave.
func (c *child) stop() error {
	_ = c.in.Close()
	late := time.AfterFunc(stopTime, c.cancel)
	defer late.Stop()
	defer c.cancel()
	return c.cmd.Wait()
}
