package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/chaos"
)

// call sends a tools/call on a raw connection.
func raw(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

const callRequest = "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

// A client that reads only after its link was reset has all that was delivered before
// the position and not a byte behind it: that is what exact means.
func TestAnExactResetLosesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the send queue can be seen on Linux only")
	}
	up := upstream(t, http.HandlerFunc(streaming))
	direct, err := post(t, http.DefaultClient, up)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		s := serve(t, up, Config{Plan: plan(t, seed, chaos.Fault{Kind: chaos.RST, At: []chaos.Place{chaos.BetweenEvents, chaos.MidEvent}, PerStream: 1})})
		c := raw(t, s.addr)
		if _, err := io.WriteString(c, callRequest); err != nil {
			t.Fatal(err)
		}
		a := <-s.ended // the reset has been sent
		if len(a.Injections) != 1 || a.Injections[0].Approximate {
			t.Fatalf("seed %d: %+v", seed, a)
		}
		in := a.Injections[0]
		head, err := io.ReadAll(c)
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("seed %d: the client got %v", seed, err)
		}
		_, body, _ := strings.Cut(string(head), "\r\n\r\n")
		got, parts := dechunk(t, body), strings.SplitAfter(direct, "\n\n")
		want := strings.Join(parts[:in.Event], "")
		if in.Place == chaos.MidEvent {
			want = strings.Join(parts[:in.Event-1], "") + parts[in.Event-1][:in.Offset]
		}
		if got != want || int64(len(head)) != a.ToClient {
			t.Errorf("seed %d: %+v, but %d of %d bytes: %q", seed, in, len(head), a.ToClient, got)
		}
	}
}

// dechunk returns the payload of a chunked body that may end anywhere.
func dechunk(t *testing.T, s string) (payload string) {
	t.Helper()
	for s != "" {
		line, rest, _ := strings.Cut(s, "\r\n")
		var n int
		if _, err := fmt.Sscanf(line, "%x", &n); err != nil {
			t.Fatalf("chunk size %q: %v", line, err)
		}
		payload += rest[:min(n, len(rest))]
		s = strings.TrimPrefix(rest[min(n, len(rest)):], "\r\n")
	}
	return payload
}

