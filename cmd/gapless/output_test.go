package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

func TestParseOutputs(t *testing.T) {
	none := func(string) string { return "" }
	for _, tc := range []struct {
		name   string
		values []string
		kinds  []string
		err    string
	}{
		{"nothing", nil, kindsOfRun(), ""},
		{"all, to files", []string{"json=a", "junit=b", "md=c", "k6=d", "vegeta=e"}, kindsOfRun(), ""},
		{"one to stdout", []string{"json", "junit=b"}, kindsOfRun(), ""},
		{"one kind, two files", []string{"json=a", "json=b"}, kindsOfRun(), ""},
		{"a file with = in it", []string{"json=a=b"}, kindsOfRun(), ""},
		{"two to stdout", []string{"json", "md"}, kindsOfRun(), "-o json and -o md: only one of them can go to stdout"},
		{"two to one file", []string{"json=a", "md=a"}, kindsOfRun(), "-o json and -o md: both go to a"},
		{"no file", []string{"json="}, kindsOfRun(), "-o json=: the file is missing"},
		{"html", []string{"html=r.html"}, kindsOfRun(), "-o html: not built yet; known: json, junit, md, k6, vegeta"},
		{"unknown", []string{"jsn"}, kindsOfRun(), `-o "jsn": unknown; known: json`},
		{"empty", []string{""}, kindsOfRun(), `-o "": unknown`},
		{"k6 of a saved run", []string{"k6=a"}, kindsOfResult(), "-o k6: only while a run goes on, so with gapless run; known here: json, junit, md"},
		{"text of a report", []string{"text=a"}, kindsOfReport(), ""},
	} {
		got, err := parseOutputs(tc.values, tc.kinds, none)
		switch {
		case tc.err == "" && (err != nil || len(got.list) != len(tc.values)):
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		case tc.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.err)):
			t.Errorf("%s: error %v, want %s", tc.name, err, tc.err)
		}
	}
}

