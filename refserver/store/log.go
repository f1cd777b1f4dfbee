package store

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gapless-dev/gapless/refserver/lock"
)

// segmentBytes is where a segment, and with it a batch, stops growing; an event is
// always whole in one.
const segmentBytes = 64 << 10

// shelf holds the logs of one session.
type shelf struct {
	bytes atomic.Int64 // what the logs hold

	mu   sync.Mutex // guards the rest; what is inside the logs has locks of its own
	logs map[string]*eventLog
	// finished are the logs that have ended, oldest first: the first to go.
	finished []*eventLog
	gone     bool
	content  *lock.Mutex // of all logs, in scope [lock.Session]; else nil
}

// eventLog is one stream: its events one behind the other, in segments. Committed
// bytes are never written to again, so that a batch can be a part of a segment and
// needs no copy; a batch that was handed out keeps what it needs alive.
type eventLog struct {
	shelf  *shelf
	stream Stream
	nonce  string
	// spareable is the bytes of all kept events but the newest. It changes under mu and
	// is read without it.
	spareable atomic.Int64
	oldest    atomic.Uint32 // [tick] of the first kept event, 0 if there is none; likewise

	mu       *lock.Mutex // of the stream, its session or the whole store; guards the rest
	segments []segment   // oldest first; only the last one grows
	first    uint64      // number of the first kept event; events count from 1
	next     uint64      // number that the next event will get
	newest   int64       // bytes of the newest event, if it is kept
	ended    bool        // the last event is in
	dropped  bool        // no longer in the store
	tails    []*memoryTail
}

// segment is a run of events.
type segment struct {
	first   uint64 // number of the event that begins at buf[0]
	trimmed int    // events at its start that are no longer kept
	buf     []byte
	marks   []mark // of each event in buf
}

// mark says where an event ends in its segment, and when it came.
type mark struct {
	end  uint32
	came tick
}

// at returns where in buf the i-th event of the segment begins.
func (g *segment) at(i int) uint32 {
	if i == 0 {
		return 0
	}
	return g.marks[i-1].end
}

// append adds an event and returns its size in bytes.
func (l *eventLog) append(id []byte, event Event, now tick) int64 {
	size := len("id: ") + len(id) + 1 + len(event.Frame)
	g := l.room(size)
	g.buf = append(g.buf, "id: "...)
	g.buf = append(g.buf, id...)
	g.buf = append(g.buf, '\n')
	g.buf = append(g.buf, event.Frame...)
	g.marks = append(g.marks, mark{uint32(len(g.buf)), now})
	if l.count() == 0 {
		l.oldest.Store(uint32(now))
	}
	l.next++
	l.spareable.Add(l.newest)
	l.newest = int64(size)
	l.ended = event.Last
	return int64(size)
}

// room returns the segment that the next event belongs into. The first one grows
// from nothing, since most streams are short; later ones are made as large as needed.
func (l *eventLog) room(size int) *segment {
	n := len(l.segments)
	if n > 0 && len(l.segments[n-1].buf)+size <= segmentBytes {
		return &l.segments[n-1]
	}
	g := segment{first: l.next}
	if n > 0 {
		g.buf = make([]byte, 0, max(segmentBytes, size))
		g.marks = make([]mark, 0, len(l.segments[n-1].marks))
	}
	l.segments = append(l.segments, g)
	return &l.segments[n]
}

// drop forgets the n oldest events and returns the bytes that held them.
func (l *eventLog) drop(n int) int64 {
	freed := int64(0)
	l.first += uint64(n)
	for n > 0 {
		g := &l.segments[0]
		k := min(n, len(g.marks)-g.trimmed)
		freed += int64(g.marks[g.trimmed+k-1].end - g.at(g.trimmed))
		g.trimmed += k
		n -= k
		if g.trimmed == len(g.marks) {
			l.segments[0] = segment{} // the array may live on for a while
			l.segments = l.segments[1:]
		}
	}
	if l.count() > 0 {
		l.spareable.Add(-freed)
		l.oldest.Store(uint32(l.segments[0].marks[l.segments[0].trimmed].came))
	} else {
		l.spareable.Store(0)
		l.oldest.Store(0)
		l.newest = 0
	}
	return freed
}

// count returns the number of kept events.
func (l *eventLog) count() int { return int(l.next - l.first) }

// spare returns how many of the oldest events have to go to free want bytes, leaving
// the newest.
func (l *eventLog) spare(want int64) int {
	n := 0
	for i := range l.segments {
		g := &l.segments[i]
		for e := g.trimmed; e < len(g.marks) && want > 0; e++ {
			want -= int64(g.marks[e].end - g.at(e))
			n++
		}
	}
	return min(n, max(l.count()-1, 0))
}

func (l *eventLog) wake() {
	for _, t := range l.tails {
		notify(t.signal)
	}
}

// tail begins to read behind event seq, 0 for the start of the log. The log is locked.
func (l *eventLog) tail(seq uint64) (Tail, error) {
	switch {
	case l.dropped:
		return nil, ErrUnknown
	case seq >= l.next:
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
	next   uint64 // number of the next event to return; guarded by the log
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
	l.mu.Lock(lock.Replay)
	defer l.mu.Unlock()
	switch {
	case t.next < l.first:
		return Batch{}, ErrEvicted, true
	case t.next == l.next:
		return Batch{}, io.EOF, l.ended || l.dropped
	}
	i, found := slices.BinarySearchFunc(l.segments, t.next, func(g segment, seq uint64) int {
		return cmp.Compare(g.first, seq)
	})
	if !found {
		i-- // it is inside the segment before
	}
	g := &l.segments[i]
	from, to := g.at(int(t.next-g.first)), len(g.buf)
	events := len(g.marks) - int(t.next-g.first)
	t.next += uint64(events)
	return Batch{Frames: g.buf[from:to:to], Events: events, Behind: int(l.next - t.next)}, nil, true
}

// Position implements [Tail].
func (t *memoryTail) Position() Position {
	t.log.mu.Lock(lock.Replay)
	defer t.log.mu.Unlock()
	return Position{Stream: t.log.stream, Missed: int(t.log.next - t.next)}
}

// Close implements [Tail].
func (t *memoryTail) Close() error {
	t.log.mu.Lock(lock.Attach)
	defer t.log.mu.Unlock()
	if i := slices.Index(t.log.tails, t); i >= 0 {
		t.log.tails = slices.Delete(t.log.tails, i, i+1)
	}
	return nil
}
