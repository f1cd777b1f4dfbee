package chaos

import (
	"slices"
	"time"
)

// suffering is what a link that lives on is going through. Each part ends at its time.
type suffering struct {
	// notBefore is when the next byte may be delivered.
	notBefore time.Time
	// delayed: what arrives is delivered by later; throttled: rate bytes per second;
	// sliced: one to seven bytes per read, drawn from key.
	delayed, throttled, sliced time.Time
	by                         time.Duration
	rate                       float64
	key                        uint64
}

// pause is a position among the bytes that wait at which a lasting fault begins.
type pause struct {
	at        int // in out
	fault     Planned
	injection Injection
}

// tick is how much of a throttled second one read may take.
const tick = 20

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// over tells that nothing is left to suffer.
func (s *suffering) over(now time.Time) bool {
	return !now.Before(later(later(s.notBefore, s.delayed), later(s.throttled, s.sliced)))
}

// shape bounds a read.
func (s *suffering) shape(p []byte, now time.Time) []byte {
	if now.Before(s.sliced) {
		s.key = scramble(s.key)
		p = p[:min(len(p), 1+int(s.key%7))]
	}
	if now.Before(s.throttled) {
		p = p[:min(len(p), max(1, int(s.rate/tick)))]
	}
	return p
}

// delivered takes the time for n bytes.
func (s *suffering) delivered(n int, now time.Time) {
	if now.Before(s.throttled) {
		s.notBefore = later(s.notBefore, now).Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	}
}

// suffer begins the lasting fault whose position has been reached.
func (l *Link) suffer() {
	p := l.pauses[0]
	l.pauses = l.pauses[1:]
	if l.ex.OnInjection != nil {
		l.ex.OnInjection(&p.injection)
	}
	l.suffers = true
	kinds[p.fault.Kind].lasts(&l.pain, &p.fault, time.Now().Add(p.fault.For))
}

// ready waits until a byte may be delivered, and bounds the read.
func (l *Link) ready(p []byte) ([]byte, error) {
	if err := l.life.wait(l.pain.notBefore); err != nil {
		return nil, l.opError("read", err)
	}
	now := time.Now()
	if l.life.relieved() || l.pain.over(now) {
		l.suffers, l.pain = false, suffering{}
		return p, nil
	}
	return l.pain.shape(p, now), nil
}

// late keeps what has arrived while delays act. Bytes that were about to be delivered in
// place go before those that wait.
func (l *Link) late(p []byte) {
	l.out = slices.Concat(p, l.out[l.outAt:]) // p is the reader's
	for i := range l.pauses {
		l.pauses[i].at += len(p) - l.outAt
	}
	l.outAt = 0
	l.pain.notBefore = later(l.pain.notBefore, time.Now().Add(l.pain.by))
}
