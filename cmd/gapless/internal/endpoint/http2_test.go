package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// stream sends an event, and the next whenever it is told to; gone is told when the client
// is. After the channel is closed the body ends.
func stream(gone chan<- struct{}, next <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 1; ; i++ {
			_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, strings.Repeat("x", i)) // a failure shows in the context
			_ = http.NewResponseController(w).Flush()
			select {
			case _, more := <-next:
				if !more {
					return
				}
			case <-r.Context().Done():
				gone <- struct{}{}
				return
			}
		}
	})
}

// front serves h by HTTP/2 and returns endpoints for it: over TLS and in the clear.
func front(t *testing.T, h http.Handler) map[string]*Endpoint {
	t.Helper()
	a := newAuthority(t)
	secure, plain := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	serve(t, secure, &http.Server{Handler: h, TLSConfig: one(a.pair(nil))})
	serve(t, plain, &http.Server{Handler: h, Protocols: protocols(false, false, true)})
	return map[string]*Endpoint{
		"h2":  made(t, Config{URL: "https://" + secure.Addr().String() + "/mcp", HTTP: "2", TLS: TLS{CA: a.file}}),
		"h2c": made(t, Config{URL: "http://" + plain.Addr().String() + "/mcp", HTTP: "2"}),
	}
}

func TestEventsComeAtOnce(t *testing.T) {
	for _, name := range []string{"h2", "h2c"} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			e := front(t, stream(nil, next))[name]
			resp, err := wire.NewConn(dial(t, e), wire.Limits{}).RoundTrip(request(e, "GET", ""))
			if err != nil || resp.Status != 200 || !resp.SSE() {
				t.Fatal(err)
			}
			var r wire.Reader
			r.Reset(resp, nil)
			// The server waits until we have seen an event before it sends the next.
			for i := 1; i <= 20; i++ {
				var ev wire.Event
				if err := r.Next(&ev); err != nil || len(ev.Data) != i || string(ev.ID) != strconv.Itoa(i) {
					t.Fatalf("event %d: %q, %v", i, ev.Data, err)
				}
				next <- struct{}{}
			}
		})
	}
}

func TestRequestsArriveWhole(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		for _, name := range []string{"Connection", "Keep-Alive", "Te", "Upgrade", "X-Hop", "User-Agent", "Transfer-Encoding"} {
			if r.Header[name] != nil {
				err = errors.Join(err, fmt.Errorf("%s came through", name))
			}
		}
		if coding := r.Header["Accept-Encoding"]; len(coding) != 1 || coding[0] != "identity" {
			err = errors.Join(err, fmt.Errorf("accepts %q", coding))
		}
		w.Header().Set("Trailer", "X-End")
		w.Header()["X-Twice"] = []string{"a", "b"}
		_, _ = fmt.Fprintf(w, "%s %s %s %s %d %s %v", r.Proto, r.Method, r.Host, r.URL, len(body), r.Header.Get("Mcp-Session-Id"), err)
		w.Header().Set("X-End", "trailer")
	})
	for name, e := range front(t, h) {
		t.Run(name, func(t *testing.T) {
			c := wire.NewConn(dial(t, e), wire.Limits{})
			for _, size := range []int{0, 1, 5000, 1 << 20} {
				q := request(e, "POST", strings.Repeat("x", size))
				q.Fields = append(q.Fields, wire.Field{Name: "Mcp-Session-Id", Value: "s1"}, wire.Field{Name: "TE", Value: "trailers"},
					wire.Field{Name: "Connection", Value: "X-Hop, keep-alive"}, wire.Field{Name: "X-Hop", Value: "1"})
				resp, err := c.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				text, err := resp.ReadAll(1 << 20)
				want := fmt.Sprintf("HTTP/2.0 POST %s /mcp %d s1 <nil>", q.Host, size)
				if string(text) != want || err != nil || resp.Count("X-Twice") != 2 || resp.Count("Trailer") != 0 || !resp.Reusable() {
					t.Errorf("%d bytes: %q, %v", size, text, err)
				}
			}
			// A request of the fewest fields gets none from us.
			const bare = "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n"
			if _, err := io.WriteString(c.Link(), bare); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(iotest.OneByteReader(c.Link())), nil)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(answer.Body); string(text) != "HTTP/2.0 GET h /mcp 0  accepts []" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			q := request(e, "POST", "{}")
			q.Fields = []wire.Field{{Name: "Connection", Value: "close"}}
			resp, err := c.RoundTrip(q)
			if err != nil || resp.Get("Connection") != "close" || resp.Drain(1000) != nil {
				t.Fatal(err)
			}
			if _, err := c.Link().Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the link stays open after a request that closes it: %v", err)
			}
		})
	}
}

