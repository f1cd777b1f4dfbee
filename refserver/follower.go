package refserver

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

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
	left   chan struct{} // closed when the follower has left its stream

	ctx    context.Context // done when the follower is not to wait any more
	cancel context.CancelFunc

	mu   sync.Mutex
	sink sink  // nil before start
	cut  error // why the link was cut; nil while it was not
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
func (f *follower) drain() { f.cancel() }

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
	if reason == ReasonServer && f.wasCut() == nil {
		clean = f.sink.finish() == nil
	}
	if !clean {
		f.sink.reset()
	}
	f.cancel()
	_ = f.tail.Close() // the log stays as it is whatever a tail says
	f.stream.detach(f)
	h.metrics.closed[reason].Inc()
	h.cfg.OnEvent(Event{Kind: Detached, Get: get, Reason: reason})
	if errors.Is(err, errWrite) && get && !h.resumable() {
		f.stream.session.end() // without a store nothing more can be told to this client
	}
	h.untrack(f)
	return clean
}

// follow writes batch after batch. It returns nil when the stream is complete.
func (f *follower) follow() error {
	if err := f.write(f.opening); err != nil {
		return err
	}
	if len(f.opening) > 0 {
		f.stream.session.h.metrics.wrote(pathPriming, 1, len(f.opening))
		f.opening = nil
	}
	for {
		batch, err := f.tail.Next(f.ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		known := f.stream.appended.Load()
		if err := f.write(batch.Frames); err != nil {
			return err
		}
		f.account(batch)
		f.stream.written.Store(known - int64(batch.Behind))
		f.stream.signalRoom()
	}
}

var errWrite = errors.New("write failed")

func (f *follower) write(frames []byte) error {
	if err := f.wasCut(); err != nil {
		return err
	}
	if err := f.sink.write(frames); err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// account counts what was written: up to the end that the log had when the
// connection was accepted it is replay, from there on it is live.
func (f *follower) account(batch store.Batch) {
	m := f.stream.session.h.metrics
	replayed := min(f.replay, batch.Events)
	f.replay -= replayed
	bytes := len(batch.Frames)
	if replayed > 0 {
		share := bytes * replayed / batch.Events
		m.wrote(pathReplay, replayed, share)
		bytes -= share
	}
	if live := batch.Events - replayed; live > 0 {
		m.wrote(pathLive, live, bytes)
	}
}

// reason says why the follower leaves, given the error of follow.
func (f *follower) reason(err error) Reason {
	cut := f.wasCut()
	switch {
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
	f.stream.session.h.cfg.Logger.Warn("a connection was given up", "error", err)
	return ReasonError
}
