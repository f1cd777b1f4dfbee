package report_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gapless-dev/gapless/loadgen/report"
	"github.com/gapless-dev/gapless/loadgen/result"
)

var update = flag.Bool("update", false, "write the golden files")

func run(profile string) result.Run {
	return result.Run{
		Profile: profile, Seed: 7, Version: "0.1.0", Command: "gapless run " + profile + " --seed 7",
		Target: result.Target{URL: "http://127.0.0.1:3000/mcp", Protocol: "2025-11-25"},
	}
}

func holding() *result.Result {
	r := &result.Result{
		Run: run("smoke"), Verdict: result.Holds,
		Sentence:   "10,000 messages in 200 streams survived 441 cuts: none lost, none repeated, all in order.",
		Streams:    result.Streams{Planned: 200, Opened: 200, MaxOpen: 200, Completed: 200},
		CutsAtRisk: 428, LossBound95: 3.0 / 428,
		Faults: result.Faults{
			Planned: 450, Injected: 441, ByKind: map[string]int64{"fin": 99, "rst": 244, "chunk-end": 98, "none": 0},
			ByPlace: map[string]int64{
				"before-response": 9, "mid-event": 80, "after-priming": 40, "between-events": 60, "mid-response": 50,
				"after-response": 30, "resume-before-headers": 40, "resume-before-first-event": 40, "mid-replay": 34, "at-live": 58,
			},
		},
		Resumes: result.Resumes{Attempted: 441, Succeeded: 428, ReplayedMessages: 3105, CutsInReplay: 34, AskedSeconds: 0.1},
		Reached: []result.Reached{
			{Name: "cuts", Want: 400, Got: 441, OK: true}, {Name: "resumes", Want: 300, Got: 428, OK: true},
			{Name: "places", Want: 10, Got: 10, OK: true}, {Name: "cuts_in_replay", Want: 5, Got: 34, OK: true},
		},
		Control: result.Control{Calls: 3, Complete: 3, MessagesPerCall: 50}, Canary: result.Canary{Convicted: true},
		Latency: result.Latency{
			FirstEvent:     result.Figures{Count: 200, P50: 0.0011, P99: 0.006, Max: 0.014},
			ResumeCaughtUp: result.Figures{Count: 428, P50: 0.104, P99: 0.131, Max: 0.190},
			StartDelay:     result.Figures{Count: 200, P50: 0.0001, P99: 0.0008, Max: 0.002},
		},
	}
	r.Run.Target.Store = "memory"
	r.Invariants = append(r.Invariants, result.Invariant{Name: "no-loss", Claim: "each message arrives", Level: "contract", Role: "demanded", Verdict: result.Holds, Checked: 10000})
	for range 19 {
		r.Invariants = append(r.Invariants, result.Invariant{Name: "in-order", Level: "contract", Role: "demanded", Verdict: result.Holds, Checked: 1, Claim: "in the order of the emitter"})
	}
	r.Invariants = append(r.Invariants,
		result.Invariant{Name: "intact", Level: "contract", Role: "watched", Verdict: result.Holds, Claim: "byte for byte"},
		result.Invariant{Name: "primed", Level: "SHOULD", Role: "watched", Verdict: result.Violated, Checked: 200, Violations: 1, Streams: 1, Claim: "a stream begins with an id"},
		result.Invariant{Name: "end-last", Level: "MUST", Role: "not applicable", Why: "dialect streams only"})
	return r
}

func violating() *result.Result {
	r := &result.Result{
		Run: run("third-party"), Verdict: result.Violated,
		Sentence: "14 messages lost, 9 repeated, 31 out of order: 17 of 291 judged streams are damaged. " +
			"The 3 control calls were complete, so it is the resume that fails.",
		Damage: result.Damage{Streams: 17, After: []result.After{{Fault: "rst@mid-event", Streams: 13}, {Fault: "rst@mid-replay", Streams: 4}}},
		Invariants: []result.Invariant{
			{Name: "no-loss", Level: "contract", Role: "demanded", Verdict: result.Violated, Checked: 900, Violations: 14, Streams: 6, Evidence: []result.Evidence{{Stream: 41, Messages: "23-25"}}},
			{Name: "no-duplicate", Level: "contract", Role: "demanded", Verdict: result.Violated, Checked: 900, Violations: 9, Streams: 8, Evidence: []result.Evidence{{Stream: 88, Messages: "12"}}},
			{Name: "in-order", Level: "contract", Role: "demanded", Verdict: result.Violated, Checked: 900, Violations: 31, Streams: 17, Evidence: []result.Evidence{{Stream: 41}}},
			{Name: "executed-once", Level: "derived", Role: "not applicable", Why: "no ledger"},
		},
	}
	for range 15 {
		r.Invariants = append(r.Invariants, result.Invariant{Name: "intact", Level: "contract", Role: "demanded", Verdict: result.Holds, Checked: 9})
	}
	r.Run.Target.Name, r.Run.Target.Version = "count-server", "1.2"
	return r
}

