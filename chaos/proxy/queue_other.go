//go:build !linux

package proxy

// queued cannot be known here.
func (c *port) queued() (int, bool) { return 0, false }
