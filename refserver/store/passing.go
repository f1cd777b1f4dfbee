package store

import (
	"context"
	"io"
	"sync"
)

// passingBytes is how far a reader of a [Passing] store may lag before Append waits.
const passingBytes = 1 << 20

// Passing is a [Store] that keeps nothing: it hands events to the tail that is
// attached at the time, without ids, and what nobody reads is gone. It is how a
// server without an event store behaves, on the same path as one that has one.
type Passing struct {
	mu    sync.Mutex
	pipes map[Stream]*pipe
}

// NewPassing returns a store that keeps nothing.
func NewPassing() *Passing { return &Passing{pipes: make(map[Stream]*pipe)} }

// Append implements [Store]. It waits while the attached tail is far behind.
func (p *Passing) Append(ctx context.Context, stream Stream, event Event) (string, error) {
	for {
		p.mu.Lock()
		q := p.pipes[stream]
		switch {
		case q == nil:
			p.mu.Unlock()
			return "", nil
		case q.ended:
			p.mu.Unlock()
			return "", ErrEnded
		case len(q.buf) < passingBytes:
			q.buf = append(q.buf, event.Frame...)
			q.events++
			q.ended = event.Last
			p.mu.Unlock()
			notify(q.signal)
			return "", nil
		}
		room := q.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// After implements [Store]. The newest tail of a stream gets its events.
func (p *Passing) After(_ context.Context, cursor Cursor) (Tail, error) {
	if cursor.ID != "" {
		return nil, ErrUnknown
	}
	q := &pipe{store: p, stream: cursor.Stream, signal: make(chan struct{}, 1), room: make(chan struct{})}
	p.mu.Lock()
	p.pipes[cursor.Stream] = q
	p.mu.Unlock()
	return q, nil
}

// pipe is both the log and the tail of a stream.
type pipe struct {
	store  *Passing
	stream Stream
	signal chan struct{}
	room   chan struct{} // closed, and replaced, when events were taken or the tail left

	buf, taken []byte
	events     int
	ended      bool
}

// Next implements [Tail].
func (q *pipe) Next(ctx context.Context) (Batch, error) {
	for {
		if batch, ok, ended := q.take(); ok {
			return batch, nil
		} else if ended {
			return Batch{}, io.EOF
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
			if batch, ok, _ := q.take(); ok {
				return batch, nil
			}
			return Batch{}, ctx.Err()
		}
	}
}

func (q *pipe) take() (batch Batch, ok, ended bool) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	if q.events == 0 {
		return Batch{}, false, q.ended
	}
	batch = Batch{Frames: q.buf, Events: q.events}
	q.buf, q.taken, q.events = q.taken[:0], q.buf, 0
	close(q.room)
	q.room = make(chan struct{})
	return batch, true, q.ended
}

// Position implements [Tail].
func (q *pipe) Position() Position { return Position{Stream: q.stream} }

// Close implements [Tail].
func (q *pipe) Close() error {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	if q.store.pipes[q.stream] == q {
		delete(q.store.pipes, q.stream)
	}
	select {
	case <-q.room:
	default:
		close(q.room)
	}
	return nil
}

func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
