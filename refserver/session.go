package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// standalone is the name of a session's GET stream; streams of requests are
// numbered.
const standalone = "get"

// session is one MCP session. To the SDK it is a transport and its only connection;
// it ends by EOF on Read, since ServerSession.Close would wait for handlers.
type session struct {
	h         *Handler
	id        string
	principal string // whose it is; "" where nobody has a name
	incoming  chan jsonrpc.Message
	ctx       context.Context // done when the session has ended
	cancel    context.CancelFunc
	idle      *time.Timer
	opened    time.Time
	work      sync.WaitGroup // what runs in the background
	forgotten atomic.Bool    // the store was told to drop what it keeps, or is about to be

	// transport is what its links are made of, as a label; set before any request is
	// handed to the SDK.
	transport string

	mu       sync.Mutex
	ended    bool
	why      sessionEnd // why it will have ended
	released bool       // the SDK is done with it
	revision string     // negotiated; empty until the initialise response
	lastUsed time.Time
	calls    map[jsonrpc.ID]*call // in flight
	streams  map[string]*Stream   // open ones, and finished ones with a follower
	lastName int
}

// The SDK sees a session as these two.
var (
	_ mcp.Transport  = (*session)(nil)
	_ mcp.Connection = (*session)(nil)
)

// newSession connects a session of a principal to the SDK.
func (h *Handler) newSession(principal string) (*session, *refusal) {
	s := &session{
		h:         h,
		id:        h.cfg.Nonce(),
		principal: principal,
		incoming:  make(chan jsonrpc.Message),
		opened:    time.Now(),
		lastUsed:  time.Now(),
		calls:     make(map[jsonrpc.ID]*call),
		streams:   make(map[string]*Stream),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.idle = time.AfterFunc(h.cfg.Limits.Idle, s.expire)
	if refused := h.add(s); refused != nil {
		s.idle.Stop()
		s.cancel()
		return nil, refused
	}
	if _, err := h.server.Connect(context.Background(), s, nil); err != nil {
		_ = s.Close() // never fails
		h.cfg.Logger.Error("the SDK refused a session", "error", err)
		return nil, refuse(http.StatusInternalServerError, "cannot open a session")
	}
	return s, nil
}

// Connect implements [mcp.Transport].
func (s *session) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements [mcp.Connection].
func (s *session) SessionID() string { return s.id }

// Read implements [mcp.Connection].
func (s *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.incoming:
		return m, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// push hands a message to the SDK and reports whether it took it.
func (s *session) push(ctx context.Context, m jsonrpc.Message) bool {
	select {
	case s.incoming <- m:
		return true
	case <-s.ctx.Done():
	case <-ctx.Done():
	}
	return false
}

// Write implements [mcp.Connection]. It reports no error for a message that cannot
// be placed: the SDK would take that for the end of the session.
func (s *session) Write(ctx context.Context, m jsonrpc.Message) error {
	if n, ok := m.(*jsonrpc.Request); ok {
		if framed, ok := frameNotification(n); ok {
			s.notify(ctx, framed)
			return nil
		}
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		s.respond(ctx, m, data)
	case *jsonrpc.Request:
		if !s.notify(ctx, frame(data)) && m.IsCall() {
			// Nobody will ever see the request, so the caller is told at once.
			unreachable := &jsonrpc.Response{ID: m.ID, Error: errors.New("no stream leads to the client")}
			s.h.running.Go(func() { s.push(context.Background(), unreachable) })
		}
	}
	return nil
}

// Close implements [mcp.Connection]. The SDK calls it, perhaps more than once, when
// nothing runs any more; what the store keeps of the session can go then.
func (s *session) Close() error {
	s.end()
	s.mu.Lock()
	first := !s.released
	s.released = true
	streams := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.unanswered()
	var leaving []*follower
	for _, stream := range streams {
		if f := stream.finish(); f != nil {
			leaving = append(leaving, f)
		}
		s.forget(stream)
	}
	go s.release(leaving)
	return nil
}

// release drops what the store keeps of the session, once the connections that it
// left have been given their rest.
func (s *session) release(leaving []*follower) {
	defer s.h.running.Done()
	s.work.Wait()
	for _, f := range leaving {
		<-f.left
	}
	s.forgotten.Store(true)
	s.forgetKept()
}

func (s *session) forgetKept() {
	if f, ok := s.h.store.(store.Forgetter); ok {
		f.Forget(s.id)
	}
}

// late reports whether the store has forgotten the session, and has it forget once more
// what came meanwhile. It must follow whatever may begin a log: nobody would ever drop it.
func (s *session) late() bool {
	if !s.forgotten.Load() {
		return false
	}
	s.forgetKept()
	return true
}

// end ends the session: its id is unknown from now on, the SDK reads EOF, and the
// connections of its streams come to a clean end.
func (s *session) end() {
	s.h.drop(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.cancel()
	s.idle.Stop()
	for _, stream := range s.streams {
		stream.drain()
	}
}

// background runs f, whose context is done when the session ends, and reports whether
// the session still takes work. What the store keeps of the session outlives f.
func (s *session) background(f func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.work.Go(func() { f(s.ctx) })
	return true
}

// touch notes that the client used the session.
func (s *session) touch() {
	s.mu.Lock()
	s.lastUsed = time.Now()
	s.mu.Unlock()
}

// expire ends the session if it was not used for the idle limit.
func (s *session) expire() {
	s.mu.Lock()
	busy := len(s.calls) > 0
	for _, stream := range s.streams {
		busy = busy || stream.attached()
	}
	if busy {
		s.lastUsed = time.Now()
	}
	left := s.h.cfg.Limits.Idle - time.Since(s.lastUsed)
	if left > 0 && !s.ended {
		s.idle.Reset(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		s.endFor(endedIdle)
	}
}

// open makes a stream under a name. s.mu is held.
func (s *session) open(name string) *Stream {
	stream := newStream(s, name)
	s.streams[name] = stream
	s.h.metrics.streams[kindOf(name)][stateDetached].Inc()
	return stream
}

// stream returns an open stream, nil if there is none of this name.
func (s *session) stream(name string) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[name]
}

// revive returns the stream a cursor leads to. A finished stream is only kept in the
// store; it gets an object again for as long as somebody follows it.
func (s *session) revive(name string) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream := s.streams[name]; stream != nil {
		return stream
	}
	if s.ended {
		return nil
	}
	stream := s.open(name)
	stream.finished = true
	return stream
}

// standaloneStream returns the session's GET stream, opening it if need be.
func (s *session) standaloneStream() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if stream := s.streams[standalone]; stream != nil {
		return stream
	}
	s.h.metrics.opened[kindGet].Inc()
	return s.open(standalone)
}

// fromEnd makes a follower at the end of the standalone stream. A priming event
// marks the end; without one it is the last event there was.
func (s *session) fromEnd(ctx context.Context, stream *Stream) (*follower, error) {
	stream.mu.Lock()
	last := stream.lastID
	stream.mu.Unlock()
	return s.primedFrom(ctx, stream, store.Cursor{Stream: stream.key, ID: last})
}

// forget lets go of a finished stream that nobody follows.
func (s *session) forget(stream *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[stream.key.Name] == stream && stream.retire() {
		delete(s.streams, stream.key.Name)
		s.h.metrics.streams[stream.kind()][stateDetached].Dec()
	}
}

// primed tells whether streams begin with a priming event.
func (s *session) primed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h.resumable() && s.revision >= revisionPrimed
}

// ready tells whether the session was initialised; its id is unknown to anybody
// before that.
func (s *session) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != ""
}

// negotiated notes the revision that the SDK agreed on, from its response to
// initialize, and reports whether there is one.
func (s *session) negotiated(response []byte) bool {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(response, &m) != nil {
		return false
	}
	revision := revisionIn(m.Result)
	if revision == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
	return true
}

// revisionIn returns the revision that a result of initialize agrees to, empty when it
// is none that is served.
func revisionIn(result json.RawMessage) string {
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(result, &r) != nil || !supported(r.ProtocolVersion) {
		return ""
	}
	return r.ProtocolVersion
}

// withRevision returns the parameters of initialize, asking the SDK for a revision
// that this transport serves when the client asked for another.
func withRevision(params json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(params, &fields) != nil {
		return params // the SDK has the words for what is wrong
	}
	var asked string
	if json.Unmarshal(fields["protocolVersion"], &asked) != nil || supported(asked) {
		return params
	}
	fields["protocolVersion"] = json.RawMessage(`"` + revisionPrimed + `"`)
	out, err := json.Marshal(fields)
	if err != nil {
		return params
	}
	return bytes.TrimSpace(out)
}
