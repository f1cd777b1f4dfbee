package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func link(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := Listen()
	defer l.Close()
	got := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	client, err := l.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return client, <-got
}

func TestFINLeavesWhatIsInFlight(t *testing.T) {
	client, server := link(t)
	io.WriteString(server, "last words")
	server.Close()
	got, err := io.ReadAll(client)
	if string(got) != "last words" || err != nil {
		t.Fatalf("read %q, %v; want all bytes and a clean end", got, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("write after the peer's close: %v, want EPIPE", err)
	}
}

func TestResetLosesWhatIsInFlight(t *testing.T) {
	client, server := link(t)
	io.WriteString(server, "lost")
	server.(*Conn).SetLinger(0)
	server.Close()
	if n, err := client.Read(make([]byte, 9)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes, %v; want none and ECONNRESET", n, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("write after a reset: %v, want ECONNRESET", err)
	}
}

func TestCloseEndsOwnRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := link(t)
		time.AfterFunc(time.Second, func() { client.Close() })
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read: %v, want net.ErrClosed", err)
		}
	})
}

func TestFullBufferBlocksUntilRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := link(t)
		big := strings.Repeat("x", 3*bufferBytes)
		wrote := make(chan int)
		go func() {
			n, _ := io.WriteString(server, big)
			server.Close()
			wrote <- n
		}()
		synctest.Wait()
		select {
		case <-wrote:
			t.Fatal("a write of three buffers did not block")
		default:
		}
		got, err := io.ReadAll(client)
		if err != nil || len(got) != len(big) || <-wrote != len(big) {
			t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(big))
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := link(t)
		start := time.Now()
		client.SetReadDeadline(start.Add(time.Second))
		client.SetReadDeadline(start.Add(3 * time.Second)) // replaces the first
		_, err := client.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Fatalf("read: %v after %v, want a deadline after 3s", err, time.Since(start))
		}
		client.SetReadDeadline(time.Time{})
		io.WriteString(server, "x")
		if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("read after the deadline was removed: %d, %v", n, err)
		}
		server.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := server.Write(make([]byte, 2*bufferBytes)); n != bufferBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write: %d, %v; want one buffer and a deadline", n, err)
		}
	})
}

func TestClosedListenerRefuses(t *testing.T) {
	l := Listen()
	l.Close()
	if _, err := l.Dial(context.Background()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial: %v, want ECONNREFUSED", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept: %v, want net.ErrClosed", err)
	}
}
