package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
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
	// Nonce returns a text that was never returned before: visible ASCII. One is
	// drawn for every life of a stream, so that an id of a stream that was dropped
	// and written to again matches nothing. Default: 16 random characters.
	Nonce func() string
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
// The logs of a session share one lock, held for a copy of the event and nothing
// else. A session that holds too much loses its own oldest events first; when the
// store as a whole is full, the session that holds most pays, so that nobody's
// volume evicts what a more modest neighbour keeps.
type Memory struct {
	limits Limits
	nonce  func() string

	events, bytes, streams atomic.Int64
	evicted                [Causes]atomic.Int64

	// mu guards the maps. It may be taken while a shelf is locked, never the other
	// way round.
	mu       sync.RWMutex
	sessions map[string]*shelf
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
	return &Memory{
		limits:   cfg.Limits.withDefaults(),
		nonce:    cfg.Nonce,
		sessions: make(map[string]*shelf),
		nonces:   make(map[string]*eventLog),
	}, nil
}

// Append implements [Store].
func (m *Memory) Append(_ context.Context, stream Stream, event Event) (string, error) {
	l, err := m.open(stream)
	if err != nil {
		return "", err
	}
	s := l.shelf
	if l.ended {
		s.mu.Unlock()
		return "", ErrEnded
	}
	var scratch [64]byte
	id := append(scratch[:0], l.nonce...)
	id = append(id, '-')
	id = strconv.AppendUint(id, l.next, 10)
	added := l.append(id, event)
	if event.Last {
		s.finished = append(s.finished, l)
	}
	held := s.bytes.Add(added)
	m.events.Add(1)
	if n := l.count() - m.limits.Events; n > 0 {
		m.trim(l, n, CauseEvents)
	}
	if held > m.limits.SessionBytes {
		m.shrink(s, held-m.limits.SessionBytes)
	}
	l.wake()
	s.mu.Unlock()
	if m.bytes.Add(added) > m.limits.Bytes {
		m.relieve()
	}
	return string(id), nil
}

// After implements [Store].
func (m *Memory) After(_ context.Context, cursor Cursor) (Tail, error) {
	if cursor.ID == "" {
		l, err := m.open(cursor.Stream)
		if err != nil {
			return nil, err
		}
		defer l.shelf.mu.Unlock()
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
	l.shelf.mu.Lock()
	defer l.shelf.mu.Unlock()
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
		m.remove(l, CauseSession)
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

// open finds the log of a stream, or begins a new life of it, and returns it with
// its shelf locked.
func (m *Memory) open(stream Stream) (*eventLog, error) {
	for {
		s := m.shelf(stream.Session)
		s.mu.Lock()
		if s.gone {
			s.mu.Unlock()
			continue // forgotten just now: the session begins anew
		}
		if l := s.logs[stream.Name]; l != nil {
			return l, nil
		}
		if int(m.streams.Load()) < m.limits.Streams {
			l := &eventLog{shelf: s, stream: stream, nonce: m.nonce(), first: 1, next: 1}
			s.logs[stream.Name] = l
			m.streams.Add(1)
			m.mu.Lock()
			m.nonces[l.nonce] = l
			m.mu.Unlock()
			return l, nil
		}
		s.mu.Unlock()
		if !m.makeRoom() {
			return nil, ErrFull
		}
	}
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
		m.sessions[session] = s
	}
	return s
}
