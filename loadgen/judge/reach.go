package judge

import (
	"fmt"
	"slices"
	"strings"
)

// A Want is something that a run has to meet before it can hold: at least Want of
// the thing called Name.
//
// Names are injections, cuts, resumes, places, storms, double_cuts, cuts_in_replay,
// judged_cuts, reissues and max_open; "place NAME" counts the injections at one place.
// Neither injections nor storms count those that no plan had.
type Want struct {
	Name string
	Want int64
}

// A Reached is a Want and what the run got.
type Reached struct {
	Name      string
	Want, Got int64
	OK        bool
}

// leastJudgedCuts is the default number of calls cut after a committed id and
// settled, below which nothing is said about loss.
const leastJudgedCuts = 30

const placePrefix = "place "

func validateReach(wants []Want) []error {
	var errs []error
	for _, w := range wants {
		if _, ok := (&Judge{}).got(w.Name, Tail{}); !ok {
			errs = append(errs, fmt.Errorf("reach: nothing is called %q: want one of %s", w.Name, strings.Join(reachNames(), ", ")))
		}
		if w.Want < 0 {
			errs = append(errs, fmt.Errorf("reach: %s cannot be negative", w.Name))
		}
	}
	return errs
}

func reachNames() []string {
	return []string{"injections", "cuts", "resumes", "places", "storms", "double_cuts", "cuts_in_replay", "judged_cuts", "reissues", "max_open"}
}

// DefaultReach is what a run wants when its profile says nothing: 80 % of the planned
// injections, every place that was named, and 30 calls cut after a committed id and
// settled, or 80 % of the planned ones if those are fewer. A run without faults wants
// nothing, and says nothing about resuming.
func DefaultReach(s Setup) []Want {
	if s.Faults == 0 {
		return nil
	}
	wants := []Want{{"injections", share80(int64(s.Faults))}, cutsWant(s)}
	for _, place := range s.Named {
		wants = append(wants, Want{placePrefix + place, 1})
	}
	return wants
}

// cutsWant is the number of cuts below which nothing is said about loss. A cut call of
// 2026-07-28 tells only once it was made again; of those that are cut many are
// complete already.
func cutsWant(s Setup) Want {
	if s.modern() {
		return Want{"reissues", max(1, min(leastJudgedCuts, int64(s.cutCalls()+1)/2))}
	}
	return Want{"judged_cuts", max(1, min(leastJudgedCuts, share80(int64(s.cutCalls()))))}
}

// share80 is 80 % of n, rounded up.
func share80(n int64) int64 { return (n*4 + 4) / 5 }

// wants completes the profile's wishes: whatever it names, loss is not judged below a
// number of judged cuts.
func (j *Judge) wants() []Want {
	if j.setup.Reach == nil {
		wants := DefaultReach(j.setup)
		for i := range wants {
			if wants[i].Name == "injections" { // see special.unreachable
				wants[i].Want = share80(max(1, int64(j.setup.Faults)-j.special.unreachable))
			}
		}
		return wants
	}
	wants := slices.Clone(j.setup.Reach)
	least := cutsWant(j.setup)
	if j.setup.Faults > 0 && !slices.ContainsFunc(wants, func(w Want) bool { return w.Name == least.Name }) {
		wants = append(wants, least)
	}
	return wants
}

// got counts what the run met of a name; ok is false for a name that means nothing.
func (j *Judge) got(name string, t Tail) (n int64, ok bool) {
	switch name {
	case "injections":
		return j.faults.Injected - j.faults.Unplanned, true
	case "cuts":
		return j.faults.Cuts, true
	case "resumes":
		return j.resumes.Succeeded, true
	case "places":
		return int64(len(j.faults.ByPlace)), true
	case "storms":
		return t.Storms, true
	case "double_cuts":
		return j.resumes.DoubleCuts, true
	case "cuts_in_replay":
		return j.resumes.CutsInReplay, true
	case "judged_cuts":
		return j.special.judgedCuts, true
	case "reissues":
		return j.drops.reissues.Answered, true
	case "max_open":
		return t.MaxOpen, true
	}
	if place, found := strings.CutPrefix(name, placePrefix); found && place != "" {
		return j.faults.ByPlace[place], true
	}
	return 0, false
}

// reached compares wants with what was got.
func (j *Judge) reached(t Tail) []Reached {
	var out []Reached
	for _, w := range j.wants() {
		n, ok := j.got(w.Name, t)
		out = append(out, Reached{Name: w.Name, Want: w.Want, Got: n, OK: ok && n >= w.Want})
	}
	return out
}
