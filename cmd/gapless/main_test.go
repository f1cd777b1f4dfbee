package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// TestMain lets the test binary stand in for gapless: a run starts its reference
// server from the program it is itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "run") {
		main()
	}
	os.Unsetenv("GITHUB_ACTIONS") // a job of GitHub's has more to be told
	os.Exit(m.Run())
}

// gapless runs the command in this process.
func gapless(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// small is a run of the whole path over real TCP that takes a second.
func small(more ...string) []string {
	return append([]string{"run", "--seed", "7", "-q", "--streams", "30", "--messages", "10", "--interval", "5ms"}, more...)
}

func TestExitCodes(t *testing.T) {
	typo := filepath.Join(t.TempDir(), "typo.yaml")
	if err := os.WriteFile(typo, []byte("version: 1\nload:\n  streems: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{"holds", small(), exitHolds, `^gapless .*\n\nHOLDS  300 messages in 30 streams`, `^$`},
		{"violated", small("--defect", "S03"), exitViolated, `\nVIOLATED  [\d,]+ messages repeated(.|\n)*x no-duplicate(.|\n)*again +! no-duplicate`, `^$`},
		{"nothing was cut", small("--fault", "none"), exitInconclusive, `\nINCONCLUSIVE  (.|\n)*no cut, no\s+resume`, `^$`},
		{"nobody there", []string{"run", "-q", "--target", "http://127.0.0.1:1/mcp"}, exitUnreachable, `^$`, `127\.0\.0\.1:1/mcp not reachable`},
		{"typo in a profile", []string{"run", typo}, exitUsage, `^$`, `typo\.yaml:3:3: .*streems.*streams`},
		{"unknown profile", []string{"run", "smok"}, exitUsage, `^$`, `smoke`},
		{"unknown flag", []string{"run", "--sead", "7"}, exitUsage, `^$`, `unknown flag: --sead; did you mean --seat or --seed\?`},
		{"flag with one dash", []string{"run", "-target", "http://127.0.0.1:1/mcp"}, exitUsage, `^$`, `did you mean --target\?`},
		{"flag that is near none", []string{"run", "--zzzz"}, exitUsage, `^$`, `--zzzz \(gapless run --help lists the flags\)`},
		{"flag without its value", []string{"run", "--target"}, exitUsage, `^$`, `needs an argument: --target \(`},
		{"seed that is no number", []string{"run", "--seed", "x"}, exitUsage, `^$`, `"--seed" flag: it has to be a whole number`},
		{"duration that is none", []string{"run", "--linger", "x"}, exitUsage, `^$`, `"--linger" flag: it has to be a duration, such as 30s`},
		{"URL for a profile", []string{"run", "http://u:hush@127.0.0.1:1/mcp?k=hush"}, exitUsage, `^$`, `did you mean --target http://127\.0\.0\.1:1/mcp\?\n$`},
		{"tool of no target", []string{"run", "--tool", "count"}, exitUsage, `^$`, `"count": without --target the reference server is tested, which has only the tool emit`},
		{"two profiles", []string{"run", "smoke", "hush"}, exitUsage, `^$`, `one profile, not 2; [^"]*quoted\n$`},
		{"no URL", []string{"probe"}, exitUsage, `^$`, `URL is missing: gapless probe http`},
		{"two saved runs", []string{"judge", "a", "b"}, exitUsage, `^$`, `one DIR, not 2`},
		{"from nowhere", []string{"run", "--from", "nosuch"}, exitUsage, `^$`, `--from: nosuch: no such directory`},
		{"from an unset variable", []string{"run", "--from", ""}, exitUsage, `^$`, `--from: the value is empty`},
		{"into an unset variable", []string{"run", "--save", ""}, exitUsage, `^$`, `--save: the value is empty`},
		{"unknown command", []string{"rum"}, exitUsage, `^$`, `did you mean "run"`},
		{"bad value", small("--interval", "5"), exitUsage, `^$`, `--interval: .*unit`},
		{"faults from the proxy", small("--seat", "proxy"), exitHolds, `\nHOLDS  300 messages in 30 streams survived \d+ cuts`, `^$`},
		{"violated, seen through the proxy", small("--seat", "proxy", "--defect", "S03"), exitViolated, `x no-duplicate`, `^$`},
		{"open model", []string{"run", "-q", "--seed", "7", "--rate", "50/s", "--duration", "1s", "--messages", "5", "--fault", "rst:1"}, exitHolds,
			`arrivals +50 +50 +0 dropped`, `^$`},
		{"empty value", []string{"run", "--target", ""}, exitUsage, `^$`, `--target: the value is empty`},
		{"impossible fault", small("--fault", "chunk-end@between-events"), exitUsage, `^$`, `chunk-end@between-events`},
		{"bad defect", small("--defect", "S03,k=0"), exitUsage, `^$`, `k`},
		{"limit on a figure that is none", small("--threshold", "messages_lost:count>5"), exitUsage, `^$`, `unknown figure "messages_lost"`},
		{"template that is none", []string{"run", "--target", "http://127.0.0.1:1/mcp", "--tool", "t", "--args", `{"a":"{{squ}}"}`}, exitUsage, `^$`, `{{squ}}: unknown; known: {{seq}}`},
		{"quotes in a template", []string{"run", "--target", "http://127.0.0.1:1/mcp", "--tool", "t", "--args", `{"a":"{{file "no.txt"}}"}`}, exitUsage, `^$`, `no.txt: no such file`},
		{"saved over a saved run", small("--save", "help"), exitUsage, `^$`, `--save: help has something in it`},
		{"header in two lines", small("-H", "X: a\r\nEvil: 1"), exitUsage, `^$`, `in one line`},
		{"our header", small("-H", "Host: x"), exitUsage, `^$`, `host is set by gapless`},
		{"password in the URL", []string{"run", "--target", "http://u:hush@127.0.0.1:1/mcp"}, exitUsage, `^$`, `has a user or password before the @`},
		{"no such file", small("-o", "json=/nonexistent/x"), exitUsage, `^$`, `-o json: .*nonexistent`},
		{"two models of load", small("--rate", "10/s"), exitUsage, `^$`, `either closed or open`},
		{"negative linger", small("--linger", "-1s"), exitUsage, `^$`, `--linger`},
		{"status that is no refusal", small("--fault", "status:1,code=409"), exitUsage, `^$`, `502, 503 or 429`},
		{"no saved run", []string{"judge", t.TempDir()}, exitUsage, `^$`, `not a saved run`},
		{"no such seat", small("--seat", "moon"), exitUsage, `^$`, `moon`},
		{"server flag with a target", []string{"run", "--target", "http://127.0.0.1:1/mcp", "--defect", "S03"}, exitUsage, `^$`, `server`},
		{"somebody else's server", []string{"run", "--target", "http://192.0.2.1/mcp"}, exitUsage, `^$`, `not on this machine: --yes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := gapless(t, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, tc.code, stdout, stderr)
			}
			for _, part := range []struct{ name, text, want string }{{"stdout", stdout, tc.stdout}, {"stderr", stderr, tc.stderr}} {
				if !regexp.MustCompile(part.want).MatchString(part.text) {
					t.Errorf("%s does not match %s:\n%s", part.name, part.want, part.text)
				}
			}
		})
	}
}

// TestEveryServerHolds: whatever the reference server is told to be, it keeps its promise.
func TestEveryServerHolds(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says string // regular expression
	}{
		{[]string{"--store", "none", "--contract", "none"}, `^gapless .*\(2025-11-25, none\)(.|\n)*as the contract "none" allows`},
		{[]string{"--protocol", "2025-03-26"}, `^gapless .*\(2025-03-26, memory\)`},
		{[]string{"--protocol", "2025-06-18"}, `^gapless .*\(2025-06-18, memory\)`},
		{[]string{"--protocol", "2025-11-25"}, `^gapless .*\(2025-11-25, memory\)`},
		{[]string{"--delivery", "handoff", "--lock", "stream"}, `--delivery handoff`},
		{[]string{"--delivery", "handoff", "--lock", "session"}, `--delivery handoff --lock session`},
		{[]string{"--delivery", "handoff", "--lock", "global"}, `--delivery handoff --lock global`},
		{[]string{"--lock", "global"}, `--lock global`},
		{[]string{"--dialect", "umcp", "--streams", "70", "--messages", "100", "--interval", "10ms"}, `^gapless .*\(2025-03-26, none\)(.|\n)*fell between two links, as the contract "none" allows(.|\n)* cuts +56 +70 `},
		{[]string{"--dialect", "streams", "--transport", "http"}, `^gapless .*\(2025-06-18, memory\)(.|\n)*none lost, none repeated(.|\n)* cuts +60 +75 `},
		{[]string{"--protocol", "2026-07-28", "--streams", "70"}, `^gapless .*\(2026-07-28, none\)(.|\n)*a cut call is lost by design in 2026-07-28(.|\n)* cuts +56 +70 `},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			code, stdout, stderr := gapless(t, small(tc.args...)...)
			if code != exitHolds || !regexp.MustCompile(tc.says).MatchString(stdout) || !strings.Contains(stdout, "\nHOLDS ") || stderr != "" {
				t.Errorf("exit code %d, want %d and %s\n%s\n%s", code, exitHolds, tc.says, stdout, stderr)
			}
		})
	}
}

func TestASavedRunFromTheCommandLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if code, stdout, stderr := gapless(t, small("--save", dir)...); code != exitHolds {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	if code, stdout, _ := gapless(t, "judge", dir); code != exitHolds || !strings.Contains(stdout, "HOLDS  300 messages") {
		t.Errorf("judge: exit code %d\n%s", code, stdout)
	}
	if code, stdout, _ := gapless(t, "report", dir, "--stream", "5"); code != 0 || !strings.Contains(stdout, "stream 5 · session") {
		t.Errorf("report: exit code %d\n%s", code, stdout)
	}
	_, planned, _ := gapless(t, small("--plan")...)
	if _, again, stderr := gapless(t, "run", "--from", dir, "--plan"); again != planned || planned == "" {
		t.Errorf("--from plans something else\n%s", stderr)
	}
	if code, _, stderr := gapless(t, small("--save", dir)...); code == exitHolds || !strings.Contains(stderr, dir) {
		t.Errorf("a history was overwritten: exit code %d, %s", code, stderr)
	}
	file := filepath.Join(dir, "history.000001")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := gapless(t, "judge", dir); code != exitInconclusive || !strings.Contains(stdout, "history.000001, byte") {
		t.Errorf("judge of a history cut short: exit code %d\n%s", code, stdout)
	}
}

// TestRemoteTargetsAreLoadedGently: what a profile made for loopback asks for is not
// done to a server elsewhere, unless a flag asks for it.
func TestRemoteTargetsAreLoadedGently(t *testing.T) {
	load := func(args ...string) profiles.LoadModel {
		cmd := newRunCommand(nil)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		p, err := profiles.Load("smoke")
		if err != nil {
			t.Fatal(err)
		}
		p.Target.URL, p.Load.Rate = "http://192.0.2.1/mcp", 500
		p.Load.Stages = []profiles.Stage{{Rate: 900}}
		if err := guardTarget(cmd, &p, true); err != nil {
			t.Fatal(err)
		}
		return p.Load
	}
	if l := load(); l.Streams != 20 || l.Rate != 10 || l.Stages[0].Rate != 10 || l.Ramp < profiles.Duration(2*time.Second) {
		t.Errorf("unasked: %+v", l)
	}
	if l := load("--streams", "200", "--rate", "500/s", "--stage", "1s:900/s"); l.Streams != 200 || l.Rate != 500 || l.Stages[0].Rate != 900 {
		t.Errorf("asked for: %+v", l)
	}
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
	}{
		{nil, exitHolds},
		{errors.New("disk full"), exitToolFailed},
		{fmt.Errorf("run: %w", &guard.PanicError{Value: "boom"}), exitToolFailed},
		{errors.Join(verdictError("violated"), errors.New("x")), exitViolated},
		{verdictError("nonsense"), exitToolFailed},
		{usageError{errors.New("x")}, exitUsage},
	} {
		if got := exitCode(tc.err); got != tc.code {
			t.Errorf("%v: exit code %d, want %d", tc.err, got, tc.code)
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	for _, tc := range []struct {
		name string
		args []string
	}{{"to stdout", []string{"-o", "json"}}, {"to a file", []string{"-o", "json=" + file}}} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := gapless(t, small(tc.args...)...)
			if code != exitHolds {
				t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
			text := []byte(stdout)
			if tc.args[1] != "json" {
				var err error
				if text, err = os.ReadFile(file); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(stdout, "HOLDS") {
					t.Errorf("no text beside the file:\n%s", stdout)
				}
			}
			r, err := result.Decode(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != result.Holds || !r.Canary.Convicted || r.Streams.MaxOpen != 30 {
				t.Errorf("%s, canary %+v, streams %+v", r.Verdict, r.Canary, r.Streams)
			}
			m := r.Messages
			if m.Expected != m.Delivered+m.Lost+m.LostAllowed+m.Degraded+m.Undecided || m.Delivered != 300 {
				t.Errorf("the messages do not add up: %+v", m)
			}
			if bytes.Contains(text, []byte("null")) {
				t.Error("something is null")
			}
		})
	}
}

func TestPlanIsAFunctionOfTheSeed(t *testing.T) {
	plan := func(seed string) string {
		code, stdout, stderr := gapless(t, "run", "--plan", "--seed", seed)
		if code != 0 || !strings.Contains(stdout, "sha256 faults") {
			t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
		}
		return stdout
	}
	if a, b := plan("3"), plan("3"); a != b {
		t.Error("one seed gave two plans")
	}
	if plan("3") == plan("4") {
		t.Error("two seeds gave one plan")
	}
}

func TestRepeatCommandRepeats(t *testing.T) {
	_, stdout, _ := gapless(t, small("--fault", "rst@mid-event:1", "--fault", "fin:0.5", "--plan")...)
	cmd := newRunCommand(nil)
	if err := cmd.ParseFlags(small("--fault", "rst@mid-event:1", "--fault", "fin:0.5", "-H", "Authorization: Bearer hush")[1:]); err != nil {
		t.Fatal(err)
	}
	line := repeatCommand(cmd, profiles.Profile{Name: "smoke"}, 7)
	if strings.Contains(line, "hush") {
		t.Fatalf("the command tells a secret: %s", line)
	}
	_, again, stderr := gapless(t, append(strings.Fields(strings.ReplaceAll(line, " -H '…'", ""))[1:], "--plan")...)
	if again != stdout {
		t.Errorf("%s\nplans something else (%s)", line, stderr)
	}
}

func TestProfilesCommand(t *testing.T) {
	if _, stdout, _ := gapless(t, "profiles"); !strings.Contains(stdout, "smoke") || !strings.Contains(stdout, "third-party") {
		t.Errorf("profiles lists:\n%s", stdout)
	}
	if _, stdout, _ := gapless(t, "profiles", "schema"); !json.Valid([]byte(stdout)) {
		t.Errorf("the schema is not JSON:\n%s", stdout)
	}
	code, stdout, _ := gapless(t, "profiles", "show", "--resolved", "smoke")
	if code != 0 || !strings.Contains(stdout, "attempts: 20") {
		t.Errorf("resolved profile, exit code %d:\n%s", code, stdout)
	}
}

func TestHelpTopics(t *testing.T) {
	for topic, want := range map[string]string{
		"faults": "resume-before-first-event", "invariants": "no-duplicate", "verdict": "inconclusive", "profile": "extends",
	} {
		code, stdout, _ := gapless(t, "help", topic)
		if code != 0 || !strings.Contains(stdout, want) || strings.Contains(stdout, tableMark) {
			t.Errorf("help %s (exit code %d) lacks %q or keeps %q:\n%s", topic, code, want, tableMark, stdout)
		}
	}
	if code, _, _ := gapless(t, "help", "fault"); code != exitUsage {
		t.Errorf("help on nothing known: exit code %d, want %d", code, exitUsage)
	}
}
