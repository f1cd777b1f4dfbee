package judge

import (
	"cmp"
	"fmt"
	"slices"
)

// Finish gives the verdict. Streams that are still open are undecided. It is called
// once, after the last Close.
func (j *Judge) Finish(t Tail) Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	lifted := conviction{certain: true, ifWell: t.alibi(), ifAlike: j.special.misfits == 0,
		ifStalled: t.alibi() && j.stalls.convict()}
	j.settleDoubts(lifted)
	j.found()
	j.streams.Undecided += j.special.loadOpen
	j.streams.Planned = cmp.Or(t.Planned, int64(j.setup.Streams))
	j.streams.MaxOpen, j.streams.DroppedArrivals = t.MaxOpen, t.DroppedArrivals
	j.streams.Damaged = j.damaged.streams
	wide := max(t.Storms+t.Strikes, 1)
	j.coverFaults()
	j.coverage.IDsKept = int64(j.ids.used)

	v := Verdict{Messages: j.messages, Responses: j.responses, Streams: j.streams, Faults: j.faults, Resumes: j.resumes,
		Control: j.control, Canary: j.canary, Coverage: j.coverage, JudgedCuts: j.special.judgedCuts,
		CutsAtRisk: j.atRisk("", wide), Retention: j.retention}
	if j.controlSum[1] > 0 {
		v.Control.MessagesPerCall = 0
	}
	nothing := j.lostNothing()
	v.LossBound95 = bound(v.CutsAtRisk, nothing)
	v.Bounds = j.bounds(wide, nothing)
	v.Probes, v.Sampled = j.probeCounts(), j.sampled
	j.broadcast()
	v.Reached = j.reached(t)
	v.Invariants = j.invariants(&v, lifted)
	v.After = j.afterTable()
	v.Guilty = j.guilty(lifted)
	v.Drops, v.Throttled = j.drops.export(&j.special, v.Streams.Cut), j.special.throttled
	v.Word, v.Why = j.decide(&v, t)
	j.sentences(&v, t)
	return v
}

// lostNothing tells that everything came that the oracle knows of.
func (j *Judge) lostNothing() bool {
	if j.setup.Oracle == OracleResponse {
		return j.responses.Missing == 0 && j.responses.MissingAllowed == 0
	}
	return j.tally[noLoss].violated == 0 && j.messages.LostAllowed == 0 && j.setup.told()
}

// coverFaults derives the tables of faults from their cells.
func (j *Judge) coverFaults() {
	f := &j.faults
	f.Planned = int64(j.setup.Faults)
	f.ByKind, f.ByPlace = map[string]int64{}, map[string]int64{}
	for _, cell := range j.cells {
		f.ByKind[cell.Kind] += cell.Count
		f.ByPlace[cell.Place] += cell.Count
		f.ByKindAndPlace = append(f.ByKindAndPlace, cell)
	}
	slices.SortFunc(f.ByKindAndPlace, func(a, b KindPlace) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Place, b.Place))
	})
}

// atRisk counts the cuts at risk at one place, or at all of them. A storm cuts many
// links, and tells once.
func (j *Judge) atRisk(place string, storms int64) int64 {
	var single, wide int64
	for _, cell := range j.cells {
		if place == "" || cell.Place == place {
			single += cell.AtRisk
			wide += cell.WideAtRisk
		}
	}
	return single + min(wide, storms)
}

// bound is the 95 % bound of the chance of loss per cut, 0 when there is none.
func bound(cuts int64, nothing bool) float64 {
	if cuts == 0 || !nothing {
		return 0
	}
	return min(1, 3/float64(cuts))
}

// bounds are those of the places at which a cut was at risk.
func (j *Judge) bounds(storms int64, nothing bool) []PlaceBound {
	var out []PlaceBound
	for place := range j.faults.ByPlace {
		if n := j.atRisk(place, storms); n > 0 {
			out = append(out, PlaceBound{Place: place, AtRisk: n, Bound: bound(n, nothing)})
		}
	}
	slices.SortFunc(out, func(a, b PlaceBound) int { return cmp.Compare(a.Place, b.Place) })
	return out
}

func (j *Judge) afterTable() []AfterCount {
	var out []AfterCount
	for after, n := range j.damaged.after {
		out = append(out, AfterCount{after, n})
	}
	slices.SortFunc(out, func(a, b AfterCount) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.After, b.After))
	})
	return out
}

// invariants gives the verdict on each promise.
func (j *Judge) invariants(v *Verdict, lifted conviction) []Invariant {
	out := make([]Invariant, len(j.table))
	for i := range j.table {
		def, n := &j.table[i], &j.tally[i]
		inv := &out[i]
		*inv = Invariant{Name: def.name, Claim: def.claimed(j.setup), Source: def.source, Level: def.level.String(),
			Role: j.roles[i].String(), Decides: def.level.decides(j.setup.Strict), Checked: n.checked, Violations: n.violated, Deviations: n.soft, Streams: j.hit[i][0]}
		for _, e := range j.evidence[i] {
			if lifted[e.doubt] {
				inv.Evidence = append(inv.Evidence, e)
			}
		}
		if j.roles[i] == NotApplicable {
			inv.State, inv.Reason = "not applicable", j.reasons[i]
			continue
		}
		word := Inconclusive
		switch {
		case n.violated > 0:
			word = Violated
		case n.checked == 0 && j.roles[i] == Watched:
			inv.State = "not exercised"
		case n.checked == 0:
			inv.Reason = "saw nothing"
		case ident(i) == noLoss && !j.enoughCuts(v):
			inv.Reason = "too few calls were cut after a committed id and settled"
		default:
			word = Holds
			if ident(i) == uniqueIDs && v.Coverage.IDsKept < v.Coverage.IDs {
				inv.Reason = fmt.Sprintf("across streams the first %s of %s ids were compared", thousands(v.Coverage.IDsKept), thousands(v.Coverage.IDs))
			}
		}
		inv.Verdict = word.String()
		if inv.State == "" {
			inv.State = inv.Verdict
		}
	}
	return out
}

// enoughCuts reports whether loss was put to the test often enough.
func (j *Judge) enoughCuts(v *Verdict) bool {
	if j.setup.Faults == 0 {
		return false
	}
	for _, r := range v.Reached {
		if r.Name == cutsWant(j.setup).Name {
			return r.OK
		}
	}
	return false
}
