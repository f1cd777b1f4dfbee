package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PlanConfig is all that a fault plan depends on.
type PlanConfig struct {
	Seed uint64
	// Streams is how many streams of the load there are, numbered from 1.
	Streams int
	// Messages is how many messages a call sends before its response; the most, where
	// streams make different calls. MessagesOf then says how many those of a stream are.
	Messages   int
	MessagesOf func(stream uint32) int
	// Mix is the faults; empty, or nothing but None: no faults.
	Mix []Fault
	// Priming, IDs and Head say whether the target primes its streams, gives event ids,
	// and names the head of its log when a stream is resumed.
	Priming, IDs, Head bool
	// Seat is where the faults strike from.
	Seat Seat
	// Sessions is how many handshakes there are, numbered from 1. GetStreams is how many
	// standalone GET streams there are; their numbers go from FirstGet on.
	Sessions, GetStreams int
	FirstGet             uint32
	// OnGet: the messages of the load come on GET streams which nothing resumes. Its streams
	// are GET streams then, none come besides, and each meets one fault at most.
	OnGet bool
	// Start and Stop are the window of the run in which faults strike; Stop 0: to its end.
	// A fault whose position is passed outside of it strikes at its next one, if any.
	Start, Stop time.Duration
}

// Validate returns all complaints, joined. It does not ask what is possible.
func (c PlanConfig) Validate() error {
	var errs []error
	if c.Streams < 0 {
		errs = append(errs, fmt.Errorf("streams must not be negative, not %d", c.Streams))
	}
	if c.Messages < 0 {
		errs = append(errs, fmt.Errorf("messages must not be negative, not %d", c.Messages))
	}
	if c.Sessions < 0 || c.GetStreams < 0 {
		errs = append(errs, fmt.Errorf("sessions and GET streams must not be negative, not %d and %d", c.Sessions, c.GetStreams))
	}
	if c.GetStreams > 0 && int(c.FirstGet) <= c.Streams {
		errs = append(errs, fmt.Errorf("GET streams are numbered behind the %d streams of the load, not from %d", c.Streams, c.FirstGet))
	}
	if int(c.Seat) >= len(seats) {
		errs = append(errs, fmt.Errorf("there is no seat %d", c.Seat))
	}
	if c.Start < 0 || c.Stop < 0 || c.Stop > 0 && c.Stop <= c.Start {
		errs = append(errs, fmt.Errorf("a window from %v to %v has no time in it", c.Start, c.Stop))
	}
	for _, f := range c.Mix {
		errs = append(errs, f.Validate())
	}
	return errors.Join(errs...)
}

// Planned is one fault that one stream will meet, if it gets there.
type Planned struct {
	Kind  Kind
	Place Place
	// After is how many messages of the stream come first: the fault strikes at the
	// first opportunity at or after message After; at a resume place, on a resume
	// that comes with at least that many delivered.
	After int
	// K and Offset are draws in [0, 1): which replayed event, which byte of the event.
	K, Offset float64
	// Opening marks a cut that nobody asked for, planned so that a resume happens.
	Opening bool
	// For, By, Rate and Code are those of the [Fault], with For worked out.
	For, By time.Duration
	Rate    float64
	Code    int
}

// Plan says what every stream will meet. It is immutable and may be shared.
type Plan struct {
	cfg PlanConfig
	// load, gets and sessions are the items that strike each of those.
	load, gets, sessions population
	// storms are the faults of the whole run.
	storms []Fault
	// skipped lists the impossible cells that were asked for.
	skipped []Skip
	// strikes: storms may come that nobody planned.
	strikes bool
}

// population is what the faults of an item are dealt to.
type population struct {
	first uint32
	count int
	items []item
}

// Skip is a cell that was asked for and is not planned, with the reason.
type Skip struct {
	Kind  Kind
	Place Place
	Why   string
}

// item is a Fault with its possible places and its numbers worked out.
type item struct {
	fault  *Fault
	number uint64 // its place in the mix, a key of draws
	places []Place
	// base strike every stream; extra streams get one more.
	base, extra uint64
}

// NewPlan draws the plan. A mix that asks for faults of which none is possible is an
// error, so is one that asks a stream to meet twice what it has only once.
func NewPlan(cfg PlanConfig) (*Plan, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fault plan: %w", err)
	}
	p := &Plan{
		cfg:      cfg,
		load:     population{first: 1, count: cfg.Streams},
		gets:     population{first: cfg.FirstGet, count: cfg.GetStreams},
		sessions: population{first: 1, count: cfg.Sessions},
	}
	if cfg.OnGet {
		p.gets, p.load.count = p.load, 0
	}
	asked, possible := false, false
	for i := range cfg.Mix {
		switch f := &cfg.Mix[i]; {
		case f.Kind == None:
		case kinds[f.Kind].runWide:
			asked, possible = true, true
			p.storms = append(p.storms, *f)
		default:
			asked = true
			possible = p.share(f, uint64(i)) || possible
		}
	}
	if asked && !possible {
		return nil, fmt.Errorf("fault plan: no fault of the mix is possible: %s", p.skipped[0])
	}
	p.leaveOut()
	if err := p.checkOnce(); err != nil {
		return nil, fmt.Errorf("fault plan: %w", err)
	}
	return p, nil
}

