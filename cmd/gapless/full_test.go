//go:build full

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// runResult runs gapless and decodes its result, whatever the verdict.
func runResult(t *testing.T, args ...string) (int, *result.Result) {
	t.Helper()
	code, stdout, stderr := gapless(t, append(args, "-q", "-o", "json")...)
	r, err := result.Decode(bytes.NewReader([]byte(stdout)))
	if err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, stderr)
	}
	return code, r
}

// TestEveryBuiltInProfileHolds: each against the reference server, with its own reach.
func TestEveryBuiltInProfileHolds(t *testing.T) {
	for _, name := range profiles.Builtin() {
		if name == "third-party" {
			continue // it needs a target
		}
		t.Run(name, func(t *testing.T) {
			args := []string{"run", name}
			if name == "soak" {
				args = append(args, "--duration", "1m")
			}
			code, r := runResult(t, args...)
			if code != exitHolds {
				t.Errorf("exit code %d: %s\n%s", code, r.Sentence, strings.Join(r.Why, "\n"))
			}
			for _, reached := range r.Reached {
				if !reached.OK {
					t.Errorf("%s: wanted %d, got %d", reached.Name, reached.Want, reached.Got)
				}
			}
		})
	}
}

// TestEveryDrawnCellIsStruck: what the table of kinds, places and seats marks as drawn
// happens in a run of cut-everywhere at that seat.
func TestEveryDrawnCellIsStruck(t *testing.T) {
	for _, seat := range chaos.AllSeats() {
		t.Run(seat.String(), func(t *testing.T) {
			code, r := runResult(t, "run", "cut-everywhere", "--seat", seat.String(), "--seed", "5")
			if code != exitHolds {
				t.Errorf("exit code %d: %s\n%s", code, r.Sentence, strings.Join(r.Why, "\n"))
			}
			struck := map[string]int64{}
			for _, c := range r.Faults.ByKindAndPlace {
				struck[c.Kind+"@"+c.Place] = c.Injected
			}
			for _, row := range chaos.Cells() {
				if cell := row.Kind.String() + "@" + row.Place.String(); row.Seat == seat && row.Drawn && struck[cell] == 0 {
					t.Errorf("%s is drawn at seat %s and never struck", cell, seat)
				}
			}
		})
	}
}
