package handoff

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
)

// keptBytes is the largest buffer that an idle queue keeps.
const keptBytes = 64 << 10

// tail is a reader. It is replayed the log in passes until one finds nothing; from then
// on it is attached, and waits for what Append queues, until that is too much.
type tail struct {
	store  *Store
	desk   *desk
	signal chan struct{} // something changed in the queue

	// The delivery lock guards these two; only Next changes inner.
	inner  store.Tail // stands behind all that passes returned
	closed bool

	// These belong to the goroutine that calls Next.
	parts    []store.Batch // of the last pass, still to be returned
	behind   int           // events that the pass left in the log
	counted  int64         // events of the stream at the time of the pass
	passes   int           // in a row that found something
	attached bool
	follows  bool // for good: the session is being forgotten

	mu sync.Mutex // guards the queue; taken under the delivery lock, or without it
	queue
}

// queue is what waits for an attached reader.
type queue struct {
	buf, taken []byte
	events     int
	last       string // id of the last event in buf
	returned   string // id of the last event that Next returned since the attachment
	took       bool   // Next returned events since the attachment
	ended      bool   // the last event of the stream was queued
	detached   bool   // nothing is queued any more: the rest is in the log
	lost       bool   // and what was queued is there too
}

var errIdle = errors.New("nothing is queued")

// Next implements [store.Tail]. It returns [store.ErrBehind] after [Passes] passes that
// found something; whoever calls it again all the same gets as many more.
func (t *tail) Next(ctx context.Context) (store.Batch, error) {
	for {
		if t.attached {
			batch, err := t.await(ctx)
			if !errors.Is(err, errIdle) {
				return batch, err
			}
			t.attached = false
			if err := t.reopen(ctx); err != nil {
				return store.Batch{}, err
			}
		}
		if len(t.parts) > 0 {
			return t.part(), nil
		}
		if t.follows {
			return t.inner.Next(ctx)
		}
		if err := t.pass(); err != nil {
			return store.Batch{}, err
		}
	}
}

// await returns what is queued, and waits while nothing is. It returns errIdle when the
// rest is in the log.
func (t *tail) await(ctx context.Context) (store.Batch, error) {
	for over := false; ; {
		batch, err := t.take()
		switch {
		case !errors.Is(err, errIdle):
			return batch, err
		case t.sentBack():
			return batch, errIdle
		case over:
			return batch, ctx.Err()
		}
		select {
		case <-t.signal:
		case <-ctx.Done():
			over = true
		}
	}
}

// take returns all that is queued.
func (t *tail) take() (store.Batch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := &t.queue
	switch {
	case q.events > 0:
		batch := store.Batch{Frames: q.buf, Events: q.events}
		q.buf, q.taken, q.events = q.taken[:0], q.buf, 0
		q.returned, q.took = q.last, true
		return batch, nil
	case q.ended:
		return store.Batch{}, io.EOF
	}
	q.shrink()
	return store.Batch{}, errIdle
}

// shrink lets go of large buffers while nothing is queued. A reader that is busy keeps
// them: a burst that grew them anew for each batch would spend its time on copying.
func (q *queue) shrink() {
	if cap(q.buf) > keptBytes {
		q.buf = nil
	}
	if cap(q.taken) > keptBytes {
		q.taken = nil
	}
}

// sentBack reports whether the rest is in the log.
func (t *tail) sentBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.detached && t.events == 0
}

// put queues an event and reports whether the reader stays attached. The delivery lock
// is held.
func (t *tail) put(id string, event store.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := &t.queue
	if size := len(q.buf) + len("id: ") + len(id) + 1 + len(event.Frame); q.events > 0 && size > t.store.cfg.Queue {
		q.buf, q.events = nil, 0
		q.detached, q.lost = true, true
	} else {
		q.buf = store.AppendFrame(q.buf, id, event)
		q.events++
		q.last, q.ended = id, event.Last
	}
	notify(t.signal)
	return !q.detached && !q.ended
}

