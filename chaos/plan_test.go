package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// full is a target that shows everything, with the mix of the profile smoke.
func full(seed uint64, mix ...Fault) PlanConfig {
	if mix == nil {
		mix = []Fault{
			{Kind: RST, PerStream: 1.5}, {Kind: FIN, PerStream: 0.5},
			{Kind: ChunkEnd, At: []Place{MidEvent, MidResponse}, PerStream: 0.5},
		}
	}
	return PlanConfig{Seed: seed, Streams: 200, Messages: 50, Mix: mix, Priming: true, IDs: true, Head: true}
}

// drawnPlaces are those that a fault may strike which names none.
func drawnPlaces() []Place { return AllPlaces()[:AtLive+1] }

func mustPlan(t *testing.T, cfg PlanConfig) *Plan {
	t.Helper()
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(t *testing.T, p *Plan) string {
	t.Helper()
	var b strings.Builder
	if n, err := p.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d: %v", n, b.Len(), err)
	}
	return b.String()
}

func TestAPlanIsAFunctionOfItsConfiguration(t *testing.T) {
	a, b, c := mustPlan(t, full(7)), mustPlan(t, full(7)), mustPlan(t, full(8))
	if text(t, a) != text(t, b) || a.Hash() != b.Hash() {
		t.Error("the same seed gave two plans")
	}
	if a.Hash() == c.Hash() || text(t, a) == text(t, c) {
		t.Error("another seed gave the same plan")
	}
	for n := uint32(200); n > 0; n-- { // backwards: nothing may depend on the order of asking
		if fmt.Sprint(a.Stream(n)) != fmt.Sprint(b.Stream(n)) {
			t.Fatalf("stream %d differs", n)
		}
	}
	const pinned = "3f6dcffe74440e86799d3c8133d09db18000a4b8ef6ba8b8abceead552e481f1"
	if a.Hash() != pinned {
		t.Errorf("the plan of seed 7 is now %s: recorded runs can no longer be repeated by their seed", a.Hash())
	}
	if lines := strings.Count(text(t, a), "\n"); lines != a.Total().Faults {
		t.Errorf("%d lines for %d faults", lines, a.Total().Faults)
	}
}

func TestNumbersPerStreamAreExact(t *testing.T) {
	cases := []struct {
		per     float64
		streams int
		total   int
	}{{1, 200, 200}, {0.5, 200, 100}, {0.25, 10, 3}, {2.5, 7, 18}, {0.1, 50, 5}, {3, 1, 3}, {0.001, 100, 0}, {0.01, 100, 1}, {1.5, 0, 0}}
	for _, c := range cases {
		cfg := full(3, Fault{Kind: RST, At: []Place{BetweenEvents, MidEvent}, PerStream: c.per})
		cfg.Streams = c.streams
		p := mustPlan(t, cfg)
		if got := p.Total().Faults; got != c.total {
			t.Errorf("%v for each of %d streams: %d planned, want %d", c.per, c.streams, got, c.total)
		}
		for n := range c.streams {
			got := len(p.Stream(uint32(n + 1)))
			if low := int(c.per); got != low && got != low+1 {
				t.Errorf("%v per stream: stream %d has %d", c.per, n+1, got)
			}
		}
	}
}

func TestSharesOfTwoFaultsAreIndependent(t *testing.T) {
	p := mustPlan(t, full(1, Fault{Kind: RST, At: []Place{MidEvent}, PerStream: 0.5}, Fault{Kind: FIN, At: []Place{MidEvent}, PerStream: 0.5}))
	both := 0
	for n := range 200 {
		if len(p.Stream(uint32(n+1))) == 2 {
			both++
		}
	}
	if both < 30 || both > 70 {
		t.Errorf("%d of 200 streams have both of two faults that half of them have", both)
	}
}

func TestPlacesAreDrawnEvenly(t *testing.T) {
	cfg := full(5, Fault{Kind: RST, PerStream: 1})
	cfg.Streams = 600
	total := mustPlan(t, cfg).Total()
	for _, place := range drawnPlaces() {
		if got := total.ByPlace(place); !places[place].resumed && got != 100 || places[place].resumed && got != 0 {
			t.Errorf("%s: %d of 600 faults at the six places that need no cut before them", place, got)
		}
	}
	cfg.Mix[0].PerStream = 3
	total = mustPlan(t, cfg).Total()
	for _, place := range drawnPlaces() {
		if got := total.ByPlace(place); got < 130 || got > 240 {
			t.Errorf("%s: %d of 1800 faults at ten places", place, got)
		}
	}
	smoke := mustPlan(t, full(7)).Total()
	if n := smoke.ByKind(ChunkEnd); n != 100 {
		t.Errorf("chunk-end: %d of 100", n)
	}
	for _, place := range drawnPlaces() {
		if n := smoke.ByPlace(place); n < 20 {
			t.Errorf("smoke: only %d at %s", n, place)
		}
	}
}

