package wire

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// block is n events of about 245 bytes on the wire, each a chunk of its own or all in one.
func block(n int, each bool) string {
	var all, chunks strings.Builder
	for i := range n {
		ev := fmt.Sprintf("id: 0a1b2c3d-%d\ndata: %s\n\n", i, progress[:92]+progress[120:])
		all.WriteString(ev)
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", len(ev), ev)
	}
	if each {
		return chunks.String()
	}
	return fmt.Sprintf("%x\r\n%s\r\n", all.Len(), all.String())
}

func burst(tb testing.TB, each bool) (*Reader, *Conn) {
	c := NewConn(&script{}, Limits{})
	c.win.src = &endless{head: streamHead, text: block(64, each)}
	resp, err := c.RoundTrip(get())
	if err != nil {
		tb.Fatal(err)
	}
	r := new(Reader)
	r.Reset(resp, nil)
	return r, c
}

func TestNoAllocationPerEvent(t *testing.T) {
	for _, each := range []bool{false, true} {
		r, _ := burst(t, each)
		var ev Event
		var m Message
		var sum uint64
		allocs := testing.AllocsPerRun(2000, func() {
			if err := r.Next(&ev); err != nil {
				t.Fatal(err)
			}
			Scan(ev.Data, &m)
			sum += Hash(ev.Data, &m)
		})
		if allocs != 0 || m.Kind != KindNotification || m.Illegal != 0 || sum == 0 {
			t.Errorf("chunk per event %v: %v allocations, %+v", each, allocs, m)
		}
	}
}

// BenchmarkBurst parses events that are all there: framing, SSE, and with "judged" also the
// scan and the hash. One operation is one event.
func BenchmarkBurst(b *testing.B) {
	for _, bb := range []struct {
		name         string
		each, judged bool
	}{{"blocks", false, false}, {"chunk-per-event", true, false}, {"judged", true, true}} {
		b.Run(bb.name, func(b *testing.B) {
			r, _ := burst(b, bb.each)
			var ev Event
			var m Message
			b.ReportAllocs()
			begin := cpu(b)
			for b.Loop() {
				if err := r.Next(&ev); err != nil {
					b.Fatal(err)
				}
				if bb.judged {
					Scan(ev.Data, &m)
					Hash(ev.Data, &m)
				}
			}
			b.ReportMetric((cpu(b)-begin)/float64(b.N), "cpu-ns/event")
		})
	}
}

// BenchmarkBurstTCP includes the reads of a loopback link, and in the process time also the
// writer of 60 KB blocks.
func BenchmarkBurstTCP(b *testing.B) {
	client, server := pair(b)
	go func() {
		text := []byte(block(256, true))
		_, err := io.WriteString(server, streamHead)
		for err == nil {
			_, err = server.Write(text)
		}
	}()
	c := NewConn(client, Limits{})
	resp, err := c.RoundTrip(get())
	if err != nil {
		b.Fatal(err)
	}
	var r Reader
	r.Reset(resp, nil)
	var ev Event
	var m Message
	b.ReportAllocs()
	reads, begin := r.Reads(), cpu(b)
	for b.Loop() {
		if err := r.Next(&ev); err != nil {
			b.Fatal(err)
		}
		Scan(ev.Data, &m)
		Hash(ev.Data, &m)
	}
	b.ReportMetric((cpu(b)-begin)/float64(b.N), "cpu-ns/event")
	b.ReportMetric(float64(b.N)/float64(r.Reads()-reads), "events/read")
}

func BenchmarkScan(b *testing.B) {
	var m Message
	data := []byte(progress)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		Scan(data, &m)
	}
	b.ReportMetric((cpu(b)-begin)/float64(b.N), "cpu-ns/event")
}

// BenchmarkScanPaths finds number, count and digest elsewhere than Scan reads them.
func BenchmarkScanPaths(b *testing.B) {
	p, err := ParsePaths("/params/data/n", "/params/data/of", "/params/data/sum", "/params/data/text")
	if err != nil {
		b.Fatal(err)
	}
	data := []byte(note(`{"level":"info","data":{"text":"the quick brown fox jumps over the lazy dog and runs away from it as fast as it can","n":17,"of":50,"sum":"0123456789abcdef0123456789abcdef"}}`))
	var m Message
	var f Found
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		p.Scan(data, &m, &f)
	}
	b.ReportMetric((cpu(b)-begin)/float64(b.N), "cpu-ns/event")
}

func BenchmarkHashLoose(b *testing.B) {
	data := []byte(strings.ReplaceAll(progress, ",", ", "))
	var m Message
	Scan(data, &m)
	b.ReportAllocs()
	for b.Loop() {
		Hash(data, &m)
	}
}

// BenchmarkIdleStream reports what one open stream holds while nothing comes: after a burst
// of 20 events, since what a burst needed must be given back.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 1000
	for b.Loop() {
		links := make([]io.Closer, 0, 2*streams)
		pairs := make([]*Conn, streams)
		servers := make([]io.WriteCloser, streams)
		for i := range streams {
			client, server := pair(b)
			pairs[i], servers[i] = NewConn(client, Limits{}), server
			links = append(links, client, server)
		}
		before, stacksBefore := resident(b), stacks()
		got := make(chan bool)
		for _, c := range pairs {
			go idle(c, got)
		}
		text := streamHead + block(20, true)
		for _, s := range servers {
			io.WriteString(s, text)
		}
		for range streams {
			<-got
		}
		b.ReportMetric((resident(b)-before)/streams, "RSS-bytes/stream")
		b.ReportMetric((stacks()-stacksBefore)/streams, "stack-bytes/stream")
		for _, l := range links {
			l.Close()
		}
	}
}

func idle(c *Conn, got chan<- bool) {
	resp, err := c.RoundTrip(get())
	if err != nil {
		return
	}
	r := new(Reader)
	r.Reset(resp, nil)
	var ev Event
	var m Message
	for i := 1; r.Next(&ev) == nil; i++ {
		Scan(ev.Data, &m)
		if i == 20 {
			got <- true
		}
	}
}

func resident(tb testing.TB) float64 {
	runtime.GC()
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Skip("no /proc")
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		tb.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}

func stacks() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.StackInuse)
}

// cpu returns the time that the process has used so far, in nanoseconds: wall time says little
// on a machine that is shared.
func cpu(tb testing.TB) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}
