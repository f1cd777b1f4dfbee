package chaos

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestEveryCellSaysWhetherItCan(t *testing.T) {
	rows := Cells()
	if len(rows) != 11*15*2 {
		t.Fatalf("%d cells of 11 kinds at 15 places from two seats", len(rows))
	}
	drawn, named := map[Kind]int{}, map[Kind]int{}
	for _, r := range rows {
		why := Impossible(r.Kind, r.Place, r.Seat, PlanConfig{Priming: true, IDs: true, Head: true, Messages: 2, Sessions: 1, GetStreams: 1})
		switch {
		case !r.Possible:
			if r.Drawn || why == "" || r.Says != "Impossible: "+why+"." {
				t.Errorf("%+v: %q", r, why)
			}
		case why != "" || r.Drawn != r.Place.DrawnByDefault():
			t.Errorf("%+v: %q", r, why)
		case r.Drawn:
			drawn[r.Kind]++
		default:
			named[r.Kind]++
		}
	}
	want := map[Kind][2]int{
		RST: {20, 10}, FIN: {20, 10}, ChunkEnd: {4, 2}, Blackhole: {6, 2}, Stall: {8, 4}, Delay: {8, 4}, Throttle: {8, 4},
		Slice: {8, 4}, Refuse: {1, 0}, Status: {2, 0}, Storm: {0, 0},
	}
	for k, n := range want {
		if drawn[k] != n[0] || named[k] != n[1] {
			t.Errorf("%s: drawn in %d cells, named in %d, want %v", k, drawn[k], named[k], n)
		}
	}
}

