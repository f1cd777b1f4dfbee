package refserver

import (
	"bytes"
	"context"
	"errors"

	"github.com/gapless-dev/gapless/refserver/store"
)

var (
	errBadID    = errors.New("an id of the event store cannot stand in an id line")
	errBadEvent = errors.New("the event store returned something that is not an event")
	errNoTail   = errors.New("the event store could not be read when the client connected")
)

// trusted reports whether the ids of a store are what they should be by construction.
func trusted(s store.Store) bool {
	switch s.(type) {
	case *store.Memory, *store.Passing:
		return true
	}
	return false
}

// checked returns a batch without ids that cannot stand in an id line. One that holds a
// line break would end its event early and let the rest pass for another.
func (h *Handler) checked(batch store.Batch) (store.Batch, error) {
	if h.trusted {
		return batch, nil
	}
	var clean []byte
	events, bad := 0, false
	for rest := batch.Frames; len(rest) > 0; {
		id, frame, ok := splitEvent(rest)
		if !ok {
			return store.Batch{}, errBadEvent
		}
		whole := rest[:len(rest)-len(frame.rest)]
		valid := id == nil || store.ValidID(string(id))
		if !valid && !bad {
			bad = true
			clean = append(clean, batch.Frames[:len(batch.Frames)-len(rest)]...)
		}
		rest = frame.rest
		switch {
		case valid && bad:
			clean = append(clean, whole...)
		case !valid && frame.empty():
			continue // a priming event is nothing but its id
		case !valid:
			clean = append(clean, frame.lines...)
		}
		events++
	}
	if bad {
		batch.Frames, batch.Events = clean, events
	}
	return batch, nil
}

// framed is an event behind its id line, and what follows it.
type framed struct{ lines, rest []byte }

func (f framed) empty() bool { return bytes.HasSuffix(f.lines, []byte("data: \n\n")) }

// splitEvent takes the first event of a batch apart. The event was framed here, so it
// begins with one of two fields and ends with the first empty line behind that; whatever
// stands before is its id, nil if there is none.
func splitEvent(frames []byte) (id []byte, f framed, ok bool) {
	lines := frames
	if after, has := bytes.CutPrefix(frames, []byte("id: ")); has {
		lines = after
		for begun := false; !begun; {
			n := bytes.IndexByte(lines, '\n')
			if n < 0 {
				return nil, framed{}, false
			}
			lines = lines[n+1:]
			begun = beginsEvent(lines)
		}
		id = after[:len(after)-len(lines)-1]
	}
	n := bytes.Index(lines, []byte("\n\n"))
	if n < 0 || !beginsEvent(lines) {
		return nil, framed{}, false
	}
	return id, framed{lines[:n+2], lines[n+2:]}, true
}

func beginsEvent(lines []byte) bool {
	return bytes.HasPrefix(lines, []byte("data: ")) || bytes.HasPrefix(lines, []byte("retry: "))
}

// noTail is read by a connection that was made while the store could not be read: it
// never yields anything, and events pass it by.
type noTail struct{ stream store.Stream }

// Next implements [store.Tail].
func (t noTail) Next(ctx context.Context) (store.Batch, error) {
	<-ctx.Done()
	return store.Batch{}, ctx.Err()
}

// Position implements [store.Tail].
func (t noTail) Position() store.Position { return store.Position{Stream: t.stream} }

// Close implements [store.Tail].
func (t noTail) Close() error { return nil }
