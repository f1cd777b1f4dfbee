// Package handoff is the classic way to deliver the events of a stream: a reader that
// comes back is replayed what it missed, and then attached to what is new. It decorates
// a store; what [store.Memory] does by itself needs no hand-over, and this strategy is
// there to see what the lock costs that one needs.
//
//	          Append                         Next, of a reader
//	             │ delivery lock                │ delivery lock
//	store it, and queue it for      read what is behind the cursor: a pass
//	the readers that are attached   nothing there? attach, under this same lock
//	             │ unlock                       │ unlock
//	             ▼                              ▼
//	                                write the pass, or what is queued
//
// Since an event is stored and queued under the lock that a pass and the attachment
// behind it hold, each event is either replayed to a reader or queued for it, never both
// and never neither. The lock is never held while something is written to a client: a
// reader that stalls delays nobody. It is held while the inner store appends: one that
// waits for a disk makes everybody wait who shares the lock, which is what this strategy
// costs.
package handoff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/prometheus/client_golang/prometheus"
)

// Config configures [New]. Zero fields mean the default.
type Config struct {
	// Lock says which streams share a delivery lock. Default: none, each has its own.
	Lock lock.Scope
	// Queue is how many bytes wait for an attached reader at most, or a single event
	// that is larger. A reader that is further behind is detached and replayed the rest.
	// Default 512 KiB, which is more than the tool emit leaves unread.
	Queue int
	// Pass is how many bytes one pass reads at most, a batch of the store more or less.
	// Default 4 MiB.
	Pass int
}

// Passes is how many passes that find something a reader gets in a row before it is sent
// back with [store.ErrBehind]: no connection replays without end (seed 003).
const Passes = 16

// Store delivers what it puts into another store.
//
// Its locks are taken in this order, and at most one of each kind at a time: a delivery
// lock, those of the inner store, that of the maps, that of a queue.
type Store struct {
	inner store.Store
	cfg   Config
	probe *lock.Probe
	// global is the delivery lock of all streams, in scope [lock.Global]; else nil.
	global *lock.Mutex
	// atHand is done: whoever waits with it gets what is there, or an error.
	atHand context.Context

	mu    sync.RWMutex // guards the maps, and a room's own fields
	rooms map[string]*room
}

// room has the desks of a session. It is there while there are any, or while the session
// is being forgotten.
type room struct {
	desks      map[string]*desk
	delivery   *lock.Mutex // of all desks, in scope [lock.Session]; else nil
	forgetting int         // calls of Forget under way
}

// desk is where the events of one stream meet its readers. It is there while the stream
// is open or read.
type desk struct {
	stream   store.Stream
	appended atomic.Int64 // events so far; changes under mu

	mu      *lock.Mutex // the delivery lock; guards the rest
	open    bool        // events were appended, and more may come
	tails   int         // that were not closed yet
	readers []*tail     // those that are attached
	gone    bool        // nobody finds it any more
}

// New returns a store that keeps events in inner and delivers them by hand-over. It
// forgets, meters and reports locks as far as inner does, and reports its own lock as
// "delivery". Inner has to give an id to each event.
func New(inner store.Store, cfg Config) (store.Store, error) {
	if cfg.Queue < 0 || cfg.Pass < 0 || !cfg.Lock.Valid() {
		return nil, fmt.Errorf("handoff: a bound is negative or the lock is an unknown %s", cfg.Lock)
	}
	if _, keepsNothing := inner.(*store.Passing); keepsNothing || inner == nil {
		return nil, errors.New("handoff: it needs an event store that can replay")
	}
	if cfg.Queue == 0 {
		cfg.Queue = 512 << 10
	}
	if cfg.Pass == 0 {
		cfg.Pass = 4 << 20
	}
	h := &Store{inner: inner, cfg: cfg, probe: lock.NewProbe("delivery"), rooms: make(map[string]*room)}
	if cfg.Lock == lock.Global {
		h.global = lock.New(h.probe)
	}
	var done context.CancelFunc
	h.atHand, done = context.WithCancel(context.Background())
	done()
	if meter, ok := inner.(store.Meter); ok {
		return metered{h, meter}, nil
	}
	return h, nil
}

// metered is a Store over one that can say how much it keeps.
type metered struct {
	*Store
	store.Meter
}

// Append implements [store.Store].
func (h *Store) Append(ctx context.Context, stream store.Stream, event store.Event) (string, error) {
	d := h.enter(stream, lock.Append)
	defer h.leave(d)
	id, err := h.inner.Append(ctx, stream, event)
	switch {
	case err == nil:
		d.open = !event.Last
		d.appended.Add(1)
		d.deliver(id, event)
	case !errors.Is(err, store.ErrEnded) && !errors.Is(err, store.ErrFull):
		d.detachAll() // the event may be stored or not, and the log knows
	}
	return id, err
}

