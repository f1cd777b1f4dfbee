package umcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// headerCall leads from a request to its call, inside the SDK. It is never on the wire:
// a client's own value is replaced.
const headerCall = "Gapless-Call"

// session is one MCP session, or, with an empty id, what a single request without a
// session is served in. To the SDK it is a transport and its only connection; it ends by
// EOF on Read, since ServerSession.Close would wait for handlers. To the handlers of its
// calls it is the way to the client.
type session struct {
	s         *Server
	id        string
	principal string
	incoming  chan jsonrpc.Message
	ctx       context.Context // done when the session has ended
	cancel    context.CancelFunc
	idle      *time.Timer

	mu       sync.Mutex
	ended    bool
	released bool   // the SDK is done with it
	version  string // negotiated; empty until the answer to initialize
	lastUsed time.Time
	calls    map[jsonrpc.ID]*call // in flight
	stream   *stream              // attached; nil without one
}

var (
	_ mcp.Transport    = (*session)(nil)
	_ mcp.Connection   = (*session)(nil)
	_ refserver.Outlet = (*session)(nil)
)

// call is a request in flight.
type call struct {
	session *session
	id      jsonrpc.ID
	name    string
	reply   chan []byte
	// answering is told when the response is given away. The handler sets it, and the SDK
	// gives the response in the same goroutine.
	answering func(int)
}

type callKey struct{}

func (c *call) onAnswer(f func(int)) { c.answering = f }

// newSession connects a session to the SDK. State is nil for one that begins with
// initialize.
func (s *Server) newSession(id, principal string, state *mcp.ServerSessionState) (*session, *answer) {
	ses := &session{
		s: s, id: id, principal: principal,
		incoming: make(chan jsonrpc.Message),
		lastUsed: time.Now(),
		calls:    make(map[jsonrpc.ID]*call),
	}
	ses.ctx, ses.cancel = context.WithCancel(context.Background())
	if refused := s.add(ses); refused != nil {
		ses.cancel()
		return nil, refused
	}
	ses.mu.Lock()
	ses.idle = time.AfterFunc(s.cfg.Limits.SessionIdle, ses.expire)
	ses.mu.Unlock()
	if _, err := s.server.Connect(context.Background(), ses, &mcp.ServerSessionOptions{State: state}); err != nil {
		_ = ses.Close() // never fails
		s.cfg.Logger.Error("the SDK refused a session", "error", err)
		return nil, refuse(500, "cannot open a session")
	}
	return ses, nil
}

// Connect implements [mcp.Transport].
func (ses *session) Connect(context.Context) (mcp.Connection, error) { return ses, nil }

// SessionID implements [mcp.Connection]; handlers see it as the ID of their session
// ("MCPRequestContext.session_id").
func (ses *session) SessionID() string { return ses.id }

// SupportsProtocolVersion implements [mcp.ProtocolVersionSupporter].
func (ses *session) SupportsProtocolVersion(v string) bool { return supported(v) }

// Read implements [mcp.Connection].
func (ses *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-ses.incoming:
		return m, nil
	case <-ses.ctx.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// push hands a message to the SDK and reports whether it took it.
func (ses *session) push(m jsonrpc.Message) bool {
	select {
	case ses.incoming <- m:
		return true
	case <-ses.ctx.Done():
		return false
	}
}

// Write implements [mcp.Connection]. It reports no error for a message that cannot be
// placed: the SDK would take that for the end of the session.
func (ses *session) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("umcp: %w", err)
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		ses.respond(m.ID, data)
	case *jsonrpc.Request:
		if _, ofCall := ctx.Value(callKey{}).(*call); ofCall {
			_ = ses.Room(ctx, math.MaxInt64) // when the call is over the message may still go
		}
		if !ses.deliver(frame(data)) && m.IsCall() {
			// Nobody will ever see the request, so the caller is told at once.
			unreachable := &jsonrpc.Response{ID: m.ID, Error: errors.New("no event stream leads to the client")}
			ses.s.running.Go(func() { ses.push(unreachable) })
		}
	}
	return nil
}

