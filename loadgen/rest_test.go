//go:build unix

package loadgen

import (
	"net"
	"testing"
	"time"
)

// TestARestedLinkThatWasClosed: what the target has ended since carries no call.
func TestARestedLinkThatWasClosed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	for name, end := range map[string]func(*net.TCPConn) error{
		"still there":   func(*net.TCPConn) error { return nil },
		"closed":        func(c *net.TCPConn) error { return c.Close() },
		"reset":         func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() },
		"talks unasked": func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			server, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			_ = client.SetReadDeadline(time.Unix(1, 0)) // as an exchange may leave it
			if err := end(server.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			want := name != "still there"
			over := time.Now().Add(5 * time.Second)
			for gone(client) != want && time.Now().Before(over) { // loopback delivers when it likes
				continue
			}
			if gone(client) != want {
				t.Errorf("gone: %t", !want)
			}
		})
	}
}
