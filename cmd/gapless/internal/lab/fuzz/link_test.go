package fuzz

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// An item is one thing that a link brought: a head, an event or its end.
type item struct {
	at     time.Duration
	head   *history.Head
	event  *wire.Event
	end    history.End
	retry  time.Duration // that the server announced so far
	reason string        // of the end, when it was ours
}

// A link carries one exchange whose answer is an event stream. A goroutine reads it. What
// it brings is held until somebody decides what the exchange is: part of a call's history,
// or a question beside it.
type link struct {
	w    *world
	n    uint32
	conn *memnet.Conn
	done chan struct{} // closed when the goroutine has ended

	left   atomic.Int64  // bytes to read until the link is cut; negative: no such cut
	events atomic.Int64  // events to read until then
	pause  atomic.Int64  // nanoseconds between events
	slowed atomic.Bool   // it was slow once
	wake   chan struct{} // closed by close, and by quicken
	once   sync.Once

	mu     sync.Mutex
	closed string // why we closed it
	owner  *call  // whose history it is part of, nil while what comes is held
	late   bool   // its call goes on elsewhere
	items  []item // held
	status int    // of the head, 0 before
	ended  bool
	body   []byte // of a refusal
}

// Reasons why a client ends a link.
const (
	byReset  = "rst"
	byFIN    = "fin"
	bySloth  = "blackhole" // it stopped reading, and the server had enough of it
	byParted = "parted"    // the call is over
)

// dial opens a link and sends a request on it.
func (w *world) dial(q wire.Request, cursor string) *link {
	w.lastLink++
	return w.dialAs(w.lastLink, q, cursor, nil)
}

func (w *world) dialAs(n uint32, q wire.Request, cursor string, prepare func(*link)) *link {
	conn, err := w.ln.Dial(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	l := &link{w: w, n: n, conn: conn.(*memnet.Conn), done: make(chan struct{}), wake: make(chan struct{})}
	l.left.Store(-1)
	l.events.Store(-1)
	if prepare != nil {
		prepare(l)
	}
	w.links = append(w.links, l)
	go l.run(q, cursor)
	return l
}

// metered is the client's end, which is cut after so many bytes.
type metered struct {
	net.Conn
	l *link
}

var errCut = errors.New("cut")

func (m metered) Read(p []byte) (int, error) {
	left := m.l.left.Load()
	if left == 0 {
		m.l.cut(byReset)
		return 0, errCut
	}
	if left > 0 {
		p = p[:min(int64(len(p)), left)]
	}
	n, err := m.Conn.Read(p)
	if left > 0 {
		m.l.left.CompareAndSwap(left, left-int64(n))
	}
	return n, err
}

func (l *link) run(q wire.Request, cursor string) {
	defer close(l.done)
	defer l.conn.Close()
	resp, err := wire.NewConn(metered{l.conn, l}, wire.Limits{}).RoundTrip(&q)
	if err != nil {
		l.push(item{end: endOf(err)})
		return
	}
	l.w.use(q, resp.Status)
	h := &history.Head{Status: resp.Status, Missed: -1}
	switch {
	case resp.SSE():
		h.Body = history.BodySSE
	case resp.JSON():
		h.Body = history.BodyJSON
	}
	if n, err := strconv.ParseInt(resp.Get("Gapless-Missed"), 10, 32); err == nil {
		h.Missed = int32(n)
	}
	if resp.Status != 200 || h.Body != history.BodySSE {
		body, _ := resp.ReadAll(1 << 20) // what came of it is enough to look at
		l.mu.Lock()
		l.body = body
		l.mu.Unlock()
		l.push(item{head: h})
		l.push(item{end: history.EndStatus})
		return
	}
	l.push(item{head: h})
	l.read(resp, cursor)
}

// read reads events until the link ends or is to be cut.
func (l *link) read(resp *wire.Response, cursor string) {
	var rd wire.Reader
	rd.Reset(resp, []byte(cursor))
	for {
		var ev wire.Event
		err := rd.Next(&ev)
		retry, _ := rd.Retry()
		if err != nil {
			l.push(item{end: endOf(err), retry: retry})
			return
		}
		ev.Type, ev.Data, ev.ID = []byte(string(ev.Type)), []byte(string(ev.Data)), []byte(string(ev.ID))
		if !l.push(item{event: &ev, retry: retry}) {
			l.push(item{end: history.EndReset, retry: retry})
			return
		}
		if l.events.Add(-1) == 0 {
			l.cut(byReset)
			l.push(item{end: history.EndReset, retry: retry})
			return
		}
		if pause := time.Duration(l.pause.Load()); pause > 0 {
			select {
			case <-time.After(pause):
			case <-l.wake:
			}
		}
	}
}

// push hands an item on and reports whether more is wanted: what was read before a cut of
// ours and not looked at until then was never seen.
func (l *link) push(it item) bool {
	it.at = l.w.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.end == history.EndNone && l.closed != "" {
		return false
	}
	if it.head != nil {
		l.status = it.head.Status
	}
	if it.end != history.EndNone {
		l.ended = true
		it.reason = l.closed
		if it.reason == "" && l.slowed.Load() && it.end != history.EndClean {
			it.reason = bySloth
		}
	}
	switch {
	case l.late:
		l.w.overhear(it)
	case l.owner != nil:
		l.owner.apply(l, it)
	default:
		l.items = append(l.items, it)
	}
	return l.closed == ""
}

// adopt makes what the link brought, and will bring, part of the call's history.
func (l *link) adopt(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner = c
	for _, it := range l.items {
		c.apply(l, it)
	}
	l.items = nil
}

// hold keeps what comes back again, until the link is adopted once more.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner = nil
}

// part makes the link one whose call goes on elsewhere, or is over.
func (l *link) part() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
}

// cut ends the link for a reason of ours. It may be called by the link's own goroutine.
func (l *link) cut(why string) {
	l.mu.Lock()
	if l.closed == "" {
		l.closed = why
	}
	l.mu.Unlock()
	l.close(why == byReset)
}

func (l *link) close(reset bool) {
	l.once.Do(func() { close(l.wake) })
	if reset {
		_ = l.conn.SetLinger(0) // memnet always takes it
	}
	_ = l.conn.Close()
}

// state returns the status of the answer, whether the exchange is over, and how.
func (l *link) state() (status int, ended bool, held []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status, l.ended, l.items
}

func endOf(err error) history.End {
	switch {
	case errors.Is(err, wire.ErrMidEvent):
		return history.EndMidEvent
	case wire.IllegalOf(err) != 0:
		return history.EndFrame
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, errCut), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE):
		return history.EndReset
	case errors.Is(err, io.EOF):
		return history.EndClean
	}
	return history.EndTruncated
}
