package refserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/refserver/store"
)

// follower carries one connection: it walks the log of a stream from a cursor on
// and writes what it finds.
type follower struct {
	stream *Stream
	tail   store.Tail
	// opening is written first, with the head of the response: the priming event.
	opening []byte
	// replay is the number of events still to come that were stored before the
	// connection was accepted.
	replay int
	// asked is when the resume came that has not been brought up to date yet; else zero.
	asked    time.Time
	greeting error         // how writing the opening went
	left     chan struct{} // closed when the follower has left its stream

	mu       sync.Mutex
	ctx      context.Context // done when there is more to do than wait for the log
	cancel   context.CancelFunc
	sink     sink  // nil before start
	cut      error // why the link was cut; nil while it was not
	draining bool  // to leave at the end of the log
	farewell []byte
	closing  bool // to leave soon, with the farewell
	holdsID  bool // the client came with a cursor, or was sent one
	over     bool // the walk has ended
	loose    []looseEvent
	changes  int // of draining, closing and loose, so far
}

func newFollower(stream *Stream, tail store.Tail) *follower {
	f := &follower{stream: stream, tail: tail, left: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// stop makes the follower leave at once. Its link is reset, which ends a write that
// is under way. Only the first cause counts.
func (f *follower) stop(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut == nil {
		f.cut = cause
	}
	if f.sink != nil {
		f.sink.reset()
	}
	f.cancel()
}

// drain makes the follower leave when it has written what the log holds; then the
// body ends as it should.
func (f *follower) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
	f.change()
}

// leave makes the follower leave soon: after what the log holds, or one more batch of
// it, and the farewell. It reports whether it will: not if it is about to leave anyway,
// nor if its client holds no id to come back with.
func (f *follower) leave(farewell []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holdsID || f.cut != nil || f.draining || f.closing || f.over {
		return false
	}
	f.closing, f.farewell = true, farewell
	f.change()
	return true
}

// pass has an event written that is not in the log, behind all that the log holds,
// unless the follower leaves first.
func (f *follower) pass(event looseEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loose = append(f.loose, event)
	f.change()
}

// interrupted is what a follower does when it need not wait for the log any more: it
// writes what was passed to it, or returns why it leaves. What came up only after the log
// was last looked at has to wait until it was looked at again: events that belong before
// it, the response for one, may be there by now.
func (f *follower) interrupted(asOf int) error {
	f.mu.Lock()
	if f.cut == nil && f.changes != asOf {
		f.mu.Unlock()
		return nil
	}
	loose := f.loose
	f.loose = nil
	if len(loose) == 0 {
		err := f.decide()
		f.mu.Unlock()
		if errors.Is(err, errPolling) {
			err = errors.Join(err, f.write(f.farewell))
		}
		return err
	}
	f.mu.Unlock()
	for _, event := range loose {
		err := f.write(event.frame)
		event.written <- err
		if err != nil {
			return err
		}
	}
	return nil
}

// decide says why the follower leaves, nil if it stays. f.mu is held.
func (f *follower) decide() error {
	switch {
	case f.cut != nil:
		return f.cut
	case f.closing:
		return errPolling
	case f.draining:
		return context.Canceled
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return nil
}

// waiting returns the context to wait with, and what changes there were so far.
func (f *follower) waiting() (ctx context.Context, asOf int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctx, f.changes
}

// change makes the follower look up. f.mu is held.
func (f *follower) change() {
	f.changes++
	f.cancel()
}

// release lets go of what the follower held to wait with.
func (f *follower) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.cancel()
}

// discard lets go of a follower that was never attached.
func (f *follower) discard() {
	f.release()
	_ = f.tail.Close() // nothing was read from it
}

// due reports whether the connection is to be closed without waiting for the log to
// run dry, which it may never do. What was passed by has its place at the end of it.
func (f *follower) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closing && len(f.loose) == 0
}

// gone tells the follower that its client has left.
func (f *follower) gone() { f.stop(errClientGone) }

// start gives the follower its connection; run must follow.
func (f *follower) start(k sink) {
	f.mu.Lock()
	f.sink = k
	if f.cut != nil {
		k.reset()
	}
	f.mu.Unlock()
	f.stream.session.h.track(f)
}

// greet writes the head of the response and the priming event. This is done before the
// request is handed on: a handler that closes the connection at once finds a client that
// can come back.
func (f *follower) greet() {
	if f.greeting = f.write(f.opening); f.greeting != nil {
		return
	}
	f.reached(phaseFirstByte)
	if len(f.opening) == 0 {
		return
	}
	f.stream.session.h.metrics.wrote(pathPriming, 1, len(f.opening))
	f.opening = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holdsID = true
}

func (f *follower) wasCut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// run follows the log until the stream is complete, the client leaves or another
// connection takes over, and reports whether the body came to its proper end. It
// owns the follower from here on.
func (f *follower) run() (clean bool) {
	h, get := f.stream.session.h, f.stream.kind() == kindGet
	h.cfg.OnEvent(Event{Kind: Attached, Get: get, Missed: f.replay})
	err := f.follow()
	reason := f.reason(err)
	if (reason == ReasonServer || reason == ReasonPolling || reason == ReasonBehind) && f.wasCut() == nil {
		clean = f.sink.finish() == nil
	}
	if !clean {
		f.sink.reset()
	}
	f.release()
	_ = f.tail.Close() // the log stays as it is whatever a tail says
	f.stream.detach(f)
	f.report(err, reason)
	h.metrics.closed[reason].Inc()
	h.cfg.OnEvent(Event{Kind: Detached, Get: get, Reason: reason})
	if errors.Is(err, errWrite) && get && !h.resumable() {
		f.stream.session.endFor(endedError) // without a store nothing more can be told to this client
	}
	h.untrack(f)
	return clean
}

