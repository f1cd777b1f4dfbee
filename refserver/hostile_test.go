package refserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// An attack is what hostile clients do to a server while one that behaves well makes
// calls, cuts them, resumes them, and has to get everything exactly once.
type attack struct {
	name string
	cfg  refserver.Config
	// run attacks until it is done and says what the server did wrong.
	run func(*attacker) error
}

// attacker holds what an attack needs. Unlike a peer it does not end the test, which
// only the goroutine of the test may do.
type attacker struct {
	*rig
	client *http.Client
}

func newAttacker(r *rig) *attacker {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 8,
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) },
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &attacker{r, &http.Client{Transport: transport}}
}

// send opens a link and writes a text, which may be refused in the middle.
func (a *attacker) send(text string) (net.Conn, error) {
	conn, err := a.dial(context.Background())
	if err != nil {
		return nil, err
	}
	_, _ = io.WriteString(conn, text) // the server may close as soon as it has seen enough
	return conn, nil
}

// status makes a request; a stream that answers it is left at once.
func (a *attacker) status(q ask) (int, error) {
	req, err := http.NewRequest(q.method, a.url, strings.NewReader(q.body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for name, value := range map[string]string{"Mcp-Session-Id": q.session, "Last-Event-ID": q.cursor} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// wants makes a request and demands one of some answers.
func (a *attacker) wants(what string, q ask, statuses ...int) error {
	got, err := a.status(q)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Contains(statuses, got) {
		return fmt.Errorf("%s: %d, want one of %v", what, got, statuses)
	}
	return nil
}

// session opens a session of the attacker's own.
func (a *attacker) session(revision string) (string, error) {
	req, err := http.NewRequest("POST", a.url, strings.NewReader(initBody(revision)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != 200 {
		return "", fmt.Errorf("opening a session: %d", resp.StatusCode)
	}
	return resp.Header.Get("Mcp-Session-Id"), nil
}

// together runs n goroutines and joins what they say.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ends reads a link to its end, within a time, and returns the status line.
func ends(conn net.Conn, within time.Duration) (string, error) {
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, _ := r.ReadString('\n')
	_, err := io.Copy(io.Discard, r)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return line, fmt.Errorf("the link is still open after %s", within)
	}
	return strings.TrimSpace(line), nil // by FIN or by RST
}

// behave is one call with two cuts.
func (p *peer) behave(id int) {
	p.t.Helper()
	begun := time.Now()
	s := p.emit(id, "behaves", `{"messages":10,"interval_ms":1}`)
	seen := s.take(4)
	s.cut()
	s = p.comeBack(seen[3].id)
	seen = append(seen, s.take(3)...)
	s.cut()
	seen = append(seen, p.comeBack(seen[6].id).rest()...)
	if got := numbers(p.t, seen); !slices.Equal(got, upTo(10)) {
		p.t.Fatalf("call %d got %v", id, got)
	}
	if took := time.Since(begun); took > 15*time.Second {
		p.t.Errorf("call %d took %s", id, took)
	}
}

// comeBack resumes, again and again while the server has not noticed that the old
// connection is gone.
func (p *peer) comeBack(cursor string) *stream {
	p.t.Helper()
	for range 1000 {
		resp := p.do(ask{method: "GET", session: p.id, cursor: cursor})
		if resp.StatusCode != http.StatusConflict {
			p.t.Cleanup(func() { resp.Body.Close() })
			return &stream{t: p.t, Response: resp, r: bufio.NewReader(resp.Body)}
		}
		resp.Body.Close()
		pass(time.Millisecond)
	}
	p.t.Fatal("the server never noticed that a connection is gone")
	return nil
}

// suffer lets an attack run while a client behaves well, before, during and after it,
// with a pause between its calls.
func suffer(t testing.TB, r *rig, pause time.Duration, run func(*attacker) error) {
	t.Helper()
	p := r.open(latest)
	p.behave(1)
	done := make(chan error, 1)
	go func() { done <- run(newAttacker(r)) }()
	calls := 1
	for over := false; !over || calls < 3; {
		calls++
		p.behave(calls)
		select {
		case err := <-done:
			over = true
			if err != nil {
				t.Error(err)
			}
		case <-time.After(pause):
		}
	}
	p.behave(calls + 1)
	if code, _ := p.status(ask{method: "DELETE", session: p.id}); code != 204 {
		t.Errorf("delete: %d", code)
	}
}

// leftovers says which sessions and streams there still are.
func leftovers(r *rig) string {
	var out []string
	for name, value := range gather(r) {
		if (name == "gapless_server_sessions" || strings.HasPrefix(name, "gapless_server_streams{")) && value != "0" {
			out = append(out, name+" "+value)
		}
	}
	return strings.Join(out, ", ")
}

// TestHostile runs each attack in virtual time: what takes minutes is over at once, and
// what hangs is seen to hang.
func TestHostile(t *testing.T) {
	for _, a := range slices.Concat(slowAttacks(), bodyAttacks(), sessionAttacks(), streamAttacks(), callAttacks()) {
		t.Run(a.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := a.cfg
				mem := newStore(t, store.Limits{Events: 2000})
				cfg.Store = mem
				r := virtual(t, cfg)
				suffer(t, r, time.Second, a.run)
				pass(40 * time.Minute) // all that was left behind has idled away
				synctest.Wait()
				if left := leftovers(r); left != "" {
					t.Errorf("left behind: %s", left)
				}
				if st := mem.Stats(); st.Streams != 0 || st.Bytes != 0 {
					t.Errorf("left in the store: %+v", st)
				}
			})
		})
	}
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestHostile_ThousandsOfLinks: half a request, a stream that nobody reads, and idle
// links, on real sockets, cost a bounded amount of memory each. Both ends of each link
// are in this process.
func TestHostile_ThousandsOfLinks(t *testing.T) {
	const links, each = 2400, 40 << 10
	r := real(t, refserver.Config{Store: newStore(t, store.Limits{Events: 1000})})
	before := heap()
	suffer(t, r, time.Millisecond, func(a *attacker) error {
		own, err := a.session(latest)
		if err != nil {
			return err
		}
		head := "Host: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nMcp-Session-Id: " + own + "\r\n"
		call := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":{"messages":2,"interval_ms":600000},"_meta":{"progressToken":"x%[1]d"}}}`
		var open []net.Conn
		defer func() {
			for _, conn := range open {
				conn.Close()
			}
		}()
		for i := range links {
			text := "POST /mcp HTTP/1.1\r\n" + head // and no more
			switch i % 4 {
			case 1:
				body := fmt.Sprintf(call, i)
				text = fmt.Sprintf("POST /mcp HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", head, len(body), body) // and nobody reads
			case 2:
				text = "POST /mcp HTTP/1.1\r\n" + head + "Content-Length: 1000\r\n\r\n{" // and no more of the body
			case 3:
				text = ""
			}
			conn, err := a.send(text)
			if err != nil {
				return fmt.Errorf("link %d: %w", i, err)
			}
			open = append(open, conn)
		}
		if grown := heap() - before; grown > links*each {
			return fmt.Errorf("%d links cost %d bytes each", links, grown/links)
		} else {
			t.Logf("%d links cost %d bytes each", links, grown/links)
		}
		return nil
	})
}
