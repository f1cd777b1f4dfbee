package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/prometheus/client_golang/prometheus"
)

// Limits bounds what [Memory] keeps. Zero fields mean the default.
type Limits struct {
	Events       int   // per stream; default 10,000
	SessionBytes int64 // per session; default: all of Bytes
	Bytes        int64 // in the whole store; default 64 MiB
	Streams      int   // in the whole store; default 100,000
}

// MemoryConfig configures [NewMemory].
type MemoryConfig struct {
	Limits Limits
	// Nonce returns a text that was never returned before: visible ASCII, from any goroutine. One is
	// drawn for every life of a stream, so that an id of a stream that was dropped
	// and written to again matches nothing. Default: 16 random characters.
	Nonce func() string
	// Lock says which logs share the lock that is taken to append to them and to read
	// them. Wider than a stream is only of use to see what it costs.
	Lock lock.Scope
}

// Validate reports all that is wrong with the configuration.
func (c MemoryConfig) Validate() error {
	var errs []error
	for name, v := range map[string]int64{
		"events": int64(c.Limits.Events), "session bytes": c.Limits.SessionBytes,
		"bytes": c.Limits.Bytes, "streams": int64(c.Limits.Streams),
	} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("limit of %s is negative: %d", name, v))
		}
	}
	if !c.Lock.Valid() {
		errs = append(errs, fmt.Errorf("unknown %s", c.Lock))
	}
	return errors.Join(errs...)
}

func (l Limits) withDefaults() Limits {
	if l.Events == 0 {
		l.Events = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.SessionBytes == 0 {
		l.SessionBytes = l.Bytes
	}
	if l.Streams == 0 {
		l.Streams = 100_000
	}
	return l
}

// Memory is a [Store] in the memory of one process.
//
// Each log has a lock, held for a copy of the event and nothing else; see
// [MemoryConfig.Lock]. A session that holds too much loses its own oldest events first;
// when the store as a whole is full, the session that holds most pays, so that nobody's
// volume evicts what a more modest neighbour keeps.
//
// Locks are taken in this order, and at most one of each kind at a time: that of a
// session's structure, that of a log's contents, that of the maps. Whoever only appends
// or reads needs the last two, one after the other.
type Memory struct {
	limits Limits
	nonce  func() string
	start  time.Time
	scope  lock.Scope
	probe  *lock.Probe
	// content is the lock of all logs, in scope [lock.Global]; else nil.
	content *lock.Mutex

	events, bytes, streams atomic.Int64
	evicted                [Causes]atomic.Int64

	relieving sync.Mutex // held by the append that brings the store below its bound

	mu       sync.RWMutex // guards the maps
	sessions map[string]*shelf
	logs     map[Stream]*eventLog
	nonces   map[string]*eventLog
}

// NewMemory returns an empty store.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	if cfg.Nonce == nil {
		cfg.Nonce = func() string { return rand.Text()[:16] }
	}
	m := &Memory{
		limits:   cfg.Limits.withDefaults(),
		nonce:    cfg.Nonce,
		start:    time.Now(),
		scope:    cfg.Lock,
		probe:    lock.NewProbe("store"),
		sessions: make(map[string]*shelf),
		logs:     make(map[Stream]*eventLog),
		nonces:   make(map[string]*eventLog),
	}
	if m.scope == lock.Global {
		m.content = lock.New(m.probe)
	}
	return m, nil
}

// Collectors implements [Instrumented]: what the lock of the contents, "store", costs.
func (m *Memory) Collectors() []prometheus.Collector { return []prometheus.Collector{m.probe} }

// Append implements [Store].
func (m *Memory) Append(_ context.Context, stream Stream, event Event) (string, error) {
	now := m.now() // before anything is locked
	l, err := m.open(stream, lock.Append)
	if err != nil {
		return "", err
	}
	if l.ended {
		l.mu.Unlock()
		return "", ErrEnded
	}
	var scratch [64]byte
	id := append(scratch[:0], l.nonce...)
	id = append(id, '-')
	id = strconv.AppendUint(id, l.next, 10)
	added := l.append(id, event, now)
	m.events.Add(1)
	held, all := l.shelf.bytes.Add(added), m.bytes.Add(added)
	if n := l.count() - m.limits.Events; n > 0 {
		m.trim(l, n, CauseEvents)
	}
	l.wake()
	l.mu.Unlock()
	if event.Last {
		l.shelf.finish(l)
	}
	if held > m.limits.SessionBytes {
		l.shelf.mu.Lock()
		if l.shelf.bytes.Load() > m.limits.SessionBytes {
			m.shrink(l.shelf, slack(m.limits.SessionBytes))
		}
		l.shelf.mu.Unlock()
	}
	if all > m.limits.Bytes {
		m.relieve()
	}
	return string(id), nil
}

