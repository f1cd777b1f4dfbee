package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// pair returns both ends of a TCP link on loopback.
func pair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			client = c.(*net.TCPConn)
		}
		dialled <- err
	}()
	server, err = l.AcceptTCP()
	if err = errors.Join(err, <-dialled); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// TestCutsOnTCP cuts a chunked stream inside its second event.
func TestCutsOnTCP(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		name string
		cut  func(*net.TCPConn) error
		want error
	}{
		{"RST", func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }, syscall.ECONNRESET},
		{"FIN", (*net.TCPConn).CloseWrite, io.ErrUnexpectedEOF},
		{"clean end of the body", func(c *net.TCPConn) error { _, err := io.WriteString(c, "0\r\n\r\n"); return err }, ErrMidEvent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, server := pair(t)
			c := NewConn(client, Limits{})
			if _, err := io.WriteString(server, head+"f\r\nid: 1\ndata: a\n\n\r\n6\r\nid: 2\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := c.RoundTrip(get())
			if err != nil {
				t.Fatal(err)
			}
			request := make([]byte, len("GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n"))
			if _, err := io.ReadFull(server, request); err != nil || !strings.HasPrefix(string(request), "GET /mcp ") {
				t.Fatalf("%q, %v", request, err)
			}
			var r Reader
			var ev Event
			r.Reset(resp, nil)
			if err := r.Next(&ev); err != nil || string(ev.ID) != "1" {
				t.Fatalf("%q, %v", ev.ID, err)
			}
			if err := tt.cut(server); err != nil {
				t.Fatal(err)
			}
			if err := r.Next(&ev); !errors.Is(err, tt.want) || string(r.Cursor()) != "1" {
				t.Errorf("got %v at %q, want %v", err, r.Cursor(), tt.want)
			}
		})
	}
}
