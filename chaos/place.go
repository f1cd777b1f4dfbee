package chaos

import (
	"fmt"

	"github.com/gapless-dev/gapless/chaos/scan"
)

// Place is a position of the protocol at which a fault can strike (DESIGN §5).
type Place uint8

// The places: first those that are drawn by default, in the order in which a stream can
// meet them.
const (
	AfterPriming Place = iota
	BetweenEvents
	MidEvent
	BeforeResponse
	MidResponse
	AfterResponse
	ResumeBeforeHeaders
	ResumeBeforeFirstEvent
	MidReplay
	AtLive
	Request
	Headers
	BeforeFirstID
	Initialize
	GetStream
)

// moment is when a link asks its faults whether they strike.
type moment uint8

const (
	firstByte   moment = iota // a response has begun and none of it is delivered
	headDone                  // its head is delivered
	eventStart                // a block begins and none of it is delivered
	insideEvent               // a held block is complete, or as long as a hold may be
	insideHead                // the held head is complete
	eventEnd                  // an event is delivered, blank line included
)

// view is all that a decision may look at.
type view struct {
	moment moment
	resume bool
	// get: a standalone GET stream; session: the handshake of a session.
	get, session bool
	// head is the size of the response head, once it is complete and held.
	head   int
	missed int        // events to be replayed; -1 unknown
	event  scan.Event // the one that begins, is held, or has ended
	// delivered counts the messages of the stream before the position.
	delivered, expected int
	// base is what the stream had before this exchange.
	base int
	// answered: a response has been delivered on this exchange.
	answered bool
}

// placeSpec is one row of the catalogue. A nil function says no.
type placeSpec struct {
	name  string
	about string
	// drawn: taken when a fault names no place.
	drawn bool
	// resumed: only on a resumed link; replayed: only with something to replay.
	resumed, replayed bool
	// once: a stream has this position at most once.
	once bool
	// fatal: a stream that loses its link here cannot be resumed by anyone.
	fatal bool
	// written: it is met while the request is written, never while reading.
	written bool
	// early: the struck event counts as not reached in the injection.
	early bool
	// strikes tells whether f strikes now and, inside an event, after how many of its
	// bytes.
	strikes func(v *view, f *Planned) (at int, ok bool)
	// holds tells whether the event that begins has to be held back to decide.
	holds func(v *view, f *Planned) bool
	// over tells that f cannot strike any more in this exchange.
	over func(v *view, f *Planned) bool
}

