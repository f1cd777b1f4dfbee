package store

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// batchBytes is where a batch stops growing; one event is always returned whole.
const batchBytes = 64 << 10

// shelf holds the logs of one session.
type shelf struct {
	// bytes is what the logs hold. It changes under mu and is read without it.
	bytes atomic.Int64

	mu   sync.Mutex // guards the rest and everything inside the logs
	logs map[string]*eventLog
	// finished are the logs that have ended, oldest first: the first to go.
	finished []*eventLog
	gone     bool
}

// eventLog is one stream: the bytes of its events one behind the other, and where
// each ends. Committed bytes are never written to again, so that a batch can be a
// part of buf and needs no copy; trimming moves buf forward, growing moves it to
// another array, and a batch that was handed out keeps the old one alive.
type eventLog struct {
	shelf  *shelf
	stream Stream
	nonce  string

	buf     []byte
	ends    []int64 // end of each kept event, counted from the first byte of the log
	base    int64   // place of buf[0], counted likewise
	waste   int     // trimmed bytes that the array of buf still holds in front of it
	first   uint64  // number of the first kept event; events count from 1
	ended   bool    // the last event is in
	dropped bool    // no longer in the store
	tails   []*memoryTail
}

// end is the number that the next event will get.
func (l *eventLog) end() uint64 { return l.first + uint64(len(l.ends)) }

// append adds an event and returns its size in bytes.
func (l *eventLog) append(id []byte, event Event) int64 {
	before := len(l.buf)
	size := len("id: ") + len(id) + 1 + len(event.Frame)
	if before+size > cap(l.buf) {
		l.waste = 0
	}
	l.buf = slices.Grow(l.buf, size)
	l.buf = append(l.buf, "id: "...)
	l.buf = append(l.buf, id...)
	l.buf = append(l.buf, '\n')
	l.buf = append(l.buf, event.Frame...)
	l.ends = append(l.ends, l.base+int64(len(l.buf)))
	l.ended = event.Last
	return int64(len(l.buf) - before)
}

// drop forgets the n oldest events and returns the bytes that held them.
func (l *eventLog) drop(n int) int64 {
	if n == 0 {
		return 0
	}
	freed := l.ends[n-1] - l.base
	l.base = l.ends[n-1]
	l.ends = l.ends[n:]
	l.buf = l.buf[freed:]
	l.first += uint64(n)
	if l.waste += int(freed); l.waste > len(l.buf)+4096 {
		// The array is mostly trimmed bytes: leave it to the collector.
		l.buf, l.ends, l.waste = slices.Clone(l.buf), slices.Clone(l.ends), 0
	}
	return freed
}

func (l *eventLog) wake() {
	for _, t := range l.tails {
		notify(t.signal)
	}
}

// tail begins to read behind event seq, 0 for the start of the log. The shelf is
// locked.
func (l *eventLog) tail(seq uint64) (Tail, error) {
	switch {
	case l.dropped:
		return nil, ErrUnknown
	case seq >= l.end():
		return nil, ErrUnknown
	case seq+1 < l.first:
		return nil, ErrEvicted
	}
	t := &memoryTail{log: l, next: seq + 1, signal: make(chan struct{}, 1)}
	l.tails = append(l.tails, t)
	return t, nil
}

type memoryTail struct {
	log    *eventLog
	next   uint64 // number of the next event to return; guarded by the shelf
	signal chan struct{}
}

// Next implements [Tail].
func (t *memoryTail) Next(ctx context.Context) (Batch, error) {
	for {
		batch, err, ready := t.take()
		if ready {
			return batch, err
		}
		select {
		case <-t.signal:
		case <-ctx.Done():
			if batch, err, ready := t.take(); ready {
				return batch, err
			}
			return Batch{}, ctx.Err()
		}
	}
}

func (t *memoryTail) take() (batch Batch, err error, ready bool) {
	l := t.log
	l.shelf.mu.Lock()
	defer l.shelf.mu.Unlock()
	switch {
	case t.next < l.first:
		return Batch{}, ErrEvicted, true
	case t.next == l.end():
		return Batch{}, io.EOF, l.ended || l.dropped
	}
	from := int(t.next - l.first)
	start := l.base
	if from > 0 {
		start = l.ends[from-1]
	}
	to := from + 1
	for to < len(l.ends) && l.ends[to]-start <= batchBytes {
		to++
	}
	t.next += uint64(to - from)
	return Batch{
		Frames: l.buf[start-l.base : l.ends[to-1]-l.base : l.ends[to-1]-l.base],
		Events: to - from,
		Behind: len(l.ends) - to,
	}, nil, true
}

// Position implements [Tail].
func (t *memoryTail) Position() Position {
	t.log.shelf.mu.Lock()
	defer t.log.shelf.mu.Unlock()
	return Position{Stream: t.log.stream, Missed: int(t.log.end() - min(t.next, t.log.end()))}
}

// Close implements [Tail].
func (t *memoryTail) Close() error {
	t.log.shelf.mu.Lock()
	defer t.log.shelf.mu.Unlock()
	if i := slices.Index(t.log.tails, t); i >= 0 {
		t.log.tails = slices.Delete(t.log.tails, i, i+1)
	}
	return nil
}
