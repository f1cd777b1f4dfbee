package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// runFile runs a profile in this process, with the reference server in another, so
// that the figures of the result are the generator's own.
func runFile(b *testing.B, profile string) *result.Result {
	b.Helper()
	file := filepath.Join(b.TempDir(), "bench.yaml")
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		b.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if code := run([]string{"run", file, "-q", "--seed", "7", "-o", "json"}, &bytes.Buffer{}, &out, &stderr); code != exitInconclusive && code != exitHolds {
		b.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	r, err := result.Decode(&out)
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
		r := runFile(b, `{version: 1, load: {streams: 50, sessions: 5, ramp: 0s},
  emit: {messages: 10000, interval: 1ms, burst: 10000}, faults: {mix: [{kind: none}]}}`)
		cpu += r.Generator.CPUSeconds
		events += float64(r.Messages.Delivered + r.Control.Calls*r.Control.MessagesPerCall)
	}
	b.ReportMetric(cpu/events*1e6, "cpu-µs/event")
	b.ReportMetric(0, "ns/op") // the wall clock includes the server's process
}

// BenchmarkIdleStream measures what an open stream that waits costs in memory of the
// generator's process: the growth of its maximum from 500 streams to 4,500. The
// limit is 16 KB.
func BenchmarkIdleStream(b *testing.B) {
	const few, many = 500, 4500
	rss := func(streams int) float64 {
		return float64(runFile(b, fmt.Sprintf(`{version: 1, load: {streams: %d, sessions: 100, ramp: 4s, hold: true},
  emit: {messages: 2, interval: 1s}, faults: {mix: [{kind: none}]}}`, streams)).Generator.MaxRSSBytes)
	}
	for b.Loop() {
		small := rss(few) // first: the maximum of a process never falls
		b.ReportMetric((rss(many)-small)/(many-few)/1e3, "KB/stream")
	}
	b.ReportMetric(0, "ns/op")
}
