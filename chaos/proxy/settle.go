package proxy

import "time"

// settled waits until the peer's system has everything that was written, at most so
// long, and tells whether it has. Where that cannot be known it waits a moment and says
// no.
func (c *port) settled(most time.Duration) bool {
	pause := 50 * time.Microsecond
	for waited := time.Duration(0); ; waited += pause {
		n, known := c.queued()
		switch {
		case known && n == 0:
			return true
		case !known && waited > 0, waited >= most:
			return false
		case !known:
			pause = min(most, time.Millisecond)
		default:
			pause = min(2*pause, 5*time.Millisecond, most-waited)
		}
		time.Sleep(pause)
	}
}
