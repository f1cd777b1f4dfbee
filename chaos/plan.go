package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// PlanConfig is all that a fault plan depends on.
type PlanConfig struct {
	Seed uint64
	// Streams is how many streams of the load there are, numbered from 1.
	Streams int
	// Messages is how many messages a call sends before its response.
	Messages int
	// Mix is the faults; empty, or nothing but None: no faults.
	Mix []Fault
	// Priming, IDs and Head say whether the target primes its streams, gives event ids,
	// and names the head of its log when a stream is resumed.
	Priming, IDs, Head bool
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
}

// Plan says what every stream will meet. It is immutable and may be shared.
type Plan struct {
	cfg   PlanConfig
	items []item
	// skipped lists the impossible cells that were asked for.
	skipped []Skip
}

// Skip is a cell that was asked for and is not planned, with the reason.
type Skip struct {
	Kind  Kind
	Place Place
	Why   string
}

// item is a Fault with its possible places and its numbers worked out.
type item struct {
	kind   Kind
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
	p := &Plan{cfg: cfg}
	asked := false
	for _, f := range cfg.Mix {
		if f.Kind == None {
			continue
		}
		asked = true
		if it := p.item(f); len(it.places) > 0 {
			p.items = append(p.items, it)
		}
	}
	if asked && len(p.items) == 0 {
		return nil, fmt.Errorf("fault plan: no fault of the mix is possible: %s", p.skipped[0])
	}
	p.leaveOut()
	if err := p.checkOnce(); err != nil {
		return nil, fmt.Errorf("fault plan: %w", err)
	}
	return p, nil
}

// item works out where and how often a fault strikes.
func (p *Plan) item(f Fault) item {
	at := f.At
	if len(at) == 0 {
		for _, place := range AllPlaces() {
			if place.DrawnByDefault() && misfit(f.Kind, place) == "" {
				at = append(at, place)
			}
		}
	}
	base, share := math.Modf(f.PerStream)
	it := item{kind: f.Kind, base: uint64(base), extra: uint64(math.Round(share * float64(p.cfg.Streams)))}
	for _, place := range at {
		if why := Impossible(f.Kind, place, p.cfg); why != "" {
			p.skipped = append(p.skipped, Skip{f.Kind, place, why})
			continue
		}
		it.places = append(it.places, place)
	}
	return it
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
	if !p.cfg.IDs {
		return nil // one cut per stream in any case
	}
	want, have := 0, map[Place]bool{}
	for _, it := range p.items {
		if !it.onceOnly() {
			continue
		}
		want += it.most()
		for _, place := range it.places {
			have[place] = true
		}
	}
	if want <= len(have) {
		return nil
	}
	for place := range have {
		if len(have) == 1 {
			return fmt.Errorf("%d faults of a stream can only be %s, which it meets once", want, place)
		}
	}
	return fmt.Errorf("%d faults of a stream can only be %s or %s, which it meets once each", want, AfterPriming, AfterResponse)
}

// Skipped lists what was asked for and is impossible.
func (p *Plan) Skipped() []Skip { return p.skipped }

// String names the cell and the reason.
func (s Skip) String() string { return fmt.Sprintf("%s@%s: %s", s.Kind, s.Place, s.Why) }

// Victim returns the state of a stream that has met none of its faults; nil for a
// stream that meets none, such as a control call.
func (p *Plan) Victim(stream uint32) *Victim {
	planned := p.Stream(stream)
	if len(planned) == 0 {
		return nil
	}
	v := &Victim{faults: make([]pending, len(planned)), left: len(planned)}
	for i, f := range planned {
		v.faults[i].Planned = f
	}
	return v
}

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
	for n := range p.cfg.Streams {
		for _, f := range p.Stream(uint32(n + 1)) {
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

// WriteTo writes the plan, one line per fault, in the order of streams.
func (p *Plan) WriteTo(w io.Writer) (int64, error) {
	var written int64
	var line []byte
	for n := range p.cfg.Streams {
		for i, f := range p.Stream(uint32(n + 1)) {
			line = appendPlanned(line[:0], n+1, i, f)
			k, err := w.Write(line)
			written += int64(k)
			if err != nil {
				return written, fmt.Errorf("write fault plan: %w", err)
			}
		}
	}
	return written, nil
}

// appendPlanned writes all that was drawn, so that equal text means equal plans.
func appendPlanned(b []byte, stream, index int, f Planned) []byte {
	b = fmt.Appendf(b, "stream %d fault %d: %s@%s after %d", stream, index, f.Kind, f.Place, f.After)
	switch f.Place {
	case MidReplay:
		b = strconv.AppendFloat(append(b, " k "...), f.K, 'f', -1, 64)
	case MidEvent, MidResponse:
		b = strconv.AppendFloat(append(b, " offset "...), f.Offset, 'f', -1, 64)
	}
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
