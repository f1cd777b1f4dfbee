package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/profiles"
)

var update = flag.Bool("update", false, "write the generated parts of docs")

const generatedMark = "<!-- generated -->\n"

// TestDocsAreGenerated: what docs say of the registry and of public servers is what is
// there.
func TestDocsAreGenerated(t *testing.T) {
	for name, text := range map[string]string{
		"invariants.md": invariantRows(), "field-report.md": fieldRows(t), "write-a-profile.md": figureRows(), "metrics.md": metricRows(t),
	} {
		path := filepath.Join("../../docs", name)
		before := readFile(t, path)
		head, _, found := strings.Cut(before, generatedMark)
		if !found {
			t.Fatalf("%s has no mark", path)
		}
		want := head + generatedMark + "\n" + text
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if before != want {
			t.Errorf("%s is out of date; go test ./cmd/gapless -run Docs -update", path)
		}
	}
}

func invariantRows() string {
	out := "| invariant | level | claim | from |\n|---|---|---|---|\n"
	for _, inv := range judge.New(judge.Setup{}).Finish(judge.Tail{}).Invariants {
		out += fmt.Sprintf("| `%s` | %s | %s | %s |\n", inv.Name, inv.Level, inv.Claim, inv.Source)
	}
	return out
}

func figureRows() string {
	out := "| figure | is |\n|---|---|\n"
	for _, f := range figures() {
		out += fmt.Sprintf("| `%s` | %s |\n", f.name, f.about)
	}
	return out
}

// metricRows are the metrics that are ours, as the reference server shows them.
func metricRows(t *testing.T) string {
	t.Helper()
	fixture, err := lab.NewFixture(lab.ServeConfig{Server: profiles.Default().Server, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	fixture.Admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := "| metric | type | labels | is |\n|---|---|---|---|\n"
	var name, help, kind string
	labels := map[string][]string{}
	row := func() {
		if strings.HasPrefix(name, "gapless_") || strings.HasPrefix(name, "mcp_") {
			out += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kind, labelText(labels), help)
		}
		clear(labels)
	}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, "# HELP "); is {
			row()
			name, help, _ = strings.Cut(text, " ")
		} else if text, is := strings.CutPrefix(line, "# TYPE "); is {
			_, kind, _ = strings.Cut(text, " ")
		} else {
			for _, l := range regexp.MustCompile(`([a-z_]+)="([^"]*)"`).FindAllStringSubmatch(line, -1) {
				if l[1] != "le" && !slices.Contains(labels[l[1]], l[2]) {
					labels[l[1]] = append(labels[l[1]], l[2])
				}
			}
		}
	}
	row()
	return out
}