// detach sends the reader back to the log once it has what is queued. The delivery lock
// is held.
func (t *tail) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detached = true
	notify(t.signal)
}

// reopen puts the inner tail behind what was returned from the queue.
func (t *tail) reopen(ctx context.Context) error {
	t.mu.Lock()
	took, id, lost := t.took, t.returned, t.lost
	t.queue = queue{}
	t.mu.Unlock()
	if !took {
		return nil // it still stands where the reader was attached
	}
	if !store.ValidID(id) {
		return store.ErrEvicted // no place to come back to
	}
	gone := io.EOF
	if lost {
		gone = store.ErrEvicted
	}
	fresh, err := t.store.inner.After(context.WithoutCancel(ctx), store.Cursor{Stream: t.desk.stream, ID: id})
	if errors.Is(err, store.ErrUnknown) {
		return gone // the stream was dropped
	}
	if err != nil {
		return err
	}
	t.desk.mu.Lock(lock.Attach)
	old := t.inner
	t.inner = fresh
	if t.closed {
		_ = fresh.Close() // as the old one was
	}
	t.desk.mu.Unlock()
	return old.Close()
}

// pass reads what is behind the cursor, or attaches the reader if that is nothing.
func (t *tail) pass() error {
	d, op := t.desk, lock.Replay
	if t.inner.Position().Missed == 0 {
		op = lock.Attach // unless an event comes in between
	}
	d.mu.Lock(op)
	defer d.mu.Unlock()
	found, err := t.collect()
	if err != nil {
		return err
	}
	switch {
	case t.passes == Passes:
		t.passes = 0
		if found {
			t.passes = 1
		}
		return store.ErrBehind
	case found:
		t.passes++
	case t.closed || !t.store.mayAttach(d):
		t.follows = true
	default:
		d.readers = append(d.readers, t)
		t.attached = true
	}
	return nil
}

// collect reads what is at hand, up to the bound of a pass, and reports whether there was
// anything. The delivery lock is held.
func (t *tail) collect() (found bool, err error) {
	t.counted, t.behind = t.desk.appended.Load(), 0
	for size := 0; size < t.store.cfg.Pass; {
		batch, err := t.inner.Next(t.store.atHand)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			if len(t.parts) > 0 {
				return true, nil // it will say so again
			}
			return false, err
		}
		size += len(batch.Frames)
		t.parts, t.behind = append(t.parts, batch), batch.Behind
		if batch.Behind == 0 {
			break // the inner tail is not asked again before these frames are written
		}
		t.parts[len(t.parts)-1].Frames = slices.Clone(batch.Frames)
	}
	return len(t.parts) > 0, nil
}

// part returns the next part of the last pass.
func (t *tail) part() store.Batch {
	batch := t.parts[0]
	t.parts[0] = store.Batch{}
	if t.parts = t.parts[1:]; len(t.parts) == 0 {
		t.parts = nil
	}
	batch.Behind = t.missed()
	return batch
}

// missed counts the events behind what passes returned so far.
func (t *tail) missed() int {
	n := t.behind + int(t.desk.appended.Load()-t.counted)
	for _, p := range t.parts {
		n += p.Events
	}
	return n
}

// Position implements [store.Tail].
func (t *tail) Position() store.Position {
	p := t.inner.Position()
	if t.attached {
		t.mu.Lock()
		p.Missed = t.events
		if t.lost {
			p.Missed = int(t.desk.appended.Load() - t.counted) // at most
		}
		t.mu.Unlock()
	}
	for _, part := range t.parts {
		p.Missed += part.Events
	}
	return p
}

// Close implements [store.Tail].
func (t *tail) Close() error {
	d := t.desk
	d.mu.Lock(lock.Attach)
	inner, first := t.inner, !t.closed
	t.closed = true
	if first {
		d.tails--
		if i := slices.Index(d.readers, t); i >= 0 {
			d.readers = slices.Delete(d.readers, i, i+1)
			t.detach()
		}
	}
	t.store.leave(d)
	return inner.Close()
}

func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