// A client that does not read makes the send queue fill: the reset then takes away what
// counts as delivered, and the injection says so.
func TestAResetBeforeAFullQueueIsApproximate(t *testing.T) {
	big := "id: a-1\ndata: {\"method\":\"" + strings.Repeat("x", 50<<10) + "\"}\n\n"
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1000 {
			if _, err := io.WriteString(w, big); err != nil {
				return
			}
		}
	}))
	victim := func(after int) func(Role, uint64, net.Addr) *chaos.Victim {
		p, err := chaos.NewPlan(chaos.PlanConfig{Seed: 1, Streams: 100, Messages: after, IDs: true,
			Mix: []chaos.Fault{{Kind: chaos.RST, At: []chaos.Place{chaos.BetweenEvents}, PerStream: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for n := uint32(1); ; n++ {
			if p.Stream(n)[0].After > after/2 {
				return func(Role, uint64, net.Addr) *chaos.Victim { return p.Victim(n) }
			}
		}
	}
	// 60 events of 50 KiB do not fit into the buffers of the client's end, but into both.
	s := serve(t, up, Config{VictimOf: victim(60), Settle: 20 * time.Millisecond})
	c := raw(t, s.addr)
	_ = c.SetReadBuffer(4 << 10)
	if _, err := io.WriteString(c, callRequest); err != nil {
		t.Fatal(err)
	}
	a := <-s.ended
	if len(a.Injections) != 1 || !a.Injections[0].Approximate || s.Snapshot().Approximate != 1 {
		t.Fatalf("%+v", a)
	}
	if got, err := io.Copy(io.Discard, c); got >= a.ToClient || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %d of %d bytes, %v", got, a.ToClient, err)
	}
}

// Whoever knows what a link carries says so, and is told of the cut before the client
// can see it.
func TestExpectedExchanges(t *testing.T) {
	up := upstream(t, http.HandlerFunc(streaming))
	none := func(Role, uint64, net.Addr) *chaos.Victim { t.Error("asked for a victim"); return nil }
	s := serve(t, up, Config{VictimOf: none})
	for _, f := range []struct {
		kind  chaos.Kind
		place chaos.Place
	}{{chaos.FIN, chaos.BeforeResponse}, {chaos.ChunkEnd, chaos.MidResponse}, {chaos.RST, chaos.MidResponse}} {
		victim := plan(t, 5, chaos.Fault{Kind: f.kind, At: []chaos.Place{f.place}, PerStream: 1}).Victim(1)
		for attempt := range 3 {
			told := make(chan chaos.Injection, 1)
			c := raw(t, s.addr)
			ok := s.Expect(c.LocalAddr(), chaos.Exchange{
				Attempt: attempt, Resume: attempt > 0, Delivered: 5 * attempt, Expected: 5, Victim: victim,
				OnInjection: func(in *chaos.Injection) { told <- *in },
			})
			request := callRequest
			if attempt > 0 {
				request = "GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nLast-Event-ID: a-5\r\n\r\n"
			}
			if _, err := io.WriteString(c, request); err != nil || !ok {
				t.Fatal(ok, err)
			}
			got := untilTheEnd(c)
			if attempt > 0 { // nothing is left of the plan
				if !strings.Contains(got, response) || len(told) != 0 {
					t.Errorf("%s, attempt %d: %q, told %d", f.kind, attempt, got, len(told))
				}
				continue
			}
			select {
			case in := <-told:
				if in.Place != f.place || in.Kind != f.kind || in.Attempt != attempt {
					t.Errorf("%+v", in)
				}
			default:
				t.Errorf("%s: the client saw the end before it was told", f.kind)
			}
			if strings.Contains(got, response) || !strings.Contains(got, message(5)) {
				t.Errorf("%s: %q", f.kind, got)
			}
		}
	}
	if s.Expect(&net.UnixAddr{}, chaos.Exchange{}) {
		t.Error("a nameless address was accepted")
	}
}

// untilTheEnd reads until the body or the connection ends, whichever comes first.
func untilTheEnd(c net.Conn) string {
	var got []byte
	var buf [1]byte
	for !strings.HasSuffix(string(got), "\r\n0\r\n\r\n") {
		if _, err := c.Read(buf[:]); err != nil {
			break
		}
		got = append(got, buf[0])
	}
	return string(got)
}

// On real sockets too a client that will send nothing more gets its answer.
func TestHalfClosedSocket(t *testing.T) {
	s := serve(t, upstream(t, http.HandlerFunc(streaming)), Config{})
	c := raw(t, s.addr)
	if _, err := io.WriteString(c, callRequest); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(got), response) {
		t.Errorf("got %q, %v", got, err)
	}
}

// One seed cuts the same links at the same places.
func TestASeedCutsTheSamePlacesAgain(t *testing.T) {
	up := upstream(t, http.HandlerFunc(streaming))
	run := func(seed uint64) (all []string) {
		s := serve(t, up, Config{Plan: plan(t, seed, chaos.Fault{Kind: chaos.RST, PerStream: 1}, chaos.Fault{Kind: chaos.ChunkEnd, PerStream: 0.5})})
		for range 30 {
			tr := &http.Transport{}
			got, _ := post(t, &http.Client{Transport: tr}, s.addr)
			tr.CloseIdleConnections()
			a := <-s.ended
			for i := range a.Injections {
				a.Injections[i].Client = ""
			}
			all = append(all, fmt.Sprintf("%d %+v %d bytes", a.Ordinal, a.Injections, len(got)))
		}
		if s.Snapshot().Injected() < 15 {
			t.Errorf("only %d cuts", s.Snapshot().Injected())
		}
		return all
	}
	first, again, other := run(7), run(7), run(8)
	if strings.Join(first, "\n") != strings.Join(again, "\n") {
		t.Errorf("seed 7 gave\n%s\nand then\n%s", strings.Join(first, "\n"), strings.Join(again, "\n"))
	}
	if strings.Join(first, "\n") == strings.Join(other, "\n") {
		t.Error("two seeds gave the same cuts")
	}
}

// Calls, GET streams and handshakes are numbered apart, and what becomes no event stream
// takes no number.
func TestOnlyStreamsAreNumbered(t *testing.T) {
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Plain") != "" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		streaming(w, r)
	}))
	p := plan(t, 3, chaos.Fault{Kind: chaos.FIN, At: []chaos.Place{chaos.AfterResponse}, PerStream: 1})
	asked := ""
	s := serve(t, up, Config{VictimOf: func(role Role, n uint64, _ net.Addr) *chaos.Victim {
		asked = fmt.Sprint(role, " ", n)
		return p.Victim(uint32(n))
	}})
	for i, tc := range []struct {
		kind, asked string
		ordinal     uint64
		cut         bool
	}{
		{"plain", "call 1", 0, false}, {"stream", "call 1", 1, true}, {"init", "handshake 1", 1, false},
		{"plain", "call 2", 0, false}, {"get", "get-stream 1", 1, false}, {"stream", "call 2", 2, true},
		{"delete", "", 0, false}, {"init", "handshake 2", 2, false}, {"get", "get-stream 2", 2, false},
	} {
		request := callRequest
		switch tc.kind {
		case "plain":
			request = strings.Replace(request, "Host", "X-Plain: 1\r\nHost", 1)
		case "init":
			request = strings.Replace(request, "2\r\n\r\n{}", "23\r\n\r\n{\"method\":\"initialize\"}", 1)
		case "get":
			request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
		case "delete":
			request = "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n"
		}
		asked = ""
		c := raw(t, s.addr)
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		c.Close()
		a := <-s.ended
		if a.Ordinal != tc.ordinal || (a.Injections != nil) != tc.cut || asked != tc.asked {
			t.Errorf("link %d, %s: asked for %q, %+v", i, tc.kind, asked, a)
		}
	}
}

