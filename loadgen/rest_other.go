//go:build !unix

package loadgen

import "net"

// gone cannot be told without waiting.
func gone(net.Conn) bool { return false }
