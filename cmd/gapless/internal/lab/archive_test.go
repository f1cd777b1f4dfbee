package lab

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// savedRun makes a run and saves it.
func savedRun(t *testing.T, change func(*profiles.Profile)) (dir string, r *result.Result) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "out")
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, change)
		c.Save = dir
		r = mustRun(t, c)
	})
	return dir, r
}

func TestASavedRunIsJudgedTheSame(t *testing.T) {
	for name, defect := range map[string]string{"holds": "", "violated": "S03b,k=3"} {
		t.Run(name, func(t *testing.T) {
			dir, r := savedRun(t, func(p *profiles.Profile) { p.Server.Defect = defect })
			again, err := Judge(dir)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != name {
				t.Fatalf("the run: %s: %s", r.Verdict, r.Sentence)
			}
			again.Run.Command = r.Run.Command
			for i := range again.Timelines {
				again.Timelines[i].Repeat = r.Timelines[i].Repeat
			}
			again.Resumes.AskedSeconds = r.Resumes.AskedSeconds
			var got, want bytes.Buffer
			if err := errors.Join(again.Encode(&got), r.Encode(&want)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("judged again:\n%s\nwant\n%s", got.String(), want.String())
			}
		})
	}
}

func TestADamagedHistoryNeverHolds(t *testing.T) {
	dir, _ := savedRun(t, nil)
	file := filepath.Join(dir, "history.000001")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 1
	for _, tc := range []struct {
		name, says string
		data       []byte
	}{
		{"the last 100 bytes removed", "history.000001", whole[:len(whole)-100]},
		{"one byte flipped", "history.000001, byte", flipped},
		{"empty", "history.000001", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(file, tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Judge(dir)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != result.Inconclusive || !strings.Contains(strings.Join(r.Why, "\n"), tc.says) {
				t.Errorf("%s: %q; want inconclusive, and where", r.Verdict, r.Why)
			}
		})
	}
}

func TestARecordedPlanIsRepeated(t *testing.T) {
	dir, r := savedRun(t, func(p *profiles.Profile) { p.Server.Defect = "S03b" })
	rec, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Seed != r.Run.Seed || rec.Offer.Messages[0] != 50 || rec.Profile.Name != "smoke" {
		t.Fatalf("recorded %+v", rec)
	}
	stream := r.Timelines[0].Stream
	whole, err := NewPlans(rec.Profile, rec.Seed, rec.Offer, 0)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := NewPlans(rec.Profile, rec.Seed, rec.Offer, stream)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(whole.Faults.Stream(stream), alone.Faults.Stream(stream)) || alone.Streams() != 1 {
		t.Errorf("stream %d alone meets other faults, or is not alone (%d streams)", stream, alone.Streams())
	}
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, nil)
		c.Profile, c.Offer, c.Only = rec.Profile, &rec.Offer, stream
		c.Profile.Reach = profiles.Reach{}
		c.Start = inMemory(t, rec.Profile.Server)
		again := mustRun(t, c)
		if again.Verdict != result.Violated || again.Timelines[0].Stream != stream || again.Streams.Planned != 1 {
			t.Errorf("%s, %+v; want stream %d alone, damaged again", again.Verdict, again.Streams, stream)
		}
	})
}

func TestTheStoryOfAnyStream(t *testing.T) {
	dir, _ := savedRun(t, nil)
	tl, err := Story(dir, 5)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Stream != 5 || len(tl.Steps) < 4 || len(tl.Findings) != 0 || !strings.Contains(tl.Call, "emit") {
		t.Errorf("%+v", tl)
	}
	if _, err := Story(dir, 5000); err == nil || !strings.Contains(err.Error(), "no stream 5000") {
		t.Errorf("a stream that never was: %v", err)
	}
}

func TestFailFastStopsAtTheFirstViolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, func(p *profiles.Profile) { p.Server.Defect, p.Load.Calls = "S03", 400 })
		c.FailFast = true
		r := mustRun(t, c)
		if r.Verdict != result.Violated || r.Streams.Opened >= 400 {
			t.Errorf("%s after %d of 400 streams; want a violation that stops the run", r.Verdict, r.Streams.Opened)
		}
	})
}

// TestARotatedHistoryIsJudgedTheSame: the bound on disk drops the detail of streams
// that settled long ago, and neither counts nor findings.
func TestARotatedHistoryIsJudgedTheSame(t *testing.T) {
	dir, r := savedRun(t, func(p *profiles.Profile) {
		p.Server.Defect, p.Load.Streams, p.History.Bytes = "S03b,k=40", 100, 1<<20
		p.Load.Calls, p.Emit.Messages, p.Emit.Interval = 1500, 40, profiles.Duration(time.Millisecond)
	})
	if r.Verdict != result.Violated {
		t.Fatalf("%s: %s", r.Verdict, r.Sentence)
	}
	if _, err := os.Stat(filepath.Join(dir, "history.base")); err != nil {
		t.Fatalf("nothing was dropped, so nothing is shown: %v", err)
	}
	again, err := Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Messages != r.Messages || again.Streams != r.Streams || again.Sentence != r.Sentence || again.CutsAtRisk != r.CutsAtRisk {
		t.Errorf("%+v\n%+v\n%s\nwant\n%+v\n%+v\n%s", again.Messages, again.Streams, again.Sentence, r.Messages, r.Streams, r.Sentence)
	}
	if len(again.Timelines) != len(r.Timelines) {
		t.Errorf("%d timelines, want %d", len(again.Timelines), len(r.Timelines))
	}
}
