package streams

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is one MCP session. To the SDK it is a transport and its only connection; it
// ends by EOF on Read, since ServerSession.Close would wait for handlers. One that came on
// a link outlives it for as long as calls with streams run.
type session struct {
	s         *Server
	id        string
	principal string
	link      *link // nil over HTTP
	incoming  chan jsonrpc.Message
	ctx       context.Context // done when the session has ended
	cancel    context.CancelFunc
	idle      *time.Timer // nil on a link

	mu       sync.Mutex
	ended    bool
	released bool // the SDK is done with it
	parted   bool // the link has gone
	ready    bool // initialised
	streams  bool // the client declared the capability
	lastUsed time.Time
	calls    map[jsonrpc.ID]*call // requests of the client in flight, resumes included
}

var (
	_ mcp.Transport  = (*session)(nil)
	_ mcp.Connection = (*session)(nil)
)

// call is a request in flight.
type call struct {
	session *session
	id      jsonrpc.ID
	name    string
	stream  *stream
	reply   func([]byte) // takes the response to initialize, which has no stream
	resume  *attachment  // of a stream/resume, which has no stream of its own

	mu        sync.Mutex
	answering func(int)
	cancel    context.CancelFunc
	aborted   bool
}

type callKey struct{}

func (c *call) onAnswer(f func(int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answering = f
}

func (c *call) onAbort(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	if c.aborted {
		cancel()
	}
}

// abort ends the context of the handler.
func (c *call) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	if c.cancel != nil {
		c.cancel()
	}
}

// answered tells whoever counts answers.
func (c *call) answered(by int) {
	c.mu.Lock()
	f := c.answering
	c.mu.Unlock()
	if f != nil {
		f(by)
	}
}

