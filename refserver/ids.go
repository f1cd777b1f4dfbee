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
// line break would end its event early and let the rest pass for another. A priming event
// is nothing but its id, and goes with it.
func (h *Handler) checked(batch store.Batch) (store.Batch, error) {
	if h.trusted {
		return batch, nil
	}
	var clean []byte // what is left of the batch once something was left out of it
	found, left, bad := 0, 0, false
	for rest := batch.Frames; len(rest) > 0; found++ {
		id, frame := splitEvent(rest)
		if frame == 0 {
			return store.Batch{}, errBadEvent
		}
		valid := id == 0 || store.ValidID(string(rest[len("id: "):id-1]))
		if !valid && !bad {
			bad = true
			clean = append(clean, batch.Frames[:len(batch.Frames)-len(rest)]...)
		}
		whole := rest[:frame]
		rest = rest[frame:]
		if !valid {
			whole = whole[id:]
			if bytes.HasSuffix(whole, []byte("data: \n\n")) {
				continue
			}
		}
		left++
		if bad {
			clean = append(clean, whole...)
		}
	}
	if found != batch.Events {
		return store.Batch{}, errBadEvent // an id that looks like several events
	}
	if bad {
		batch.Frames, batch.Events = clean, left
	}
	return batch, nil
}

// splitEvent returns where the lines behind the id of the first event begin, 0 if it has
// none, and where the event ends, 0 if it is none. The lines were framed here: a
// reconnection time on a priming event, one line of data, an empty line. Whatever stands
// before them is the id.
func splitEvent(frames []byte) (id, end int) {
	if bytes.HasPrefix(frames, []byte("id: ")) {
		id = bytes.IndexByte(frames, '\n') + 1
	}
	if end = framedEnd(frames[id:]); end > 0 {
		return id, id + end
	}
	if id == 0 {
		return 0, 0
	}
	for end = id; ; { // the id may hold line breaks, the data holds none
		n := bytes.Index(frames[end:], []byte("\n\n"))
		if n < 0 {
			return 0, 0
		}
		data := bytes.LastIndex(frames[:end+n], []byte("\ndata: ")) + 1
		if end += n + 1; data == 0 {
			continue
		}
		if line := bytes.LastIndexByte(frames[:data-1], '\n') + 1; framedEnd(frames[line:]) > 0 {
			data = line // of the reconnection time
		}
		return data, end + 1
	}
}

// framedEnd returns where an event without an id ends, 0 if there is none.
func framedEnd(lines []byte) int {
	at := 0
	if bytes.HasPrefix(lines, []byte("retry: ")) {
		at = bytes.IndexByte(lines, '\n') + 1
	}
	data := lines[at:]
	n := bytes.IndexByte(data, '\n') + 1
	switch {
	case !bytes.HasPrefix(data, []byte("data: ")), n == len(data), data[n] != '\n':
		return 0
	case at > 0 && n > len("data: \n"):
		return 0 // only a priming event says when to come back
	}
	return at + n + 1
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