func unsure() *result.Result {
	return &result.Result{
		Run: run("third-party"), Verdict: result.Inconclusive,
		Sentence: "This run cannot say whether messages survive: the server offers no resumption.",
		Why:      []string{"no event id in 3 control calls and 300 streams (ids are optional in MCP)", "resumes: wanted 150, got 0"},
		Reached:  []result.Reached{{Name: "resumes", Want: 150, Got: 0}, {Name: "cuts", Want: 10, Got: 20, OK: true}},
		Seen:     []string{"210 of 210 cut calls never got their response; 90 uncut calls complete"},
		Next:     []string{"give it an event store (TypeScript: `eventStore`), or judge it as it is: --contract none"},
	}
}

// costly is a run against a target that resumes nothing.
func costly() *result.Result {
	r := unsure()
	r.Why = append(r.Why, "judged_cuts: wanted 30, got 0") // said among what was not reached
	r.Reached = append(r.Reached, result.Reached{Name: "judged_cuts", Want: 30})
	r.Seen = []string{"210 of 210 cut calls never got their response (70 % of all calls with this fault mix); 90 of 90 uncut calls complete",
		"of 210 cut calls 203 ran to the end, 7 had not ended when the ledger was asked (ledger)",
		"a re-issue costs p50 1.2 s and all 60 messages again (40 of 40 re-issued calls were answered); 40 of 40 ran twice (ledger)"}
	r.Drops = result.Drops{Cut: 210, Unanswered: 210, Uncut: 90, UncutComplete: 90, Share: 0.7, HandlersFinished: 203, HandlersRunning: 7,
		Reissued: 40, ReissuesAnswered: 40, ReissuedMessages: 2400, ReissueP50Seconds: 1.2, ReissueP95Seconds: 1.9, Twice: 40, TwiceKnown: 40}
	return r
}

// modern is a run against a target of 2026-07-28.
func modern() *result.Result {
	r := holding()
	r.Run.Target.Dialect, r.Run.Target.Protocol, r.LossBound95 = "modern", "2026-07-28", 0
	r.Sentence = "4,210 messages in 300 streams met 310 cuts: a cut call is lost by design in 2026-07-28; 296 of 296 were made again and answered, " +
		"and nothing of a call came after its cut."
	r.Reached = []result.Reached{{Name: "reissues", Want: 30, Got: 296, OK: true}}
	r.Drops = result.Drops{Cut: 300, Unanswered: 296, Reissued: 296, ReissuesAnswered: 296, ReissueP50Seconds: 1.2, ReissueP95Seconds: 1.9}
	return r
}

func guilty() *result.Timeline {
	return &result.Timeline{
		Session: 5, Stream: 41, Call: `count {"n":60}`, Request: "2", Expected: "1-60 (params.total)",
		Findings: []string{"LOST 23-25", "OUT OF ORDER 27 before 26"},
		Steps: []result.Step{
			{AtSeconds: 0, Link: 1, Mark: ">", Text: "POST tools/call", Cursor: -1},
			{AtSeconds: 0.004, Link: 1, Mark: "<", Text: "200 text/event-stream; priming, retry 500ms", Cursor: 0},
			{AtSeconds: 0.009, Link: 1, Mark: "<", Text: "1-22 (22 events, 0.112 s)", Cursor: 22},
			{AtSeconds: 0.131, Link: 1, Mark: "x", Text: "RST mid-event: 61 bytes of the next event, no blank line", Cursor: 22},
			{AtSeconds: 0.634, Link: 2, Mark: ">", Text: "GET Last-Event-ID #22   waited 503ms, asked 500ms", Cursor: -1},
			{AtSeconds: 0.641, Link: 2, Mark: "<", Text: "27", Finding: "expected 23", Cursor: 23},
			{AtSeconds: 0.641, Link: 2, Mark: "<", Text: "26", Finding: "in-order", Cursor: 24},
			{AtSeconds: 0.642, Link: 2, Mark: "<", Text: "28-60 (33 events)", Cursor: 57},
			{AtSeconds: 1.902, Link: 2, Mark: "<", Text: "response; end", Finding: "no-loss: 23 24 25 never came", Cursor: -1},
		},
		Same: []uint32{43, 90, 112}, Repeat: "gapless run --from out --stream 41",
	}
}