func TestSeatsHaveNames(t *testing.T) {
	for _, s := range AllSeats() {
		if got, err := ParseSeat(s.String()); err != nil || got != s {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if _, err := ParseSeat("porxy"); err == nil || !strings.Contains(err.Error(), `did you mean "proxy"`) || Seat(9).String() != "seat(9)" {
		t.Error(err)
	}
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	good := []Fault{
		{}, {Kind: RST, PerStream: 1}, {Kind: Storm, Every: time.Second, Share: 1}, {Kind: Delay, By: 1, PerStream: 1},
		{Kind: Throttle, Rate: 1, For: time.Hour, PerStream: 1000}, {Kind: Status, Code: 429, For: 1, PerStream: 1}, {Kind: Blackhole, PerStream: 0.1},
		{Kind: RST, PerStream: 1, Code: 503, Share: 1}, // what a profile says of every kind
	}
	for _, f := range good {
		if err := f.Validate(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	bad := []struct {
		fault Fault
		want  string
	}{
		{Fault{Kind: 99}, "there is no kind 99"},
		{Fault{Kind: RST}, "above 0 and at most 1000, not 0"},
		{Fault{Kind: RST, PerStream: math.NaN()}, "not NaN"},
		{Fault{Kind: RST, PerStream: 1, At: []Place{77}}, "no place 77"},
		{Fault{Kind: RST, PerStream: 1, Every: 1}, "takes no every"},
		{Fault{Kind: RST, PerStream: 1, For: time.Second}, "rst takes no for of 1s"},
		{Fault{Kind: Refuse, PerStream: 1, For: time.Second}, "refuse takes no for"},
		{Fault{Kind: Stall, PerStream: 1, For: -1}, "takes no for of -1ns"},
		{Fault{Kind: Stall, PerStream: 1, By: 1}, "stall with by 1ns"},
		{Fault{Kind: Delay, PerStream: 1}, "delay with by 0s"},
		{Fault{Kind: Delay, PerStream: 1, By: -1}, "delay with by -1ns"},
		{Fault{Kind: Throttle, PerStream: 1}, "throttle with rate 0"},
		{Fault{Kind: Throttle, PerStream: 1, Rate: math.Inf(1)}, "throttle with rate +Inf"},
		{Fault{Kind: Slice, PerStream: 1, Rate: 5}, "slice with rate 5"},
		{Fault{Kind: Status, PerStream: 1, Code: 200}, "status 200 is no refusal"},
		{Fault{Kind: Storm}, "every must be at least 1ms, not 0s"},
		{Fault{Kind: Storm, Every: time.Second, Share: 1.5}, "share must be from 0 to 1, not 1.5"},
		{Fault{Kind: Storm, Every: time.Second, PerStream: 1}, "neither places nor a number"},
		{Fault{Kind: Storm, Every: time.Second, At: []Place{MidEvent}}, "neither places nor a number"},
		{Fault{PerStream: 1}, "none takes neither places nor a number"},
	}
	for _, c := range bad {
		if err := c.fault.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.fault, err, c.want)
		}
	}
}

func TestAFaultIsWrittenAsAFlagTakesIt(t *testing.T) {
	for want, f := range map[string]Fault{
		"none":                                    {},
		"rst@mid-event,between-events:1.5":        {Kind: RST, At: []Place{MidEvent, BetweenEvents}, PerStream: 1.5},
		"storm,every=2.5s,share=0.2":              {Kind: Storm, Every: 2500 * time.Millisecond, Share: 0.2},
		"delay:1,for=2s,by=50ms":                  {Kind: Delay, PerStream: 1, For: 2 * time.Second, By: 50 * time.Millisecond},
		"throttle:0.25,rate=4096/s":               {Kind: Throttle, PerStream: 0.25, Rate: 4096},
		"status@resume-before-headers:1,code=429": {Kind: Status, At: []Place{ResumeBeforeHeaders}, PerStream: 1, Code: 429},
	} {
		if f.String() != want {
			t.Errorf("%q, want %q", f, want)
		}
	}
}

// GET streams and handshakes have their own faults, and those of the load are not dealt
// to them.
func TestFaultsBesideTheLoad(t *testing.T) {
	cfg := full(4, Fault{Kind: RST, At: []Place{MidEvent, GetStream, Initialize}, PerStream: 1.5}, Fault{Kind: Stall, At: []Place{GetStream}, PerStream: 2})
	cfg.GetStreams, cfg.FirstGet, cfg.Sessions = 20, 205, 10
	p := mustPlan(t, cfg)
	total := p.Total()
	for place, want := range map[Place]int{MidEvent: 300, GetStream: 30 + 40, Initialize: 15} {
		if got := total.ByPlace(place); got != want {
			t.Errorf("%s: %d, want %d", place, got, want)
		}
	}
	if lines := strings.Count(text(t, p), "\n"); lines != total.Faults || total.Faults != 385 {
		t.Errorf("%d lines for %d faults", lines, total.Faults)
	}
	for n := range uint32(230) {
		beside := n >= 205 && n < 225
		for _, f := range p.Stream(n) {
			if (f.Place == GetStream) != beside || f.After < 1 || f.After > 50 {
				t.Errorf("stream %d: %+v", n, f)
			}
		}
		if inside := n >= 1 && n <= 200 || beside; inside != (p.Victim(n) != nil) {
			t.Errorf("stream %d: %v", n, p.Victim(n))
		}
		if (n >= 1 && n <= 10) != (p.Handshake(n) != nil) {
			t.Errorf("session %d: %v", n, p.Handshake(n))
		}
	}
	for _, change := range []func(*PlanConfig){
		func(c *PlanConfig) { c.FirstGet = 200 }, func(c *PlanConfig) { c.Sessions = -1 }, func(c *PlanConfig) { c.Seat = 9 },
		func(c *PlanConfig) { c.Start = -1 }, func(c *PlanConfig) { c.Start, c.Stop = 2, 2 },
	} {
		bad := cfg
		change(&bad)
		if _, err := NewPlan(bad); err == nil {
			t.Errorf("planned %+v", bad)
		}
	}
}

// Whoever keeps the text of a plan keeps all that it does.
func TestThePlansTextSaysEverything(t *testing.T) {
	base := full(4, Fault{Kind: Stall, PerStream: 1, For: time.Second}, Fault{Kind: Storm, Every: time.Second})
	changes := map[string]func(*PlanConfig){
		"for":   func(c *PlanConfig) { c.Mix[0].For = 2 * time.Second },
		"by":    func(c *PlanConfig) { c.Mix[0].Kind, c.Mix[0].By = Delay, 1 },
		"by 2":  func(c *PlanConfig) { c.Mix[0].Kind, c.Mix[0].By = Delay, 2 },
		"rate":  func(c *PlanConfig) { c.Mix[0].Kind, c.Mix[0].Rate = Throttle, 1 },
		"rate2": func(c *PlanConfig) { c.Mix[0].Kind, c.Mix[0].Rate = Throttle, 2 },
		"code":  func(c *PlanConfig) { c.Mix[0].Kind = Status },
		"code2": func(c *PlanConfig) { c.Mix[0].Kind, c.Mix[0].Code = Status, 502 },
		"every": func(c *PlanConfig) { c.Mix[1].Every = 2 * time.Second },
		"share": func(c *PlanConfig) { c.Mix[1].Share = 0.5 },
		"start": func(c *PlanConfig) { c.Start = 1 },
		"stop":  func(c *PlanConfig) { c.Stop = 9 },
		"none":  func(*PlanConfig) {},
	}
	seen := map[string]string{}
	for name, change := range changes {
		cfg := base
		cfg.Mix = append([]Fault(nil), base.Mix...)
		change(&cfg)
		p := mustPlan(t, cfg)
		if other, ok := seen[p.Hash()]; ok {
			t.Errorf("%s and %s have the same text", name, other)
		}
		seen[p.Hash()] = name
	}
	if p := mustPlan(t, base); !strings.HasPrefix(text(t, p), "run: storm every 1s share 1\n") || p.Total().Faults != 200 || len(p.Storms()) != 1 {
		t.Error(fmt.Sprint(p.Total()), text(t, p)[:60])
	}
}

// A refusal can be made up by the generator's own link, and by no proxy.
func TestSeatsDecideWhatIsPlanned(t *testing.T) {
	cfg := full(1, Fault{Kind: Refuse, PerStream: 1}, Fault{Kind: RST, At: []Place{MidEvent}, PerStream: 1})
	if n := mustPlan(t, cfg).Total().ByKind(Refuse); n != 200 {
		t.Errorf("client: %d", n)
	}
	cfg.Seat = SeatProxy
	p := mustPlan(t, cfg)
	if n := p.Total().ByKind(Refuse); n != 0 || len(p.Skipped()) != 1 || !strings.Contains(p.Skipped()[0].Why, "proxy") {
		t.Errorf("proxy: %d, skipped %v", n, p.Skipped())
	}
}
