package loadgen

import (
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func TestPlan(t *testing.T) {
	text := func(c PlanConfig) string {
		t.Helper()
		p, err := NewPlan(c)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		n, err := p.WriteTo(&b)
		if err != nil || n != int64(b.Len()) {
			t.Fatalf("wrote %d of %d: %v", n, b.Len(), err)
		}
		if lines := strings.Count(b.String(), "\n"); lines != p.Len()+1 {
			t.Errorf("%d lines for %d arrivals", lines, p.Len())
		}
		return b.String() + p.Hash()
	}
	base := PlanConfig{Seed: 3, Streams: 20, Calls: 50, Sessions: 4, Ramp: time.Second, Canary: 54}
	if first, second := text(base), text(base); first != second {
		t.Error("the same settings give two plans")
	}
	for name, change := range map[string]func(*PlanConfig){
		"seed":     func(c *PlanConfig) { c.Seed = 4 },
		"streams":  func(c *PlanConfig) { c.Streams = 21 },
		"calls":    func(c *PlanConfig) { c.Calls = 51 },
		"sessions": func(c *PlanConfig) { c.Sessions = 5 },
		"ramp":     func(c *PlanConfig) { c.Ramp = 2 * time.Second },
		"kind":     func(c *PlanConfig) { c.Kind = history.StreamControl },
		"canary":   func(c *PlanConfig) { c.Canary = 0 },
	} {
		other := base
		change(&other)
		if text(other) == text(base) {
			t.Errorf("another %s gives the same plan", name)
		}
	}
}

func TestPlanArrivals(t *testing.T) {
	p, err := NewPlan(PlanConfig{Seed: 9, Streams: 10, Calls: 25, Sessions: 3, Ramp: time.Second, Canary: 29})
	if err != nil {
		t.Fatal(err)
	}
	has(t, "arrivals", p.Len(), 26)
	has(t, "canary", p.Arrival(0), Arrival{Stream: 29, Session: 2, Kind: history.StreamCanary})
	for n := 1; n < p.Len(); n++ {
		a := p.Arrival(n)
		has(t, "stream", a.Stream, n)
		has(t, "session", a.Session, 1+(n-1)%3)
		from := time.Duration(n-1) * 100 * time.Millisecond
		switch {
		case n > 10 && a.Due != WhenFree:
			t.Errorf("arrival %d beyond the open streams is due at %v", n, a.Due)
		case n <= 10 && (a.Due < from || a.Due >= from+100*time.Millisecond):
			t.Errorf("arrival %d is due at %v, outside its slice of the ramp", n, a.Due)
		}
	}
}

func TestPlanRefusals(t *testing.T) {
	for name, c := range map[string]PlanConfig{
		"no streams":            {},
		"fewer calls than open": {Streams: 5, Calls: 4},
		"negative calls":        {Streams: 5, Calls: -1},
		"negative ramp":         {Streams: 5, Ramp: -1},
		"negative sessions":     {Streams: 5, Sessions: -1},
		"too many":              {Streams: 5, Calls: 1 << 32},
	} {
		if _, err := NewPlan(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDraw(t *testing.T) {
	seen := make(map[float64]string)
	var sum float64
	for seed := range uint64(10) {
		for stream := range uint32(20) {
			for attempt := range 20 {
				d := draw(seed, stream, attempt, drawJitter)
				if d < 0 || d >= 1 {
					t.Fatalf("draw %g", d)
				}
				if seen[d] != "" {
					t.Fatalf("two keys give %g", d)
				}
				seen[d], sum = "x", sum+d
			}
		}
	}
	if mean := sum / 4000; mean < 0.48 || mean > 0.52 {
		t.Errorf("mean of 4000 draws: %g", mean)
	}
}

func TestMarks(t *testing.T) {
	m := NewMarks("00c0ffee", []byte("secret"))
	mark := m.Of(3, 17)
	if !strings.HasPrefix(mark, "g00c0ffee.3.17.") || len(mark) != len("g00c0ffee.3.17.")+macDigits {
		t.Errorf("mark %q", mark)
	}
	for _, c := range []struct {
		name  string
		mark  string
		owner history.Owner
		of    uint32
	}{
		{"another stream of the session", m.Of(3, 20), history.OwnerOtherStream, 20},
		{"a stream of another session", m.Of(2, 17), history.OwnerOtherSession, 17},
		{"another run", NewMarks("00c0ffef", []byte("secret")).Of(3, 17), history.OwnerNobody, 0},
		{"another secret", NewMarks("00c0ffee", []byte("Secret")).Of(3, 17), history.OwnerNobody, 0},
		{"one digit changed", mark[:len(mark)-1] + "x", history.OwnerNobody, 0},
		{"leading zero", strings.Replace(mark, ".3.", ".03.", 1), history.OwnerNobody, 0},
		{"no mark", "5", history.OwnerNobody, 0},
	} {
		owner, of := m.owner([]byte(c.mark), 3)
		if owner != c.owner || of != c.of {
			t.Errorf("%s: owner %d, stream %d", c.name, owner, of)
		}
	}
}