// share works out where a fault strikes and deals it to those that have such places. It
// tells whether any has.
func (p *Plan) share(f *Fault, number uint64) bool {
	at := f.At
	if len(at) == 0 {
		for _, place := range AllPlaces() {
			if (place.DrawnByDefault() || p.cfg.OnGet && place == GetStream) && misfit(f.Kind, place) == "" {
				at = append(at, place)
			}
		}
	}
	some := false
	for _, to := range []*population{&p.load, &p.gets, &p.sessions} {
		base, share := math.Modf(f.PerStream)
		it := item{fault: f, number: number, base: uint64(base), extra: uint64(math.Round(share * float64(to.count)))}
		for _, place := range at {
			if p.of(place) != to {
				continue
			}
			if why := Impossible(f.Kind, place, p.cfg.Seat, p.cfg); why != "" {
				p.skipped = append(p.skipped, Skip{f.Kind, place, why})
				continue
			}
			it.places = append(it.places, place)
		}
		if len(it.places) > 0 {
			to.items = append(to.items, it)
			some = true
		}
	}
	return some
}

// of returns who meets a place.
func (p *Plan) of(place Place) *population {
	switch place {
	case Initialize:
		return &p.sessions
	case GetStream:
		return &p.gets
	}
	return &p.load
}

// most is how many faults of the item a stream can get.
func (it item) most() int {
	if it.extra > 0 {
		return int(it.base) + 1
	}
	return int(it.base)
}

// onceOnly tells that the item has no place that a stream can meet twice.
func (it item) onceOnly() bool {
	for _, p := range it.places {
		if !places[p].once {
			return false
		}
	}
	return true
}

// checkOnce refuses mixes that ask for more than a stream has of those places it has
// once.
func (p *Plan) checkOnce() error {
	if !p.cfg.IDs || p.cfg.OnGet {
		return nil // one cut per stream in any case
	}
	want := 0
	var have []Place
	for _, it := range p.load.items {
		if !it.onceOnly() {
			continue
		}
		want += it.most()
		for _, place := range it.places {
			if !slices.Contains(have, place) {
				have = append(have, place)
			}
		}
	}
	slices.Sort(have)
	each := ""
	if len(have) > 1 {
		each = " each"
	}
	if want > len(have) {
		return fmt.Errorf("%d faults of a stream can only be %s, which it meets once%s", want, join(have, " or "), each)
	}
	return nil
}

func join(at []Place, between string) string {
	names := make([]string, len(at))
	for i, p := range at {
		names[i] = p.String()
	}
	return strings.Join(names, between)
}

// Skipped lists what was asked for and is impossible.
func (p *Plan) Skipped() []Skip { return p.skipped }

// String names the cell and the reason.
func (s Skip) String() string { return fmt.Sprintf("%s@%s: %s", s.Kind, s.Place, s.Why) }

// Victim returns the state of a stream that has met none of its faults; nil for one
// that nothing can strike, such as a control call.
func (p *Plan) Victim(stream uint32) *Victim {
	v := newVictim(p.Stream(stream))
	if v == nil && p.stormy() && (p.load.has(stream) || p.gets.has(stream)) {
		v = &Victim{}
	}
	return v
}

// AllowStrikes makes every link of the load follow its stream, as it has to if
// [Nemesis.Strike] may end it at any moment. It is called before the load; what was
// planned stays as it is.
func (p *Plan) AllowStrikes() { p.strikes = true }

// stormy tells whether storms may come.
func (p *Plan) stormy() bool { return p.strikes || len(p.storms) > 0 }

// Handshake returns the same for the handshake of a session, numbered from 1.
func (p *Plan) Handshake(session uint32) *Victim { return newVictim(p.Session(session)) }

func newVictim(planned []Planned) *Victim {
	if len(planned) == 0 {
		return nil
	}
	v := &Victim{faults: make([]pending, len(planned)), left: len(planned)}
	for i, f := range planned {
		v.faults[i].Planned = f
	}
	return v
}

func (o *population) has(n uint32) bool {
	return n >= o.first && n-o.first < uint32(o.count)
}

