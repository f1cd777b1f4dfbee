package refserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// post writes a POST by hand on a link of its own and returns the link.
func (p *peer) raw(tb testing.TB, request string) net.Conn {
	tb.Helper()
	conn, err := p.dial(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		tb.Fatal(err)
	}
	return conn
}

func (p *peer) emitRequest(id int, args string) string {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":{"progressToken":"b%d"}}}`, id, args, id)
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", p.id, len(body), body)
}

// BenchmarkEmit is the whole way of a message of 250 bytes, from the loop of the tool
// to a socket that is drained: ns/op and cpu-ns/op are per message.
func BenchmarkEmit(b *testing.B) {
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep=%t", keep), func(b *testing.B) {
			p := real(b, refserver.Config{Store: newStore(b, store.Limits{Events: 100_000}), KeepConnections: keep}).open(latest)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			conn := p.raw(b, p.emitRequest(1, fmt.Sprintf(`{"messages":%d,"bytes":250}`, b.N)))
			defer conn.Close()
			drain(b, conn, `"text":"emitted `+strconv.Itoa(b.N))
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// drain reads until the text that ends the call has come.
func drain(b *testing.B, conn net.Conn, end string) {
	buf := make([]byte, 256<<10)
	tail := 0
	for {
		n, err := conn.Read(buf[tail:])
		if strings.Contains(string(buf[max(0, tail+n-1024):tail+n]), end) {
			return
		}
		if err != nil {
			b.Fatalf("%v after %q", err, buf[:min(tail+n, 2000)])
		}
		tail = copy(buf, buf[max(0, tail+n-1024):tail+n])
	}
}

func cpu(tb testing.TB) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkMemoryAppend(b *testing.B) {
	m := newStore(b, store.Limits{})
	frame := []byte("data: " + strings.Repeat("x", 250) + "\n\n")
	stream := store.Stream{Session: "a session of some length", Name: "12"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Append(b.Context(), stream, store.Event{Frame: frame}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleStreams opens streams of emit that wait between messages, and
// reports what one costs the process, both ends of its link included.
func BenchmarkIdleStreams(b *testing.B) {
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("keep=%t", keep), func(b *testing.B) {
			const streams = 1000
			for b.Loop() {
				p := real(b, refserver.Config{Store: newStore(b, store.Limits{}), KeepConnections: keep}).open(latest)
				before := resident(b)
				conns := make([]net.Conn, 0, streams)
				for id := 1; id <= streams; id++ {
					conn := p.raw(b, p.emitRequest(id, `{"messages":3,"interval_ms":600000}`))
					conns = append(conns, conn)
					awaitMessage(b, conn)
				}
				b.ReportMetric(float64(resident(b)-before)/streams/1024, "KiB/stream")
				b.ReportMetric(float64(runtime.NumGoroutine())/streams, "goroutines/stream")
				for _, conn := range conns {
					conn.Close()
				}
			}
		})
	}
}

func awaitMessage(b *testing.B, conn net.Conn) {
	r := bufio.NewReaderSize(conn, 2048)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			b.Fatalf("%v after %q", err, line)
		}
		if strings.Contains(line, `"progress":1,`) {
			return
		}
	}
}

// resident returns the bytes of this process that are in memory, after what can be
// given back was given back.
func resident(tb testing.TB) int64 {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Skip("no statm here")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
