package lab

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

func TestThresholdsOfARun(t *testing.T) {
	dir, r := savedRun(t, func(p *profiles.Profile) {
		p.Thresholds = profiles.Thresholds{
			"resume_caught_up": {{Is: "p(99)<1h", Abort: true}, {Is: "max<1us"}}, "failed": {{Is: "count<1", Abort: true}},
		}
	})
	kept := func(r *result.Result) (out []bool) {
		for _, t := range r.Thresholds {
			out = append(out, t.OK)
		}
		return out
	}
	if got := kept(r); len(got) != 3 || !got[0] || got[1] || !got[2] || r.Verdict != result.Holds || r.Run.Stopped != "" {
		t.Errorf("%s, stopped %q: %+v", r.Verdict, r.Run.Stopped, r.Thresholds)
	}
	if again, err := Judge(dir); err != nil || len(again.FailedThresholds()) != 1 {
		t.Errorf("judged again: %v, %+v", err, again)
	}
	file := filepath.Join(dir, resultFile)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Judge(dir); err != nil || len(again.FailedThresholds()) != 2 || len(again.Notes) != 1 {
		t.Errorf("judged beside half a result: %v, %+v", err, again.Notes)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// A limit whose figures are gone must not look like one that was kept.
	again, err := Judge(dir)
	if err != nil || len(again.Thresholds) != 3 || again.Thresholds[0].OK || again.Thresholds[0].Why == "" {
		t.Errorf("judged without figures: %v, %+v", err, again.Thresholds)
	}
}

// TestCountsAreJudgedAgain: without its result a run has no latencies, but it has counts.
func TestCountsAreJudgedAgain(t *testing.T) {
	dir, _ := savedRun(t, func(p *profiles.Profile) {
		p.Thresholds = profiles.Thresholds{"failed": {{Is: "rate<1%"}}}
	})
	if err := os.Remove(filepath.Join(dir, resultFile)); err != nil {
		t.Fatal(err)
	}
	if again, err := Judge(dir); err != nil || len(again.Thresholds) != 1 || !again.Thresholds[0].OK {
		t.Errorf("%v, %+v", err, again.Thresholds)
	}
}

func TestAThresholdEndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := smallRun(t, func(p *profiles.Profile) {
			p.Emit.Messages, p.Emit.Interval = 200, profiles.Duration(100*time.Millisecond)
			p.Thresholds = profiles.Thresholds{"first_event": {{Is: "max<1us", Abort: true}}}
		})
		r := mustRun(t, c)
		if r.Run.Stopped != result.AtThreshold || len(r.FailedThresholds()) != 1 || r.Verdict == result.Holds || r.Run.DurationSeconds > 40 {
			t.Errorf("%s after %vs, stopped %q, %+v", r.Verdict, r.Run.DurationSeconds, r.Run.Stopped, r.Thresholds)
		}
	})
}
