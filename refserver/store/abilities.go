package store

import "time"

// Named is the ability to say what kind of store it is, in one word. It becomes the
// value of a metric's label.
type Named interface{ Name() string }

// Aged is the ability to say how old the oldest event is that is kept, 0 when none is.
type Aged interface{ OldestAge() time.Duration }

// Bounded is the ability to say how much is kept at most.
type Bounded interface{ Limits() Limits }

// Limits implements [Bounded].
func (m *Memory) Limits() Limits { return m.limits }

// Name implements [Named].
func (m *Memory) Name() string { return "memory" }
