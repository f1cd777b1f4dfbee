//go:build !race

package loadgen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// canned is a link whose peer has answered everything before it was asked.
type canned struct {
	net.Conn
	in   [][]byte
	next func(request []byte) [][]byte
}

func (c *canned) Begin(Exchange)                   {}
func (c *canned) End() bool                        { return true }
func (c *canned) Close() error                     { return nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }
func (c *canned) Write(p []byte) (int, error)      { c.in = c.next(p); return len(p), nil }

func (c *canned) Read(p []byte) (int, error) {
	for len(c.in) > 0 && len(c.in[0]) == 0 {
		c.in = c.in[1:]
	}
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.in[0])
	c.in[0] = c.in[0][n:]
	return n, nil
}

// burst is a body of so many messages, one chunk each.
func burst(token string, n int) []byte {
	var body []byte
	filler := strings.Repeat("x", 60)
	for k := 1; k <= n; k++ {
		e := fmt.Sprintf("id: n-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"message\":\"%s\",\"progress\":%d,\"progressToken\":\"%s\",\"total\":%d}}\n\n",
			k, filler, k, token, n)
		body = fmt.Appendf(body, "%x\r\n%s\r\n", len(e), e)
	}
	return body
}

type counting struct{ n atomic.Int64 }

func (c *counting) Open(Arrival) StreamObserver { return c }
func (c *counting) Observe(r *history.Record) {
	if r.Kind == history.KindEvent {
		c.n.Add(1)
	}
}

// BenchmarkEvent measures one event of a burst, from the bytes of the link to its
// record: HTTP, SSE, JSON-RPC scan, hash, ownership, latency.
func BenchmarkEvent(b *testing.B) {
	const calls = 16
	perCall := max(b.N/calls, 1)
	bodies := make([][]byte, calls)
	for i := range bodies {
		bodies[i] = burst(NewMarks("00000000", nil).Of(1, uint32(i+1)), perCall)
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	next := func(req []byte) [][]byte {
		switch {
		case bytes.Contains(req, []byte(`"initialize"`)):
			r := `{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}`
			return [][]byte{fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(r), r)}
		case bytes.Contains(req, []byte(`"tools/call"`)):
			body := bodies[0]
			bodies = bodies[1:]
			i := bytes.Index(req, []byte(`"id":`)) + 5
			id := req[i : i+bytes.IndexByte(req[i:], ',')]
			r := fmt.Sprintf("id: r\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id)
			return [][]byte{[]byte(head), body, fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(r), r)}
		}
		return [][]byte{[]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")}
	}
	plan, err := NewPlan(PlanConfig{Streams: 1, Calls: calls})
	if err != nil {
		b.Fatal(err)
	}
	seen := new(counting)
	b.ReportAllocs()
	b.ResetTimer()
	began := processTime()
	rep, err := Run(b.Context(), Config{
		URL: "http://x/mcp", Plan: plan, Calls: []Call{{Name: "emit"}}, Observer: seen,
		Dial: func(context.Context) (Link, error) { return &canned{next: next}, nil },
	})
	took := processTime() - began
	b.StopTimer()
	if err != nil || seen.n.Load() != int64(calls*(perCall+1)) {
		b.Fatalf("%d events, %v, %v", seen.n.Load(), rep.Outcomes, err)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(seen.n.Load()), "cpu-ns/event")
}

// BenchmarkIdleStream measures what one open stream that waits for its next event
// holds on this side: heap and stack, without the kernel's buffers.
func BenchmarkIdleStream(b *testing.B) {
	for range b.N {
		few, many := idleBytes(b, 500), idleBytes(b, 2500)
		b.ReportMetric((many-few)/2000, "B/stream")
	}
}

func TestIdleStreamIsSmall(t *testing.T) {
	if got := (idleBytes(t, 600) - idleBytes(t, 100)) / 500; got > 16<<10 {
		t.Errorf("an idle stream holds %.0f bytes", got)
	}
}

// idleBytes opens so many streams over real TCP and returns by how much heap and
// stacks have grown once all are primed. The target is one goroutine, so that what
// it adds is little more than its end of the links.
func idleBytes(t testing.TB, streams int) float64 {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(PlanConfig{Streams: streams})
	if err != nil {
		t.Fatal(err)
	}
	before := memory()
	done := make(chan error)
	go func() {
		rep, err := Run(t.Context(), Config{
			URL: "http://" + ln.Addr().String() + "/mcp", Plan: plan, Calls: []Call{{Name: "emit"}}, Observer: new(counting),
			Dial: func(ctx context.Context) (Link, error) {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
				return plain{c}, err
			},
		})
		if err == nil && rep.Outcomes[history.OutcomeCompleted] != int64(streams) {
			err = fmt.Errorf("outcomes %v", rep.Outcomes)
		}
		done <- err
	}()
	held := make(map[net.Conn]string, streams)
	for len(held) < streams {
		if conn, id := answerIdle(t, ln); id != "" {
			held[conn] = id
		}
	}
	// A stream that has not yet read its priming event is measured too large.
	after := memory()
	_ = ln.Close()
	for conn, id := range held {
		r := "id: r\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + id + ",\"result\":{}}\n\n"
		fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(r), r)
		_ = conn.Close()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return float64(after) - float64(before)
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// answerIdle answers the one request of the next link. A call is primed, and its id
// returned.
func answerIdle(t testing.TB, ln net.Listener) (conn net.Conn, id string) {
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	body := string(buf[:n])
	switch {
	case strings.Contains(body, `"tools/call"`):
		_, rest, _ := strings.Cut(body, `"id":`)
		id, _, _ = strings.Cut(rest, ",")
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nid: p\ndata:\n\n\r\n")
		return conn, id
	case strings.Contains(body, `"initialize"`):
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+
			`{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"2025-11-25"}}`)
	default:
		_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}
	_ = conn.Close()
	return nil, ""
}
