package refserver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Why a link was cut.
var (
	errReplaced   = errors.New("another connection took the stream over")
	errClientGone = errors.New("the client has left")
	errShutdown   = errors.New("the server is closing")
)

// errSessionEnded tells a request, or whoever sends, that the session has ended meanwhile.
var errSessionEnded = errors.New("the session has ended")

// errRetired tells a resume to look for the stream again.
var errRetired = errors.New("the stream was retired")

// errConflict is returned to a resume of an attached stream under [Refuse].
var errConflict = errors.New("the stream has a connection")

// Stream is one logical event stream: the answer to a request, or the standalone
// stream of a session. It outlives its connections.
type Stream struct {
	session *session
	key     store.Stream

	// appended counts events given to the store, written those that were read from it
	// and written out, in the same count; the difference is how far the client lags.
	appended, written atomic.Int64
	bytes             atomic.Int64 // of the events that appended counts
	connected         atomic.Bool
	failing           atomic.Bool   // the store failed before, which was logged
	tailless          atomic.Bool   // the connection there is cannot read the log
	body              *hold         // of its request; nil for a small one
	answers           *answers      // for a batch; nil when there is one response
	room              chan struct{} // a token after each write and each detaching

	mu       sync.Mutex
	follower *follower // nil while nobody is connected
	finished bool      // the response was given to the stream
	// retired: finished, unfollowed, and no longer found by its name. A connection
	// that still holds it must look again, or two could follow one log.
	retired bool
	lastID  string // id of the last event, for a standalone stream opened again
}

func newStream(s *session, name string) *Stream {
	return &Stream{
		session: s,
		key:     store.Stream{Session: s.id, Name: name},
		room:    make(chan struct{}, 1),
	}
}

// Send appends one JSON-RPC message, ready-made, to the stream. It fails once the
// response was sent or the session has ended. When the store fails, the message is written without an id to the
// client that is connected; if there is none the error is an [ErrUnstored].
func (s *Stream) Send(ctx context.Context, message []byte) error {
	err := s.append(ctx, frame(message), false)
	if wasWritten(err) {
		return nil
	}
	return err
}

// Emit implements [Outlet].
func (s *Stream) Emit(ctx context.Context, frame, _ []byte) error { return s.append(ctx, frame, false) }

// append puts a framed message into the log. The frame is not kept. An event that the
// store did not take has an [unstored] error, be it that it reached the client.
func (s *Stream) append(ctx context.Context, frame []byte, last bool) error {
	h := s.session.h
	if s.session.forgotten.Load() {
		return errSessionEnded
	}
	if h.cfg.Defect.Swallow(s.attached(), last) {
		return nil
	}
	if s.tailless.Load() {
		return s.passBy(ctx, frame, errNoTail)
	}
	s.appended.Add(1) // before: it may be written before Append returns
	s.bytes.Add(int64(len(frame)))
	id, err := h.store.Append(ctx, s.key, store.Event{Frame: frame, Last: last})
	if s.session.late() {
		return errSessionEnded
	}
	if err != nil {
		s.appended.Add(-1)
		s.bytes.Add(-int64(len(frame)))
		if degrades(ctx, err) {
			return s.passBy(ctx, frame, err)
		}
		return err
	}
	if id != "" && !store.ValidID(id) {
		// The event is in the log; whoever reads it there leaves the id out.
		s.reportUnstored(errBadID, "the event store gave a bad id: the event is sent without one", s.attached())
		id = ""
	}
	s.setLast(id)
	return nil
}

// setLast notes where the standalone stream ends, for a client that opens it again.
func (s *Stream) setLast(id string) {
	if s.key.Name != standalone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID = id
}

// answer puts a response into the log, which ends it if no other is to come, and reports
// whether the stream took it.
func (s *Stream) answer(ctx context.Context, frame []byte) bool {
	last := s.answers.next()
	err := s.append(ctx, frame, last)
	taken := err == nil || wasWritten(err)
	if !taken {
		s.session.h.cfg.Logger.Error("response not sent", "error", err)
	}
	s.session.h.cfg.OnEvent(Event{Kind: Answered})
	if !last {
		s.answers.done()
		return taken
	}
	s.finish()
	s.session.forget(s)
	return taken
}

