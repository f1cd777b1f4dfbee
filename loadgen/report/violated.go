package report

import (
	"fmt"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Bounds of a summary; the rest is in the list of -v and in result.json.
const (
	maxBroken = 8 // violated invariants
	maxTexts  = 4 // texts under one label
)

const levelShould = "SHOULD"

// violated lists the broken promises, then what the damaged streams had met,
// then where to look.
func violated(p *page, r *result.Result) {
	guilty := deciding(r)
	shown := guilty[:min(len(guilty), maxBroken)]
	name, amount, streams := widths(shown)
	for _, inv := range shown {
		line := pad(inv.Name, name) + pad(inv.Level, 10) + padLeft(count(inv.Violations), amount) + " " + pad(unit(inv)+",", unitWidth(shown)+1)
		line += " " + padLeft(count(inv.Streams), streams) + " " + pad(noun(inv.Streams, "streams"), 7) + "  "
		p.lines = append(p.lines, "  "+p.paint(red, "x")+" "+clean(line))
		p.text(30, firstSeen(inv))
	}
	if more := len(guilty) - len(shown); more > 0 {
		p.line(fmt.Sprintf("  x and %d more (-v lists them)", more))
	}
	p.line("  + " + also(r))
	if after := afters(r); after != "" {
		p.row(12, "after")
		p.text(12, after)
	}
	arrivalsLine(p, r)
	if p.o.Saved != "" {
		p.row(12, "see")
		p.command(fmt.Sprintf("gapless report %s%s", p.o.Saved, firstStream(guilty)))
	}
}

// deciding are the violated invariants that made the verdict: those above
// SHOULD, or those, when only strictness made it.
func deciding(r *result.Result) []result.Invariant {
	var must, should []result.Invariant
	for _, inv := range r.Invariants {
		switch {
		case inv.Verdict != result.Violated:
		case inv.Level == levelShould:
			should = append(should, inv)
		default:
			must = append(must, inv)
		}
	}
	if len(must) == 0 {
		return should
	}
	return must
}

func widths(list []result.Invariant) (name, amount, streams int) {
	name = 14
	for _, inv := range list {
		name = max(name, columns(inv.Name)+2)
		amount = max(amount, len(count(inv.Violations)))
		streams = max(streams, len(count(inv.Streams)))
	}
	return name, amount, streams
}

func unitWidth(list []result.Invariant) int {
	w := 0
	for _, inv := range list {
		w = max(w, len(unit(inv)))
	}
	return w
}

// unit is what the violations of an invariant are counted in.
func unit(inv result.Invariant) string {
	word := "times"
	switch inv.Name {
	case "no-loss", "no-duplicate", "in-order", "intact", "own-stream", "own-session", "stable-ids",
		"one-stream-per-message", "progress-increases", "silent-after-response", "silent-after-cut", "no-seen-loss":
		word = "messages"
	case "one-response", "executed-once", "reissue-answered":
		word = "calls"
	case "unique-ids":
		word = "ids"
	case "legal-frames":
		word = "frames"
	case "resume-progress":
		word = "resumes"
	}
	return noun(inv.Violations, word)
}

func firstSeen(inv result.Invariant) string {
	if len(inv.Evidence) == 0 {
		return ""
	}
	e := inv.Evidence[0]
	text := fmt.Sprintf("first: stream %d", e.Stream)
	switch {
	case e.Messages == "" && e.Text != "":
		return text + ", " + cut(e.Text, 80)
	case e.Messages == "":
		return text
	case strings.ContainsAny(e.Messages, "-, "):
		return text + ", messages " + cut(e.Messages, 40)
	}
	return text + ", message " + cut(e.Messages, 40)
}

func firstStream(guilty []result.Invariant) string {
	for _, inv := range guilty {
		if len(inv.Evidence) > 0 {
			return fmt.Sprintf(" --stream %d", inv.Evidence[0].Stream)
		}
	}
	return ""
}

func applies(inv result.Invariant) bool { return inv.Verdict != "" && inv.Role != "not applicable" }

// A state is what became of an invariant in a run.
type state string

const (
	kept         state = "holds"
	broken       state = "violated"
	unsure       state = "inconclusive"
	deviation    state = "deviation"
	notExercised state = "not exercised" // only watched, and nothing could have broken it
	notApplied   state = "not applicable"
)

func stateOf(inv result.Invariant) state {
	switch {
	case !applies(inv):
		return notApplied
	case inv.Verdict == result.Violated && inv.Level == levelShould:
		return deviation
	case inv.Verdict == result.Violated:
		return broken
	case inv.Checked == 0 && inv.Role == "watched":
		return notExercised
	case inv.Checked == 0 || inv.Verdict != result.Holds:
		return unsure
	}
	return kept
}

// tally counts invariants by what became of them.
func tally(r *result.Result) map[state]int {
	n := map[state]int{}
	for _, inv := range r.Invariants {
		n[stateOf(inv)]++
	}
	if r.Verdict == result.Violated && n[broken] == 0 { // strictness made the deviations decide
		n[broken], n[deviation] = n[deviation], 0
	}
	return n
}

// also says in one line what became of the other invariants.
func also(r *result.Result) string {
	t := tally(r)
	text := fmt.Sprintf("%d hold", t[kept])
	if t[unsure] > 0 {
		text += fmt.Sprintf(", %d inconclusive", t[unsure])
	}
	if t[deviation] > 0 {
		text += ", " + deviations(r)
	}
	return text
}

// deviations counts them, and names the first ones.
func deviations(r *result.Result) string {
	n := tally(r)[deviation]
	text := some(int64(n), "deviations")
	if n == 0 {
		return text
	}
	var names []string
	for _, inv := range r.Invariants {
		if stateOf(inv) == deviation {
			names = append(names, cut(inv.Name, 40))
		}
	}
	if more := n - maxTexts; more > 0 {
		names = append(names[:maxTexts], fmt.Sprintf("%d more", more))
	}
	return text + ": " + strings.Join(names, ", ")
}

// afters lists what the damaged streams had met before.
func afters(r *result.Result) string {
	var parts []string
	for i, a := range r.Damage.After {
		if i == maxTexts {
			parts = append(parts, fmt.Sprintf("and %d more", len(r.Damage.After)-i))
			break
		}
		n := count(a.Streams)
		if i == 0 {
			n = some(a.Streams, "streams")
		}
		parts = append(parts, cut(a.Fault, 60)+" "+n)
	}
	return strings.Join(parts, ", ")
}