func TestFewStreamsMeetAllPlacesToo(t *testing.T) {
	cfg := full(5, Fault{Kind: RST, At: []Place{BetweenEvents, MidEvent, BeforeResponse, MidResponse}, PerStream: 4})
	cfg.Streams = 3
	total := mustPlan(t, cfg).Total()
	for _, c := range total.Cells {
		if c.Planned != 3 {
			t.Errorf("%s: %d of 12 faults at four places", c.Place, c.Planned)
		}
	}
}

func TestWhatAStreamHasOnceIsPlannedOnce(t *testing.T) {
	p := mustPlan(t, full(9, Fault{Kind: RST, At: []Place{AfterResponse, AfterPriming}, PerStream: 1}, Fault{Kind: FIN, At: []Place{AfterResponse}, PerStream: 1}))
	for n := range 200 {
		f := p.Stream(uint32(n + 1))
		if len(f) != 2 || f[0].Place != AfterPriming || f[0].Kind != RST || f[1].Place != AfterResponse || f[1].Kind != FIN {
			t.Fatalf("stream %d: %+v", n+1, f)
		}
	}
}

func TestCutsAmongTheMessagesKeepApart(t *testing.T) {
	for _, messages := range []int{4, 50} {
		cfg := full(9, Fault{Kind: RST, At: []Place{BetweenEvents}, PerStream: 4})
		cfg.Messages = messages
		p := mustPlan(t, cfg)
		for n := range 200 {
			f := p.Stream(uint32(n + 1))
			for i := 1; i < len(f); i++ {
				if f[i].After <= f[i-1].After {
					t.Fatalf("%d messages, stream %d: %+v", messages, n+1, f)
				}
			}
		}
	}
}

// Every stream's faults must be able to happen, in every kind of run.
func TestEveryPlanCanHappen(t *testing.T) {
	mixes := [][]Fault{
		nil,
		{{Kind: RST, PerStream: 4}},
		{{Kind: RST, At: []Place{MidReplay}, PerStream: 1}},
		{{Kind: FIN, At: []Place{ResumeBeforeHeaders, AtLive}, PerStream: 2}},
		{{Kind: RST, At: []Place{AfterResponse, AfterPriming, MidReplay}, PerStream: 3}},
		{{Kind: RST, At: []Place{BeforeResponse, ResumeBeforeFirstEvent}, PerStream: 2}},
		{{Kind: RST, PerStream: 0.5}, {Kind: Delay, By: 1, PerStream: 1}, {Kind: Stall, PerStream: 1.5}, {Kind: Refuse, PerStream: 0.5}, {Kind: Status, PerStream: 0.5}},
		{{Kind: Blackhole, PerStream: 1}, {Kind: Slice, At: []Place{MidReplay, AtLive}, PerStream: 1}, {Kind: Throttle, Rate: 9, At: []Place{Headers}, PerStream: 0.5}},
		{{Kind: RST, At: []Place{Request, Headers, BeforeFirstID, MidEvent}, PerStream: 1.5}, {Kind: FIN, At: []Place{Request}, PerStream: 0.5}},
		{{Kind: ChunkEnd, PerStream: 2}, {Kind: RST, At: []Place{AfterResponse}, PerStream: 1}},
	}
	for i, mix := range mixes {
		for _, messages := range []int{2, 3, 50} {
			for seed := range uint64(4) {
				cfg := full(seed, mix...)
				cfg.Messages = messages
				p := mustPlan(t, cfg)
				for n := range cfg.Streams {
					if why := cannotHappen(p.Stream(uint32(n+1)), messages); why != "" {
						t.Fatalf("mix %d, %d messages, seed %d, stream %d: %s in %+v", i, messages, seed, n+1, why, p.Stream(uint32(n+1)))
					}
				}
			}
		}
	}
}

// cannotHappen says why a stream's faults cannot all happen in their order.
func cannotHappen(faults []Planned, messages int) string {
	early, cut, after := false, false, 0
	for i, f := range faults {
		spec := places[f.Place]
		switch {
		case misfit(f.Kind, f.Place) != "":
			return "a kind at a place where it does not fit"
		case f.Place == AfterResponse && i != len(faults)-1:
			return "after-response is not last"
		case f.Place == AfterPriming && i > 0 && faults[i-1].Place != Headers:
			return "after-priming is not first"
		case spec.fatal && ends(f) && len(faults) > 1:
			return "a stream that nobody can resume has more to come"
		case spec.resumed && !cut:
			return "a resume without a cut before it"
		case spec.replayed && (!early || messages > 2 && f.After > (messages+1)/2):
			return "a replay with nothing left to replay"
		case !spec.resumed && f.After < after:
			return "positions that go back"
		case f.After > messages || (f.Place == BetweenEvents || f.Place == MidEvent) && f.After < 1:
			return "a position that no message has"
		case f.K < 0 || f.K >= 1 || f.Offset < 0 || f.Offset >= 1:
			return "a draw outside [0, 1)"
		}
		early = early || ends(f) && (f.Place == AfterPriming || f.Place == BetweenEvents || f.Place == MidEvent)
		cut = cut || ends(f)
		if !spec.resumed {
			after = f.After
		}
	}
	return ""
}

