package store

import "slices"

// trim drops the n oldest events of a log. The shelf is locked.
func (m *Memory) trim(l *eventLog, n int, cause Cause) int64 {
	freed := l.drop(n)
	l.shelf.bytes.Add(-freed)
	m.bytes.Add(-freed)
	m.events.Add(int64(-n))
	m.evicted[cause].Add(int64(n))
	return freed
}

// remove drops a whole log. The shelf is locked.
func (m *Memory) remove(l *eventLog, cause Cause) int64 {
	freed := m.trim(l, l.count(), cause)
	l.dropped = true
	l.wake()
	delete(l.shelf.logs, l.stream.Name)
	m.streams.Add(-1)
	m.mu.Lock()
	delete(m.nonces, l.nonce)
	m.mu.Unlock()
	return freed
}

// removeFinished drops the oldest finished log that nobody is reading.
func (m *Memory) removeFinished(s *shelf, cause Cause) (freed int64, ok bool) {
	for i, l := range s.finished {
		if len(l.tails) == 0 {
			s.finished = slices.Delete(s.finished, i, i+1)
			return m.remove(l, cause), true
		}
	}
	return 0, false
}

// shrink frees want bytes of one session, which is locked: finished streams first,
// the oldest before the others, then the oldest events of the longest log. The
// newest event of a log is spared, even if it alone is larger than the bound.
func (m *Memory) shrink(s *shelf, want int64) {
	for want > 0 {
		freed, ok := m.removeFinished(s, CauseBytes)
		if !ok {
			break
		}
		want -= freed
	}
	for want > 0 {
		l := longest(s)
		if l == nil {
			return
		}
		want -= m.trim(l, l.spare(want), CauseBytes)
		l.wake()
	}
}

// longest returns the log with most bytes among those that have an event to spare.
func longest(s *shelf) *eventLog {
	var found *eventLog
	for _, l := range s.logs {
		if l.count() > 1 && (found == nil || l.bytes > found.bytes) {
			found = l
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
		m.shrink(victim, min(over, max(before/2, 1)))
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
	_, ok := m.removeFinished(s, CauseStreams)
	return ok
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