// Bytes that the chaos link keeps back, re-frames, delays or hands out in small pieces
// come out as they were, on sockets that are waited for without a buffer.
func TestHeldBytesComeOutWhole(t *testing.T) {
	var events, count atomic.Int64
	text := func(k int64) string {
		var b strings.Builder
		for n := range events.Load() {
			fmt.Fprintf(&b, "id: %d-%d\ndata: {\"method\":\"x\",\"params\":\"%s\"}\n\n", k, n, strings.Repeat(string(rune('a'+(k+n)%26)), int(n%300)))
		}
		return b.String()
	}
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		text := text(count.Add(1))
		for at := 0; at < len(text); at += 9973 {
			_, _ = io.WriteString(w, text[at:min(len(text), at+9973)])
			w.(http.Flusher).Flush()
		}
	}))
	for _, f := range []chaos.Fault{
		{Kind: chaos.ChunkEnd, At: []chaos.Place{chaos.MidResponse}, PerStream: 1}, // there is no response
		{Kind: chaos.Slice, At: []chaos.Place{chaos.MidEvent}, PerStream: 1, For: 20 * time.Millisecond},
		{Kind: chaos.Delay, At: []chaos.Place{chaos.BetweenEvents}, PerStream: 1, For: 20 * time.Millisecond, By: 3 * time.Millisecond},
		{Kind: chaos.Stall, At: []chaos.Place{chaos.BetweenEvents}, PerStream: 1, For: 20 * time.Millisecond},
	} {
		events.Store(1000)
		if f.Kind == chaos.Stall { // through small buffers everything takes its time
			events.Store(200)
		}
		s := serve(t, up, Config{Plan: plan(t, 3, f)})
		var wg sync.WaitGroup
		for range 6 { // that share the proxy's buffers; a link each, so that none is used again or dialled in vain
			wg.Go(func() {
				tr := &http.Transport{}
				defer tr.CloseIdleConnections()
				got, err := post(t, &http.Client{Transport: tr}, s.addr)
				var k int64
				if _, bad := fmt.Sscanf(got, "id: %d-", &k); bad != nil || err != nil || got != text(k) {
					t.Errorf("%v: the bytes of stream %d are not its own: %d of them, %v", f, k, len(got), err)
				}
			})
		}
		wg.Wait()
		for range s.Snapshot().Links {
			if a := <-s.ended; len(a.Injections) != 1 && f.Kind != chaos.ChunkEnd || a.End != EndClient || !a.Exchanges[0].Complete {
				t.Errorf("%v: %+v", f, a)
			}
		}
	}
}

// A link keeps its number, whatever it carries between two calls.
func TestALinkKeepsItsNumber(t *testing.T) {
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) != "{}" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		streaming(w, r)
	}))
	never := plan(t, 3, chaos.Fault{Kind: chaos.FIN, At: []chaos.Place{chaos.ResumeBeforeHeaders}, PerStream: 1})
	most := uint64(0)
	s := serve(t, up, Config{VictimOf: func(_ Role, n uint64, _ net.Addr) *chaos.Victim {
		most = max(most, n)
		return never.Victim(1000 + uint32(n)) // none
	}})
	c := raw(t, s.addr)
	r := bufio.NewReader(c)
	for _, body := range []string{"{}", "[]", "{}", "[]", "[]", "{}"} {
		if _, err := io.WriteString(c, strings.TrimSuffix(callRequest, "{}")+body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	c.Close()
	if a := <-s.ended; a.Ordinal != 1 || most != 1 || a.Count != 6 {
		t.Errorf("asked up to %d, %+v", most, a)
	}
}
