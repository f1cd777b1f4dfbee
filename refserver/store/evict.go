package store

import (
	"cmp"
	"maps"
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
// logs that are longer than others. The newest event of a log is spared, even if it alone
// is larger than the bound.
func (m *Memory) shrink(s *shelf, bytes int64) {
	for s.bytes.Load() > bytes && m.removeFinished(s, CauseBytes) {
	}
	for {
		before := s.bytes.Load()
		if before <= bytes {
			return
		}
		all := slices.Collect(maps.Values(s.logs))
		sizes := make([]int64, len(all))
		for i, l := range all {
			sizes[i] = l.spareable.Load()
		}
		level := levelOf(slices.Clone(sizes), before-bytes)
		for i, l := range all {
			if sizes[i] > level {
				m.shorten(l, level)
			}
		}
		if s.bytes.Load() >= before {
			return
		}
	}
}

// shorten drops the oldest events of a log until it has no more than a number of bytes to
// spare.
func (m *Memory) shorten(l *eventLog, bytes int64) {
	l.mu.Lock(lock.Evict)
	defer l.mu.Unlock()
	m.trim(l, l.spare(l.spareable.Load()-bytes), CauseBytes)
	l.wake()
}

// relieve brings the store below its bound, with some slack. All sessions that hold more
// than a common level are brought down to it: of sessions that hold alike each loses the
// little that is too much, and no live reader loses what it was about to read because one
// of them paid for all. One append at a time does it, or each would take what is too much.
func (m *Memory) relieve() {
	m.relieving.Lock()
	defer m.relieving.Unlock()
	if m.bytes.Load() <= m.limits.Bytes {
		return // another has done it
	}
	for {
		over := m.bytes.Load() - slack(m.limits.Bytes)
		if over <= 0 {
			return
		}
		all := m.shelves()
		sizes := make([]int64, len(all))
		for i, s := range all {
			sizes[i] = s.bytes.Load()
		}
		level, freed := levelOf(slices.Clone(sizes), over), false
		for i, s := range all {
			if sizes[i] > level {
				s.mu.Lock()
				m.shrink(s, level)
				freed = freed || s.bytes.Load() < sizes[i]
				s.mu.Unlock()
			}
		}
		if !freed {
			return // they hold nothing but newest events
		}
	}
}

// slack is what a bound is undershot to, so that not every event has to look for what
// may go.
func slack(bound int64) int64 { return bound - bound/16 }

// levelOf returns the level that sizes have to be cut down to for their sum to lose so
// much. It sorts them.
func levelOf(sizes []int64, over int64) int64 {
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) })
	sum, level := int64(0), int64(0)
	for i, size := range sizes {
		if level >= size && i > 0 {
			break // the rest is below it
		}
		sum += size
		level = max((sum-over)/int64(i+1), 0)
	}
	return level
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
	var found *shelf
	most := int64(0)
	for _, s := range m.shelves() {
		if n := measure(s); n > most {
			found, most = s, n
		}
	}
	return found
}

// shelves returns those there are now, so that nobody waits while they are looked at.
func (m *Memory) shelves() []*shelf {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.sessions))
}
