package refserver

import (
	"context"
	"sync"
	"time"
)

// holdTime is how long emit waits for other calls before it begins without them.
const holdTime = 60 * time.Second

// barrier lets calls wait for one another: nobody with the same key passes before
// so many are there.
type barrier struct {
	mu    sync.Mutex
	gates map[string]*gate
}

type gate struct {
	open    int // calls that arrived and have not left
	waiting chan struct{}
	passed  bool
}

func newBarrier() *barrier { return &barrier{gates: make(map[string]*gate)} }

// wait returns once streams calls with this key are open, or after [holdTime]. Every
// wait is followed by one leave.
func (b *barrier) wait(ctx context.Context, key string, streams int) error {
	if key == "" {
		return nil
	}
	g := b.enter(key, streams)
	timer := time.NewTimer(holdTime)
	defer timer.Stop()
	select {
	case <-g.waiting:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (b *barrier) enter(key string, streams int) *gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gates[key]
	if g == nil {
		g = &gate{waiting: make(chan struct{})}
		b.gates[key] = g
	}
	if g.open++; g.open >= streams && !g.passed {
		g.passed = true
		close(g.waiting)
	}
	return g
}

// leave takes a call out. The gate stays open for latecomers until all have left.
func (b *barrier) leave(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.gates[key]; g != nil {
		if g.open--; g.open == 0 {
			delete(b.gates, key)
		}
	}
}
