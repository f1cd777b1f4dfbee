package chaos

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// call is a target in miniature: a log of a priming event, messages and a response,
// which goes on growing by gap events while the client reconnects.
type call struct {
	log     []string
	emitted int // events in the log so far
	cursor  int // events the client has whole
	gap     int
	victim  *Victim
	struck  []Injection
}

func newCall(messages, gap int, v *Victim) *call {
	c := &call{log: []string{priming}, gap: gap, victim: v}
	for n := range messages {
		c.log = append(c.log, message(n+1))
	}
	c.log = append(c.log, response)
	return c
}

// run attempts until the response is delivered, as a client with a cursor would, and
// returns how many attempts that took.
func (c *call) run(t *testing.T) int {
	t.Helper()
	for attempt := 0; ; attempt++ {
		if attempt > 50 {
			t.Fatalf("no end in sight: %+v", c.struck)
		}
		ex := Exchange{
			Attempt: attempt, Resume: attempt > 0,
			Delivered: max(0, min(c.cursor, len(c.log)-1)-1), Expected: len(c.log) - 2, Victim: c.victim,
		}
		head := chunkedHead
		if ex.Resume {
			head = missedHead(c.emitted - c.cursor)
		}
		o := play(head+chunked(c.log[c.cursor:]...)+lastChunk, 1000, 1000, ex)
		got := ""
		if strings.HasPrefix(o.got, "HTTP/1.1 200") { // and not made up
			got, _ = payload(t, o.got, 1)
		}
		want := strings.Join(c.log[c.cursor:], "")
		if !strings.HasPrefix(want, got) {
			t.Fatalf("attempt %d delivered %q, no prefix of %q", attempt, got, want)
		}
		for c.cursor < len(c.log) && strings.HasPrefix(got, c.log[c.cursor]) {
			got = got[len(c.log[c.cursor]):]
			c.cursor++
		}
		c.struck = append(c.struck, o.injections...)
		if len(o.injections) == 0 || c.cursor == len(c.log) {
			return attempt + 1
		}
		c.emitted = min(len(c.log), max(c.emitted, c.cursor)+c.gap)
	}
}

// Where the target goes on sending while the client is away, nearly all that is
// planned happens, at every place; and what happens was planned.
func TestWhatIsPlannedHappens(t *testing.T) {
	planned, struck := happen(t, 6)
	for _, place := range drawnPlaces() {
		if struck[place]*100 < planned[place]*95 {
			t.Errorf("%s: only %d of %d happened", place, struck[place], planned[place])
		}
	}
}

// In a burst all is in the log before the first resume: nothing is ever live again,
// and only that is not reached.
func TestInABurstNothingIsLiveAgain(t *testing.T) {
	planned, struck := happen(t, 100)
	for _, place := range drawnPlaces() {
		if place == AtLive && struck[place] > 0 {
			t.Errorf("%d of %d struck at-live and nothing was live", struck[place], planned[place])
		}
		if place != AtLive && struck[place]*100 < planned[place]*95 {
			t.Errorf("%s: only %d of %d happened", place, struck[place], planned[place])
		}
	}
}

// happen plays five plans against targets whose log grows by gap events per resume.
func happen(t *testing.T, gap int) (planned, struck map[Place]int) {
	planned, struck = map[Place]int{}, map[Place]int{}
	for seed := range uint64(5) {
		p := mustPlan(t, full(seed))
		for n := range 200 {
			v := p.Victim(uint32(n + 1))
			if v == nil {
				continue
			}
			c := newCall(50, gap, v)
			c.run(t)
			for _, f := range v.faults {
				planned[f.Place]++
			}
			for _, in := range c.struck {
				struck[in.Place]++
				checkInjection(t, in, v.faults[in.Planned].Planned)
			}
			if len(c.struck)+v.Left() != v.Planned() {
				t.Fatalf("stream %d: %d struck, %d left of %d", n+1, len(c.struck), v.Left(), v.Planned())
			}
		}
	}
	return planned, struck
}

// The same for what ends no link, and what never lets a request out: all of it happens,
// and not one byte of the call is lost to it.
func TestWhateverIsPlannedHappens(t *testing.T) {
	mix := []Fault{
		{Kind: RST, PerStream: 1}, {Kind: Blackhole, For: time.Second, PerStream: 0.5}, {Kind: Stall, PerStream: 0.5},
		{Kind: Delay, By: time.Millisecond, PerStream: 0.5}, {Kind: Throttle, Rate: 4096, PerStream: 0.5}, {Kind: Slice, PerStream: 0.5},
		{Kind: Refuse, PerStream: 0.5}, {Kind: Status, PerStream: 0.5}, {Kind: Slice, At: []Place{Headers}, PerStream: 0.25},
	}
	synctest.Test(t, func(t *testing.T) {
		p := mustPlan(t, full(5, mix...))
		planned, struck := map[string]int{}, map[string]int{}
		for n := range 200 {
			v := p.Victim(uint32(n + 1))
			if v == nil {
				continue
			}
			c := newCall(50, 6, v)
			c.run(t)
			for _, f := range v.faults {
				planned[f.Kind.String()+"@"+f.Place.String()]++
			}
			for _, in := range c.struck {
				struck[in.Kind.String()+"@"+in.Place.String()]++
				if f := v.faults[in.Planned].Planned; in.Kind != f.Kind || in.Place != f.Place || in.For != f.For || in.Ends != ends(f) {
					t.Errorf("%+v is not the planned %+v", in, f)
				}
			}
		}
		all := 0
		for cell, n := range planned {
			least := 75 // with so many faults a call is often over before it is live again
			if strings.HasSuffix(cell, "at-live") {
				least = 50
			}
			if all += n; struck[cell]*100 < n*least {
				t.Errorf("%s: only %d of %d happened", cell, struck[cell], n)
			}
		}
		if all < 200*4 || len(planned) != 10+3+4*4+2+1 {
			t.Errorf("%d planned in %d cells", all, len(planned))
		}
	})
}

func checkInjection(t *testing.T, in Injection, f Planned) {
	t.Helper()
	switch {
	case in.Kind != f.Kind || in.Place != f.Place || in.Opening != f.Opening:
		t.Errorf("%+v is not the planned %+v", in, f)
	case !in.AfterID:
		t.Errorf("%+v: the stream was primed before", in)
	case (in.Place == MidReplay) && !in.InReplay, in.Place == AtLive && in.InReplay:
		t.Errorf("%+v: wrong side of the caught-up point", in)
	case places[in.Place].resumed != (in.Attempt > 0) && places[in.Place].resumed:
		t.Errorf("%+v on the first attempt", in)
	}
}
