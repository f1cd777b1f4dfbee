// Package guard owns goroutines whose panics must not look like a verdict.
//
// A Go program that panics exits with code 2, which for gapless means a bad flag
// or profile. A [Group] hands the panic to whoever waits for its goroutines, who
// can then fail the run with the tool's own code and a stack that says where.
package guard

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// A Group runs goroutines and waits for them. The zero Group is ready for use.
type Group struct {
	// OnPanic, if set, is called once, by the first goroutine that panics, so that
	// the others can be told to stop. Set it before the first Go.
	OnPanic func()

	wg    sync.WaitGroup
	once  sync.Once
	panic error
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.wg.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				g.once.Do(func() {
					g.panic = &PanicError{Value: v, Stack: debug.Stack()}
					if g.OnPanic != nil {
						g.OnPanic()
					}
				})
			}
		}()
		f()
	})
}

// Wait waits until every goroutine has returned. Its error is nil or the
// *PanicError of the first that panicked.
func (g *Group) Wait() error {
	g.wg.Wait()
	return g.panic
}

// A PanicError is a panic of a goroutine, with the stack where it happened.
type PanicError struct {
	Value any
	Stack []byte
}

// Error gives the value and the stack: a panic is a bug of ours, and whoever sees
// it should be able to report it.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }
