package store

import "time"

// tick counts tenths of a second since a store was made, from 1 on. It lasts for
// thirteen years.
type tick uint32

const tickTime = 100 * time.Millisecond

func (m *Memory) now() tick { return tick(time.Since(m.start)/tickTime) + 1 }

// OldestAge implements [Aged], to a tenth of a second. It looks at each stream, so it
// is for a scrape and not for each event.
func (m *Memory) OldestAge() time.Duration {
	now := m.now()
	oldest := now
	for _, s := range m.shelves() {
		oldest = min(oldest, s.oldest(now))
	}
	return time.Duration(now-oldest) * tickTime
}

// oldest returns when the oldest event of a session came, at the latest now.
func (s *shelf) oldest(now tick) tick {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		if came := tick(l.oldest.Load()); came != 0 {
			now = min(now, came)
		}
	}
	return now
}