// finish notes that nothing will be appended any more. Whoever follows the stream,
// which is returned, has to leave even if its end is not in the store.
func (s *Stream) finish() *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.body.release()
	s.body = nil
	if s.follower != nil {
		s.follower.drain()
	}
	return s.follower
}

// prime appends the priming event and returns it as it goes on the wire.
func (s *Stream) prime(ctx context.Context) (id string, wire []byte, err error) {
	var event store.Event
	event.Frame = append(retryLine(s.session.h.cfg.Retry), "data: \n\n"...)
	id, err = s.session.h.store.Append(ctx, s.key, event)
	switch {
	case err != nil:
		return "", nil, err
	case !store.ValidID(id):
		return "", nil, errBadID
	}
	s.setLast(id)
	return id, store.AppendFrame(nil, id, event), nil
}

// attach makes f the follower of the stream. If there is another, f waits until
// it has left, or fails with errConflict when it may not be replaced.
func (s *Stream) attach(ctx context.Context, f *follower, replace bool) error {
	for {
		s.mu.Lock()
		if s.retired {
			s.mu.Unlock()
			return errRetired
		}
		old := s.follower
		if old == nil {
			s.follower = f
			s.written.Store(s.appended.Load() - int64(f.tail.Position().Missed))
			s.connected.Store(true)
			_, lost := f.tail.(noTail)
			s.tailless.Store(lost)
			if s.finished {
				f.drain()
			}
			s.mu.Unlock()
			s.session.h.metrics.move(s.kind(), stateDetached, stateLive)
			return nil
		}
		s.mu.Unlock()
		if !replace {
			return errConflict
		}
		old.stop(errReplaced)
		select {
		case <-old.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// detach is the last thing a follower does.
func (s *Stream) detach(f *follower) {
	s.mu.Lock()
	s.follower = nil
	s.connected.Store(false)
	s.tailless.Store(false)
	s.mu.Unlock()
	s.session.h.metrics.move(s.kind(), stateLive, stateDetached)
	close(f.left)
	s.signalRoom()
	s.session.forget(s)
}

func (s *Stream) kind() kind { return kindOf(s.key.Name) }

// attached reports whether a connection follows the stream.
func (s *Stream) attached() bool { return s.connected.Load() }

// retire takes the stream out of use if it is finished and nobody follows it.
func (s *Stream) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = s.retired || s.finished && s.follower == nil
	return s.retired
}

// drain lets the connection of the stream, if any, come to a clean end.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follower != nil {
		s.follower.drain()
	}
}

// lagBytes is how many unread bytes are left before a connected client.
const lagBytes = 256 << 10

// lag is how many unread events of a size are left before a connected client: what
// lagBytes says, but no more than half of what the store keeps, or it would drop what the
// client was to get next.
func (s *Stream) lag(size int64) int64 {
	limit := max(lagBytes/size, 16)
	kept, ok := s.session.h.cfg.Store.(store.Bounded)
	if !ok {
		return limit
	}
	bounds := kept.Limits()
	return max(min(limit, int64(bounds.Events)/2, min(bounds.SessionBytes, bounds.Bytes)/(2*size)), 2)
}

// pace holds a handler back that sends faster than its client reads, as a full socket
// holds back a handler that writes to one: what is sent for a call waits, before it is
// made, while the client lags too far. It waits in the handler alone. To wait in
// [session.Write] would be to keep the whole session waiting, and not to wait would be to
// drop from the store what the client was about to read.
func (h *Handler) pace(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if s := StreamFrom(ctx); s != nil {
			size := max(s.bytes.Load()/max(s.appended.Load(), 1), 128)
			if err := s.Room(ctx, s.lag(size)); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, req)
	}
}

// Room implements [Outlet]: it waits while a connected client lags by limit events or
// more. It is what blocking on a socket is to an ordinary handler: nobody but the one that
// emits faster than its client reads has to wait, and without a client it never waits.
// What the SDK sends for a call waits by itself.
func (s *Stream) Room(ctx context.Context, limit int64) error {
	waited := false
	for s.connected.Load() && s.appended.Load()-s.written.Load() >= limit {
		select {
		case <-s.room:
			waited = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if waited {
		s.signalRoom() // others may wait for the same stream, and there is one token
	}
	return ctx.Err()
}

func (s *Stream) signalRoom() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}
