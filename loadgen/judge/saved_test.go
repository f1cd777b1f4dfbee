package judge_test

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/judge"
)

// saved reads a history of testdata: lines that begin with @ say how to judge it and
// what has to come out, all others are the text form of script.
func saved(t *testing.T, path string) (setup judge.Setup, want []string, s *script) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var body []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "@setup":
			o := optionsOf(words[1:])
			setup = judge.Setup{Revision: cmp.Or(o["revision"], "2025-11-25"), Contract: judge.Contract(o["contract"]), Strict: o.has("strict"),
				Probes: int(o.int("probes", 0)), Sessions: o.has("probes"), Oracle: judge.Oracle(o["oracle"]), Ledger: o["oracle"] == "ledger", IDs: !o.has("noids"),
				Expected: o.int("expected", 0), Streams: int(o.int("streams", 1)), Faults: int(o.int("faults", 0)), CutCalls: 1, Modern: o.has("modern"), Transport: o["transport"]}
		case len(words) > 0 && words[0] == "@call":
			o := optionsOf(words[1:])
			setup.Calls = append(setup.Calls, judge.CallSetup{Name: o["name"], Expected: o.int("expected", 0), Twin: o.int("twin", 0),
				ResponseOnly: o.has("mute"), Method: o["method"], Digests: o.has("digests"), Deadline: o.duration("deadline"), Longest: o.duration("longest")})
		case len(words) > 0 && words[0] == "@want":
			want = words[1:]
		default:
			body = append(body, line)
		}
	}
	if len(want) == 0 {
		t.Fatalf("%s wants nothing", path)
	}
	if setup.Oracle == judge.OracleResponse {
		return setup, want, parse(t, strings.Join(body, "")+muteCanaryScript)
	}
	return setup, want, parse(t, strings.Join(body, "")+canaryScript)
}

// TestSavedHistories judges the histories of testdata again: the word and the exact
// number of violations of every deciding invariant.
func TestSavedHistories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 59 {
		t.Fatalf("%d histories, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			setup, want, s := saved(t, path)
			if setup.Oracle == judge.OracleNumbered {
				s.streams[len(s.streams)-1] = s.streams[len(s.streams)-1][:8] // a canary without a ledger
			}
			v := judgeScript(setup, s, wellTail())
			balance(t, v)
			if v.Word.String() != want[0] {
				t.Errorf("%s, want %s: %s %v", v.Word, want[0], v.Sentence, v.Why)
			}
			counts := optionsOf(want[1:])
			for _, inv := range v.Invariants {
				n, _ := strconv.ParseInt(counts[inv.Name], 10, 64)
				if inv.Decides && inv.Violations != n {
					t.Errorf("%s: %d violations, want %d: %+v", inv.Name, inv.Violations, n, inv.Evidence)
				}
				delete(counts, inv.Name)
			}
			for name := range counts {
				t.Errorf("no invariant is called %q", name)
			}
		})
	}
}

// TestSavedHistoriesInParts: a snapshot after each stream leaves out nothing that a
// verdict says, whatever the oracle.
func TestSavedHistoriesInParts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		setup, _, s := saved(t, path)
		whole := judgeScript(setup, s, wellTail())
		j := judge.New(setup)
		for i, records := range s.streams {
			if len(records) == 0 {
				continue
			}
			st := j.Open(records[0].Session, records[0].Stream, s.kinds[i])
			for k := range records {
				st.Observe(&records[k])
			}
			st.Close()
			j = through(t, setup, j)
		}
		if v := j.Finish(wellTail()); !reflect.DeepEqual(v, whole) {
			t.Errorf("%s: in parts\n%+v\nas a whole\n%+v", path, v, whole)
		}
	}
}
