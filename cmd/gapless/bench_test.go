package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// runFile runs a profile in a process of its own, so that the figures of the result
// are those of one run.
func runFile(b *testing.B, profile string) *result.Result {
	b.Helper()
	file := filepath.Join(b.TempDir(), "bench.yaml")
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		b.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, "run", file, "-q", "--seed", "7", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitInconclusive) {
		b.Fatal(err)
	}
	r, err := result.Decode(bytes.NewReader(out))
	if err != nil {
		b.Fatal(err)
	}
	if r.Messages.Lost+r.Messages.Undecided > 0 || r.Messages.Delivered == 0 {
		b.Fatalf("messages %+v: the figures mean nothing", r.Messages)
	}
	return r
}

// BenchmarkJudgedEvent measures what one event costs from the socket to the verdict,
// in CPU time of the generator's process, while the server sends as fast as it can.
// The limit is 1.5 µs.
func BenchmarkJudgedEvent(b *testing.B) {
	var cpu, events float64
	for b.Loop() {
		r := runFile(b, `{version: 1, load: {streams: 200, sessions: 5, ramp: 0s},
  emit: {messages: 10000, interval: 1ms, burst: 10000}, faults: {mix: [{kind: none}]}}`)
		cpu += r.Generator.CPUSeconds
		events += float64(r.Messages.Delivered + r.Control.Calls*r.Control.MessagesPerCall)
	}
	b.ReportMetric(cpu/events*1e6, "cpu-µs/event")
	b.ReportMetric(0, "ns/op") // the wall clock includes the server's process
}

// BenchmarkIdleStream measures what an open stream that waits costs in memory of the
// generator's process: the growth of its resident memory, garbage given back, from a
// run that holds 500 streams open to one that holds 4,500. The limit is 16 KB.
func BenchmarkIdleStream(b *testing.B) {
	const few, many = 500, 4500
	for b.Loop() {
		b.ReportMetric((residentDuring(b, many)-residentDuring(b, few))/(many-few)/1e3, "KB/stream")
	}
	b.ReportMetric(0, "ns/op")
}

// residentDuring runs a load that holds so many streams open, in this process, and
// returns the most resident bytes seen while they all waited.
func residentDuring(b *testing.B, streams int) (most float64) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "idle.yaml")
	profile := fmt.Sprintf(`{version: 1, load: {streams: %d, sessions: 100, ramp: 4s, hold: true},
  emit: {messages: 2, interval: 1s}, faults: {mix: [{kind: none}]}}`, streams)
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		b.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		done <- run([]string{"run", file, "-q", "--seed", "7", "-o", "json"}, &bytes.Buffer{}, io.Discard, os.Stderr)
	}()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case code := <-done:
			if code != exitInconclusive {
				b.Fatalf("exit code %d", code)
			}
			return most
		case <-tick.C:
			debug.FreeOSMemory()
			most = max(most, resident(b))
		}
	}
}

// resident is the resident memory of this process in bytes, where the system tells.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return float64(pages * int64(os.Getpagesize()))
}
