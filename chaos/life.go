package chaos

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// life is what other goroutines may do to a link: close it, set its deadline, reset it
// in a storm, heal it.
type life struct {
	mu   sync.Mutex
	wake chan struct{} // closed when anything below changes; nil: nobody waits
	read time.Time     // the deadline of reads

	closed, healed bool
	// carries: an exchange of a stream is under way, so a storm may strike. fate is what
	// has ended the link; only the first may. unplanned: no plan had the storm that did.
	carries   bool
	fate      fate
	unplanned bool
	// silent: nothing passes; the connection stays open until released.
	silent, released bool
	timer            *time.Timer
}

type fate uint8

const (
	alive     fate = iota
	cutOff         // by a fault of the plan
	stormFate      // by a storm
)

// change changes the state under the lock and wakes whoever waits.
func (f *life) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// relieved tells that waiting has no point any more.
func (f *life) relieved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.healed || f.fate == stormFate || f.released
}

// wait waits until the time, or until the link is relieved: the error says that the
// link was closed or its deadline passed.
func (f *life) wait(until time.Time) error { return f.sleep(until, false) }

func (f *life) sleep(until time.Time, forever bool) error {
	for {
		f.mu.Lock()
		now := time.Now()
		switch {
		case f.closed:
			f.mu.Unlock()
			return net.ErrClosed
		case f.healed || f.fate == stormFate || f.released || !forever && !now.Before(until):
			f.mu.Unlock()
			return nil
		case !f.read.IsZero() && !now.Before(f.read):
			f.mu.Unlock()
			return os.ErrDeadlineExceeded
		}
		next := f.read
		if !forever && (next.IsZero() || until.Before(next)) {
			next = until
		}
		if f.wake == nil {
			f.wake = make(chan struct{})
		}
		wake := f.wake
		f.mu.Unlock()
		pauseFor(next, wake)
	}
}

// pauseFor waits for the time, if it is not zero, or for wake.
func pauseFor(until time.Time, wake <-chan struct{}) {
	if until.IsZero() {
		<-wake
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	}
}

// carry says whether an exchange is under way that a storm may end.
func (f *life) carry(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.carries = on
}

// carried tells whether a storm may strike the link.
func (f *life) carried() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.carries && f.fate == alive && !f.closed
}

func (f *life) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *life) isHealed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.healed
}

// claim takes the link for a cut; false when a storm was first.
func (f *life) claim() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fate == stormFate {
		return false
	}
	f.fate = cutOff
	return true
}

func (f *life) stormed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fate == stormFate
}

func (f *life) stormedUnplanned() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fate == stormFate && f.unplanned
}

// silence begins a black hole: nothing is closed before the time, or before the run
// heals if that is 0 and somebody is there to heal it.
func (l *Link) silence(lasting time.Duration) {
	l.life.change(func() {
		l.life.silent = true
		if lasting > 0 {
			l.life.timer = time.AfterFunc(lasting, l.letGo)
		}
	})
}

// letGo closes a connection in which nothing passes.
func (l *Link) letGo() {
	done := false
	l.life.change(func() {
		done = l.life.released
		l.life.released = true
		if l.life.timer != nil {
			l.life.timer.Stop()
		}
	})
	if !done {
		_ = l.conn.Close() // the link was given up long ago
		l.leave()
	}
}

// Heal ends what the link suffers, from any goroutine: waits are over, a black hole is
// closed, and nothing strikes any more.
func (l *Link) Heal() {
	silent := false
	l.life.change(func() {
		l.life.healed = true
		silent = l.life.silent
	})
	if silent {
		l.letGo()
	}
}

// Close closes the link and unblocks a Read. A link in which nothing passes any more
// keeps its connection, so that the target is not told.
func (l *Link) Close() error {
	keep := false
	l.life.change(func() {
		l.life.closed = true
		keep = l.life.silent && (l.life.timer != nil || l.nemesis != nil) && !l.life.released
	})
	if keep {
		return nil
	}
	l.leave()
	return l.conn.Close()
}

// leave takes the link from the nemesis.
func (l *Link) leave() {
	if l.nemesis != nil {
		l.nemesis.Remove(l)
	}
}

// SetDeadline bounds reads and writes, held-back bytes included.
func (l *Link) SetDeadline(t time.Time) error {
	l.life.change(func() { l.life.read = t })
	return l.conn.SetDeadline(t)
}

// SetReadDeadline bounds reads.
func (l *Link) SetReadDeadline(t time.Time) error {
	l.life.change(func() { l.life.read = t })
	return l.conn.SetReadDeadline(t)
}

// SetWriteDeadline bounds writes.
func (l *Link) SetWriteDeadline(t time.Time) error { return l.conn.SetWriteDeadline(t) }

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
