package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the servers that it measures.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func tiny() sizes {
	return sizes{
		Rounds: 1, BurstStreams: 2, BurstEvents: 50, LiveStreams: 2, LiveRate: 100, LiveSeconds: 0.2,
		IdleStreams: 4, Resumes: 2, ReplayEvents: 30, IdleRoundsMax: 1,
	}
}

func TestEveryServerIsMeasured(t *testing.T) {
	r, err := measureServers(t.Context(), serverFlags{sizes: tiny()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.print(&table); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		w := r.row(k.name)
		if (w == nil) != k.hidden {
			t.Errorf("%s: row %v, hidden %t", k.name, w, k.hidden)
		}
		if w == nil {
			continue
		}
		want := map[string]int{"burst": 100, "live": 40, "idle": 4}
		if k.store {
			want["replay"] = 2 * r.Sizes.ReplayEvents
		}
		if len(w.Cells) != len(want) {
			t.Errorf("%s: %d regimes, want %d", k.name, len(w.Cells), len(want))
		}
		for name, events := range want {
			c := w.Cells[name]
			switch {
			case c == nil:
				t.Errorf("%s, %s: not measured", k.name, name)
			case name == "idle" && c.KiB.Median == 0, name != "idle" && (c.CPU.Median <= 0 || c.Wall.Median <= 0):
				t.Errorf("%s, %s: %+v", k.name, name, c)
			// A stream of a server without a priming event resumes behind its first event.
			case c.Again != 0, c.Events+c.Missing != events && (name != "replay" || c.Events+c.Missing != events-2):
				t.Errorf("%s, %s: %d events, %d missing, %d again, want %d", k.name, name, c.Events, c.Missing, c.Again, events)
			case strings.HasPrefix(k.name, ours) && c.Missing > 0:
				t.Errorf("%s, %s: %d events missing", k.name, name, c.Missing)
			}
		}
		if !strings.Contains(table.String(), k.name) {
			t.Errorf("%s is not in the table:\n%s", k.name, table.String())
		}
	}
	for _, module := range []string{"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go"} {
		if !strings.HasPrefix(r.Versions[module], "v") && r.Versions != nil && len(r.Versions) > 0 {
			t.Errorf("the version of %s is %q", module, r.Versions[module])
		}
	}
}

// TestDroppedEventsShow measures a server that loses every tenth event.
func TestDroppedEventsShow(t *testing.T) {
	k, err := kindOf(dropping)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(tiny())
	r.add(k)
	for _, g := range regimes() {
		if g.name == "idle" {
			continue
		}
		s, err := measureOne(t.Context(), k, g, r.Sizes)
		if err != nil {
			t.Fatal(err)
		}
		r.Rows[0].take(g.name, s)
	}
	// 2 × 50 and 2 × 20 events; two resumes of 29, all behind the first.
	for name, want := range map[string]int{"burst": 10, "live": 4, "replay": 6} {
		if got := r.Rows[0].Cells[name].Missing; got != want {
			t.Errorf("%s: %d events missing, want %d", name, got, want)
		}
	}
	var table strings.Builder
	if err := r.print(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "20 of 198") {
		t.Errorf("the table does not say that 20 of 198 are missing:\n%s", table.String())
	}
}

// made is a report with these CPU figures of bursts.
func made(cost map[string]float64) *report {
	r := newReport(tiny())
	for name, cpu := range cost {
		r.add(kind{name: name})
		r.Rows[len(r.Rows)-1].take("burst", sample{CPU: cpu, Events: 10})
	}
	return r
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		cost map[string]float64
		lost int
		ok   bool
	}{
		{"within all", map[string]float64{rawEach: 2, ours: 3.9, goSDKStore: 12}, 0, true},
		{"more than twice a raw write", map[string]float64{rawEach: 2, ours: 4.1, goSDKStore: 20}, 0, false},
		{"more than a third of go-sdk", map[string]float64{rawEach: 2, ours: 3.9, goSDKStore: 11}, 0, false},
		{"an event lost", map[string]float64{rawEach: 2, ours: 3, goSDKStore: 12}, 1, false},
		{"gapless not measured", map[string]float64{rawEach: 2, goSDKStore: 12}, 0, false},
		{"raw not measured", map[string]float64{ours: 2, goSDKStore: 12}, 0, false},
		{"go-sdk not measured", map[string]float64{rawEach: 2, ours: 3}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := made(tt.cost)
			if w := r.row(ours); w != nil {
				w.Cells["burst"].Missing = tt.lost
			}
			if err := r.check(); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFigure(t *testing.T) {
	var f figure
	for _, v := range []float64{5, 1, 2} {
		f.take(v)
	}
	if f.Median != 2 || f.Least != 1 || f.Most != 5 || f.spread() != 2 {
		t.Errorf("%+v, spread %g", f, f.spread())
	}
	if f.take(4); f.Median != 3 {
		t.Errorf("the median of four is %g", f.Median)
	}
}

// TestCommand runs the program itself, on the two raw servers and the one named.
func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.json")
	var out, errs bytes.Buffer
	args := []string{"server", "-short", "-rounds", "1", "-events", "50", "-only", "no store", "-o", "json=" + file}
	if code := run(t.Context(), args, nil, &out, &errs); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil || len(r.Rows) != 3 || r.cpu("gapless, no store", "live") <= 0 {
		t.Errorf("%v in %s", err, text)
	}
	if !strings.Contains(out.String(), "gapless, no store") {
		t.Error(out.String())
	}
	if code := run(t.Context(), append(args, "-check"), nil, &out, &errs); code != exitMissed {
		t.Errorf("-check without the rows that it compares: exit %d", code)
	}
	for _, wrong := range [][]string{nil, {"serve"}, {"server", "-o", "text"}, {"server", "more"}, {"append", "-sessions", "0"}, {childCommand, "nobody"}} {
		if code := run(t.Context(), wrong, nil, &out, &errs); code != exitUsage {
			t.Errorf("%q: exit %d", wrong, code)
		}
	}
}

// TestAppendsAreTimed runs writers and slow readers for a moment.
func TestAppendsAreTimed(t *testing.T) {
	z := appendSizes{
		Sessions: 2, Interval: time.Millisecond, Backlog: 100,
		Quiet: 200 * time.Millisecond, Replay: 600 * time.Millisecond,
	}
	for _, k := range kinds() {
		if k.timed == nil {
			continue
		}
		row, err := measureAppends(t.Context(), k.name, z)
		if err != nil {
			t.Fatal(err)
		}
		q := row.Replay
		if row.Quiet.Count == 0 || q.Count < 200 || q.P50 <= 0 || q.P99 < q.P50 || q.P999 < q.P99 || q.Max < q.P999 {
			t.Errorf("%+v", row)
		}
		if row.Resumes < 2 || row.Missing > 0 {
			t.Errorf("%d resumes, %d events missing", row.Resumes, row.Missing)
		}
	}
}

func TestAppendLimit(t *testing.T) {
	good := appendRow{Resumes: 1, Replay: quantiles{P999: maxAppend.Nanoseconds()}}
	if err := checkAppends([]appendRow{good}); err != nil {
		t.Error(err)
	}
	slow, lossy, still := good, good, good
	slow.Replay.P999++
	lossy.Missing, still.Resumes = 1, 0
	for _, bad := range [][]appendRow{nil, {slow}, {lossy}, {still}} {
		if checkAppends(bad) == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}
