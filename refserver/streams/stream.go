package streams

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// messageCost is what a message in a buffer costs beside its bytes.
	messageCost = 64
	// lagMessages and lagBytes are how much of a call may wait for a connected client
	// before its handler does.
	lagMessages = 256
	lagBytes    = 1 << 20
	// batchBytes is how much one write takes from a buffer, at least a message.
	batchBytes = 64 << 10
)

var errNotTaken = errors.New("the stream takes no more messages")

// entry is a message in a buffer.
type entry struct {
	data []byte
	// written is when it was handed to a link last; zero: never, or not since the present
	// client has asked for it again.
	written  time.Time
	kind     kind
	answered bool // a request that the client has answered
}

type kind uint8

const (
	kindPlain kind = iota
	kindRequest
	kindError // a response that is an error, or whose result is one
)

// stream carries the messages of one call, from whichever link the call came on to those
// that resume it. Messages are counted from 1; the create notification is 0, and the end
// is one more than the last message. Without an id it is not resumable: a plain call.
type stream struct {
	s         *Server
	session   *session
	call      *call
	id        string
	tag       string // begins its event ids, and tells nothing
	token     [sha256.Size]byte
	principal string

	mu      sync.Mutex
	entries []entry // messages gone+1 to last
	last    int64
	gone    int64 // the last message that was discarded
	// sure is the last message that the client is known, or by the window taken, to have.
	// gone > sure means that one is missing which it may lack.
	sure      int64
	bytes     int64
	unsent    int64 // bytes that the present link has still to be given
	ended     bool  // the response is in
	lost      bool  // more came than the buffer may hold, and nobody took it
	reclaimed bool
	att       *attachment // nil while nobody follows
	deadline  time.Time   // of abandonment, while nobody follows
	timer     *time.Timer
	moved     chan struct{} // closed when a write ends or the link goes; nil if nobody waits
}

var _ refserver.Outlet = (*stream)(nil)

func (st *stream) plain() bool { return st.id == "" }

// Emit implements [refserver.Outlet].
func (st *stream) Emit(_ context.Context, _, message []byte) error {
	return st.append(bytes.Clone(message), kindPlain, false)
}

// append takes a message, which is kept. The last one is the response.
func (st *stream) append(message []byte, k kind, last bool) error {
	_, err := st.put(message, k, last)
	return err
}

// appendRequest takes a request of the server, and reports whether somebody may see it.
func (st *stream) appendRequest(message []byte) (int64, bool) {
	seq, err := st.put(message, kindRequest, false)
	return seq, err == nil && seq > 0
}

// put takes a message and returns its number; 0 if nobody will ever ask for it.
func (st *stream) put(message []byte, k kind, last bool) (int64, error) {
	if bytes.ContainsAny(message, "\r\n") {
		var compact bytes.Buffer
		if json.Compact(&compact, message) == nil { // JSON has line breaks between tokens only
			message = compact.Bytes()
		}
	}
	st.mu.Lock()
	if st.ended || st.reclaimed {
		st.mu.Unlock()
		return 0, errNotTaken
	}
	st.ended = last
	st.last++
	if st.lost || st.plain() && st.att == nil {
		st.gone = st.last
		st.mu.Unlock()
		return 0, nil
	}
	seq := st.last
	st.entries = append(st.entries, entry{data: message, kind: k})
	st.countLocked(1, int64(len(message))+messageCost)
	if st.att != nil {
		st.unsent += int64(len(message))
		st.att.signal()
		st.ageLocked(time.Now())
	}
	limits := &st.s.cfg.Limits
	if st.bytes > limits.StreamBytes || len(st.entries) > limits.StreamMessages {
		st.squeezeLocked(func() bool { return st.bytes <= limits.StreamBytes && len(st.entries) <= limits.StreamMessages })
	}
	st.mu.Unlock()
	if st.s.bytes.Load() > limits.Bytes {
		st.yieldRoom()
	}
	return seq, nil
}

