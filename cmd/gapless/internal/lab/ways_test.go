package lab

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// TestEveryWayHolds: revisions, contracts, shapes of load and of calls, each over the
// whole path. met says what shows that the way was really taken.
func TestEveryWayHolds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*profiles.Profile)
		met    func(*result.Result) bool
	}{
		{"revision 2025-06-18", func(p *profiles.Profile) { p.Target.Protocol = "2025-06-18" },
			func(r *result.Result) bool { return r.Run.Target.Protocol == "2025-06-18" }},
		{"revision 2025-03-26 with batches", func(p *profiles.Profile) { p.Target.Protocol = "2025-03-26" },
			func(r *result.Result) bool {
				return r.Run.Target.Protocol == "2025-03-26" && r.Faults.Injected > r.Faults.Planned*8/10
			}},
		{"contract none without a store", func(p *profiles.Profile) {
			p.Server.Store, p.Judge.Contract = "none", "none"
		}, func(r *result.Result) bool { return r.Messages.LostAllowed > 0 && r.Resumes.Attempted == 0 }},
		{"calls made again when the others have gone", func(p *profiles.Profile) {
			last := profiles.DefaultFault()
			last.Kind, last.At, last.PerStream = "rst", []string{"mid-response"}, 0.8
			p.Server.Store, p.Judge.Contract, p.Load.Hold, p.Faults.Mix = "none", "none", true, []profiles.Fault{last}
		}, func(r *result.Result) bool { return invariantIn(r, "reissue-answered").Checked > 10 }},
		{"contract at-least-once", func(p *profiles.Profile) { p.Judge.Contract, p.Server.Defect = "at-least-once", "S03" },
			func(r *result.Result) bool { return r.Messages.DuplicatedAllowed > 0 && r.Messages.Duplicated == 0 }},
		{"conflicts are refused", func(p *profiles.Profile) { p.Server.OnConflict = "409" },
			func(r *result.Result) bool { return r.Resumes.Succeeded > 0 }},
		{"open model", func(p *profiles.Profile) {
			p.Load.UseRate(50, profiles.Duration(2*time.Second))
		}, func(r *result.Result) bool {
			s := r.Streams
			return r.Load.Model == result.Open && s.Planned == 100 && s.Opened+s.DroppedArrivals == 100
		}},
		{"stages", func(p *profiles.Profile) {
			p.Load.UseStages([]profiles.Stage{{For: profiles.Duration(2 * time.Second), Rate: 50}})
		}, func(r *result.Result) bool { return r.Load.Model == result.Open && r.Streams.Opened >= 40 }},
		{"requests of the server, cancelled calls, GET streams", func(p *profiles.Profile) {
			p.Emit.Requests, p.Load.Cancel, p.Load.GetStreams, p.Load.Sessions = 3, 20, 1, 3
		}, func(r *result.Result) bool { return r.Streams.Cancelled > 0 }},
		{"polling closes", func(p *profiles.Profile) { p.Emit.PollingCloses = 4 },
			func(r *result.Result) bool { return r.Resumes.Succeeded > r.Faults.Cuts+50 }},
		{"storms", func(p *profiles.Profile) {
			storm := profiles.DefaultFault()
			storm.Kind, storm.Every = "storm", profiles.Duration(500*time.Millisecond)
			p.Faults.Mix = []profiles.Fault{storm}
			p.Emit.Interval = profiles.Duration(50 * time.Millisecond)
		}, func(r *result.Result) bool { return r.Faults.Storms >= 3 && r.Faults.ByKind["storm"] > 100 }},
		{"a window for the faults", func(p *profiles.Profile) {
			p.Faults.Start = profiles.Duration(time.Hour)
		}, func(r *result.Result) bool { return r.Faults.Injected == 0 && r.Verdict == result.Inconclusive }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := mustRun(t, smallRun(t, tc.change))
				if !tc.met(r) {
					t.Errorf("the run did not go this way: %s\n%+v\n%+v\n%+v\n%+v", r.Sentence, r.Streams, r.Messages, r.Faults, r.Resumes)
				}
				if r.Verdict != result.Holds && r.Faults.Injected > 0 {
					t.Errorf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
				}
			})
		})
	}
}

func invariantIn(r *result.Result, name string) (found result.Invariant) {
	for _, inv := range r.Invariants {
		if inv.Name == name {
			found = inv
		}
	}
	return found
}
