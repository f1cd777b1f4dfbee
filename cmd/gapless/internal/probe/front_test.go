package probe

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/refserver"
)

// TestHTTPFront puts a front before the server that takes what RFC 9112 wants refused, as
// some servers do: the first of two fields counts.
func TestHTTPFront(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(reference(t, refserver.Config{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() { // ends with the listener
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			go lenient(near, u.Host)
		}
	}()
	rows := ask(t, quick("http://"+ln.Addr().String()+"/mcp"), "duplicate-host", "duplicate-length")
	for _, name := range []string{"duplicate-host", "duplicate-length"} {
		if row := rows[name]; row.Status != Deviating || !strings.HasPrefix(row.Seen, "200") {
			t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
		}
	}
}

// lenient carries one link and leaves doubled fields out of the head of its request.
func lenient(near net.Conn, addr string) {
	defer near.Close()
	far, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer far.Close()
	in := bufio.NewReader(near)
	var head bytes.Buffer
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasPrefix(line, "Host: "+elsewhere) && line != "Content-Length: 7\r\n" {
			head.WriteString(line)
		}
		if line == "\r\n" {
			break
		}
	}
	if _, err := far.Write(head.Bytes()); err != nil {
		return
	}
	go func() { // ends with either link
		_, _ = io.Copy(far, in)
	}()
	_, _ = io.Copy(near, far)
}