func TestStatusesWithoutBody(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("s"))
		w.WriteHeader(status)
	})
	for name, e := range front(t, h) {
		t.Run(name, func(t *testing.T) {
			c := wire.NewConn(dial(t, e), wire.Limits{})
			for _, status := range []int{200, 202, 204, 304, 405, 503, 299} {
				q := request(e, "POST", "{}")
				q.Target = "/mcp?s=" + strconv.Itoa(status)
				resp, err := c.RoundTrip(q)
				if err != nil || resp.Status != status || resp.Drain(0) != nil || !resp.Reusable() {
					t.Fatalf("%d: %+v, %v", status, resp, err)
				}
			}
		})
	}
}

// TestEarlyAnswer: a server that answers before it has read the request spoils neither the
// answer nor the next exchange.
func TestEarlyAnswer(t *testing.T) {
	for name, e := range front(t, http.HandlerFunc(says)) {
		t.Run(name, func(t *testing.T) {
			c := wire.NewConn(dial(t, e), wire.Limits{})
			for range 5 {
				resp, err := c.RoundTrip(request(e, "POST", strings.Repeat("x", 4<<20)))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := resp.ReadAll(1000); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestBrokenStreamsAreTruncated: however the server breaks a stream, no clean end is seen.
func TestBrokenStreamsAreTruncated(t *testing.T) {
	flush := func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, "data: a\n\n") // seen at the other end
		_ = http.NewResponseController(w).Flush()
	}
	var server *http.Server
	for name, h := range map[string]http.HandlerFunc{
		"stream reset":            func(w http.ResponseWriter, _ *http.Request) { flush(w); panic(http.ErrAbortHandler) },
		"connection closed":       func(w http.ResponseWriter, r *http.Request) { flush(w); _ = server.Close(); <-r.Context().Done() },
		"shorter than it said":    func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99"); flush(w) },
		"stream reset before all": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			server = &http.Server{Handler: h, Protocols: protocols(false, false, true)}
			serve(t, l, server)
			e := made(t, Config{URL: "http://" + l.Addr().String() + "/mcp", HTTP: "2"})
			c := wire.NewConn(dial(t, e), wire.Limits{})
			resp, err := c.RoundTrip(request(e, "GET", ""))
			if err == nil {
				var text []byte
				text, err = resp.ReadAll(1000)
				if string(text) != "data: a\n\n" && err == nil {
					t.Errorf("body %q", text)
				}
			}
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || wire.IllegalOf(err) != 0 {
				t.Errorf("error %v", err)
			}
			if n, err := c.Link().Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) && err == nil {
				t.Errorf("the link takes %d bytes more, %v", n, err)
			}
		})
	}
}

// TestGoAway: a server that leaves in the middle of a body cuts it, whatever it says of
// the stream; one that leaves behind it does not.
func TestGoAway(t *testing.T) {
	for name, tt := range map[string]struct {
		last    uint32
		code    http2.ErrCode
		ends    bool // the body, after the GOAWAY
		closes  bool // the connection, after the GOAWAY
		reset   bool // the connection, without one
		clean   bool
		matches error
	}{
		"with an error and a close": {last: 1, code: http2.ErrCodeInternal, closes: true},
		"of this stream":            {last: 0, code: http2.ErrCodeNo},
		"graceful":                  {last: 1, code: http2.ErrCodeNo, ends: true, clean: true},
		"with a reset":              {last: 1, code: http2.ErrCodeNo, reset: true, matches: syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			done := make(chan struct{})
			seen := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Listener.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				f, ok := h2Head(c)
				if !ok {
					return
				}
				_ = f.WriteData(1, false, []byte("data: a\n\n")) // failures show at the other end
				<-seen
				if tt.reset {
					h2Quiet(f)
					_ = c.(*net.TCPConn).SetLinger(0)
					return
				}
				_ = f.WriteGoAway(tt.last, tt.code, nil)
				if tt.ends {
					_ = f.WriteData(1, true, []byte("data: b\n\n"))
				}
				if !tt.closes {
					_, _ = io.Copy(io.Discard, c) // until the client leaves
				}
			}()
			e := made(t, Config{URL: "http://" + l.Addr().String() + "/mcp", HTTP: "2"})
			link := dial(t, e)
			resp, err := wire.NewConn(link, wire.Limits{}).RoundTrip(request(e, "GET", ""))
			if err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 9)
			if _, err := io.ReadFull(resp, first); err != nil || string(first) != "data: a\n\n" {
				t.Fatalf("%q, %v", first, err)
			}
			close(seen)
			rest, err := resp.ReadAll(100)
			if (err == nil) != tt.clean || tt.clean != (string(rest) == "data: b\n\n") || tt.matches != nil && !errors.Is(err, tt.matches) {
				t.Errorf("%q, %v", rest, err)
			}
			_ = link.Close()
			wait(t, done)
		})
	}
}

