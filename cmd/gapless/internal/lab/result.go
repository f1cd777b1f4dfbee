package lab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/export"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// result fills in the account of the run. Only the judge decides anything here.
func (x *experiment) result(t trial, load loadgen.Report, v judge.Verdict) *result.Result {
	p, used := x.c.Profile, measure()
	if t.target.Revision == "" { // no control calls
		t.target = load.Target
	}
	r := &result.Result{
		Gapless: result.Format,
		Run: result.Run{
			ID: x.c.Name, Profile: p.Name, Seed: x.c.Seed, Command: x.c.Command, Version: x.c.Version,
			Started: x.began.UTC(), DurationSeconds: time.Since(x.began).Seconds(), Stopped: x.stopped,
			Target: result.Target{
				URL: x.endpoint.Shown, Name: t.target.Name, Version: t.target.Version, Protocol: t.target.Revision,
				PID: int64(x.endpoint.PID), Dialect: p.Target.Dialect, Contract: p.Judge.Contract, Oracle: cmp.Or(string(t.setup.Oracle), "none"),
			},
		},
		Latency: export.Latency(load.Latencies),
		Generator: result.Generator{
			CPUSeconds: (used.cpu - x.usage.cpu).Seconds(), MaxRSSBytes: used.rss, Saturated: load.Latencies != nil && load.Behind(),
		},
		Notes:   x.said(),
		History: result.History{Dir: x.c.Save},
		Faults:  result.Faults{Seat: p.Faults.Seat, Storms: x.counts.Storms},
		Load:    x.shape(load),
	}
	if p.Reference() {
		r.Run.Target.Store = p.Server.Store
		if p.Target.Dialect != "resume" && !drafted(p) {
			r.Run.Target.Store = "none" // no other dialect keeps anything
		}
	}
	fill(r, v)
	if r.Verdict == result.Violated && x.doubt != "" { // else it is the sentence
		r.Notes = append(r.Notes, x.doubt)
	}
	r.Thresholds = result.Evaluate(x.limits, export.Finished(load.Latencies, r))
	if r.Verdict != result.Holds {
		r.Why = append(x.notes, r.Why...) // they say most about what to do
		r.Seen = append(r.Seen, answers(r)...)
	}
	if p.Reference() && p.Target.Dialect == "resume" { // another target's is not known before it is measured (resume_backoff)
		r.Resumes.AskedSeconds = p.Server.Retry.Std().Seconds()
	}
	r.Timelines = timelines(v.Guilty, newDescriber(p, x.c.Seed), func(stream uint32) string {
		if x.c.Save == "" {
			return x.c.Command
		}
		return repeatStream(x.c.Save, stream)
	})
	return r
}

// said is what one has to know of the target and the way to it.
func (x *experiment) said() []string {
	if x.endpoint.Notes == nil {
		return x.remarks
	}
	return append(x.endpoint.Notes(), x.remarks...)
}

// timelines tells the stories of the damaged streams, those first that lost, repeated
// or misordered something: they are what most people come for.
func timelines(guilty []judge.Guilty, call describer, repeat func(stream uint32) string) []result.Timeline {
	sorted := slices.Clone(guilty)
	slices.SortStableFunc(sorted, func(a, b judge.Guilty) int { return cmp.Compare(gravity(a), gravity(b)) })
	var all []result.Timeline
	for i := range sorted {
		all = append(all, timeline(&sorted[i], call(sorted[i].Stream), repeat(sorted[i].Stream)))
	}
	return all
}

func gravity(g judge.Guilty) int {
	for i, first := range []string{"LOST", "REPEATED", "OUT OF ORDER", "ONE-RESPONSE"} {
		if strings.HasPrefix(g.Headline, first) {
			return i
		}
	}
	return 4
}

// answers says how resumes were answered, if not all in the way one hopes for.
func answers(r *result.Result) []string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Resumes.ByStatus)) {
		switch n := r.Resumes.ByStatus[status]; status {
		case "200":
		case "0":
			parts = append(parts, fmt.Sprintf("%d got no answer", n))
		default:
			parts = append(parts, fmt.Sprintf("%d were answered %s", n, status))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("of %d resumes %s", r.Resumes.Attempted, strings.Join(parts, ", "))}
}

// shape says what the load was.
func (x *experiment) shape(load loadgen.Report) result.Load {
	l := x.c.Profile.Load
	if l.Rate == 0 && len(l.Stages) == 0 {
		return result.Load{Model: result.Closed}
	}
	lasts := x.lasts.Seconds()
	return result.Load{
		Model: result.Open, Seconds: lasts, WantedPerSecond: float64(load.Planned) / max(lasts, 1e-9),
		StartedPerSecond: float64(load.Opened) / max(lasts, 1e-9), MaxOpen: int64(l.MaxOpen),
	}
}

// fill puts the judge's verdict into the result.
func fill(r *result.Result, v judge.Verdict) {
	r.Verdict, r.Sentence, r.Why = v.Word.String(), v.Sentence, v.Why
	for _, s := range v.Also {
		r.Sentence += " " + s
	}
	r.Seen, r.Next = append(sentences(v.Seen), v.SeenAlso...), sentences(v.Next)
	r.CutsAtRisk, r.LossBound95, r.LossBound95ByPlace = v.CutsAtRisk, v.LossBound95, nil
	if v.CutsAtRisk == 0 {
		r.LossBound95 = 1 // nothing was at risk, so nothing is excluded
	}
	for _, b := range v.Bounds {
		r.LossBound95ByPlace = append(r.LossBound95ByPlace, result.PlaceBound{Place: b.Place, CutsAtRisk: b.AtRisk, Bound: b.Bound})
	}
	r.Probes = nil
	for _, p := range v.Probes {
		r.Probes = append(r.Probes, result.Probe{Name: p.Name, Asked: p.Asked, Conforming: p.Conforming, Deviating: p.Deviating})
	}
	r.Damage, r.Canary = damage(v), result.Canary{Convicted: v.Canary.Convicted}
	counts(r, v)
	r.Invariants, r.Reached, r.Timelines = nil, nil, nil
	for _, inv := range v.Invariants {
		r.Invariants = append(r.Invariants, invariant(inv))
	}
	for _, reached := range v.Reached {
		r.Reached = append(r.Reached, result.Reached{Name: reached.Name, Want: reached.Want, Got: reached.Got, OK: reached.OK})
	}
}

