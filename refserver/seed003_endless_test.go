package refserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// endless is a server on whose running call a message is sent during each write that
// carries events: no pass over the log ever finds nothing, until enough were sent. That a
// message can be stored in the middle of a write shows that no lock is held across it.
type endless struct {
	net.Listener
	peer   *peer
	stream atomic.Pointer[refserver.Stream]
	mu     sync.Mutex
	sent   int
	limit  int
}

// Accept implements [net.Listener].
func (l *endless) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return endlessConn{conn, l}, err
}

type endlessConn struct {
	net.Conn
	of *endless
}

// NetConn leads to the link below, which can be reset.
func (c endlessConn) NetConn() net.Conn { return c.Conn }

// Write implements [net.Conn].
func (c endlessConn) Write(b []byte) (int, error) {
	if stream := c.of.stream.Load(); stream != nil && bytes.Contains(b, []byte("id: ")) {
		c.of.send(stream)
	}
	return c.Conn.Write(b)
}

// send sends the next message unless all were.
func (l *endless) send(stream *refserver.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == l.limit {
		return
	}
	l.sent++
	if err := stream.Send(context.Background(), fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"x","params":{"progress":%d}}`, l.sent)); err != nil {
		l.peer.t.Error(err)
	}
}

// serveEndless starts a call that ends when limit messages were sent, three of them while its
// client was away, and returns the client's cursor.
func serveEndless(t *testing.T, cfg refserver.Config, limit int) (l *endless, cursor string) {
	t.Helper()
	ln := memnet.Listen()
	l = &endless{Listener: ln, limit: limit}
	r := serve(t, cfg, l, ln.Dial)
	r.tool("endless", func(ctx context.Context, _ *mcp.CallToolRequest) error {
		stream := refserver.StreamFrom(ctx)
		pass(time.Second) // the client leaves
		for range 3 {
			l.send(stream)
		}
		l.stream.Store(stream)
		for done := false; !done; pass(time.Second) {
			l.mu.Lock()
			done = l.sent == l.limit
			l.mu.Unlock()
		}
		return nil
	})
	l.peer = r.open(latest)
	s := l.peer.call(1, "endless")
	cursor = s.take(1)[0].id
	s.cut()
	pass(2 * time.Second)
	return l, cursor
}

// Clause: a resume whose passes keep finding events is closed after its sixteenth batch
// instead of attached: cleanly, so that the client comes back from its new cursor after the
// announced time, as often as it takes, and nothing is lost or comes twice.
func TestSeed003_ResumeWhosePassesKeepFindingEvents_IsClosedAfterTheSixteenthBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		cfg := log.observe(seedConfigs()["handoff"])
		cfg.Store = newStore(t, store.Limits{})
		l, cursor := serveEndless(t, cfg, 100)
		var all []event
		var sizes []int
		for {
			events, retry := l.peer.resume(cursor).untilPolled()
			all = append(all, events...)
			sizes = append(sizes, len(events))
			if len(all) > 100 {
				break
			}
			if retry != "100" || len(events) == 0 {
				t.Fatalf("connection %d gave %d events, retry %q", len(sizes), len(events), retry)
			}
			cursor = events[len(events)-1].id
			pass(100 * time.Millisecond)
		}
		// The first batch has the three messages missed, each later one what was sent while
		// the one before was written.
		if want := []int{18, 16, 16, 16, 16, 16, 3}; !slices.Equal(sizes, want) {
			t.Errorf("connections gave %v events, want %v", sizes, want)
		}
		if got := numbers(t, all); !slices.Equal(got, upTo(100)[1:]) {
			t.Errorf("got %v", got)
		}
		if n := log.count(left(refserver.ReasonBehind)); n != 6 {
			t.Errorf("%d connections were sent back", n)
		}
	})
}

// Clause: the same promise where nothing is handed over: no connection replays without end,
// since it is attached from the first event on. It stays, gets each message, and holds up
// nobody.
func TestSeed003_ResumeUnderEndlessEmission_StaysAttached_AndLagsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		cfg := log.observe(seedConfigs()["follow"])
		cfg.Store = newStore(t, store.Limits{})
		l, cursor := serveEndless(t, cfg, 1000)
		s := l.peer.resume(cursor)
		all := s.take(100) // of which 97 came while it was read
		if n := log.count(left(refserver.ReasonBehind)) + log.count(left(refserver.ReasonPolling)); n != 0 {
			t.Errorf("%d connections were closed", n)
		}
		begun := time.Now()
		if got := numbers(t, l.peer.emit(2, "b", `{"messages":100}`).rest()); !slices.Equal(got, upTo(100)) || time.Since(begun) > 0 {
			t.Errorf("a neighbour got %v after %s", got, time.Since(begun))
		}
		if got := numbers(t, append(all, s.rest()...)); !slices.Equal(got, upTo(1000)[1:]) {
			t.Errorf("got %v", got)
		}
		if n := log.count(func(e refserver.Event) bool { return e.Kind == refserver.Resumed }); n != 1 {
			t.Errorf("it took %d resumes", n)
		}
	})
}

// Clause: whatever the delivery, a reader that comes back under an emitter that never pauses
// gets to the end, over as many connections as it takes, with each message once.
func TestSeed003_EndlessEmission_EachMessageOnce_OverAnyNumberOfConnections(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		l, cursor := serveEndless(t, cfg, 500)
		var all []event
		for n := 1; len(all) <= 500; n++ {
			s := l.peer.resume(cursor)
			for range 7 * n { // then it is cut, unless the server closes it before
				e, err := s.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if e.id == "" {
					break // when to come back
				}
				all = append(all, e)
			}
			s.cut()
			cursor = all[len(all)-1].id
			pass(100 * time.Millisecond)
		}
		if got := numbers(t, all); !slices.Equal(got, upTo(500)[1:]) {
			t.Errorf("got %v", got)
		}
	})
}