// h2Quiet waits until the client has nothing more to write: it would meet a reset there, and
// not as it reads.
func h2Quiet(f *http2.Framer) {
	for ping := f.WritePing(false, [8]byte{}); ping == nil; {
		frame, err := f.ReadFrame()
		if _, is := frame.(*http2.PingFrame); is || err != nil {
			return
		}
	}
}

// h2Head takes a request by hand and answers with a head.
func h2Head(c net.Conn) (*http2.Framer, bool) {
	f, ok := h2Preface(c)
	if !ok {
		return nil, false
	}
	id, ok := h2Next(f)
	return f, ok && f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: ok200(), EndHeaders: true}) == nil
}

func h2Preface(c net.Conn, settings ...http2.Setting) (*http2.Framer, bool) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return nil, false
	}
	f := http2.NewFramer(c, c)
	return f, f.WriteSettings(settings...) == nil
}

// h2Next waits for the head of the next request and returns its stream.
func h2Next(f *http2.Framer) (uint32, bool) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0, false
		}
		if s, is := frame.(*http2.SettingsFrame); is && !s.IsAck() {
			_ = f.WriteSettingsAck() // a failure shows in the next read
		}
		if _, is := frame.(*http2.HeadersFrame); is {
			return frame.Header().StreamID, true
		}
	}
}

func ok200() []byte {
	var head bytes.Buffer
	_ = hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}) // a buffer takes all
	return head.Bytes()
}

// TestAnswersToBodiesThatNobodyWants: a body that the server leaves no room for is out of
// the way before the next request is read.
func TestAnswersToBodiesThatNobodyWants(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f, ok := h2Preface(c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for ok {
			var id uint32
			if id, ok = h2Next(f); ok {
				ok = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: ok200(), EndHeaders: true, EndStream: true}) == nil
			}
		}
	}()
	e := made(t, Config{URL: "http://" + l.Addr().String() + "/mcp", HTTP: "2"})
	link := dial(t, e)
	c := wire.NewConn(link, wire.Limits{})
	for i := range 200 {
		resp, err := c.RoundTrip(request(e, "POST", strings.Repeat("x", 3000)))
		if err != nil || resp.Status != 200 || resp.Drain(0) != nil {
			t.Fatalf("exchange %d: %v", i, err)
		}
	}
	_ = link.Close()
	wait(t, done)
}

// TestWhoDoesNotReadMakesTheServerWait: at most a window and a few buffers are ahead.
func TestWhoDoesNotReadMakesTheServerWait(t *testing.T) {
	sent := make(chan int, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := 0, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(300*time.Millisecond))
		for part := make([]byte, 8<<10); err == nil && n < 64<<20; n += len(part) {
			_, err = w.Write(part)
		}
		sent <- n
	})
	for name, e := range front(t, h) {
		t.Run(name, func(t *testing.T) {
			if _, err := wire.NewConn(dial(t, e), wire.Limits{}).RoundTrip(request(e, "GET", "")); err != nil {
				t.Fatal(err)
			}
			if n := <-sent; n < 64<<10 || n > 256<<10 {
				t.Errorf("%d bytes were sent to a reader that read none", n)
			}
		})
	}
}

