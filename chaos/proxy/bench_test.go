//go:build unix

package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/chaos"
)

// event is as long as the usual one: about 245 bytes on the wire.
func event(n int) string {
	e := fmt.Sprintf("id: abcdefgh-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"message\":\"%s\",\"progress\":%d}}\n\n",
		n, strings.Repeat("x", 120), n)
	return fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// listening serves connections with f until the benchmark ends.
func listening(b *testing.B, f func(net.Conn)) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); f(c) })
		}
	})
	b.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// relayed returns the address of a relay before upstream: none, a plain copy, or a proxy.
func relayed(b *testing.B, kind, upstream string) string {
	b.Helper()
	cfg := Config{Upstream: upstream}
	switch kind {
	case "direct":
		return upstream
	case "copy": // what any relay has to do
		return listening(b, func(c net.Conn) {
			s, err := net.Dial("tcp", upstream)
			if err != nil {
				b.Error(err)
				return
			}
			defer s.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{c}, make([]byte, 32<<10))
				_ = s.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{s}, make([]byte, 32<<10))
			_ = c.(*net.TCPConn).CloseWrite()
			<-done
		})
	case "faults": // followed, with a fault that will not come
		never, err := chaos.NewPlan(chaos.PlanConfig{Streams: 1000, Messages: 1 << 30, IDs: true,
			Mix: []chaos.Fault{{Kind: chaos.RST, At: []chaos.Place{chaos.MidEvent}, PerStream: 1}}})
		if err != nil {
			b.Fatal(err)
		}
		cfg.Plan = never
	}
	p, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return ln.Addr().String()
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// BenchmarkEvent is one event that passes: written alone while streams live, and many
// at once in a burst. The figure is CPU of server, relay and client together; what a
// relay costs is the difference to direct.
func BenchmarkEvent(b *testing.B) {
	for _, regime := range []struct {
		name  string
		batch int
	}{{"live", 1}, {"burst", 200}} {
		for _, kind := range []string{"direct", "copy", "proxy", "faults"} {
			b.Run(regime.name+"/"+kind, func(b *testing.B) { events(b, kind, regime.batch) })
		}
	}
}

func events(b *testing.B, kind string, batch int) {
	const links = 50
	text := []byte(strings.Repeat(event(7), batch))
	step := make(chan struct{}, links)
	begin := make(chan int, links)
	up := listening(b, func(c net.Conn) {
		buf := make([]byte, 4096)
		if _, err := c.Read(buf); err != nil {
			return
		}
		if _, err := io.WriteString(c, streamHead); err != nil {
			return
		}
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for range <-begin {
			if batch == 1 {
				<-pace.C
			}
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	})
	addr := relayed(b, kind, up)
	each := max(1, b.N/links/batch)
	var wg sync.WaitGroup
	for range links {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.WriteString(c, callRequest); err != nil {
				b.Error(err)
				return
			}
			buf := make([]byte, 64<<10)
			if _, err := io.ReadFull(c, buf[:len(streamHead)]); err != nil {
				b.Error(err)
			}
			step <- struct{}{}
			for left := each * len(text); left > 0; {
				n, err := c.Read(buf[:min(left, len(buf))])
				left -= n
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for range links {
		<-step
	}
	b.ResetTimer()
	before := cpu(b)
	for range links {
		begin <- each
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1e3/float64(each*links*batch), "cpu-µs/event")
	b.ReportMetric(0, "ns/op")
	close(begin)
}

// BenchmarkLink is one link: open, one exchange, close; with and without a cut.
func BenchmarkLink(b *testing.B) {
	body := "id: 1\ndata:\n\nid: 2\ndata: {\"id\":1,\"result\":{}}\n\n"
	response := streamHead + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, kind := range []string{"direct", "copy", "proxy", "cut"} {
		b.Run(kind, func(b *testing.B) {
			up := listening(b, func(c net.Conn) {
				r := bufio.NewReader(c)
				buf := make([]byte, len(callRequest))
				if _, err := io.ReadFull(r, buf); err == nil {
					_, _ = io.WriteString(c, response)
					_, _ = r.ReadByte() // until the client leaves
				}
			})
			addr := relayed(b, kind, up)
			if kind == "cut" {
				addr = cutting(b, up)
			}
			buf := make([]byte, len(response))
			before := cpu(b)
			for b.Loop() {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.WriteString(c, callRequest); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil && kind != "cut" {
					b.Fatal(err)
				}
				c.Close()
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/link")
		})
	}
}

// cutting is a proxy that resets every link after the priming event.
func cutting(b *testing.B, upstream string) string {
	b.Helper()
	plan, err := chaos.NewPlan(chaos.PlanConfig{Streams: 1 << 20, Messages: 1, IDs: true, Priming: true,
		Mix: []chaos.Fault{{Kind: chaos.RST, At: []chaos.Place{chaos.AfterPriming}, PerStream: 1}}})
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(Config{Upstream: upstream, Plan: plan})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	b.Cleanup(func() {
		cancel()
		<-done
		if s := p.Snapshot(); s.Injected() < int64(b.N) || s.Approximate > 0 {
			b.Errorf("%d cuts of %d links, %d approximate", s.Injected(), b.N, s.Approximate)
		}
	})
	return ln.Addr().String()
}

// BenchmarkIdle is what open links cost that carry a stream in which nothing happens:
// heap and stacks of both ends and the relay.
func BenchmarkIdle(b *testing.B) {
	for _, kind := range []string{"direct", "proxy", "faults"} {
		b.Run(kind, func(b *testing.B) {
			leave := make(chan struct{})
			up := listening(b, func(c net.Conn) {
				var buf [len(callRequest)]byte
				if _, err := io.ReadFull(c, buf[:]); err == nil {
					_, _ = io.WriteString(c, streamHead+event(1))
					<-leave
				}
			})
			addr := relayed(b, kind, up)
			before := memory()
			const links = 2000
			var all []net.Conn
			for range links {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					b.Fatal(err)
				}
				all = append(all, c)
				if _, err := io.WriteString(c, callRequest); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, len(streamHead+event(1)))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(memory()-before)/links, "B/link")
			b.ReportMetric(0, "ns/op")
			close(leave)
			for _, c := range all {
				c.Close()
			}
		})
	}
}

func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // twice: pools keep what they had for one
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