// newSession connects a session to the SDK; nil when there is no place for it.
func (s *Server) newSession(principal string, l *link) (*session, error) {
	ses := &session{
		s: s, id: s.cfg.Nonce(), principal: principal, link: l,
		incoming: make(chan jsonrpc.Message),
		lastUsed: time.Now(),
		calls:    make(map[jsonrpc.ID]*call),
	}
	ses.ctx, ses.cancel = context.WithCancel(context.Background())
	if !s.add(ses) {
		ses.cancel()
		return nil, errors.New("too many sessions")
	}
	if l == nil {
		ses.mu.Lock()
		ses.idle = time.AfterFunc(s.cfg.Limits.SessionIdle, ses.expire)
		ses.mu.Unlock()
	}
	if _, err := s.server.Connect(context.Background(), ses, nil); err != nil {
		_ = ses.Close() // never fails
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	return ses, nil
}

// Connect implements [mcp.Transport].
func (ses *session) Connect(context.Context) (mcp.Connection, error) { return ses, nil }

// SessionID implements [mcp.Connection].
func (ses *session) SessionID() string { return ses.id }

// SupportsProtocolVersion implements [mcp.ProtocolVersionSupporter].
func (ses *session) SupportsProtocolVersion(v string) bool { return slices.Contains(Versions(), v) }

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

// extra is what the SDK is told of a request besides its text.
func extra(header http.Header, info *auth.TokenInfo, c *call) *mcp.RequestExtra {
	h := header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	h.Del(headerCall)
	if c != nil {
		h.Set(headerCall, c.name)
	}
	e := &mcp.RequestExtra{Header: h, TokenInfo: info}
	if c != nil && c.stream != nil {
		e.CloseSSEStream = func(a mcp.CloseSSEStreamArgs) { c.stream.CloseConnection(a.RetryAfter) }
	}
	return e
}

// Write implements [mcp.Connection]. It reports no error for a message that cannot be
// placed: the SDK would take that for the end of the session.
func (ses *session) Write(ctx context.Context, m jsonrpc.Message) error {
	req, ok := m.(*jsonrpc.Request)
	if !ok {
		return ses.respond(m.(*jsonrpc.Response))
	}
	c, _ := ctx.Value(callKey{}).(*call)
	if c != nil && c.session != ses {
		c = nil
	}
	switch {
	case req.IsCall():
		return ses.ask(ctx, c, req)
	case req.Method == methodCancelled:
		return ses.withdraw(req)
	}
	data, err := jsonrpc.EncodeMessage(req)
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	ses.tell(ctx, c, data)
	return nil
}

// tell sends a notification with the stream of a call, or else on the link.
func (ses *session) tell(ctx context.Context, c *call, data []byte) {
	switch {
	case c != nil:
		_ = c.stream.Room(ctx, lagMessages) // when the call is over it may still go
		_ = c.stream.append(data, kindPlain, false)
	case ses.link != nil:
		ses.link.send(data)
	}
}

// ask sends a request of the server, under an id of ours: its answer may come in another
// session, in which the SDK has numbered other requests.
func (ses *session) ask(ctx context.Context, c *call, req *jsonrpc.Request) error {
	q := question{session: ses, id: req.ID}
	if c != nil {
		q.stream = c.stream
	}
	name := ses.s.ask(q)
	named, err := jsonrpc.MakeID(name)
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	data, err := jsonrpc.EncodeMessage(&jsonrpc.Request{ID: named, Method: req.Method, Params: req.Params})
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	var sent bool
	switch {
	case c != nil:
		_ = c.stream.Room(ctx, lagMessages)
		var seq int64
		seq, sent = c.stream.appendRequest(data)
		ses.s.placed(name, seq)
	case ses.link != nil:
		sent = ses.link.send(data)
	}
	if !sent {
		// Nobody will ever see the request, so the caller is told at once.
		ses.s.withdraw(ses, req.ID)
		unreachable := &jsonrpc.Response{ID: req.ID, Error: errors.New("nothing leads to the client")}
		ses.s.running.Go(func() { ses.push(unreachable) })
	}
	return nil
}

// withdraw tells the client that a request of the server needs no answer any more.
func (ses *session) withdraw(req *jsonrpc.Request) error {
	var p map[string]any
	if err := json.Unmarshal(req.Params, &p); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	id, err := jsonrpc.MakeID(p["requestId"])
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	name, q := ses.s.withdraw(ses, id)
	if name == "" {
		return nil // it was answered, or never sent
	}
	p["requestId"] = name
	data := notification(methodCancelled, p)
	switch {
	case q.stream != nil:
		q.stream.answered(q.seq)
		_ = q.stream.append(data, kindPlain, false)
	case ses.link != nil:
		ses.link.send(data)
	}
	return nil
}

// respond gives a response to the stream of its call.
func (ses *session) respond(m *jsonrpc.Response) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	ses.mu.Lock()
	c := ses.calls[m.ID]
	delete(ses.calls, m.ID)
	ses.lastUsed = time.Now()
	ses.mu.Unlock()
	if c == nil {
		return nil // the session ended, or its client knows already
	}
	ses.s.leave(c)
	if c.reply != nil {
		c.reply(data)
		return nil
	}
	c.answered(1)
	if c.stream.append(data, kindOf(m), true) != nil {
		c.answered(-1)
	}
	ses.rest()
	return nil
}

// rest ends a session whose link has gone when its last call is over.
func (ses *session) rest() {
	ses.mu.Lock()
	over := ses.parted && len(ses.calls) == 0
	ses.mu.Unlock()
	if over {
		ses.end(false)
	}
}

// begin takes a request in, and makes the stream of its response, which follows on out.
func (ses *session) begin(req *jsonrpc.Request, out sink) (*call, *attachment, *jsonrpc.Error) {
	st := &stream{s: ses.s, session: ses, principal: ses.principal}
	c := &call{session: ses, id: req.ID, stream: st}
	st.call = c
	if failed := ses.register(c); failed != nil {
		return nil, nil, failed
	}
	a := newAttachment(st, out)
	if ses.declared() && mayBeLong(req.Method) {
		token := ses.s.cfg.Nonce()
		st.id, st.tag, st.token = ses.s.cfg.Nonce(), ses.s.cfg.Nonce()[:10], sha256.Sum256([]byte(token))
		if ses.s.keep(st) {
			a.opening = ses.s.createMessage(st, token, req.ID)
			ses.s.metrics.opened.Inc()
		} else {
			ses.s.metrics.plain.Inc()
			st.id, st.tag = "", ""
		}
	}
	if failed := st.attach(a, -1); failed != nil {
		ses.unregister(c)
		return nil, nil, failed
	}
	return c, a, nil
}

