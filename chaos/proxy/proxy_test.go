package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gapless-dev/gapless/chaos"
)

// served is a proxy on real TCP.
type served struct {
	*Proxy
	t          *testing.T
	addr       string
	mu         sync.Mutex
	injections []Injection
	ended      chan *Account
	close      func() error
}

func serve(t *testing.T, upstream string, cfg Config) *served {
	t.Helper()
	s := &served{t: t, ended: make(chan *Account, 1000)}
	cfg.Upstream = upstream
	cfg.OnInjection = func(in *Injection) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.injections = append(s.injections, *in)
	}
	cfg.OnEnd = func(a *Account) { s.ended <- a }
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	s.close = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	s.Proxy, s.addr = p, ln.Addr().String()
	return s
}

// upstream serves a handler on real TCP.
func upstream(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return ln.Addr().String()
}

func plan(t *testing.T, seed uint64, mix ...chaos.Fault) *chaos.Plan {
	t.Helper()
	p, err := chaos.NewPlan(chaos.PlanConfig{Seed: seed, Streams: 1000, Messages: 5, Mix: mix, Priming: true, IDs: true, Head: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	priming  = "id: a-0\nretry: 10\ndata:\n\n"
	response = `id: a-9` + "\n" + `data: {"id":1,"jsonrpc":"2.0","result":{}}` + "\n\n"
)

func message(n int) string {
	return fmt.Sprintf("id: a-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":%d}}\n\n", n, n)
}

// call is a stream of five messages and the response.
func call() []string {
	parts := []string{priming}
	for n := range 5 {
		parts = append(parts, message(n+1))
	}
	return append(parts, response)
}

// streaming answers every POST with a call and every GET with what follows the cursor.
func streaming(w http.ResponseWriter, r *http.Request) {
	parts := call()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		for i, p := range parts {
			if strings.HasPrefix(p, "id: "+id+"\n") {
				parts = parts[i+1:]
				break
			}
		}
		w.Header().Set("Gapless-Missed", fmt.Sprint(len(parts)))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

// get reads a call through the proxy with net/http until it is cut or over.
func post(t *testing.T, c *http.Client, addr string) (body string, err error) {
	t.Helper()
	resp, err := c.Post("http://"+addr+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestPassesAnOrdinaryClient(t *testing.T) {
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s %s %s %d", r.Method, r.Host, r.URL, len(b))
	}))
	s := serve(t, up, Config{})
	tr := &http.Transport{}
	c := &http.Client{Transport: tr}
	for i, body := range []string{"", "short", strings.Repeat("x", 1<<20)} {
		for _, chunked := range []bool{false, true} {
			var r io.Reader = strings.NewReader(body)
			if chunked {
				r = io.MultiReader(r)
			}
			req, _ := http.NewRequest("PUT", "http://"+s.addr+"/x?y", r)
			if i == 2 {
				req.Header.Set("Expect", "100-continue")
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := fmt.Sprintf("PUT %s /x?y %d", s.addr, len(body)); string(got) != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
	}
	if snap := s.Snapshot(); snap.Links != 1 || snap.Exchanges != 6 || snap.Open != 1 {
		t.Errorf("%+v, want 6 exchanges on one link", snap)
	}
	tr.CloseIdleConnections()
	if a := <-s.ended; a.End != EndClient || a.Count != 6 || !a.Exchanges[5].Complete || a.Exchanges[5].Status != 200 {
		t.Errorf("%+v", a)
	}
}

func TestCutsAsPlanned(t *testing.T) {
	whole := strings.Join(call(), "")
	for _, c := range []struct {
		kind chaos.Kind
		err  error
	}{{chaos.RST, syscall.ECONNRESET}, {chaos.FIN, io.ErrUnexpectedEOF}, {chaos.ChunkEnd, nil}} {
		t.Run(c.kind.String(), func(t *testing.T) {
			up := upstream(t, http.HandlerFunc(streaming))
			s := serve(t, up, Config{Plan: plan(t, 3, chaos.Fault{Kind: c.kind, At: []chaos.Place{chaos.MidEvent}, PerStream: 1})})
			got, err := post(t, &http.Client{Transport: &http.Transport{}}, s.addr)
			if !errors.Is(err, c.err) || err == nil && c.err != nil {
				t.Errorf("the client got %v, want %v", err, c.err)
			}
			if !strings.HasPrefix(whole, got) || got == whole || strings.HasSuffix(got, "\n\n") {
				t.Errorf("the client got %q", got)
			}
			a := <-s.ended
			if a.End != EndCut || len(a.Injections) != 1 || a.Injections[0].Approximate || a.Ordinal != 1 {
				t.Fatalf("%+v", a)
			}
			if in := a.Injections[0]; in.Kind != c.kind || in.Place != chaos.MidEvent || int(in.Event) != strings.Count(got, "\n\n")+1 {
				t.Errorf("%+v behind %q", in, got)
			}
			if len(s.injections) != 1 || s.Snapshot().Injected() != 1 {
				t.Errorf("told %d, counted %+v", len(s.injections), s.Snapshot())
			}
		})
	}
}

// A resume with a cursor that has passed continues its stream, however often it is cut.
func TestAResumeContinuesItsStream(t *testing.T) {
	up := upstream(t, http.HandlerFunc(streaming))
	s := serve(t, up, Config{Plan: plan(t, 3, chaos.Fault{Kind: chaos.RST, PerStream: 6})})
	tr := &http.Transport{DisableKeepAlives: true}
	c := &http.Client{Transport: tr}
	got, err := post(t, c, s.addr)
	for tries := 0; !strings.Contains(got, response) && tries < 20; tries++ {
		i := strings.LastIndex(got, "\n\n") // a partial event is dropped
		got = got[:max(0, i+2)]
		i = strings.LastIndex(got, "id: ")
		if i < 0 {
			t.Fatalf("cut before the first id: %q, %v", got, err)
		}
		id, _, _ := strings.Cut(got[i+4:], "\n")
		req, _ := http.NewRequest("GET", "http://"+s.addr+"/mcp", nil)
		req.Header.Set("Last-Event-ID", id)
		resp, rerr := c.Do(req)
		if rerr != nil {
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got += string(b)
	}
	if want := strings.Join(call(), ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := s.close(); err != nil { // a cut behind the response may still be under way
		t.Fatal(err)
	}
	if len(s.injections) < 4 {
		t.Errorf("only %d cuts", len(s.injections))
	}
	places := map[chaos.Place]bool{}
	for i, in := range s.injections {
		places[in.Place] = true
		if in.Attempt != i && in.Place != chaos.AfterResponse {
			t.Errorf("cut %d at attempt %d", i, in.Attempt)
		}
	}
	if !places[chaos.MidReplay] && !places[chaos.ResumeBeforeHeaders] && !places[chaos.ResumeBeforeFirstEvent] {
		t.Errorf("no place of a resumed link: %v", places)
	}
}

func TestTellsTheClientWhatIsWrong(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	s := serve(t, dead.Addr().String(), Config{})
	for _, c := range []struct{ name, request, status, text string }{
		{"upstream refused", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "502", "cannot be reached: "},
		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "400", "not one number"},
		{"length and chunks", "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nxx", "400", "both"},
		{"not HTTP/1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", "not HTTP/1"},
		{"endless head", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", maxHead), "400", "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasPrefix(resp.Status, c.status) || !bytes.Contains(body, []byte(c.text)) {
				t.Errorf("%s %q, %v", resp.Status, body, err)
			}
			conn.Close()
			if a := <-s.ended; a.End != EndRefused {
				t.Errorf("%+v", a)
			}
		})
	}
}
