//go:build unix

package loadgen

import (
	"net"
	"syscall"
	"time"
)

// gone tells that a resting link is of no use any more: the target has closed it, or has
// sent what nobody asked for. It never waits.
func gone(conn net.Conn) bool {
	c, ok := innermost(conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	_ = conn.SetReadDeadline(time.Time{}) // else the look is refused
	left := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		left = err != syscall.EAGAIN && err != syscall.EINTR
		return true
	})
	return err != nil || left
}

// innermost is the connection of the system below all that is wrapped around it.
func innermost(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}