// yieldRoom brings all buffers together back into their bound.
func (st *stream) yieldRoom() {
	limit := st.s.cfg.Limits.Bytes
	for st.s.bytes.Load() > limit && st.s.evict() {
	}
	if st.s.bytes.Load() <= limit {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.squeezeLocked(func() bool { return st.s.bytes.Load() <= limit })
}

// squeezeLocked discards messages that were written until it is enough. If that does not
// help nothing of the stream is of use to anybody.
func (st *stream) squeezeLocked(enough func() bool) {
	for !enough() && len(st.entries) > 0 && !st.entries[0].written.IsZero() {
		st.dropLocked(1)
		st.s.metrics.dropped.Inc()
	}
	if enough() || len(st.entries) == 0 {
		return
	}
	st.lost = true
	st.s.metrics.dropped.Add(float64(len(st.entries)))
	st.dropLocked(len(st.entries))
	st.s.cfg.Logger.Warn("a stream outgrew its buffer: it cannot be resumed any more")
	if st.att != nil {
		st.att.leave(outcomeLost)
	}
}

// dropLocked discards the n oldest messages.
func (st *stream) dropLocked(n int) {
	var freed int64
	for i := range st.entries[:n] {
		freed += int64(len(st.entries[i].data)) + messageCost
	}
	clear(st.entries[:n])
	if st.entries = st.entries[n:]; len(st.entries) == 0 {
		st.entries = nil
	}
	st.gone += int64(n)
	st.countLocked(-n, -freed)
}

func (st *stream) countLocked(messages int, bytes int64) {
	st.bytes += bytes
	st.s.bytes.Add(bytes)
	st.s.messages.Add(int64(messages))
}

// ageLocked discards what was written longer than the window ago on a link that lives.
func (st *stream) ageLocked(now time.Time) {
	n := 0
	for n < len(st.entries) && !st.entries[n].written.IsZero() && now.Sub(st.entries[n].written) > st.s.cfg.Window {
		n++
	}
	if n > 0 {
		st.dropLocked(n)
		st.sure = st.gone
	}
}

// Room implements [refserver.Outlet].
func (st *stream) Room(ctx context.Context, limit int64) error {
	for {
		st.mu.Lock()
		a := st.att
		if a == nil || st.last-a.next < limit-1 && st.unsent < lagBytes {
			st.mu.Unlock()
			return ctx.Err()
		}
		if st.moved == nil {
			st.moved = make(chan struct{})
		}
		moved := st.moved
		st.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (st *stream) movedLocked() {
	if st.moved != nil {
		close(st.moved)
		st.moved = nil
	}
}

// CloseConnection implements [refserver.Outlet]. What was sent before still goes out. On
// a link with many streams it is the link that is closed, with all of them.
func (st *stream) CloseConnection(time.Duration) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.plain() || st.att == nil || st.att.closing {
		return false
	}
	st.att.closing, st.att.closeAfter = true, st.last
	st.att.signal()
	return true
}

// gap is what a client is told that might lack messages.
func (st *stream) gapLocked() *jsonrpc.Error {
	if st.lost || st.gone > st.sure {
		return streamError(reasonGone)
	}
	return nil
}

// reclaim gives back all that the stream holds, and tells its handler that nobody will
// get the response.
func (st *stream) reclaim(reason string) {
	st.mu.Lock()
	if st.reclaimed {
		st.mu.Unlock()
		return
	}
	st.reclaimed = true
	st.dropLocked(len(st.entries))
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.att != nil {
		st.att.leave(outcomeReclaimed)
	}
	live := !st.ended
	st.movedLocked()
	st.mu.Unlock()
	st.s.forget(st, reason)
	if live {
		st.call.abort()
	}
}

// abandon reclaims the stream if nobody has come back for it ("Abandonment").
func (st *stream) abandon() {
	st.mu.Lock()
	due := st.att == nil && !st.reclaimed && !time.Now().Before(st.deadline)
	st.mu.Unlock()
	if due {
		st.s.metrics.abandoned.Inc()
		st.reclaim(reasonAbandoned)
	}
}

// waitLocked begins, or begins anew, to wait for the client.
func (st *stream) waitLocked() {
	if st.plain() || st.reclaimed {
		return
	}
	st.deadline = time.Now().Add(st.s.cfg.Max)
	if st.timer == nil {
		st.timer = time.AfterFunc(st.s.cfg.Max, st.abandon)
		return
	}
	st.timer.Reset(st.s.cfg.Max)
}

// pollResult is StreamPollResult.
type pollResult struct {
	StreamID        string `json:"streamId"`
	Status          string `json:"status"`
	PendingMessages bool   `json:"pendingMessages"`
	HasRequest      bool   `json:"hasRequest"`
	HasError        bool   `json:"hasError"`
}

// poll tells what a resume with this cursor would send, and puts off abandonment
// ("Polling"). A negative cursor is none.
func (st *stream) poll(cursor int64) (*pollResult, *jsonrpc.Error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if failed := st.admitsLocked(cursor); failed != nil {
		return nil, failed
	}
	if st.att == nil {
		st.waitLocked()
	}
	p := &pollResult{StreamID: st.id, Status: "live"}
	if st.ended {
		p.Status = "completed"
	}
	for i := range st.entries {
		if e := &st.entries[i]; st.gone+1+int64(i) > cursor && !e.answered {
			p.PendingMessages = true
			p.HasRequest = p.HasRequest || e.kind == kindRequest
			p.HasError = p.HasError || e.kind == kindError
		}
	}
	return p, nil
}

// admitsLocked tells whether a client that has all messages up to cursor can go on.
func (st *stream) admitsLocked(cursor int64) *jsonrpc.Error {
	last := st.last
	if st.ended {
		last++ // the end
	}
	switch {
	case st.reclaimed:
		return streamError(reasonAbandoned)
	case st.lost:
		return streamError(reasonGone)
	case cursor > last:
		return streamError(reasonCursor)
	case cursor >= 0 && cursor < st.gone:
		return streamError(reasonGone)
	case cursor < 0:
		return st.gapLocked()
	}
	return nil
}

// answered notes that the client answered a request: it has that and all before it.
func (st *stream) answered(seq int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if i := seq - st.gone - 1; i >= 0 && i < int64(len(st.entries)) {
		st.entries[i].answered = true
	}
}
