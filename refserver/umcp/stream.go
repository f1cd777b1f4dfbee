package umcp

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/refserver"
)

const (
	// lagBytes is how much may wait for a client at most. Handlers wait from half of it.
	lagBytes = 1 << 20

	keepAlive = ": keep-alive\n\n"
)

// stream is the event stream of a session, while it is attached. Its connection's
// goroutine writes what others add.
type stream struct {
	cut  func()        // ends a write that is under way
	wake chan struct{} // has one token when there is something to write
	done chan struct{} // closed when nothing is added any more

	mu      sync.Mutex
	ended   bool
	lagging bool // it ended since the client read too slowly
	pending []byte
	waiting int           // messages in pending
	writing int           // messages being written
	moved   chan struct{} // closed when messages were written or the stream ends, then replaced
}

func newStream(cut func()) *stream {
	return &stream{cut: cut, wake: make(chan struct{}, 1), done: make(chan struct{}), moved: make(chan struct{})}
}

// frame returns a message as an event. Events have no ids.
func frame(message []byte) []byte {
	return append(append([]byte("data: "), message...), "\n\n"...)
}

// add takes a frame, which it copies, and reports whether it will be written if the
// client reads. A client for which too much waits loses the stream.
func (st *stream) add(frame []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return false
	}
	if len(st.pending) > 0 && len(st.pending)+len(frame) > lagBytes {
		st.lagging = true
		st.endLocked()
		st.cut()
		return false
	}
	st.pending = append(st.pending, frame...)
	st.waiting++
	select {
	case st.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns what is to be written, and the number of its messages.
func (st *stream) take() ([]byte, int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	batch := st.pending
	st.pending, st.writing, st.waiting = nil, st.waiting, 0
	return batch, st.writing
}

// wrote notes that what was taken was written.
func (st *stream) wrote() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writing = 0
	close(st.moved)
	st.moved = make(chan struct{})
}

// room tells whether fewer than limit messages wait for the client; if not, what to
// wait for.
func (st *stream) room(limit int64) (bool, <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ended || int64(st.waiting+st.writing) < limit && len(st.pending) < lagBytes/2, st.moved
}

// left returns the number of messages of which no write is known to have succeeded.
func (st *stream) left() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.waiting + st.writing
}

// finish lets the stream end when all was written.
func (st *stream) finish() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endLocked()
}

func (st *stream) endLocked() {
	if !st.ended {
		st.ended = true
		close(st.done)
		close(st.moved)
		st.moved = make(chan struct{})
	}
}

// get attaches an event stream to a session and serves it; nil when it has been served.
func (s *Server) get(c *conn, r *request) *answer {
	ses, refused := s.session(r)
	if refused != nil {
		return refused
	}
	st := newStream(func() { _ = c.Close() })
	if refused := ses.attach(st); refused != nil {
		return refused
	}
	reason := c.follow(r, st)
	ses.detach(st, reason)
	return nil
}

// attach makes a stream the one of the session. While one is attached, dead or not,
// there is no second: "A second simultaneous stream for the same session returns 409."
func (ses *session) attach(st *stream) *answer {
	ses.mu.Lock()
	ended, taken := ses.ended, ses.stream != nil
	if !ended && !taken {
		ses.stream = st
	}
	ses.mu.Unlock()
	switch {
	case ended:
		return unknownSession()
	case taken:
		return refuse(http.StatusConflict, "the session has an event stream")
	}
	ses.s.metrics.streams.Inc()
	ses.s.metrics.opened.Inc()
	ses.s.cfg.OnEvent(refserver.Event{Kind: refserver.Attached, Get: true})
	return nil
}

// detach lets go of a stream. What still waited in it is gone.
func (ses *session) detach(st *stream, reason refserver.Reason) {
	ses.mu.Lock()
	ses.stream = nil
	ses.lastUsed = time.Now()
	ses.mu.Unlock()
	st.finish()
	ses.s.metrics.dropped.Add(float64(st.left()))
	ses.s.metrics.streams.Dec()
	ses.s.metrics.closed[reason].Inc()
	ses.s.cfg.OnEvent(refserver.Event{Kind: refserver.Detached, Get: true, Reason: reason})
}

// follow writes a stream until it ends or its client does. That is noticed by a write
// alone: "the server detects that closure when a subsequent notification or keepalive
// write fails".
func (c *conn) follow(r *request, st *stream) refserver.Reason {
	var head bytes.Buffer
	header := http.Header{
		"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache, no-transform"},
		"X-Accel-Buffering": {"no"}, "Connection": {"close"},
	}
	if !r.old {
		header.Set("Transfer-Encoding", "chunked")
	}
	writeHead(&head, http.StatusOK, header, share(r, &answer{}).header)
	head.WriteString("\r\n")
	c.s.metrics.answered(http.StatusOK)
	if err := c.send(head.Bytes()); err != nil {
		return st.reason(err)
	}
	tick := time.NewTicker(c.s.cfg.KeepAlive)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-st.wake:
			err = c.pass(r, st)
		case <-tick.C:
			err = c.event(r, []byte(keepAlive))
		case <-st.done:
			if err = c.pass(r, st); err == nil {
				err = c.end(r)
			}
			return st.reason(err)
		}
		if err != nil {
			return st.reason(err)
		}
	}
}

// pass writes what waits.
func (c *conn) pass(r *request, st *stream) error {
	batch, n := st.take()
	if n == 0 {
		return nil
	}
	if err := c.event(r, batch); err != nil {
		return err
	}
	st.wrote()
	c.s.metrics.events.Add(float64(n))
	c.s.metrics.bytes.Add(float64(len(batch)))
	return nil
}

func (c *conn) event(r *request, data []byte) error {
	if !r.old {
		data = chunk(data)
	}
	return c.send(data)
}

// end ends the body, and the connection behind it.
func (c *conn) end(r *request) error {
	if !r.old {
		if err := c.send([]byte("0\r\n\r\n")); err != nil {
			return err
		}
	}
	c.linger()
	return nil
}

// reason tells why a stream ended, from what its last write said.
func (st *stream) reason(err error) refserver.Reason {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.lagging || errors.Is(err, os.ErrDeadlineExceeded):
		return refserver.ReasonTimeout
	case err != nil:
		return refserver.ReasonClient
	}
	return refserver.ReasonServer
}