// register notes a request as in flight.
func (ses *session) register(c *call) *jsonrpc.Error {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	switch {
	case ses.ended:
		return rpcError(-32001, "session not found", "")
	case ses.calls[c.id] != nil: // the SDK would answer nothing at all
		return rpcError(jsonrpc.CodeInvalidRequest, "a request with this id is in flight", "")
	case len(ses.calls) >= ses.s.cfg.Limits.Calls:
		return rpcError(-32000, "too many requests in flight", "")
	}
	ses.calls[c.id] = c
	ses.lastUsed = time.Now()
	if c.resume == nil {
		ses.s.enter(c)
	}
	return nil
}

// unregister takes a request back that the SDK never saw, or that was none for it.
func (ses *session) unregister(c *call) {
	ses.mu.Lock()
	if ses.calls[c.id] == c {
		delete(ses.calls, c.id)
	}
	ses.mu.Unlock()
	ses.s.leave(c)
	ses.rest()
}

func (ses *session) declared() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.streams && ses.ready
}

// opened notes what the answer to initialize agreed to, and reports whether there is a
// session now.
func (ses *session) opened(answer []byte, declared bool) bool {
	var m struct {
		Result *struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &m) != nil || m.Result == nil || !slices.Contains(Versions(), m.Result.ProtocolVersion) {
		return false
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if !ses.ready {
		ses.ready, ses.streams = true, declared
	}
	return true
}

// cancelled hands notifications/cancelled to the session whose request is meant. That of
// a stream/resume ends the exchange, not the call; that of a call whose stream is resumed
// here, by the id that the call had, ends the call.
func (ses *session) cancelled(req *jsonrpc.Request) bool {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(req.Params, &p) != nil {
		return ses.push(req)
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return ses.push(req)
	}
	ses.mu.Lock()
	own := ses.calls[id]
	var resumed []*attachment
	for _, c := range ses.calls {
		if c.resume != nil {
			resumed = append(resumed, c.resume)
		}
	}
	ses.mu.Unlock()
	switch {
	case own != nil && own.resume != nil:
		own.resume.end(outcomeClosed)
		return true
	case own != nil:
		return ses.push(req)
	}
	for _, a := range resumed {
		if c := a.st.call; c.id == id {
			return c.session.push(req)
		}
	}
	return ses.push(req)
}

// Close implements [mcp.Connection]. The SDK calls it, perhaps more than once, when
// nothing runs any more.
func (ses *session) Close() error {
	ses.end(false)
	ses.mu.Lock()
	first := !ses.released
	ses.released = true
	ses.mu.Unlock()
	if first {
		ses.s.running.Done()
	}
	return nil
}

// end ends the session: its id is unknown from now on, the SDK reads EOF and ends the
// contexts of its handlers. Streams of calls that run go with it, and with all their
// completed ones too.
func (ses *session) end(all bool) {
	ses.s.drop(ses)
	ses.mu.Lock()
	first := !ses.ended
	ses.ended = true
	ses.cancel()
	if ses.idle != nil {
		ses.idle.Stop()
	}
	calls := slices.Collect(maps.Values(ses.calls))
	clear(ses.calls)
	ses.mu.Unlock()
	if !first {
		return
	}
	for _, c := range calls {
		ses.s.leave(c)
		if c.stream != nil {
			c.stream.reclaim(reasonAbandoned)
		}
		if c.resume != nil {
			c.resume.end(outcomeClosed)
		}
	}
	if all {
		for _, st := range ses.s.made(ses) {
			st.reclaim(reasonAbandoned)
		}
	}
}

// part notes that the link has gone. Calls without a stream end with it, since nobody can
// ever get their responses; the others go on.
func (ses *session) part() {
	ses.mu.Lock()
	ses.parted = true
	var plain []*call
	for _, c := range ses.calls {
		if c.stream != nil && c.stream.plain() {
			plain = append(plain, c)
		}
	}
	ses.mu.Unlock()
	for _, c := range plain {
		c.abort()
	}
	ses.rest()
}

// expire ends the session if it was not used for the idle limit.
func (ses *session) expire() {
	ses.mu.Lock()
	if len(ses.calls) > 0 {
		ses.lastUsed = time.Now()
	}
	left := ses.s.cfg.Limits.SessionIdle - time.Since(ses.lastUsed)
	if left > 0 && !ses.ended {
		ses.idle.Reset(left)
	}
	ses.mu.Unlock()
	if left <= 0 {
		ses.end(false)
	}
}

func (ses *session) touch() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.lastUsed = time.Now()
}

func (ses *session) isReady() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.ready
}
