package proxy

import (
	"syscall"
	"unsafe"
)

// queued returns how many bytes the peer's system has not acknowledged; false when that
// cannot be known.
func (c *port) queued() (int, bool) {
	if c.raw == nil {
		return 0, false
	}
	var n int32
	var failed syscall.Errno
	err := c.raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	})
	return int(n), err == nil && failed == 0
}
