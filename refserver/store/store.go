// Package store keeps the events of streams for replay.
//
// A store holds one append-only log per stream. Everything that reads a log
// reads it the same way, through a [Tail] that stands behind some event and waits
// at the end: replay and live delivery are the same walk, begun at different
// places, so there is no moment at which one hands over to the other.
//
//	Append ──► │1│2│3│4│5│         the log of one stream
//	                ▲      ▲
//	     After(#2)  │      │  a Tail that has caught up waits here
package store

import (
	"context"
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a cursor cannot be resumed, or an event cannot be appended. Their texts
// name no id: an id is a secret of its session.
var (
	ErrUnknown = errors.New("no stream has this event id")
	ErrForeign = errors.New("the event id belongs to another session")
	ErrEvicted = errors.New("the events after this id are no longer kept")
	ErrEnded   = errors.New("the stream has ended")
	ErrFull    = errors.New("the store holds as many streams as it may")
)

// ErrBehind ends a walk that does not catch up: events keep coming while those before
// are written. Nothing is lost; the reader should come back with its new cursor. See
// package handoff, whose tails alone return it.
var ErrBehind = errors.New("the reader does not catch up with its stream")

// Stream names a log: the session it belongs to, and the stream within it.
type Stream struct{ Session, Name string }

// Event is one entry of a log.
type Event struct {
	// Frame is the Server-Sent Event without its id line: lines that end in LF, then
	// an empty line. The store does not keep the slice.
	Frame []byte
	// Last marks the event that ends its stream (the response). Nothing can be
	// appended after it.
	Last bool
}

// Cursor is a place between two events of a stream.
type Cursor struct {
	Stream Stream
	// ID is the event the place is behind. When it is empty the place is before the
	// first event of the stream, which need not have events yet. When it is set,
	// Stream.Name is ignored: the id alone says which stream of the session it is.
	ID string
}

// Store is an event store. Both methods may be called from any goroutine.
type Store interface {
	// Append puts an event at the end of a stream and returns the id given to it:
	// visible ASCII without white space, unique in the session, or empty when the
	// store gives none. Once Append has returned nil the event is replayed. After an
	// error other than ErrEnded or ErrFull it may be there or not.
	Append(ctx context.Context, stream Stream, event Event) (id string, err error)
	// After returns a reader of the events behind the cursor. It answers at once,
	// with ErrUnknown, ErrForeign or ErrEvicted when the cursor cannot be resumed.
	// A cursor that lies in the future is unknown.
	After(ctx context.Context, cursor Cursor) (Tail, error)
}

// Tail reads one log from a cursor on. It belongs to one goroutine, except that
// Close may be called from any.
type Tail interface {
	// Next returns the events that follow, and waits while there are none until ctx
	// is done. Events at hand are returned even then. It returns io.EOF once
	// everything was read and the stream has ended, and ErrEvicted if the log lost
	// events that were not read yet.
	Next(ctx context.Context) (Batch, error)
	// Position says where the tail stands now.
	Position() Position
	// Close lets go of the log.
	Close() error
}

// Position is where a [Tail] stands.
type Position struct {
	Stream Stream
	// Missed is the number of events between the tail and the end of its log.
	Missed int
}

// Batch is a run of whole events.
type Batch struct {
	// Frames are their bytes as they go on the wire, ids included. They are valid
	// until the next call of Next and must not be changed.
	Frames []byte
	Events int
	// Behind is the number of events that were already waiting behind these.
	Behind int
}

// Forgetter is the ability to trim: to drop whatever is kept of a session.
type Forgetter interface{ Forget(session string) }

// Instrumented is the ability to report to Prometheus what the locks of a store cost.
type Instrumented interface{ Collectors() []prometheus.Collector }

// Meter is the ability to say how much is kept.
type Meter interface{ Stats() Stats }

// Stats says how much a store holds and what it gave up so far.
type Stats struct {
	Events, Bytes, Streams int64
	// Evicted counts events that were dropped, by cause.
	Evicted [Causes]int64
}

// Cause is why events were dropped.
type Cause int

// Causes of evictions.
const (
	CauseEvents  Cause = iota // a stream had more than Limits.Events
	CauseBytes                // a session or the store held too many bytes
	CauseStreams              // the store held too many streams
	CauseSession              // the session ended
	Causes
)

// String returns the name a metric uses.
func (c Cause) String() string {
	switch c {
	case CauseEvents:
		return "max_events"
	case CauseBytes:
		return "max_bytes"
	case CauseStreams:
		return "max_streams"
	case CauseSession:
		return "session_end"
	}
	return "other"
}

// AppendFrame appends an event under its id to dst, as it goes on the wire. An
// empty id gives an event without one.
func AppendFrame(dst []byte, id string, event Event) []byte {
	if id != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	return append(dst, event.Frame...)
}

// ValidID reports whether an id can stand in an id line and in a request header:
// visible ASCII only, at most 256 bytes. A line break would end the frame early.
func ValidID(id string) bool {
	if id == "" || len(id) > 256 {
		return false
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// splitID takes "<nonce>-<seq>" apart. Only the one spelling that was given out is
// accepted: no sign, no leading zero.
func splitID(id string) (nonce string, seq uint64, ok bool) {
	if !ValidID(id) {
		return "", 0, false
	}
	for i := len(id) - 1; i > 0; i-- {
		if id[i] != '-' {
			continue
		}
		digits := id[i+1:]
		if digits == "" || digits[0] == '0' || digits[0] == '+' {
			return "", 0, false
		}
		seq, err := strconv.ParseUint(digits, 10, 63)
		return id[:i], seq, err == nil
	}
	return "", 0, false
}
