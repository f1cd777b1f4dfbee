package chaos

import (
	"fmt"
	"testing"
)

// TestStreamsOfSeveralCalls checks that no fault is planned where the call of its stream
// has no place for it, and that the streams with messages lose none of theirs.
func TestStreamsOfSeveralCalls(t *testing.T) {
	of := func(n uint32) int { return []int{50, 0, 1}[n%3] }
	for seed := range uint64(20) {
		cfg := full(seed)
		cfg.MessagesOf = of
		p, same := mustPlan(t, cfg), mustPlan(t, full(seed))
		total := 0
		for n := uint32(1); n <= 200; n++ {
			faults := p.Stream(n)
			total += len(faults)
			once := map[Place]bool{}
			for _, f := range faults {
				one := cfg
				one.Messages = of(n)
				if why := Impossible(f.Kind, f.Place, cfg.Seat, one); why != "" {
					t.Errorf("seed %d: stream %d of %d messages meets %v at %v: %s", seed, n, of(n), f.Kind, f.Place, why)
				}
				if f.After > of(n) {
					t.Errorf("seed %d: stream %d of %d messages is struck after message %d", seed, n, of(n), f.After)
				}
				if places[f.Place].once && once[f.Place] {
					t.Errorf("seed %d: stream %d meets %v twice", seed, n, f.Place)
				}
				once[f.Place] = true
			}
			if n%3 == 0 && fmt.Sprint(faults) != fmt.Sprint(same.Stream(n)) {
				t.Errorf("seed %d: stream %d has all places and yet another plan", seed, n)
			}
		}
		if total < 300 {
			t.Errorf("seed %d: %d faults are left", seed, total)
		}
	}
}
