//go:build unix

package chaos

import (
	"net"
	"syscall"
)

// drainMost bounds what drain throws away: more than any receive buffer holds.
const drainMost = 64 << 20

// drain throws away what the kernel has received and nobody has read. A close with
// unread bytes would reset the connection, and a FIN could not be told from an RST.
// It never waits for more.
func drain(conn net.Conn) {
	c, ok := innermost(conn).(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return // closed already
	}
	var waste [16 << 10]byte
	_ = raw.Read(func(fd uintptr) bool {
		for total := 0; total < drainMost; {
			n, err := syscall.Read(int(fd), waste[:])
			if n <= 0 && err != syscall.EINTR {
				return true
			}
			total += max(n, 0)
		}
		return true
	})
}
