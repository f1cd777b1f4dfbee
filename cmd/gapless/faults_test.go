package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/chaos"
)

// TestTheFaultTableIsShortAndWhole: nobody reads 400 lines, and what a kind can do stands
// there.
func TestTheFaultTableIsShortAndWhole(t *testing.T) {
	_, text, _ := gapless(t, "help", "faults")
	if n := strings.Count(text, "\n"); n > 100 {
		t.Errorf("help faults has %d lines", n)
	}
	for _, want := range []string{
		"  rst, fin                       drawn: after-priming … at-live; only when named: request … get-stream\n",
		"  refuse                         drawn: resume-before-headers; not by a proxy\n",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("help faults lacks %q:\n%s", want, text)
		}
	}
	possible, kinds := map[string]bool{}, ""
	for _, row := range chaos.Cells() {
		possible[row.Kind.String()] = possible[row.Kind.String()] || row.Possible
	}
	for _, p := range pairings() {
		kinds += fmt.Sprint(p.kinds)
	}
	for kind, can := range possible {
		if strings.Contains(kinds, kind) != can {
			t.Errorf("%s is possible: %v, but the table has %s", kind, can, kinds)
		}
	}
}