func text(t *testing.T, r *result.Result, o report.Options) string {
	t.Helper()
	var buf bytes.Buffer
	if err := report.Text(&buf, r, o); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestSummaries(t *testing.T) {
	saved := report.Options{Saved: "out", Repeat: "gapless run --from out --stream 41"}
	strict := holding()
	strict.Verdict = result.Violated
	for _, tc := range []struct {
		name string
		r    *result.Result
		o    report.Options
	}{
		{"holds", holding(), report.Options{}},
		{"holds-verbose", holding(), report.Options{Verbose: true}},
		{"holds-colour", holding(), report.Options{Color: true}},
		{"holds-narrow", holding(), report.Options{Width: 60}},
		{"violated", violating(), saved},
		{"violated-unsaved", violating(), report.Options{}},
		{"violated-colour", violating(), report.Options{Color: true}},
		{"violated-narrow", violating(), report.Options{Width: 60}},
		{"violated-strict", strict, report.Options{}},
		{"inconclusive", unsure(), report.Options{}},
		{"inconclusive-costs", costly(), report.Options{}},
		{"inconclusive-costs-verbose", costly(), report.Options{Verbose: true}},
		{"modern", modern(), report.Options{}},
		{"inconclusive-narrow", unsure(), report.Options{Width: 50}},
		{"inconclusive-empty", &result.Result{}, report.Options{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := text(t, tc.r, tc.o)
			golden(t, tc.name, got)
			if lines := strings.Count(got, "\n"); lines > 25 && !tc.o.Verbose {
				t.Errorf("%d lines; a summary has 25 at most", lines)
			}
		})
	}
}

func TestTimelines(t *testing.T) {
	long := guilty()
	long.Steps[3].Text = strings.Repeat("a very long text ", 9)
	long.Steps[8].AtSeconds = 12345.678
	long.Same, long.Steps[0].Link = nil, 0
	many := guilty()
	for i := range uint32(20) {
		many.Same = append(many.Same, 200+i)
	}
	many.Repeat, many.Steps[5].Text = "", "27-50 (24 events, 0.408 s)"
	for name, tl := range map[string]*result.Timeline{"timeline": guilty(), "timeline-long": long, "timeline-many": many} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := report.Timeline(&buf, tl, report.Options{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name, buf.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./loadgen/report -update writes it anew)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// hostile is what a server that wants to harm a terminal could call itself.
const hostile = "evil\x1b[2J\x1b]0;owned\a\r\n\u202egnp\u2028HOLDS\x00\xff\u009b31m"

func TestHostileText(t *testing.T) {
	huge := strings.Repeat(hostile, 10_000)
	r, tl := violating(), guilty()
	r.Run.Target.Name, r.Run.Target.Version, r.Run.Target.URL = huge, huge, huge
	r.Run.Profile, r.Sentence, r.Run.Command = huge, huge, huge
	r.Invariants[0].Name, r.Invariants[0].Evidence[0].Messages = hostile, huge
	r.Invariants[2].Evidence[0].Text, r.Invariants[3].Why = huge, huge
	r.Damage.After[0].Fault = huge
	u := unsure()
	u.Why, u.Seen, u.Next = []string{huge}, []string{huge, huge}, []string{huge}
	u.Reached[0].Name = hostile
	tl.Call, tl.Expected, tl.Request, tl.Repeat = huge, huge, huge, huge
	tl.Findings, tl.Steps[2].Text, tl.Steps[3].Finding, tl.Steps[4].Mark = []string{huge}, huge, huge, hostile
	var buf bytes.Buffer
	for _, r := range []*result.Result{r, u} {
		buf.WriteString(text(t, r, report.Options{Verbose: true}))
	}
	if err := report.Timeline(&buf, tl, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > 60_000 {
		t.Errorf("%d bytes; huge text has to be cut", buf.Len())
	}
	for _, c := range buf.String() {
		if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == '\u2028') {
			t.Fatalf("control character %U reached the terminal", c)
		}
	}
	if !utf8.Valid(buf.Bytes()) {
		t.Error("broken UTF-8 reached the terminal")
	}
}

func TestColourChangesNothingElse(t *testing.T) {
	strip := strings.NewReplacer("\x1b[1;31m", "", "\x1b[1;32m", "", "\x1b[1;33m", "", "\x1b[0m", "")
	for _, r := range []*result.Result{holding(), violating(), unsure()} {
		for _, width := range []int{40, 60, 84, 110} {
			plain := text(t, r, report.Options{Width: width, Verbose: true})
			if got := strip.Replace(text(t, r, report.Options{Width: width, Verbose: true, Color: true})); got != plain {
				t.Errorf("colour moved text at %d columns:\n%s\n%s", width, got, plain)
			}
		}
	}
}

func TestManyTexts(t *testing.T) {
	u, v := unsure(), violating()
	for range 50 {
		u.Why = append(u.Why, "one more reason")
		u.Seen = append(u.Seen, "one more sight")
		v.Invariants = append(v.Invariants, v.Invariants[0], v.Invariants[3])
		v.Damage.After = append(v.Damage.After, result.After{Fault: "fin@at-live", Streams: 1})
	}
	for _, r := range []*result.Result{u, v} {
		if got := text(t, r, report.Options{}); strings.Count(got, "\n") > 25 {
			t.Errorf("more than 25 lines:\n%s", got)
		}
	}
}

func TestLastLineRepeats(t *testing.T) {
	for _, r := range []*result.Result{holding(), violating(), unsure()} {
		lines := strings.Split(strings.TrimSpace(text(t, r, report.Options{Width: 40})), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "  repeat ") || !strings.HasSuffix(last, r.Run.Command) {
			t.Errorf("%s: last line %q does not repeat the run whole", r.Verdict, last)
		}
	}
}

func TestNoVerdictIsNeverGreen(t *testing.T) {
	for _, word := range []string{"", "ok", "HOLDS", "passed"} {
		r := holding()
		r.Verdict = word
		if got := text(t, r, report.Options{}); !strings.Contains(got, "INCONCLUSIVE") || strings.Contains(got, "\nHOLDS") {
			t.Errorf("verdict %q renders as\n%s", word, got)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorsAreReturned(t *testing.T) {
	if report.Text(brokenWriter{}, holding(), report.Options{}) == nil {
		t.Error("Text lost the error of its writer")
	}
	if report.Timeline(brokenWriter{}, guilty(), report.Options{}) == nil {
		t.Error("Timeline lost the error of its writer")
	}
}

func TestProgress(t *testing.T) {
	p := report.Progress{Elapsed: 3240 * time.Millisecond, Phase: "load", Open: 200, Planned: 5000, Messages: 41205, Cuts: 88, Resumes: 80, Violations: 1}
	want := "  3.2s  load    200 of 5,000 open     41,205 messages     88 cuts     80 resumes  1 violations"
	if got := p.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := report.Fit(p.String(), 20); utf8.RuneCountInString(got) != 20 || !strings.HasSuffix(got, "…") {
		t.Errorf("Fit to 20 columns gave %q", got)
	}
	if got := report.Fit("short", 20); got != "short" {
		t.Errorf("Fit changed a short line: %q", got)
	}
}

// TestResumesThatHadToWait: a target that asks to come back later refuses nothing.
func TestResumesThatHadToWait(t *testing.T) {
	r := holding()
	r.Resumes.Refused, r.Resumes.ByStatus = 18, map[string]int64{"200": 428, "429": 12, "503": 4, "404": 2}
	if got := strings.Join(strings.Fields(text(t, r, report.Options{})), " "); !strings.Contains(got, "2 refused; 16 asked to come back later (429, 503)") {
		t.Errorf("%s", got)
	}
}

func TestZeroIsNoHold(t *testing.T) {
	r := holding()
	r.Invariants = []result.Invariant{
		{Name: "no-loss", Level: "contract", Role: "demanded", Verdict: result.Holds},
		{Name: "in-order", Level: "contract", Role: "demanded", Checked: 3, Verdict: "fine"},
		{Name: "intact", Level: "contract", Role: "watched", Verdict: result.Inconclusive, Why: "not exercised"},
	}
	got := text(t, r, report.Options{Verbose: true})
	for _, want := range []string{"0 hold, 0 violated, 2 inconclusive, 0 deviations", "? no-loss", "? in-order", "not exercised"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Count(got, "not exercised") != 1 {
		t.Errorf("said twice:\n%s", got)
	}
}

// TestMarkdownSaysCuts: the page and the text have one word for one thing.
func TestMarkdownSaysCuts(t *testing.T) {
	for others, want := range map[int64]string{0: "| cuts | 40 | 50 |  |\n", 3: "| faults | 40 | 53 |  |\n"} {
		r := holding()
		r.Faults.Cuts, r.Faults.Injected = 50, 50+others
		r.Reached = []result.Reached{{Name: "injections", Want: 40, Got: 50 + others, OK: true}}
		var page strings.Builder
		if err := report.Markdown(&page, r, report.Options{}); err != nil || !strings.Contains(page.String(), want) {
			t.Errorf("no %q (%v):\n%s", want, err, page.String())
		}
	}
}