// follow writes batch after batch. It returns nil when the stream is complete.
func (f *follower) follow() error {
	if f.greeting != nil {
		return f.greeting
	}
	for {
		closing := f.due()
		ctx, asOf := f.waiting()
		batch, err := f.tail.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, context.Canceled) {
			if err := f.interrupted(asOf); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, store.ErrBehind) {
			if err := f.sendBack(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if batch, err = f.stream.session.h.checked(batch); err != nil {
			return err
		}
		known := f.stream.appended.Load()
		if err := f.write(batch.Frames); err != nil {
			return err
		}
		f.account(batch)
		f.stream.written.Store(known - int64(batch.Behind))
		f.stream.signalRoom()
		if closing && f.due() {
			if err := f.interrupted(asOf); err != nil {
				return err
			}
		}
	}
}

// sendBack takes leave of a client that does not catch up: it is to come back with its
// new cursor after the reconnection time. One that was given no cursor to come back with
// keeps the connection.
func (f *follower) sendBack() error {
	s := f.stream.session
	f.mu.Lock()
	holdsID := f.holdsID
	f.mu.Unlock()
	switch {
	case !holdsID:
		return nil
	case !s.primed():
		return store.ErrBehind
	}
	return errors.Join(store.ErrBehind, f.write(farewell(s.h.cfg.Retry)))
}

var errWrite = errors.New("write failed")

func (f *follower) write(frames []byte) error {
	if err := f.wasCut(); err != nil {
		return err
	}
	begun := time.Now()
	err := f.sink.write(frames)
	f.stream.session.h.metrics.waited(time.Since(begun))
	if err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// reached measures how long a resume took to come this far. One that missed nothing is
// up to date with its first byte.
func (f *follower) reached(p phase) {
	if f.asked.IsZero() {
		return
	}
	m, took := f.stream.session.h.metrics, time.Since(f.asked).Seconds()
	m.resuming[p].Observe(took)
	if p == phaseFirstByte && f.replay == 0 {
		m.resuming[phaseCaughtUp].Observe(took)
	}
	if f.replay == 0 {
		f.asked = time.Time{}
	}
}

// account counts what was written: up to the end that the log had when the
// connection was accepted it is replay, from there on it is live.
func (f *follower) account(batch store.Batch) {
	m := f.stream.session.h.metrics
	replayed := min(f.replay, batch.Events)
	f.replay -= replayed
	size := len(batch.Frames)
	if replayed > 0 {
		share := firstEvents(batch, replayed)
		m.wrote(pathReplay, replayed, share)
		size -= share
		if f.replay == 0 {
			f.reached(phaseCaughtUp)
		}
	}
	if live := batch.Events - replayed; live > 0 {
		m.wrote(pathLive, live, size)
	}
}

// firstEvents returns the size of the first n events of a batch. An event ends with its
// first empty line.
func firstEvents(batch store.Batch, n int) int {
	if n == batch.Events {
		return len(batch.Frames)
	}
	size := 0
	for range n {
		end := bytes.Index(batch.Frames[size:], []byte("\n\n"))
		if end < 0 {
			return len(batch.Frames) // fewer events than the store said
		}
		size += end + len("\n\n")
	}
	return size
}

// reason says why the follower leaves, given the error of follow.
func (f *follower) reason(err error) Reason {
	cut := f.wasCut()
	switch {
	case errors.Is(err, errPolling) && cut == nil && !errors.Is(err, errWrite):
		return ReasonPolling
	case errors.Is(err, store.ErrBehind) && cut == nil && !errors.Is(err, errWrite):
		return ReasonBehind
	case err == nil, errors.Is(err, context.Canceled) && cut == nil:
		return ReasonServer
	case errors.Is(cut, errReplaced):
		return ReasonReplaced
	case errors.Is(cut, errShutdown):
		return ReasonServer
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonTimeout
	case errors.Is(cut, errClientGone), errors.Is(err, errWrite):
		return ReasonClient
	}
	return ReasonError
}

// report tells the operator of what was not sent. Requests of the server travel here as
// notifications do, so it speaks of messages. That a client has left is nothing unusual.
func (f *follower) report(err error, reason Reason) {
	log := f.stream.session.h.cfg.Logger
	switch {
	case reason == ReasonError:
		log.Warn("a connection was given up", "stream", f.stream.kind().String(), "error", err)
	case !errors.Is(err, errWrite) || reason == ReasonReplaced || reason == ReasonServer:
	case reason == ReasonTimeout:
		log.Warn(failedToSend, "stream", f.stream.kind().String(), "reason", reason.String())
	default:
		log.Debug(failedToSend, "stream", f.stream.kind().String(), "reason", reason.String())
	}
}

// failedToSend is how a message is reported that did not get out: written in vain to the
// connection of a session's stream, or taken by no stream.
const failedToSend = "failed to send message"
