package chaos

import (
	"strings"
	"testing"
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
		got, _ := payload(t, o.got, 1)
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