// After implements [Store].
func (m *Memory) After(_ context.Context, cursor Cursor) (Tail, error) {
	if cursor.ID == "" {
		l, err := m.open(cursor.Stream, lock.Attach)
		if err != nil {
			return nil, err
		}
		defer l.mu.Unlock()
		return l.tail(0)
	}
	nonce, seq, ok := splitID(cursor.ID)
	if !ok {
		return nil, ErrUnknown
	}
	m.mu.RLock()
	l := m.nonces[nonce]
	m.mu.RUnlock()
	switch {
	case l == nil:
		return nil, ErrUnknown
	case l.stream.Session != cursor.Stream.Session:
		return nil, ErrForeign
	}
	l.mu.Lock(lock.Attach)
	defer l.mu.Unlock()
	return l.tail(seq)
}

// Forget implements [Forgetter]. Tails of the session come to their end.
func (m *Memory) Forget(session string) {
	m.mu.Lock()
	s := m.sessions[session]
	delete(m.sessions, session)
	m.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.finished = true, nil // whoever still looks at the shelf finds it empty
	for _, l := range s.logs {
		l.mu.Lock(lock.Evict)
		m.remove(l, CauseSession)
		l.mu.Unlock()
	}
}

// Stats implements [Meter].
func (m *Memory) Stats() Stats {
	st := Stats{Events: m.events.Load(), Bytes: m.bytes.Load(), Streams: m.streams.Load()}
	for c := range st.Evicted {
		st.Evicted[c] = m.evicted[c].Load()
	}
	return st
}

// open finds the log of a stream, or begins a new life of it, and returns it locked.
func (m *Memory) open(stream Stream, op lock.Op) (*eventLog, error) {
	for {
		m.mu.RLock()
		l := m.logs[stream]
		m.mu.RUnlock()
		if l == nil {
			var err error
			if l, err = m.begin(stream); err != nil {
				return nil, err
			}
		}
		l.mu.Lock(op)
		if !l.dropped {
			return l, nil
		}
		l.mu.Unlock() // dropped just now: the stream begins anew
	}
}

// begin returns the log of a stream, a new one if there is none.
func (m *Memory) begin(stream Stream) (*eventLog, error) {
	for {
		s := m.shelf(stream.Session)
		s.mu.Lock()
		if s.gone {
			s.mu.Unlock()
			continue // forgotten just now: the session begins anew
		}
		l := s.logs[stream.Name]
		if l == nil && int(m.streams.Load()) < m.limits.Streams {
			l = m.place(s, stream)
		}
		s.mu.Unlock()
		if l != nil {
			return l, nil
		}
		if !m.makeRoom() {
			return nil, ErrFull
		}
	}
}

// place puts a new log on a shelf, which is locked.
func (m *Memory) place(s *shelf, stream Stream) *eventLog {
	l := &eventLog{shelf: s, stream: stream, nonce: m.nonce(), first: 1, next: 1}
	switch m.scope {
	case lock.Stream:
		l.mu = lock.New(m.probe)
	case lock.Session:
		l.mu = s.content
	default:
		l.mu = m.content
	}
	s.logs[stream.Name] = l
	m.streams.Add(1)
	m.mu.Lock()
	m.nonces[l.nonce] = l
	m.logs[stream] = l
	m.mu.Unlock()
	return l
}

func (m *Memory) shelf(session string) *shelf {
	m.mu.RLock()
	s := m.sessions[session]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.sessions[session]; s == nil {
		s = &shelf{logs: make(map[string]*eventLog)}
		if m.scope == lock.Session {
			s.content = lock.New(m.probe)
		}
		m.sessions[session] = s
	}
	return s
}

// finish notes that a log has ended. If it was dropped meanwhile, so was its shelf.
func (s *shelf) finish(l *eventLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.finished = append(s.finished, l)
	}
}
