//go:build e2e

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
)

var update = flag.Bool("update", false, "write testdata/verdicts.json from what is seen")

// e2eLimit bounds one run: a server that hangs must not hang the tests.
const e2eLimit = 90 * time.Second

// TestE2EVerdicts runs gapless against servers that people use, each in a process of its
// own, and compares what it says with the committed table.
func TestE2EVerdicts(t *testing.T) {
	rows, env := readVerdicts(t), tools(t)
	for i := range rows {
		t.Run(rows[i].Server, func(t *testing.T) {
			if *update {
				refresh(t, env, &rows[i])
				return
			}
			compareWithRow(t, env, rows[i])
		})
	}
	if !*update || t.Failed() {
		return
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the commands are there to be copied
	enc.SetIndent("", "  ")
	if err := enc.Encode(rows); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(verdictsFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func compareWithRow(t *testing.T, env []string, row verdictRow) {
	t.Helper()
	if v := installed(t, row.Package); v != row.Version {
		t.Fatalf("%s %s is installed, the table was made with %s", row.Package, v, row.Version)
	}
	r := judgeServer(t, env, row.Command, 7)
	got := violatedOf(r)
	if r.Verdict != row.Verdict {
		t.Errorf("%s, want %s: %s %v\nviolated: %v", r.Verdict, row.Verdict, r.Sentence, r.Why, got)
	}
	for _, name := range row.Violated {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not violated", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(row.Violated, name) && !slices.Contains(row.Sometimes, name) {
			t.Errorf("%s is violated: %+v", name, invariantOf(t, r, name).Evidence)
		}
	}
	t.Logf("%.1f s; %s %v", r.Run.DurationSeconds, r.Sentence, got)
}

// refresh fills the row with what several seeds have in common, and with what they differ
// in. What takes luck is never taken off by itself: three seeds do not tell.
func refresh(t *testing.T, env []string, row *verdictRow) {
	t.Helper()
	row.Version = installed(t, row.Package)
	const seeds = 3
	times := map[string]int{}
	for seed := range seeds {
		r := judgeServer(t, env, row.Command, seed+1)
		if seed > 0 && r.Verdict != row.Verdict {
			t.Errorf("seed %d: %s; with the seed before it: %s", seed+1, r.Verdict, row.Verdict)
		}
		row.Verdict = r.Verdict
		for _, name := range violatedOf(r) {
			times[name]++
		}
	}
	row.Violated = []string{}
	for name, n := range times {
		switch {
		case slices.Contains(row.Sometimes, name):
		case n == seeds:
			row.Violated = append(row.Violated, name)
		default:
			row.Sometimes = append(row.Sometimes, name)
		}
	}
	slices.Sort(row.Violated)
	slices.Sort(row.Sometimes)
}

// violatedOf lists the invariants that decide the verdict and are violated.
func violatedOf(r *result.Result) []string {
	var names []string
	for _, inv := range r.Invariants {
		if inv.Verdict == result.Violated && inv.Level != "SHOULD" {
			names = append(names, inv.Name)
		}
	}
	return names
}

// judgeServer carries out the command of a row and returns the result.
func judgeServer(t *testing.T, env []string, command string, seed int) *result.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2eLimit)
	defer cancel()
	file := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("%s --seed %d -q -o json='%s'", command, seed, file))
	cmd.Dir, cmd.Env = nodeFolder, append(slices.Clip(env), "PORT="+freePort(t))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its server
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no result: %v\n%s", cmd.ProcessState, out)
	}
	r, err := result.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	codes := map[string]int{result.Holds: 0, result.Violated: 10, result.Inconclusive: 11}
	if code := cmd.ProcessState.ExitCode(); code != codes[r.Verdict] {
		t.Errorf("exit code %d of a run that is %s", code, r.Verdict)
	}
	if !strings.Contains(string(out), strings.ToUpper(r.Verdict)) {
		t.Errorf("the text does not say %s:\n%s", r.Verdict, out)
	}
	return r
}
