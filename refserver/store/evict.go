package store

import (
	"slices"

	"github.com/gapless-dev/gapless/refserver/lock"
)

// trim drops the n oldest events of a log, which is locked.
func (m *Memory) trim(l *eventLog, n int, cause Cause) {
	if n == 0 {
		return
	}
	freed := l.drop(n)
	l.shelf.bytes.Add(-freed)
	m.bytes.Add(-freed)
	m.events.Add(int64(-n))
	m.evicted[cause].Add(int64(n))
}

// remove drops a whole log. Its shelf is locked, and so is the log itself.
func (m *Memory) remove(l *eventLog, cause Cause) {
	delete(l.shelf.logs, l.stream.Name)
	m.mu.Lock()
	delete(m.nonces, l.nonce)
	delete(m.logs, l.stream)
	m.mu.Unlock()
	m.streams.Add(-1)
	m.trim(l, l.count(), cause)
	l.dropped = true
	l.wake()
}

// removeFinished drops the oldest finished log that nobody is reading. The shelf is
// locked.
func (m *Memory) removeFinished(s *shelf, cause Cause) bool {
	for i, l := range s.finished {
		if m.removeUnread(l, cause) {
			s.finished = slices.Delete(s.finished, i, i+1)
			return true
		}
	}
	return false
}

func (m *Memory) removeUnread(l *eventLog, cause Cause) bool {
	l.mu.Lock(lock.Evict)
	defer l.mu.Unlock()
	if len(l.tails) > 0 {
		return false
	}
	m.remove(l, cause)
	return true
}

// shrink brings what a session, which is locked, holds down to a number of bytes:
// finished streams go first, the oldest before the others, then the oldest events of the
// longest log. The newest event of a log is spared, even if it alone is larger than the
// bound.
func (m *Memory) shrink(s *shelf, bytes int64) {
	for s.bytes.Load() > bytes && m.removeFinished(s, CauseBytes) {
	}
	for s.bytes.Load() > bytes {
		l := longest(s)
		if l == nil {
			return
		}
		m.shorten(l, bytes)
	}
}

// shorten drops the oldest events of a log until its session holds no more than a number
// of bytes.
func (m *Memory) shorten(l *eventLog, bytes int64) {
	l.mu.Lock(lock.Evict)
	defer l.mu.Unlock()
	m.trim(l, l.spare(l.shelf.bytes.Load()-bytes), CauseBytes)
	l.wake()
}

// longest returns the log with most bytes to spare, nil when none has any.
func longest(s *shelf) *eventLog {
	var found *eventLog
	most := int64(0)
	for _, l := range s.logs {
		if n := l.spareable.Load(); n > most {
			found, most = l, n
		}
	}
	return found
}

// relieve brings the store below its bound, with some slack so that the search for
// the largest session is not made for every event.
func (m *Memory) relieve() {
	target := m.limits.Bytes - m.limits.Bytes/16
	for {
		over := m.bytes.Load() - target
		if over <= 0 {
			return
		}
		victim := m.largest(func(s *shelf) int64 { return s.bytes.Load() })
		if victim == nil {
			return
		}
		victim.mu.Lock()
		before := victim.bytes.Load()
		// Never more than half at once: the next largest may have become the first.
		m.shrink(victim, before-min(over, max(before/2, 1)))
		stuck := victim.bytes.Load() == before
		victim.mu.Unlock()
		if stuck {
			return // it holds nothing but newest events
		}
	}
}

// makeRoom drops one finished stream of the session that keeps most of them.
func (m *Memory) makeRoom() bool {
	s := m.largest(func(s *shelf) int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return int64(len(s.finished))
	})
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.removeFinished(s, CauseStreams)
}

// largest returns the session that holds most by the given measure, nil when none
// holds anything.
func (m *Memory) largest(measure func(*shelf) int64) *shelf {
	m.mu.RLock()
	all := make([]*shelf, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.RUnlock()
	var found *shelf
	most := int64(0)
	for _, s := range all {
		if n := measure(s); n > most {
			found, most = s, n
		}
	}
	return found
}
