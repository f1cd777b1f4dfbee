package wire

import (
	"runtime"
	"sync"
)

// Buffers of largeBuffer bytes and more change one at a time in a process, so that few exist
// twice while they are copied, and are collected once wasteMax bytes of them are garbage:
// else as much again would lie about as is in use.
const (
	largeBuffer = 1 << 20
	wasteMax    = 64 << 20
)

var large changes

type changes struct {
	mu     sync.Mutex
	wasted int
}

// change begins to replace a buffer of so many bytes, and returns what ends it.
func (c *changes) change(old int) (done func()) {
	c.mu.Lock()
	return func() {
		defer c.mu.Unlock()
		if old >= largeBuffer {
			c.wasted += old
		}
		if c.wasted >= wasteMax {
			c.wasted = 0
			runtime.GC()
		}
	}
}
