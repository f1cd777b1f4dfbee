package chaos

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// Kind is a way to hurt a link (DESIGN §5).
type Kind uint8

// The kinds.
const (
	None Kind = iota
	RST
	FIN
	ChunkEnd
	Blackhole
	Stall
	Delay
	Throttle
	Slice
	Refuse
	Status
	Storm
)

// kinds is the catalogue; the index is the Kind.
var kinds = [...]kindSpec{
	None: none, RST: rst, FIN: fin, ChunkEnd: chunkEnd, Blackhole: blackhole,
	Stall: stall, Delay: delay, Throttle: throttle, Slice: slice,
	Refuse: refuse, Status: status, Storm: storm,
}

// kindSpec is one row of the catalogue.
type kindSpec struct {
	name string
	// about is a sentence for the help topic.
	about string
	// at lists where it applies; nil: everywhere. Elsewhere is why not in other places.
	at        []Place
	elsewhere string
	// end is how it ends the link, unless it lasts.
	end End
	// insideOnly: it needs the inside of an event, elsewhere it would be the end that
	// the target may choose itself.
	insideOnly bool
	// lasts is what it begins on a link that lives on; nil: it ends the link.
	lasts func(s *suffering, f *Planned, until time.Time)
	// usual is how long it acts when the fault does not say.
	usual time.Duration
	// answers makes up what a request gets in place of being sent; nil: it is sent.
	answers func(f *Planned) (answer string, err error)
	// runWide: a clock of the run fires it, not a position.
	runWide bool
	// takes tells which parameters it has.
	takes parameters
}

// parameters are what a kind lets be said besides place and number.
type parameters struct{ lasting, by, rate, code bool }

// End says how a link ends, so that a link never asks which kind has struck it.
// The zero End is a FIN: everything before the position, then the end of the file.
type End struct {
	// Reset discards what is in flight and resets the connection.
	Reset bool
	// Legal ends the body as its framing says before the connection closes. The body
	// must have been re-framed from its start, since the size of the current chunk is
	// long announced.
	Legal bool
	// Silent leaves the connection open and lets nothing pass any more.
	Silent bool
}

// close ends the real connection.
func (e End) close(conn net.Conn) {
	if e.Reset {
		conn = innermost(conn)
		if c, ok := conn.(interface{ SetLinger(sec int) error }); ok {
			_ = c.SetLinger(0) // it fails only on a connection that is gone already
		}
	} else {
		drain(conn)
	}
	_ = conn.Close() // nothing is left to be lost: the link is given up
}

// innermost looks through TLS, whose Close would send an alert first.
func innermost(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}

// fits tells whether the kind applies to the place at all.
func (k Kind) fits(p Place) bool {
	spec := &kinds[k]
	return k != None && !spec.runWide && (spec.at == nil || slices.Contains(spec.at, p))
}

// ends tells whether the link is gone after a fault of the kind.
func (k Kind) ends() bool { return k != None && kinds[k].lasts == nil }

// AllKinds returns every kind in the order of the catalogue.
func AllKinds() []Kind {
	all := make([]Kind, len(kinds))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the kind's name as it is written in profiles and results.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// About returns a sentence that says what the kind does.
func (k Kind) About() string { return kinds[k].about }

// RunWide tells that a clock of the run fires the kind, on many links at one instant.
func (k Kind) RunWide() bool { return kinds[k].runWide }

// Lasts tells that links outlive a fault of the kind, which acts for a while.
func (k Kind) Lasts() bool { return kinds[k].lasts != nil }

// ParseKind returns the kind of that name; the error lists what is allowed.
func ParseKind(name string) (Kind, error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		if k.name == name {
			return Kind(i), nil
		}
		names[i] = k.name
	}
	return None, unknown("kind", name, names)
}
