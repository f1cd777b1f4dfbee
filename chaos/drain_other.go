//go:build !unix

package chaos

import "net"

// drain does nothing here: a FIN with unread bytes behind it may become a reset.
func drain(net.Conn) {}