func TestEveryOutputOfOneRun(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("j.xml"), bytes.Repeat([]byte("old "), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := gapless(t, small("-o", "json="+at("r.json"), "-o", "junit="+at("j.xml"), "-o", "md="+at("m.md"),
		"-o", "k6="+at("k.json"), "-o", "vegeta="+at("v.bin"))...)
	if code != exitHolds || !strings.Contains(stdout, "HOLDS") || stderr != "" {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	text := map[string][]byte{}
	for _, name := range []string{"r.json", "j.xml", "m.md", "k.json", "v.bin"} {
		info, err := os.Stat(at(name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
		if text[name], err = os.ReadFile(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := result.Decode(bytes.NewReader(text["r.json"]))
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text["j.xml"], &struct {
		XMLName xml.Name `xml:"testsuites"`
	}{}); err != nil {
		t.Errorf("junit: %v", err)
	}
	if !strings.HasPrefix(string(text["m.md"]), "### gapless: HOLDS\n") {
		t.Errorf("md: %s", text["m.md"])
	}
	var m vegeta.Metrics
	for dec := vegeta.NewDecoder(bytes.NewReader(text["v.bin"])); ; {
		var one vegeta.Result
		if err := dec.Decode(&one); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		m.Add(&one)
	}
	if m.Close(); m.Requests != 30 || m.Success != 1 {
		t.Errorf("vegeta: %d requests, success %v", m.Requests, m.Success)
	}
	agree(t, text["k.json"], r)
}

// agree compares the points, which come from records alone, with what the load generator
// measured itself.
func agree(t *testing.T, lines []byte, r *result.Result) {
	t.Helper()
	count, largest := map[string]int64{}, map[string]float64{}
	for line := range bytes.Lines(lines) {
		var p struct {
			Metric, Type string
			Data         struct{ Value float64 }
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if p.Type == "Point" {
			count[p.Metric]++
			largest[p.Metric] = max(largest[p.Metric], p.Data.Value)
		}
	}
	for _, f := range r.Latency.All() {
		if f.Name == "event_gap" || f.Name == "start_delay" {
			continue
		}
		// The histogram keeps three digits.
		ms := f.Max * 1000
		if name := "gapless_" + f.Name; count[name] != f.Count || f.Count == 0 || largest[name] > ms*1.002+0.01 || largest[name] < ms*0.998-0.01 {
			t.Errorf("%s: %d points up to %vms, measured %d up to %vms", name, count[name], largest[name], f.Count, ms)
		}
	}
	if count["iterations"] != 30 || count["gapless_injections"] != r.Faults.Injected || count["dropped_iterations"] != 1 {
		t.Errorf("points %v", count)
	}
}

func TestLiveOutputsGoToStdout(t *testing.T) {
	code, stdout, _ := gapless(t, small("-o", "k6")...)
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); code != exitHolds || len(lines) < 100 || strings.Contains(stdout, "HOLDS") || !json.Valid([]byte(lines[len(lines)-1])) {
		t.Errorf("exit code %d\n%.500s", code, stdout)
	}
}

func TestAFullDiskIsTold(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, kind := range []string{"json", "k6"} {
		code, stdout, stderr := gapless(t, small("-o", kind+"=/dev/full")...)
		if code != exitToolFailed || !strings.Contains(stdout, "HOLDS") || !strings.Contains(stderr, "-o "+kind) {
			t.Errorf("%s: exit code %d\n%s\n%s", kind, code, stdout, stderr)
		}
	}
}

// A job of GitHub's gets its summary and annotations, and nothing of the text is taken
// for a command.
func TestAJobOfGitHub(t *testing.T) {
	summary := filepath.Join(t.TempDir(), "summary.md")
	if err := os.WriteFile(summary, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	code, stdout, stderr := gapless(t, small("--defect", "S03")...)
	token, rest, _ := strings.Cut(strings.TrimPrefix(stdout, "::stop-commands::"), "\n")
	quiet, told, again := strings.Cut(rest, "\n::"+token+"::\n")
	if code != exitViolated || stderr != "" || len(token) < 26 || !again || !strings.Contains(quiet, "VIOLATED") ||
		!strings.HasPrefix(told, "::error title=gapless%3A no-duplicate violated::") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	page, err := os.ReadFile(summary)
	if err != nil || !strings.HasPrefix(string(page), "before\n### gapless: VIOLATED\n") {
		t.Errorf("%v\n%s", err, page)
	}
	t.Setenv("GITHUB_STEP_SUMMARY", t.TempDir())
	code, stdout, stderr = gapless(t, small("--fault", "none", "-o", "json")...)
	if code != exitInconclusive || !json.Valid([]byte(stdout)) || !strings.Contains(stderr, "GITHUB_STEP_SUMMARY") || !strings.Contains(stderr, "::warning title=gapless%3A inconclusive::") {
		t.Errorf("exit code %d\n%.300s\n%s", code, stdout, stderr)
	}
}

func TestCorrectnessGoesBeforeThresholds(t *testing.T) {
	failed := []result.Threshold{{Figure: "late", OK: true}, {Figure: "failed"}}
	for _, tc := range []struct {
		verdict, stopped string
		thresholds       []result.Threshold
		code             int
	}{
		{result.Holds, "", nil, exitHolds},
		{result.Holds, "", failed[:1], exitHolds},
		{result.Holds, "", failed, exitPastLimit},
		{result.Violated, "", failed, exitViolated},
		{result.Inconclusive, "", failed, exitInconclusive},
		{result.Inconclusive, result.AtThreshold, failed, exitPastLimit},
		{result.Violated, result.AtThreshold, failed, exitViolated},
		{result.Inconclusive, result.Interrupted, failed, exitInconclusive},
		{"", "", nil, exitToolFailed},
	} {
		r := &result.Result{Verdict: tc.verdict, Thresholds: tc.thresholds}
		r.Run.Stopped = tc.stopped
		if got := exitCode(verdictOf(r)); got != tc.code {
			t.Errorf("%s, stopped %q, %d thresholds: exit code %d, want %d", tc.verdict, tc.stopped, len(tc.thresholds), got, tc.code)
		}
	}
}

func TestReports(t *testing.T) {
	good, bad := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "bad")
	if code, _, stderr := gapless(t, small("--save", good)...); code != exitHolds {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := gapless(t, small("--save", bad, "--defect", "S03")...); code != exitViolated {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	longer := filepath.Join(t.TempDir(), "longer")
	if code, _, stderr := gapless(t, small("--save", longer, "--messages", "12", "--seed", "8")...); code != exitHolds {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	file := filepath.Join(t.TempDir(), "out")
	for _, tc := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"text", []string{good}, 0, "HOLDS  300 messages", ""},
		{"of a damaged run", []string{bad}, 0, "VIOLATED", ""},
		{"junit", []string{bad, "-o", "junit"}, 0, "<testsuites>", ""},
		{"md to a file", []string{good, "-o", "md=" + file}, 0, "HOLDS", ""},
		{"text to a file, json to stdout", []string{good, "-o", "text=" + file, "-o", "json"}, 0, `"gapless": "result/1"`, ""},
		{"k6", []string{good, "-o", "k6"}, exitUsage, "", "-o k6: only while a run goes on"},
		{"stream", []string{good, "--stream", "5"}, 0, "stream 5 · session", ""},
		{"stream as json", []string{good, "--stream", "5", "-o", "json"}, 0, `"stream": 5,`, ""},
		{"stream as md", []string{good, "--stream", "5", "-o", "md"}, exitUsage, "", `-o "md": unknown; known: text, json`},
		{"stream 0", []string{good, "--stream", "0"}, exitUsage, "", "--stream: streams count from 1"},
		{"no such stream", []string{good, "--stream", "4000"}, exitUsage, "", "no stream 4000 in"},
		{"a file", []string{filepath.Join(good, "result.json")}, exitUsage, "", "is a file; give the directory"},
		{"nothing there", []string{filepath.Join(good, "nothing")}, exitUsage, "", "nothing: no such directory"},
		{"with itself", []string{good, "--compare", good}, 0, "NO DIFFERENCE", ""},
		{"with other calls", []string{longer, "--compare", good}, exitInconclusive, "not the same experiment: what emit sends\n", ""},
		{"with a good one", []string{bad, "--compare", good}, exitPastLimit, "REGRESSION  verdict violated, was holds; no-duplicate violated, was holds", ""},
		{"as json", []string{bad, "--compare", good, "-o", "json"}, exitPastLimit, `"gapless": "comparison/1"`, ""},
		{"as md", []string{bad, "--compare", good, "-o", "md"}, exitPastLimit, "### gapless: REGRESSION", ""},
		{"as junit", []string{bad, "--compare", good, "-o", "junit"}, exitUsage, "", "known: text, json, md"},
		{"with a file", []string{bad, "--compare", filepath.Join(good, "result.json")}, exitUsage, "", "is a file"},
		{"with nothing", []string{bad, "--compare", t.TempDir()}, exitUsage, "", "not a saved run"},
		{"with an empty name", []string{bad, "--compare", ""}, exitUsage, "", "--compare: the value is empty"},
		{"and a stream", []string{bad, "--compare", good, "--stream", "1"}, exitUsage, "", "--compare and --stream"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := gapless(t, append([]string{"report"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) || tc.stdout == "" && stdout != "" {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, tc.code, stdout, stderr)
			}
		})
	}
	if code, _, stderr := gapless(t, "judge", filepath.Join(good, "result.json")); code != exitUsage || !strings.Contains(stderr, "is a file; give the directory") {
		t.Errorf("judge of a file: exit code %d\n%s", code, stderr)
	}
	if code, stdout, _ := gapless(t, "judge", bad, "-o", "junit"); code != exitViolated || !strings.Contains(stdout, "<testsuites>") {
		t.Errorf("judge: exit code %d\n%s", code, stdout)
	}
}

func TestExportsNameTheTargetWithoutSecrets(t *testing.T) {
	p := profiles.Default()
	if got := targetOf(p); got != "reference server" {
		t.Errorf("our own server is %q", got)
	}
	p.Target.URL = "http://127.0.0.1:3000/mcp?key=hush"
	if got := targetOf(p); !strings.HasPrefix(got, "http://127.0.0.1:3000/mcp") || strings.Contains(got, "hush") {
		t.Errorf("another one is %q", got)
	}
	p.Target.URL, p.Target.Exec, p.Target.Transport = "", "server --key hush", "stdio"
	if got := targetOf(p); got != "stdio" {
		t.Errorf("one on pipes is %q", got)
	}
	p.Calls = []profiles.Call{{Tool: "count"}, {Resource: "file:///a"}, {Prompt: "greet"}}
	if got := strings.Join(callNames(p), " "); got != "count file:///a greet" {
		t.Errorf("calls %q", got)
	}
}
