package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/api"
	"github.com/gapless-dev/gapless/loadgen/result"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheActionsScript: the step of action.yml that runs gapless, in a shell of GitHub's
// making, with this test binary in its place.
func TestTheActionsScript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	_, script, found := strings.Cut(readFile(t, "../../action.yml"), "        GAPLESS_SAVE: ${{ inputs.save }}\n      run: |\n")
	if !found {
		t.Fatal("action.yml has no such step")
	}
	script = strings.ReplaceAll(strings.TrimPrefix(script, "        "), "\n        ", "\n")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env     []string
		outputs string
		says    string
	}{
		"holds":     {[]string{"GAPLESS_SAVE=out"}, "verdict=holds\nexit-code=0\n", "HOLDS  300 messages"},
		"violated":  {[]string{"GAPLESS_PROFILE=smoke", "GAPLESS_FLAGS=--defect=S03\n\n"}, "verdict=violated\nexit-code=10\n", "VIOLATED"},
		"threshold": {[]string{"GAPLESS_THRESHOLDS=first_event:p(50)<1us\ncompletion:max<1h"}, "verdict=threshold\nexit-code=99\n", "p(50)<1us"},
		"nothing":   {[]string{"GAPLESS_TARGET=http://127.0.0.1:1/mcp", "GAPLESS_TOOL=a 'b' $(c)", `GAPLESS_ARGS={"a": "'"}`}, "verdict=error\nexit-code=4\n", "not reachable"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Symlink(own, filepath.Join(dir, "gapless")); err != nil {
				t.Fatal(err)
			}
			run := exec.Command(bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
			run.Dir = dir
			run.Env = append(os.Environ(), "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+filepath.Join(dir, "outputs"))
			for _, input := range []string{"PROFILE", "TARGET", "EXEC", "TOOL", "ARGS", "THRESHOLDS", "FLAGS", "SAVE"} {
				run.Env = append(run.Env, "GAPLESS_"+input+"=")
			}
			run.Env = append(run.Env, tc.env...)
			if name != "nothing" { // a small load, whatever else is asked for
				run.Env = append(run.Env, "GAPLESS_FLAGS="+"-q\n--seed=7\n--streams=30\n--messages=10\n--interval=5ms\n"+flagsOf(tc.env))
			}
			out, err := run.CombinedOutput()
			if outputs := readFile(t, filepath.Join(dir, "outputs")); outputs != tc.outputs || (err == nil) != strings.HasSuffix(outputs, "=0\n") {
				t.Errorf("%v, outputs %q, want %q", err, outputs, tc.outputs)
			}
			if !strings.Contains(string(out), tc.says) {
				t.Errorf("%q is not in\n%s", tc.says, out)
			}
			if name == "holds" {
				readFile(t, filepath.Join(dir, "out", "result.json"))
			}
		})
	}
}

func flagsOf(env []string) string {
	for _, e := range env {
		if flags, ok := strings.CutPrefix(e, "GAPLESS_FLAGS="); ok {
			return flags
		}
	}
	return ""
}

// TestEveryInputIsUsed: what action.yml declares reaches the step, and the other way round.
func TestEveryInputIsUsed(t *testing.T) {
	text := readFile(t, "../../action.yml")
	inputs, rest, _ := strings.Cut(text, "\noutputs:\n")
	declared := regexp.MustCompile(`(?m)^  ([a-z-]+):$`).FindAllStringSubmatch(inputs, -1)
	if len(declared) < 8 {
		t.Fatalf("%d inputs", len(declared))
	}
	for _, d := range declared {
		if !strings.Contains(rest, "${{ inputs."+d[1]+" }}") {
			t.Errorf("the input %s is used nowhere", d[1])
		}
	}
	for _, used := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(rest, -1) {
		if !strings.Contains(inputs, "\n  "+used[1]+":\n") {
			t.Errorf("the input %s is not declared", used[1])
		}
	}
	for _, with := range []string{"../../examples/github/gapless.yml", "../../.github/workflows/ci.yml"} {
		for _, used := range regexp.MustCompile(`(?m)^          (exec|target|tool|args|thresholds|flags|save|profile):`).FindAllStringSubmatch(readFile(t, with), -1) {
			if !strings.Contains(inputs, "\n  "+used[1]+":\n") {
				t.Errorf("%s: the action has no input %s", with, used[1])
			}
		}
	}
}

// TestWhatTheScriptForK6Uses exists: paths of the API, fields of its answers.
func TestWhatTheScriptForK6Uses(t *testing.T) {
	text := readFile(t, "../../examples/k6/gapless.js")
	if node, err := exec.LookPath("node"); err == nil {
		module := filepath.Join(t.TempDir(), "gapless.mjs")
		if err := os.WriteFile(module, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(node, "--check", module).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	source := readFile(t, "internal/api/handle.go")
	for _, path := range regexp.MustCompile(`"/api/[a-z]+"`).FindAllString(text, -1) {
		if !strings.Contains(source, path) {
			t.Errorf("the API has no %s", path)
		}
	}
	figures := tags(api.Figures{})
	for _, field := range []string{"open", "strikes"} {
		if !figures[field] || !strings.Contains(text, "status."+field) {
			t.Errorf("status: no %s", field)
		}
	}
	for field, of := range map[string]map[string]bool{
		"r.verdict": tags(result.Result{}), "result.sentence": tags(result.Result{}), "r.messages.lost": tags(result.Messages{}),
		"r.messages.duplicated": tags(result.Messages{}), "r.faults.unplanned": tags(result.Faults{}), "limit.ok": tags(result.Threshold{}),
	} {
		if !strings.Contains(text, field) || !of[field[strings.LastIndex(field, ".")+1:]] {
			t.Errorf("no %s", field)
		}
	}
}

// tags are the names that a struct's fields have in JSON.
func tags(v any) map[string]bool {
	all := map[string]bool{}
	for field := range reflect.TypeOf(v).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all[name] = true
	}
	return all
}