// places is the catalogue; the index is the Place.
var places = [...]placeSpec{
	AfterPriming: {
		name: "after-priming", drawn: true, once: true,
		about: "After the priming event's blank line, before the next event.",
		strikes: func(v *view, _ *Planned) (int, bool) {
			return 0, v.moment == eventEnd && !v.resume && v.event.Ordinal == 1 && v.event.Priming()
		},
		over: func(v *view, _ *Planned) bool { return v.resume || v.event.Ordinal >= 1 },
	},
	BetweenEvents: {
		name: "between-events", drawn: true,
		about: "After the blank line of an event, before the response.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 0, v.moment == eventEnd && !v.event.Response && v.delivered >= f.After
		},
	},
	MidEvent: {
		name: "mid-event", drawn: true,
		about: "Inside a message's event, at a drawn byte, which may lie between its id line and its blank line.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return inside(v, f), v.moment == insideEvent && v.event.Message() && v.delivered+1 >= f.After
		},
		holds: func(v *view, f *Planned) bool { return v.delivered+1 >= f.After },
	},
	BeforeResponse: {
		name: "before-response", drawn: true,
		about:   "After the last expected message, before anything of the response.",
		strikes: beforeResponse,
		holds:   func(v *view, _ *Planned) bool { return v.expected == 0 },
	},
	MidResponse: {
		name: "mid-response", drawn: true,
		about: "Inside the response's event, at a drawn byte.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return inside(v, f), v.moment == insideEvent && v.event.Response
		},
		holds: func(*view, *Planned) bool { return true },
	},
	AfterResponse: {
		name: "after-response", drawn: true, once: true,
		about: "After the response's blank line, before the end of the body.",
		strikes: func(v *view, _ *Planned) (int, bool) {
			return 0, v.moment == eventEnd && v.event.Response
		},
	},
	ResumeBeforeHeaders: {
		name: "resume-before-headers", drawn: true, resumed: true,
		about: "On a resumed link, when its response begins, before anything of it is delivered.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 0, v.moment == firstByte && due(v, f)
		},
		over: func(v *view, f *Planned) bool { return v.moment != firstByte || !due(v, f) },
	},
	ResumeBeforeFirstEvent: {
		name: "resume-before-first-event", drawn: true, resumed: true, early: true,
		about: "On a resumed link, after its headers, before anything of its first event (comments aside).",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 0, v.moment == eventStart && v.event.Ordinal == 1 && due(v, f)
		},
		over: func(v *view, f *Planned) bool { return v.event.Ordinal >= 1 || !due(v, f) },
	},
	MidReplay: {
		name: "mid-replay", drawn: true, resumed: true, replayed: true,
		about: "On a resumed link, before a drawn one of the events that the target says it replays, but not the first; needs two.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 0, v.moment == eventStart && due(v, f) && v.missed >= 2 && int(v.event.Ordinal) == replayed(v, f)
		},
		over: func(v *view, f *Planned) bool {
			return !due(v, f) || v.moment != firstByte && (v.missed < 2 || int(v.event.Ordinal) >= replayed(v, f))
		},
	},
	AtLive: {
		name: "at-live", drawn: true, resumed: true, replayed: true,
		about: "On a resumed link, at the first event after those that the target says it replays.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 0, v.moment == eventStart && due(v, f) && v.missed >= 0 && int(v.event.Ordinal) == v.missed+1
		},
		over: func(v *view, f *Planned) bool {
			return !due(v, f) || v.moment != firstByte && (v.missed < 0 || int(v.event.Ordinal) > v.missed)
		},
	},
	Request: {
		name: "request", once: true, fatal: true, written: true,
		about: "While the request of the call is written, at a drawn byte of it.",
	},
	Headers: {
		name: "headers", once: true, fatal: true,
		about: "Inside the head of the call's response, at a drawn byte.",
		strikes: func(v *view, f *Planned) (int, bool) {
			return 1 + int(f.Offset*float64(v.head-1)), v.moment == insideHead && !v.resume
		},
		over: func(v *view, _ *Planned) bool { return v.resume || v.moment != firstByte },
	},
	BeforeFirstID: {
		name: "before-first-id", once: true, fatal: true, early: true,
		about: "After the head of the call's response, before anything of its first event (comments aside).",
		strikes: func(v *view, _ *Planned) (int, bool) {
			return 0, v.moment == eventStart && v.event.Ordinal == 1 && !v.resume
		},
		over: func(v *view, _ *Planned) bool { return v.resume || v.event.Ordinal >= 1 },
	},
	Initialize: {
		name: "initialize", once: true, fatal: true,
		about: "In the handshake of a session, when the response begins, before anything of it is delivered.",
		strikes: func(v *view, _ *Planned) (int, bool) {
			return 0, v.moment == firstByte
		},
		over: func(v *view, _ *Planned) bool { return v.moment != firstByte },
	},
	GetStream: {
		name:  "get-stream",
		about: "On a standalone GET stream, between two events or inside one, as drawn.",
		strikes: func(v *view, f *Planned) (int, bool) {
			if f.within() {
				return inside(v, f), v.moment == insideEvent && v.event.Message() && v.delivered+1 >= f.After
			}
			return 0, v.moment == eventEnd && !v.event.Response && v.delivered >= f.After
		},
		holds: func(v *view, f *Planned) bool { return f.within() && v.delivered+1 >= f.After },
	},
}

// within tells whether f strikes inside an event of a GET stream, or between two.
func (f *Planned) within() bool { return f.K >= 0.5 || kinds[f.Kind].insideOnly }

// carries tells whether the exchange is one that has the place: the places of a call
// are not met in a handshake, nor on a standalone GET stream.
func (v *view) carries(p Place) bool {
	switch p {
	case Initialize:
		return v.session
	case GetStream:
		return v.get && !v.session
	}
	return !v.get && !v.session
}

// inside returns the byte of the event after which f strikes: at least one, and never
// the last, which would complete it.
func inside(v *view, f *Planned) int {
	return 1 + int(f.Offset*float64(v.event.Bytes-1))
}

// due tells that a resume belongs to a cut late enough for f.
func due(v *view, f *Planned) bool { return v.resume && v.base >= f.After }

// replayed draws the k of mid-replay: 2 ≤ k ≤ missed.
func replayed(v *view, f *Planned) int { return 2 + int(f.K*float64(v.missed-1)) }

// beforeResponse goes by the number of expected messages where that is known: the
// response may then not even exist yet. Else it has to see the response whole.
func beforeResponse(v *view, _ *Planned) (int, bool) {
	switch {
	case v.expected == 0:
		return 0, v.moment == insideEvent && v.event.Response
	case v.moment == eventEnd:
		return 0, v.event.Message() && v.delivered >= v.expected
	case v.moment == eventStart:
		return 0, v.delivered >= v.expected
	}
	return 0, false
}

// AllPlaces returns every place in the order of the catalogue.
func AllPlaces() []Place {
	all := make([]Place, len(places))
	for i := range all {
		all[i] = Place(i)
	}
	return all
}

// String returns the place's name as it is written in profiles and results.
func (p Place) String() string {
	if int(p) < len(places) {
		return places[p].name
	}
	return fmt.Sprintf("place(%d)", uint8(p))
}

// About returns a sentence that says where the place is.
func (p Place) About() string { return places[p].about }

// DrawnByDefault tells whether a fault that names no place may strike here.
func (p Place) DrawnByDefault() bool { return places[p].drawn }

// ParsePlace returns the place of that name; the error lists what is allowed.
func ParsePlace(name string) (Place, error) {
	names := make([]string, len(places))
	for i, p := range places {
		if p.name == name {
			return Place(i), nil
		}
		names[i] = p.name
	}
	return 0, unknown("place", name, names)
}