// respond gives a response to the POST of its request.
func (ses *session) respond(id jsonrpc.ID, data []byte) {
	ses.mu.Lock()
	c := ses.calls[id]
	delete(ses.calls, id)
	ses.mu.Unlock()
	if c == nil {
		return // the session ended, and its POST was told so
	}
	if c.answering != nil {
		c.answering(1)
	}
	c.reply <- data
}

// deliver gives a frame to the event stream and reports whether there was one that took
// it. Else it is gone: "notifications emitted during the gap are not replayed".
func (ses *session) deliver(frame []byte) bool {
	if st := ses.attached(); st != nil && st.add(frame) {
		return true
	}
	ses.s.metrics.dropped.Inc()
	return false
}

func (ses *session) attached() *stream {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.stream
}

// Emit implements [refserver.Outlet]. A message without an event stream is accepted, and
// dropped.
func (ses *session) Emit(_ context.Context, frame, _ []byte) error {
	ses.deliver(frame)
	return nil
}

// Room implements [refserver.Outlet].
func (ses *session) Room(ctx context.Context, limit int64) error {
	for {
		st := ses.attached()
		if st == nil {
			return ctx.Err()
		}
		ok, moved := st.room(limit)
		if ok {
			return ctx.Err()
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CloseConnection implements [refserver.Outlet]: there are no polling closes here.
func (ses *session) CloseConnection(time.Duration) bool { return false }

// begin registers a request as in flight.
func (ses *session) begin(id jsonrpc.ID) (*call, *answer) {
	c := &call{session: ses, id: id, reply: make(chan []byte, 1)}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.ended {
		return nil, unknownSession()
	}
	if ses.calls[id] != nil { // the SDK would answer nothing at all
		return nil, failure(400, jsonrpc.CodeInvalidRequest, "a request with this id is in flight")
	}
	ses.calls[id] = c
	ses.s.enter(c)
	return c, nil
}

// Close implements [mcp.Connection]. The SDK calls it, perhaps more than once, when
// nothing runs any more.
func (ses *session) Close() error {
	ses.end()
	ses.mu.Lock()
	first := !ses.released
	ses.released = true
	ses.mu.Unlock()
	if first {
		ses.s.running.Done()
	}
	return nil
}

// end ends the session: its id is unknown from now on, the SDK reads EOF, which drops its
// subscriptions, and the event stream comes to a clean end.
func (ses *session) end() {
	ses.s.drop(ses)
	if ses.close() {
		ses.s.metrics.sessions.Dec()
		ses.s.cfg.OnEvent(refserver.Event{Kind: refserver.SessionEnded})
	}
}

// close reports whether this ended a session that a client knew.
func (ses *session) close() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.ended {
		return false
	}
	ses.ended = true
	ses.cancel()
	if ses.idle != nil {
		ses.idle.Stop()
	}
	if ses.stream != nil {
		ses.stream.finish()
	}
	return ses.version != ""
}

// touch notes that the client used the session.
func (ses *session) touch() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.lastUsed = time.Now()
}

// expire ends the session if it was not used for the idle limit.
func (ses *session) expire() {
	ses.mu.Lock()
	if len(ses.calls) > 0 || ses.stream != nil {
		ses.lastUsed = time.Now()
	}
	left := ses.s.cfg.Limits.SessionIdle - time.Since(ses.lastUsed)
	if left > 0 && !ses.ended {
		ses.idle.Reset(left)
	}
	ses.mu.Unlock()
	if left <= 0 {
		ses.end()
	}
}

// open makes the session known to its client, with the version that was negotiated. It
// is false when the session has ended.
func (ses *session) open(version string) bool {
	ses.s.metrics.sessions.Inc()
	ses.mu.Lock()
	ended := ses.ended
	if !ended {
		ses.version = version
	}
	ses.mu.Unlock()
	if ended {
		ses.s.metrics.sessions.Dec()
		return false
	}
	ses.s.cfg.OnEvent(refserver.Event{Kind: refserver.SessionOpened})
	return true
}

// ready tells whether the session was initialised; nobody knows its id before.
func (ses *session) ready() bool { return ses.negotiated() != "" }

func (ses *session) negotiated() string {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.version
}
