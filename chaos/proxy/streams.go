package proxy

import (
	"slices"
	"sync"

	"github.com/gapless-dev/gapless/chaos"
)

// ordinals deals out the numbers of the plan. Whether a response is an event stream is
// known only after its request had to begin, so a number is lent first and comes back
// when it was not needed; the smallest goes first.
type ordinals struct {
	mu   sync.Mutex
	last uint64
	free []uint64 // ascending
}

func (o *ordinals) take() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.free) > 0 {
		n := o.free[0]
		o.free = o.free[1:]
		return n
	}
	o.last++
	return o.last
}

func (o *ordinals) give(n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, _ := slices.BinarySearch(o.free, n)
	o.free = slices.Insert(o.free, at, n)
}

// A stream is what the proxy knows of an MCP stream of a client who says nothing about
// it: which faults are still to come, and what was delivered before.
type stream struct {
	role      Role
	ordinal   uint64
	victim    *chaos.Victim
	attempt   int
	delivered int
	// held: a link carries it now. Guarded by streams.mu; everything else belongs to
	// that link.
	held bool
}

// maxCursors bounds the cursors of interrupted streams that are remembered.
const maxCursors = 1 << 16

// streams finds the stream that a resume continues, by the hash of its cursor. It holds
// the last ids that were delivered on links that have ended.
type streams struct {
	mu    sync.Mutex
	known map[uint64]*stream
	order []uint64 // the keys, oldest first
}

// put lets go of a stream and remembers where it can be continued.
func (s *streams) put(st *stream, cursors []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[uint64]*stream{}
	}
	st.held = false
	for _, c := range cursors {
		if _, again := s.known[c]; !again {
			s.order = append(s.order, c)
		}
		s.known[c] = st
	}
	for len(s.order) > maxCursors {
		delete(s.known, s.order[0])
		s.order = s.order[1:]
	}
}

// take returns the stream that a cursor continues; nil when it is unknown or another
// link carries it.
func (s *streams) take(cursor uint64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.known[cursor]
	if st == nil || st.held {
		return nil
	}
	st.held = true
	return st
}