// labelText lists labels, with their values where all of them are there from the start.
func labelText(labels map[string][]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text := "`" + name + "`"
		if !slices.Contains([]string{"error_type", "mcp_method_name", "version", "goversion", "store", "lock", "network_transport", "mcp_protocol_version"}, name) {
			text += ": " + strings.Join(slices.Sorted(slices.Values(labels[name])), ", ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// TestHelpListsTheFigures: those of help thresholds are those that a threshold can be about.
func TestHelpListsTheFigures(t *testing.T) {
	_, _, stderr := gapless(t, "run", "--plan", "--threshold", "nothing:max<1s")
	_, known, _ := strings.Cut(strings.TrimSpace(stderr), "known: ")
	want := strings.Split(strings.Replace(known, " or ", ", ", 1), ", ")
	var got []string
	for _, f := range figures() {
		got = append(got, f.name)
		args := []string{"run", "--plan", "--threshold", f.name + ":count<1"}
		if isTime := strings.HasPrefix(f.about, "time "); isTime {
			args = append(args, "--threshold", f.name+":p(99)<1s")
		} else {
			args = append(args, "--threshold", f.name+":rate<1%")
		}
		if code, _, stderr := gapless(t, args...); code != 0 {
			t.Errorf("%s: exit code %d: %s", f.name, code, stderr)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("help thresholds lists %v, a profile takes %v", got, want)
	}
}

// fieldRows are the verdicts that the end-to-end tests check.
func fieldRows(t *testing.T) string {
	t.Helper()
	var rows []struct {
		Server, Package, Version, Command, Verdict, Why string
		Violated, Sometimes                             []string
	}
	if err := json.Unmarshal([]byte(readFile(t, "internal/lab/testdata/verdicts.json")), &rows); err != nil {
		t.Fatal(err)
	}
	out := "| server | package | verdict |\n|---|---|---|\n"
	for _, r := range rows {
		out += fmt.Sprintf("| %s | %s %s | %s |\n", r.Server, r.Package, r.Version, r.Verdict)
	}
	for _, r := range rows {
		out += fmt.Sprintf("\n## %s: %s\n\n```text\n%s\n```\n\n%s\n", r.Server, r.Verdict, r.Command, r.Why)
		if len(r.Violated) > 0 {
			out += fmt.Sprintf("\nViolated: %s.", strings.Join(r.Violated, ", "))
			if len(r.Sometimes) > 0 {
				out += fmt.Sprintf(" Sometimes: %s.", strings.Join(r.Sometimes, ", "))
			}
			out += "\n"
		}
	}
	return out
}

// docPages are the pages of docs and README.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d pages: %v", len(paths), err)
	}
	pages := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		pages[path] = readFile(t, path)
	}
	return pages
}

// TestDocsLinkToWhatIsThere: relative links lead to files.
func TestDocsLinkToWhatIsThere(t *testing.T) {
	for path, text := range docPages(t) {
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), link[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestDocsCommands: every command of docs is taken, with the profiles and the saved runs
// that the page has made by then. Loads are planned, not carried out.
func TestDocsCommands(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here to read the commands")
	}
	pages, dir := docPages(t), t.TempDir()
	delete(pages, "../../README.md")
	t.Chdir(dir)
	t.Setenv("OUR_TOKEN", "a-token-of-this-test")
	if code, _, stderr := gapless(t, small("--save", "gapless-run", "--seed", "7")...); code != exitHolds {
		t.Fatal(stderr)
	}
	for _, saved := range []string{"planted", "last-release", "next"} {
		if err := os.CopyFS(saved, os.DirFS("gapless-run")); err != nil {
			t.Fatal(err)
		}
	}
	tried := 0
	for path, text := range pages {
		for _, file := range regexp.MustCompile("(?s)```yaml\n# ([a-z]+\\.yaml)\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if err := os.WriteFile(file[1], []byte(file[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, block := range regexp.MustCompile("(?s)```\n(gapless|go build)(.*?)```").FindAllString(text, -1) {
			for line := range strings.Lines(block) {
				if strings.HasPrefix(line, "gapless ") {
					tryDocsCommand(t, bash, path, strings.TrimSpace(line))
					tried++
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d commands were tried: the test does not find them", tried)
	}
}

// TestDocsSaveOnce: no run is saved where an earlier one of the pages is.
func TestDocsSaveOnce(t *testing.T) {
	first := map[string]string{}
	for path, text := range docPages(t) {
		for _, saves := range regexp.MustCompile(`gapless run.*--save ([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			if before, taken := first[saves[1]]; taken {
				t.Errorf("%s saves a run to %s, as %s does", path, saves[1], before)
			}
			first[saves[1]] = path
		}
	}
	if len(first) < 4 {
		t.Errorf("%d saved runs were found", len(first))
	}
}

func tryDocsCommand(t *testing.T, bash, path, line string) {
	t.Helper()
	// The shell splits the words; nobody may listen at the port of the examples.
	out, err := exec.Command(bash, "-c", "printf '%s\\0' "+strings.TrimPrefix(line, "gapless ")).Output()
	if err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
		return
	}
	var args []string
	for word := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		args = append(args, strings.ReplaceAll(string(word), "127.0.0.1:3000", "127.0.0.1:1"))
	}
	want := 0
	switch args[0] {
	case "run":
		args = append(args, "--plan")
	case "probe":
		want = exitUnreachable
	}
	if code, _, stderr := gapless(t, args...); code != want {
		t.Errorf("%s: %s: exit code %d: %s", path, line, code, stderr)
	}
}

// TestDocsAreShort: a guide is two screens.
func TestDocsAreShort(t *testing.T) {
	pages := docPages(t)
	delete(pages, "../../README.md")
	for path, text := range pages {
		if n := strings.Count(text, "\n"); n > 130 {
			t.Errorf("%s has %d lines", path, n)
		}
	}
}