func sentences(s string) []string {
	if s == "" {
		return []string{}
	}
	return []string{s}
}

func counts(r *result.Result, v judge.Verdict) {
	s, m, f := v.Streams, v.Messages, v.Faults
	r.Streams = result.Streams{
		Planned: s.Planned, Opened: s.Opened, MaxOpen: s.MaxOpen, Completed: s.Completed, Indeterminate: s.Indeterminate,
		NotSent: s.NotSent, Refused: s.Refused, Cancelled: s.Cancelled, Undecided: s.Undecided, Failed: s.Failed, Severed: s.Severed,
		DroppedArrivals: s.DroppedArrivals,
	}
	r.Messages = result.Messages{
		Expected: m.Expected, Delivered: m.Delivered, Lost: m.Lost, LostAllowed: m.LostAllowed, Degraded: m.Degraded,
		Undecided: m.Undecided, Duplicated: m.Duplicated, DuplicatedAllowed: m.DuplicatedAllowed,
		Misordered: m.Misordered, Foreign: m.Foreign, Corrupt: m.Corrupt, Late: m.Late,
	}
	r.Responses = result.Responses{
		Expected: v.Responses.Expected, Received: v.Responses.Received, Missing: v.Responses.Missing, MissingAllowed: v.Responses.MissingAllowed, Repeated: v.Responses.Repeated,
	}
	r.Faults = result.Faults{Seat: r.Faults.Seat, Planned: f.Planned, Injected: f.Injected, Unplanned: f.Unplanned, Cuts: f.Cuts, Storms: r.Faults.Storms, ByKind: f.ByKind, ByPlace: f.ByPlace}
	for _, c := range f.ByKindAndPlace {
		r.Faults.ByKindAndPlace = append(r.Faults.ByKindAndPlace, result.Cell{Kind: c.Kind, Place: c.Place, Injected: c.Count})
	}
	r.Resumes = result.Resumes{
		Attempted: v.Resumes.Attempted, Succeeded: v.Resumes.Succeeded, Refused: v.Resumes.Refused, Conflicts: v.Resumes.Conflicts,
		ByStatus: map[string]int64{}, ReplayedMessages: v.Resumes.ReplayedMessages,
		DoubleCuts: v.Resumes.DoubleCuts, CutsInReplay: v.Resumes.CutsInReplay,
	}
	for status, n := range v.Resumes.ByStatus {
		r.Resumes.ByStatus[strconv.Itoa(status)] = n
	}
	r.Drops = drops(v.Drops)
	r.Control = result.Control{Calls: v.Control.Calls, Complete: v.Control.Complete, MessagesPerCall: v.Control.MessagesPerCall}
}

func drops(d judge.Drops) result.Drops {
	again := d.Reissues
	return result.Drops{
		Cut: d.Cut, Unanswered: d.Unanswered, Uncut: d.Uncut, UncutComplete: d.UncutComplete, Share: d.Share,
		HandlersFinished: d.Handlers.Finished, HandlersCancelled: d.Handlers.Cancelled, HandlersRunning: d.Handlers.Running,
		Reissued: again.Asked, ReissuesAnswered: again.Answered, ReissuedMessages: again.Messages, ForeignMessages: again.Foreign,
		ReissueP50Seconds: again.P50.Seconds(), ReissueP95Seconds: again.P95.Seconds(), Twice: again.Twice, TwiceKnown: again.TwiceKnown,
	}
}

func damage(v judge.Verdict) result.Damage {
	d := result.Damage{Streams: v.Streams.Damaged, After: []result.After{}}
	for _, a := range v.After {
		d.After = append(d.After, result.After{Fault: cmp.Or(a.After, "no fault"), Streams: a.Streams})
	}
	return d
}

func invariant(inv judge.Invariant) result.Invariant {
	out := result.Invariant{
		Name: inv.Name, Claim: inv.Claim, Level: inv.Level, Role: inv.Role, Verdict: inv.Verdict, Why: inv.Reason,
		Checked: inv.Checked, Violations: inv.Violations, Streams: inv.Streams, Evidence: []result.Evidence{},
	}
	if out.Why == "" && inv.State != inv.Verdict {
		out.Why = inv.State
	}
	for _, e := range inv.Evidence {
		out.Evidence = append(out.Evidence, result.Evidence{
			Session: e.Session, Stream: e.Stream, Link: e.Link, Cursor: int64(e.Cursor) - 1,
			Messages: ranges(e.Ranges), After: e.After, Text: e.What,
		})
	}
	return out
}

// ranges writes message numbers as people do: 23-25, 40.
func ranges(all []judge.Range) string {
	parts := make([]string, len(all))
	for i, r := range all {
		parts[i] = span(r.First, r.Last)
	}
	return strings.Join(parts, ", ")
}

func span(first, last int64) string {
	if first == last {
		return strconv.FormatInt(first, 10)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