// Nobody who asks for half a cut per stream gets more than that, whatever the places.
func TestNumbersAreExactWhereverAnyPlaceCanComeFirst(t *testing.T) {
	resumes := []Place{ResumeBeforeHeaders, ResumeBeforeFirstEvent, MidReplay, AtLive}
	cases := []struct {
		name  string
		mix   []Fault
		total int
	}{
		{"every place, half a cut", []Fault{{Kind: RST, PerStream: 0.5}}, 2500},
		{"every place, one and a half", []Fault{{Kind: RST, PerStream: 1.5}}, 7500},
		{"two items that may meet", []Fault{{Kind: RST, PerStream: 0.5}, {Kind: FIN, PerStream: 0.5}}, 5000},
		{"resume places and one that comes first", []Fault{{Kind: RST, At: append([]Place{MidEvent}, resumes...), PerStream: 1}}, 5000},
		{"the same, twice", []Fault{{Kind: RST, At: append([]Place{MidEvent}, resumes...), PerStream: 2}}, 10000},
		{"a late place, twice", []Fault{{Kind: RST, At: []Place{MidResponse, ResumeBeforeHeaders}, PerStream: 2}}, 10000},
		{"smoke", full(1).Mix, 12500},
	}
	for _, c := range cases {
		cfg := full(11, c.mix...)
		cfg.Streams = 5000
		p := mustPlan(t, cfg)
		if total := p.Total(); total.Faults != c.total || total.Opening != 0 {
			t.Errorf("%s: %d faults, %d of them added; want %d", c.name, total.Faults, total.Opening, c.total)
		}
		for n := range cfg.Streams {
			if why := cannotHappen(p.Stream(uint32(n+1)), cfg.Messages); why != "" {
				t.Fatalf("%s, stream %d: %s in %+v", c.name, n+1, why, p.Stream(uint32(n+1)))
			}
		}
	}
	p := mustPlan(t, full(11, Fault{Kind: RST, PerStream: 0.5}))
	var left []Place
	for _, s := range p.Skipped() {
		left = append(left, s.Place)
	}
	if !slices.Equal(left, resumes) {
		t.Errorf("left out without a word: %v", left)
	}
}

func ends(f Planned) bool { return kinds[f.Kind].lasts == nil }

func TestAnOpeningCutIsAddedOnlyWhereItIsNeeded(t *testing.T) {
	cases := []struct {
		name    string
		at      []Place
		per     float64
		opening int
	}{
		{"only a resume place", []Place{ResumeBeforeHeaders}, 1, 200},
		{"only a replay place", []Place{AtLive}, 1, 200},
		{"no resume place", []Place{MidEvent, AfterResponse}, 1, 0},
	}
	for _, c := range cases {
		p := mustPlan(t, full(2, Fault{Kind: FIN, At: c.at, PerStream: c.per}))
		total := p.Total()
		if total.Opening != c.opening || total.Faults != 200+c.opening {
			t.Errorf("%s: %d opening cuts of %d faults, want %d", c.name, total.Opening, total.Faults, c.opening)
		}
		for n := range 200 {
			for _, f := range p.Stream(uint32(n + 1)) {
				if f.Opening && (f.Kind != FIN || f.Place != BetweenEvents) {
					t.Fatalf("%s: opened by %+v", c.name, f)
				}
			}
		}
	}
	both := mustPlan(t, full(2, Fault{Kind: RST, At: []Place{MidEvent}, PerStream: 1}, Fault{Kind: FIN, At: []Place{MidReplay}, PerStream: 1})).Total()
	if both.Opening != 0 || both.Faults != 400 {
		t.Errorf("a cut and a replay place: %+v", both)
	}
	late := mustPlan(t, full(2, Fault{Kind: RST, At: []Place{MidResponse}, PerStream: 1}, Fault{Kind: FIN, At: []Place{ResumeBeforeHeaders}, PerStream: 1})).Total()
	if late.Opening != 0 {
		t.Errorf("a late cut is enough for a resume: %+v", late)
	}
}