// Active tells whether faults may strike at that time of the run.
func (p *Plan) Active(elapsed time.Duration) bool {
	return elapsed >= p.cfg.Start && (p.cfg.Stop == 0 || elapsed < p.cfg.Stop)
}

// Storms returns the faults that strike the whole run, which no total counts.
func (p *Plan) Storms() []Fault { return p.storms }

// Totals are the numbers of a plan.
type Totals struct {
	Faults int
	// Opening is how many of them nobody asked for.
	Opening int
	Cells   []Cell
}

// Cell counts the faults of one kind at one place.
type Cell struct {
	Kind    Kind
	Place   Place
	Planned int
}

// Total counts the whole plan: every cell that is not empty, in the order of the
// catalogues.
func (p *Plan) Total() Totals {
	var count [len(kinds)][len(places)]int
	var t Totals
	for _, faults := range p.all() {
		for _, f := range faults {
			count[f.Kind][f.Place]++
			t.Faults++
			if f.Opening {
				t.Opening++
			}
		}
	}
	for k := range count {
		for place, n := range count[k] {
			if n > 0 {
				t.Cells = append(t.Cells, Cell{Kind(k), Place(place), n})
			}
		}
	}
	return t
}

// ByKind returns how many faults of a kind are planned.
func (t Totals) ByKind(k Kind) (n int) {
	for _, c := range t.Cells {
		if c.Kind == k {
			n += c.Planned
		}
	}
	return n
}

// ByPlace returns how many faults are planned at a place.
func (t Totals) ByPlace(p Place) (n int) {
	for _, c := range t.Cells {
		if c.Place == p {
			n += c.Planned
		}
	}
	return n
}

// all ranges over everybody who meets faults: streams of the load, GET streams, and
// sessions, each in order.
func (p *Plan) all() iter.Seq2[string, []Planned] {
	return func(yield func(string, []Planned) bool) {
		for _, o := range []struct {
			*population
			name string
			of   func(uint32) []Planned
		}{{&p.load, "stream", p.Stream}, {&p.gets, "stream", p.Stream}, {&p.sessions, "session", p.Session}} {
			if len(o.items) == 0 {
				continue
			}
			for i := range o.count {
				n := o.first + uint32(i)
				if !yield(o.name+" "+strconv.Itoa(int(n)), o.of(n)) {
					return
				}
			}
		}
	}
}

// WriteTo writes the plan, one line per fault: those of the whole run, then those of
// streams and sessions in order.
func (p *Plan) WriteTo(w io.Writer) (int64, error) {
	var written int64
	var line []byte
	write := func() error {
		k, err := w.Write(line)
		written += int64(k)
		if err != nil {
			return fmt.Errorf("write fault plan: %w", err)
		}
		return nil
	}
	if line = p.appendWindow(nil); len(line) > 0 {
		if err := write(); err != nil {
			return written, err
		}
	}
	for who, faults := range p.all() {
		for i, f := range faults {
			line = appendPlanned(line[:0], who, i, f)
			if err := write(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// appendWindow writes what holds for the whole run.
func (p *Plan) appendWindow(b []byte) []byte {
	if p.cfg.Start > 0 || p.cfg.Stop > 0 {
		b = fmt.Appendf(b, "window from %v", p.cfg.Start)
		if p.cfg.Stop > 0 {
			b = fmt.Appendf(b, " to %v", p.cfg.Stop)
		}
		b = append(b, '\n')
	}
	for _, f := range p.storms {
		b = fmt.Appendf(b, "run: %s every %v share %v\n", f.Kind, f.Every, f.share())
	}
	return b
}

// appendPlanned writes all that was drawn, so that equal text means equal plans.
func appendPlanned(b []byte, who string, index int, f Planned) []byte {
	b = fmt.Appendf(b, "%s fault %d: %s@%s after %d", who, index, f.Kind, f.Place, f.After)
	if f.Place == MidReplay || f.Place == GetStream || f.Kind == Slice {
		b = strconv.AppendFloat(append(b, " k "...), f.K, 'f', -1, 64)
	}
	switch f.Place {
	case MidEvent, MidResponse, Request, Headers, GetStream:
		b = strconv.AppendFloat(append(b, " offset "...), f.Offset, 'f', -1, 64)
	}
	b = appendParameters(b, f.For, f.By, f.Rate, f.Code, " %s %v")
	if f.Opening {
		b = append(b, " (opening)"...)
	}
	return append(b, '\n')
}

// Hash returns the SHA-256 of the plan's text in hex.
func (p *Plan) Hash() string {
	h := sha256.New()
	_, _ = p.WriteTo(h) // a hash never fails to be written to
	return hex.EncodeToString(h.Sum(nil))
}