// After implements [store.Store]. The tail has to be closed.
func (h *Store) After(ctx context.Context, cursor store.Cursor) (store.Tail, error) {
	inner, err := h.inner.After(ctx, cursor)
	if err != nil {
		return nil, err
	}
	t := &tail{store: h, inner: inner, signal: make(chan struct{}, 1)}
	t.desk = h.enter(inner.Position().Stream, lock.Attach)
	t.desk.tails++
	h.leave(t.desk)
	return t, nil
}

// Forget implements [store.Forgetter]. Readers of the session get what was queued for
// them, and then whatever the inner store says.
func (h *Store) Forget(session string) {
	forgetter, ok := h.inner.(store.Forgetter)
	if !ok {
		return
	}
	// While the session is forgotten nobody attaches to it, and who was attached is not
	// any more: or a reader of the old life could be handed events of a new one.
	for _, d := range h.forgetting(session, +1) {
		d.mu.Lock(lock.Evict)
		d.detachAll()
		d.open = false
		h.leave(d)
	}
	forgetter.Forget(session)
	h.forgetting(session, -1)
}

// Collectors implements [store.Instrumented].
func (h *Store) Collectors() []prometheus.Collector {
	all := []prometheus.Collector{h.probe}
	if inner, ok := h.inner.(store.Instrumented); ok {
		all = append(all, inner.Collectors()...)
	}
	return all
}

// enter returns the desk of a stream, with the delivery lock taken. leave must follow.
func (h *Store) enter(stream store.Stream, op lock.Op) *desk {
	for {
		d := h.find(stream)
		if d == nil {
			d = h.place(stream)
		}
		d.mu.Lock(op)
		if !d.gone {
			return d
		}
		d.mu.Unlock() // it went just now
	}
}

// leave gives the delivery lock back. A desk that nobody needs goes.
func (h *Store) leave(d *desk) {
	if !d.open && d.tails == 0 && !d.gone {
		d.gone = true
		h.mu.Lock()
		r := h.rooms[d.stream.Session]
		delete(r.desks, d.stream.Name)
		h.tidy(d.stream.Session, r)
		h.mu.Unlock()
	}
	d.mu.Unlock()
}

func (h *Store) find(stream store.Stream) *desk {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if r := h.rooms[stream.Session]; r != nil {
		return r.desks[stream.Name]
	}
	return nil
}

func (h *Store) place(stream store.Stream) *desk {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.room(stream.Session)
	if d := r.desks[stream.Name]; d != nil {
		return d
	}
	d := &desk{stream: stream}
	switch h.cfg.Lock {
	case lock.Stream:
		d.mu = lock.New(h.probe)
	case lock.Session:
		d.mu = r.delivery
	default:
		d.mu = h.global
	}
	r.desks[stream.Name] = d
	return d
}

// room returns the room of a session, a new one if there is none. h.mu is held.
func (h *Store) room(session string) *room {
	r := h.rooms[session]
	if r == nil {
		r = &room{desks: make(map[string]*desk)}
		if h.cfg.Lock == lock.Session {
			r.delivery = lock.New(h.probe)
		}
		h.rooms[session] = r
	}
	return r
}

// tidy lets go of an empty room. h.mu is held.
func (h *Store) tidy(session string, r *room) {
	if len(r.desks) == 0 && r.forgetting == 0 {
		delete(h.rooms, session)
	}
}

// forgetting notes that a call of Forget begins, or ends, and returns the desks of the
// session.
func (h *Store) forgetting(session string, change int) []*desk {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.room(session)
	r.forgetting += change
	all := make([]*desk, 0, len(r.desks))
	for _, d := range r.desks {
		all = append(all, d)
	}
	h.tidy(session, r)
	return all
}

// mayAttach reports whether the session of a desk is not being forgotten.
func (h *Store) mayAttach(d *desk) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	r := h.rooms[d.stream.Session]
	return r == nil || r.forgetting == 0
}

// deliver queues an event for whoever is attached. d.mu is held.
func (d *desk) deliver(id string, event store.Event) {
	d.readers = slices.DeleteFunc(d.readers, func(t *tail) bool { return !t.put(id, event) })
}

// detachAll sends all readers back to the log. d.mu is held.
func (d *desk) detachAll() {
	for _, t := range d.readers {
		t.detach()
	}
	d.readers = nil
}
