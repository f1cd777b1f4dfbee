package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// Bounds of a summary; the rest is in the list of -v and in result.json.
const (
	maxBroken = 8 // violated invariants
	maxSilent = 3 // invariants that do not apply
	maxTexts  = 5 // texts under one label
)

const levelShould = "SHOULD"

// violated lists the broken promises, then what the damaged streams had met,
// then where to look.
func violated(p *page, r *result.Result) {
	broken := deciding(r)
	shown := broken[:min(len(broken), maxBroken)]
	name, amount, streams := widths(shown)
	for _, inv := range shown {
		line := pad(inv.Name, name) + pad(inv.Level, 10) + padLeft(count(inv.Violations), amount) + " " + pad(unit(inv)+",", unitWidth(shown)+1)
		line += " " + padLeft(count(inv.Streams), streams) + " " + pad(noun(inv.Streams, "streams"), 7) + "  "
		p.lines = append(p.lines, "  "+p.paint(red, "x")+" "+clean(line))
		p.text(30, firstSeen(inv))
	}
	if more := len(broken) - len(shown); more > 0 {
		p.line(fmt.Sprintf("  x and %d more (-v lists them)", more))
	}
	silent(p, r)
	p.line("  + " + also(r))
	if after := afters(r); after != "" {
		p.row(12, "after")
		p.text(12, after)
	}
	if p.o.Saved != "" {
		p.row(12, "see")
		p.command(fmt.Sprintf("gapless report %s%s", p.o.Saved, firstStream(broken)))
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
		"one-stream-per-message", "progress-increases", "silent-after-response", "no-seen-loss":
		word = "messages"
	case "one-response", "executed-once":
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

func firstStream(broken []result.Invariant) string {
	for _, inv := range broken {
		if len(inv.Evidence) > 0 {
			return fmt.Sprintf(" --stream %d", inv.Evidence[0].Stream)
		}
	}
	return ""
}

// silent names the first invariants that had nothing to say, so that nobody
// takes them for kept promises.
func silent(p *page, r *result.Result) {
	shown := 0
	for _, inv := range r.Invariants {
		if !applies(inv) && inv.Why != "" && shown < maxSilent {
			p.lines = append(p.lines, pad("    "+clean(inv.Name), detailColumn))
			p.text(detailColumn, "not applicable: "+cut(inv.Why, 80))
			shown++
		}
	}
}

func applies(inv result.Invariant) bool { return inv.Verdict != "" && inv.Role != "not applicable" }

// A tally counts invariants by what became of them.
type tally struct{ holds, violated, inconclusive, deviations int }

func tallyOf(r *result.Result) tally {
	var t tally
	broken := len(deciding(r))
	for _, inv := range r.Invariants {
		switch {
		case !applies(inv):
		case inv.Verdict == result.Holds && inv.Checked > 0: // a watched one that saw nothing was not exercised
			t.holds++
		case inv.Verdict == result.Inconclusive:
			t.inconclusive++
		case inv.Level == levelShould:
			t.deviations++
		}
	}
	if r.Verdict == result.Violated {
		t.violated = broken
		if slices.ContainsFunc(deciding(r), func(inv result.Invariant) bool { return inv.Level == levelShould }) {
			t.deviations = 0 // strictness made them violations
		}
		return t
	}
	for _, inv := range r.Invariants {
		if inv.Verdict == result.Violated && inv.Level != levelShould {
			t.violated++
		}
	}
	return t
}

// also says in one line what became of the other invariants.
func also(r *result.Result) string {
	t := tallyOf(r)
	text := fmt.Sprintf("%d hold", t.holds)
	if t.inconclusive > 0 {
		text += fmt.Sprintf(", %d inconclusive", t.inconclusive)
	}
	if t.deviations > 0 {
		text += ", " + some(int64(t.deviations), "deviations")
	}
	return text
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

// invariants lists every invariant, for -v.
func invariants(p *page, r *result.Result) {
	name := 14
	for _, inv := range r.Invariants {
		name = max(name, columns(cut(inv.Name, 40))+2)
	}
	p.blank()
	for _, inv := range r.Invariants {
		mark, became := "?", inv.Verdict
		switch {
		case !applies(inv):
			mark, became = " ", "not applicable"
		case inv.Verdict == result.Violated && inv.Level == levelShould:
			mark, became = "-", "deviation"
		case inv.Verdict == result.Violated:
			mark = p.paint(red, "x")
		case inv.Checked == 0:
			mark, became = " ", "not exercised"
		case inv.Verdict == result.Holds:
			mark = "+"
		}
		line := clean(pad(cut(inv.Name, 40), name) + pad(inv.Level, 10) + pad(became, 16))
		p.lines = append(p.lines, "  "+mark+" "+line)
		p.text(name+30, checked(inv))
	}
	p.blank()
}

func checked(inv result.Invariant) string {
	switch {
	case !applies(inv):
		return cut(inv.Why, 120)
	case inv.Verdict == result.Violated:
		return fmt.Sprintf("%s %s in %s; %s", count(inv.Violations), unit(inv), some(inv.Streams, "streams"), inv.Claim)
	case inv.Why != "":
		return cut(inv.Why, 120)
	}
	return fmt.Sprintf("%s checked; %s", count(inv.Checked), inv.Claim)
}
