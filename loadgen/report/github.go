package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/result"
)

// maxAnnotations is how many of each kind GitHub shows of a step.
const maxAnnotations = 10

// Annotations writes GitHub's workflow commands: an error for each violated invariant
// that decides and each threshold that is not kept, a warning for a run that could not
// tell and for deviations. A run that holds and keeps its limits writes none.
func Annotations(w io.Writer, r *result.Result, o Options) error {
	var errors, warnings []string
	note := func(list *[]string, title, text string) {
		*list = append(*list, fmt.Sprintf("title=%s::%s", property("gapless: "+cut(title, 80)), data(cut(text, maxText))))
	}
	for _, inv := range deciding(r) {
		if r.Verdict == result.Violated {
			note(&errors, inv.Name+" violated", inOneLine(inv))
		}
	}
	switch {
	case r.Verdict == result.Violated && len(errors) == 0:
		note(&errors, "violated", r.Sentence)
	case r.Verdict != result.Violated && r.Verdict != result.Holds:
		note(&warnings, "inconclusive", strings.Join(append([]string{cmp.Or(r.Sentence, "The run says nothing.")}, r.Why...), " "))
	}
	for _, t := range r.FailedThresholds() {
		note(&errors, "threshold failed", t.Figure+" "+t.Expression+": "+got(t))
	}
	for _, inv := range r.Invariants {
		if stateOf(inv) == deviation && tally(r)[deviation] > 0 {
			note(&warnings, "deviation", inv.Name+": "+checked(inv))
		}
	}
	for _, x := range []struct {
		command string
		list    []string
	}{{"error", errors}, {"warning", warnings}} {
		for _, text := range x.list[:min(len(x.list), maxAnnotations)] {
			if _, err := fmt.Fprintf(w, "::%s %s\n", x.command, text); err != nil {
				return fmt.Errorf("write annotations: %w", err)
			}
		}
	}
	return nil
}

// inOneLine says how often an invariant was violated and where first.
func inOneLine(inv result.Invariant) string {
	text := fmt.Sprintf("%s %s in %s", count(inv.Violations), unit(inv), some(inv.Streams, "streams"))
	if first := firstSeen(inv); first != "" {
		text += "; " + first
	}
	return text
}

// data escapes the text of a workflow command.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(clean(s))
}

// property escapes a property of a workflow command.
func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