func TestDeadlinesUnblockAtOnce(t *testing.T) {
	hold := make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	defer close(hold)
	past := time.Unix(1, 0)
	for name, e := range front(t, h) {
		t.Run(name, func(t *testing.T) {
			link := dial(t, e)
			if _, err := io.WriteString(link, "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() { _, err := link.Read(make([]byte, 1)); read <- err }()
			_ = link.SetReadDeadline(past)
			if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			link = dial(t, e)
			wrote := make(chan error)
			go func() {
				_, err := link.Write(append([]byte("POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n"), make([]byte, 8<<20)...))
				wrote <- err
			}()
			_ = link.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)) // the body never fits
			if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// TestCloseUnblocks: a read ends when another goroutine closes the link.
func TestCloseUnblocks(t *testing.T) {
	gone := make(chan struct{}, 2)
	for name, e := range front(t, stream(gone, nil)) {
		t.Run(name, func(t *testing.T) {
			link := dial(t, e)
			resp, err := wire.NewConn(link, wire.Limits{}).RoundTrip(request(e, "GET", ""))
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() { _, err := resp.ReadAll(1 << 20); read <- err }()
			if err := link.Close(); err != nil {
				t.Error(err)
			}
			if err := <-read; !errors.Is(err, net.ErrClosed) {
				t.Errorf("read: %v", err)
			}
			if _, err := link.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write: %v", err)
			}
			wait(t, gone)
			if err := link.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
		})
	}
}

// TestRestingLinkWhoseServerLeft cannot be written to.
func TestRestingLinkWhoseServerLeft(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	s := &http.Server{Handler: http.HandlerFunc(says), Protocols: protocols(false, false, true)}
	serve(t, l, s)
	e := made(t, Config{URL: "http://" + l.Addr().String() + "/mcp", HTTP: "2"})
	link := dial(t, e)
	exchange(t, e, wire.NewConn(link, wire.Limits{}))
	_ = s.Close()
	if _, err := link.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if n, err := link.Write([]byte("POST / HTTP/1.1\r\n\r\n")); n > 0 || err == nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

// TestServersThatSpeakHTTP2Alone are found out once.
func TestServersThatSpeakHTTP2Alone(t *testing.T) {
	a := newAuthority(t)
	for name, c := range map[string]*tls.Config{
		"say nothing to 1.1": one(a.pair(nil)),
		"refuse 1.1": {GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			if len(h.SupportedProtos) == 1 && h.SupportedProtos[0] == "h2" {
				return speaking(a.pair(nil), "h2"), nil
			}
			return speaking(a.pair(nil), "nothing"), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			serve(t, l, &http.Server{Handler: http.HandlerFunc(says), TLSConfig: c, Protocols: protocols(false, true, false)})
			e := made(t, Config{URL: "https://" + l.Addr().String() + "/mcp", TLS: TLS{CA: a.file}})
			if len(e.Notes()) != 0 {
				t.Errorf("notes before the first link: %q", e.Notes())
			}
			for range 3 {
				if got := ask(t, e); !strings.HasPrefix(got, "HTTP/2.0 ") {
					t.Errorf("answer %q", got)
				}
			}
			if n := l.count.Load(); n != 4 || !strings.Contains(strings.Join(e.Notes(), ""), "HTTP/2") {
				t.Errorf("%d connections, notes %q", n, e.Notes())
			}
		})
	}
}

// TestNothingIsLeft of a thousand exchanges and a hundred links, ten at once.
func TestNothingIsLeft(t *testing.T) {
	for name, e := range front(t, http.HandlerFunc(says)) {
		t.Run(name, func(t *testing.T) {
			warm := dial(t, e)
			exchange(t, e, wire.NewConn(warm, wire.Limits{}))
			_ = warm.Close()
			before := runtime.NumGoroutine()
			link := dial(t, e)
			c := wire.NewConn(link, wire.Limits{})
			for range 1000 {
				exchange(t, e, c)
			}
			_ = link.Close()
			var all sync.WaitGroup
			turns := make(chan struct{}, 10)
			for i := range 100 {
				turns <- struct{}{}
				all.Go(func() {
					defer func() { <-turns }()
					l, err := e.Dial(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 {
						_ = l.(*carrier).SetLinger(0)
					}
					_, _ = io.WriteString(l, "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n"[:i%31]) // often less than a request
					_ = l.Close()
				})
			}
			all.Wait()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range 500 { // the server's goroutines end a little later
				if runtime.NumGoroutine() <= before+1 {
					return
				}
				<-tick.C
			}
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		})
	}
}

// FuzzCarrier: whatever is written, in two pieces, nothing panics or hangs, and what comes
// back is HTTP/1.1 or nothing.
func FuzzCarrier(f *testing.F) {
	f.Add([]byte("POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"), 10)
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 0)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 60)
	f.Add([]byte("CONNECT h:1 HTTP/1.1\r\n\r\n"), 3)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Add([]byte("\r\n\r\n"), 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(says), Protocols: protocols(false, false, true)}
	go func() { _ = s.Serve(l) }() // ends with Close
	f.Cleanup(func() { _ = s.Close() })
	e, err := New(Config{URL: "http://" + l.Addr().String(), HTTP: "2"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		link, err := e.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		_ = link.SetDeadline(time.Now().Add(100 * time.Millisecond))
		at = max(0, min(at, len(text)))
		if _, err := link.Write(text[:at]); err == nil {
			_, _ = link.Write(text[at:]) // it may be refused
		}
		got, _ := io.ReadAll(link)
		if len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 ") {
			t.Errorf("%q", got)
		}
	})
}