func TestImpossibleCellsAreListedAndNeverPlanned(t *testing.T) {
	bare := PlanConfig{Streams: 50, Messages: 10, Mix: []Fault{{Kind: RST, PerStream: 3}}}
	unprimed, headless, silent, short := full(1, bare.Mix...), full(1, bare.Mix...), full(1, bare.Mix...), full(1, bare.Mix...)
	unprimed.Priming, headless.Head, silent.Messages, short.Messages = false, false, 0, 1
	cases := []struct {
		name    string
		cfg     PlanConfig
		missing []Place
		each    int // faults of every stream; 0: not fixed
	}{
		{"no ids", bare, []Place{AfterPriming, ResumeBeforeHeaders, ResumeBeforeFirstEvent, MidReplay, AtLive}, 1},
		{"no priming", unprimed, []Place{AfterPriming}, 0},
		{"head not named", headless, []Place{MidReplay, AtLive}, 0},
		{"no messages", silent, []Place{BetweenEvents, MidEvent, MidReplay}, 0},
		{"one message", short, []Place{MidReplay}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := mustPlan(t, c.cfg)
			var skipped []Place
			for _, s := range p.Skipped() {
				skipped = append(skipped, s.Place)
				if s.Why == "" || s.Why != Impossible(s.Kind, s.Place, SeatClient, c.cfg) {
					t.Errorf("skipped without the reason: %+v", s)
				}
			}
			if !slices.Equal(skipped, c.missing) {
				t.Errorf("skipped %v, want %v", skipped, c.missing)
			}
			for _, place := range drawnPlaces() {
				if n := p.Total().ByPlace(place); (n == 0) != slices.Contains(c.missing, place) {
					t.Errorf("%d planned at %s", n, place)
				}
			}
			for n := range c.cfg.Streams {
				if got := len(p.Stream(uint32(n + 1))); c.each > 0 && got != c.each {
					t.Fatalf("stream %d has %d faults", n+1, got)
				}
			}
		})
	}
	for _, place := range drawnPlaces() {
		if inside := place == MidEvent || place == MidResponse; (Impossible(ChunkEnd, place, SeatClient, full(1)) == "") != inside {
			t.Errorf("chunk-end@%s: %q", place, Impossible(ChunkEnd, place, SeatClient, full(1)))
		}
		if Impossible(RST, place, SeatClient, full(1)) != "" || Impossible(None, place, SeatClient, full(1)) == "" {
			t.Errorf("rst or none at %s", place)
		}
	}
}

func TestMixesThatCannotBePlanned(t *testing.T) {
	cases := []struct {
		name string
		cfg  PlanConfig
		want string
	}{
		{"nothing possible", PlanConfig{Streams: 1, Messages: 1, Mix: []Fault{{Kind: RST, At: []Place{MidReplay}, PerStream: 1}}}, "rst@mid-replay: the target gives no event ids"},
		{"the end of a stream twice", full(1, Fault{Kind: RST, At: []Place{AfterResponse}, PerStream: 1.5}), "2 faults of a stream can only be after-response"},
		{"twice by two items", full(1, Fault{Kind: RST, At: []Place{AfterResponse}, PerStream: 1}, Fault{Kind: FIN, At: []Place{AfterResponse, AfterPriming}, PerStream: 2}), "3 faults of a stream can only be after-priming or after-response"},
		{"all wrong at once", PlanConfig{Streams: -1, Messages: -2, Mix: []Fault{{Kind: RST}, {Kind: 77, PerStream: 1}, {Kind: RST, At: []Place{99}, PerStream: math.NaN()}}}, "streams must not be negative"},
	}
	for _, c := range cases {
		_, err := NewPlan(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	for _, part := range []string{"messages must", "per stream must", "no kind 77", "no place 99"} {
		if _, err := NewPlan(cases[3].cfg); !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
}

func TestEmptyMixesPlanNothing(t *testing.T) {
	for _, mix := range [][]Fault{{}, {{Kind: None}}} {
		p := mustPlan(t, PlanConfig{Streams: 10, Messages: 5, Mix: mix})
		if p.Total().Faults != 0 || p.Victim(3) != nil || text(t, p) != "" {
			t.Errorf("%v planned %+v", mix, p.Total())
		}
	}
}

func TestStreamsOutsideTheLoadHaveNoVictim(t *testing.T) {
	p := mustPlan(t, full(1, Fault{Kind: RST, PerStream: 1}))
	if p.Victim(0) != nil || p.Victim(201) != nil {
		t.Error("a control call is to be cut")
	}
	v := p.Victim(200)
	if v.Planned() != len(p.Stream(200)) || v.Left() != v.Planned() {
		t.Errorf("%d planned, %d left", v.Planned(), v.Left())
	}
}

func TestPermutationsAreBijections(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 63, 64, 65, 1000} {
		hit := make([]bool, n)
		for i := range n {
			j := permute(99, i, n)
			if hit[j] {
				t.Fatalf("n=%d: %d is hit twice", n, j)
			}
			hit[j] = true
		}
	}
}
