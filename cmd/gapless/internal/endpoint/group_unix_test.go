//go:build unix

package endpoint

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCommandLeavesNobodyBehind: what a command that hangs has started ends with it.
func TestCommandLeavesNobodyBehind(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // it reads up to the end of the last process that may write
		f, err := os.Open(pipe)
		if err == nil {
			defer f.Close()
			_, err = f.Read(make([]byte, 1))
		}
		cancel()
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		ended <- err
	}()
	text := `(exec 3>"` + pipe + `"; echo up >&3; sleep 60; :) & wait`
	e := made(t, Config{URL: "https://h", Token: Secret{Command: []string{"sh", "-c", text}}})
	if _, err := e.Credential()(ctx); err == nil {
		t.Error("a token of a command that hangs")
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a process that the command has started is still there")
	}
}
