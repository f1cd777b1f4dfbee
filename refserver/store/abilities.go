package store

import "time"

// Named is the ability to say what kind of store it is, in one word. It becomes the
// value of a metric's label.
type Named interface{ Name() string }

// Aged is the ability to say how old the oldest event is that is kept, 0 when none is.
type Aged interface{ OldestAge() time.Duration }

// Name implements [Named].
func (m *Memory) Name() string { return "memory" }
