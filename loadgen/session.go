package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// headSpare bounds what is read of a body that nobody needs, so that its link can be
// used again.
const headSpare = 64 << 10

// session is one MCP session. Its streams share it; the first of them opens it.
type session struct {
	r      *runner
	number uint32
	ready  chan struct{} // closed once err or what follows it is set
	opener *stream       // on whose behalf initialize is sent; nil otherwise

	failures int           // handshakes of this session in a row that failed, not through us
	failed   time.Duration // when the last one did
	err      error
	target   Target
	fields   []wire.Field // of every later request
	hasID    bool
	batches  bool // the revision has batches
	answers  answered
	requests *atomic.Uint64 // JSON-RPC ids given out: 1, 2, 3 … in every session
	gone     atomic.Bool    // the target answered 404: it knows the session no more
	links    pool
	hearing  chan struct{} // holds one token while a GET stream of the session is open
}

// session returns the session with this number, opening it if it is the first to
// ask. Whoever waits for a session that cannot be opened gets its error; the next
// arrival tries again, after a back-off that grows with each failure in a row.
func (r *runner) session(ctx context.Context, number uint32, opener *stream) (*session, error) {
	r.mu.Lock()
	s := r.sessions[number-1]
	mine := s == nil || s.gone.Load()
	if mine {
		before := s
		s = r.newSession(number)
		s.opener = opener
		if before != nil {
			s.failures, s.failed = before.failures, before.failed
		}
		r.sessions[number-1] = s
	}
	r.mu.Unlock()
	if mine {
		s.begin(ctx, opener)
		close(s.ready)
	}
	select {
	case <-s.ready:
		return s, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin opens the session, and not sooner after a failure than a stream would be taken up
// again: all arrivals of the session wait together.
func (s *session) begin(ctx context.Context, opener *stream) {
	if s.failures > 0 {
		b := backoff{failures: s.failures}
		wait := b.wait(s.r.c.Resume, draw(s.r.c.Seed, s.number, s.failures, drawJitter), true)
		timer := time.NewTimer(s.failed + wait - s.r.now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			s.err = ctx.Err()
			s.lost()
			return
		}
	}
	if s.err = s.open(ctx); s.err == nil {
		s.failures = 0
		s.r.opened.Add(1)
		return
	}
	if opener == nil || !opener.struck {
		s.failures++
	}
	s.failed = s.r.now()
	s.lost()
}

func (r *runner) newSession(number uint32) *session {
	s := &session{r: r, number: number, requests: new(atomic.Uint64), ready: make(chan struct{}), hearing: make(chan struct{}, 1)}
	if r.c.Modern {
		s.requests = &r.requests // without sessions all requests are one client's
	}
	return s
}

// nextID gives out the id of a request, as it stands in JSON.
func (s *session) nextID() string { return strconv.FormatUint(s.requests.Add(1), 10) }

// open performs the handshake (2025-11-25 lifecycle, Initialization).
func (s *session) open(ctx context.Context) error {
	s.fields = s.r.c.Header
	if s.r.c.Modern {
		defer func() { s.opener = nil }()
		return s.discover(ctx)
	}
	params, err := json.Marshal(map[string]any{
		"protocolVersion": s.r.c.Revision,
		"capabilities":    s.r.capabilities(),
		"clientInfo":      map[string]string{"name": "gapless", "version": "1"},
	})
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":%s}`, params)
	err = s.shake(ctx, "initialize", func() *wire.Request { return s.post(body) }, s.initialized)
	s.opener = nil
	if err != nil {
		return err
	}
	done := []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s.shake(ctx, "notifications/initialized", func() *wire.Request { return s.post(done) }, func(_ *link, resp *wire.Response) error {
		if resp.Status/100 != 2 {
			return &HandshakeError{resp.Status, s.r.refusal(resp, "notifications/initialized")}
		}
		return skip(resp)
	})
}

// initialized takes the answer to initialize.
func (s *session) initialized(l *link, resp *wire.Response) error {
	if resp.Status != 200 {
		return &HandshakeError{resp.Status, s.r.refusal(resp, "initialize")}
	}
	who := front(resp)
	id := resp.Get("Mcp-Session-Id")
	if !visible(id) {
		return &HandshakeError{resp.Status, "the session id is not visible ASCII"}
	}
	data, err := s.message(l, resp, `"init"`, "initialize")
	if err != nil {
		return err
	}
	var m struct {
		Result struct {
			ProtocolVersion string
			ServerInfo      struct{ Name, Version string }
		}
		Error *rpcError
	}
	switch err := json.Unmarshal(data, &m); {
	case err != nil:
		return &HandshakeError{resp.Status, "the answer to initialize is not JSON"}
	case m.Error != nil:
		return &HandshakeError{resp.Status, fmt.Sprintf("initialize was refused: %v", m.Error)}
	case m.Result.ProtocolVersion == "":
		return &HandshakeError{resp.Status, "the answer to initialize has no protocolVersion"}
	case !slices.Contains(revisions(), m.Result.ProtocolVersion):
		return &HandshakeError{resp.Status, fmt.Sprintf("it chose protocol revision %.40q, which nobody here knows", m.Result.ProtocolVersion)}
	}
	s.target = Target{
		Name: m.Result.ServerInfo.Name, Version: m.Result.ServerInfo.Version, Revision: m.Result.ProtocolVersion, Sessions: id != "",
		Front: who,
	}
	s.batches = s.target.Revision == "2025-03-26"
	s.later(id)
	return nil
}

// revisions are those that have sessions. A client that does not know what the server
// chose has to leave (2025-11-25 lifecycle, Version Negotiation).
func revisions() []string {
	return []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
}

// later sets the fields of all requests after initialize.
func (s *session) later(id string) {
	s.fields = append([]wire.Field(nil), s.r.c.Header...)
	if s.hasID = id != ""; s.hasID {
		s.fields = append(s.fields, wire.Field{Name: "Mcp-Session-Id", Value: id})
	}
	if s.target.Revision >= "2025-06-18" || s.r.c.UMCP { // which asks for it in all revisions
		s.fields = append(s.fields, wire.Field{Name: "MCP-Protocol-Version", Value: s.target.Revision})
	}
}

// message returns the answer to the request with this id, from a JSON body or an event
// stream.
func (s *session) message(l *link, resp *wire.Response, id, what string) ([]byte, error) {
	encoding := resp.Get("Content-Encoding")
	switch {
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return nil, &HandshakeError{resp.Status, "the answer to " + what + " is compressed, which nobody asked for"}
	case resp.JSON():
		return resp.ReadAll(s.r.eventLimit())
	case !resp.SSE():
		return nil, &HandshakeError{resp.Status, "the answer to " + what + " is neither JSON nor an event stream"}
	}
	var (
		rd   wire.Reader
		ev   wire.Event
		m    wire.Message
		data []byte
	)
	rd.Reset(resp, nil)
	for {
		err := rd.Next(&ev)
		switch {
		case err != nil && data != nil:
			return data, nil // what matters has come; the link is judged by its end
		case err == io.EOF:
			return nil, &HandshakeError{resp.Status, "the event stream ended without an answer to " + what}
		case err != nil:
			return nil, err
		}
		if data != nil || len(ev.Data) == 0 || string(ev.Type) != "message" {
			continue
		}
		if wire.Scan(ev.Data, &m); string(m.ID) == id && m.Method == nil {
			data = append([]byte(nil), ev.Data...)
			l.limit(limits{until: l.at + time.Second, end: history.EndOpen})
		}
	}
}

// answer sends the answer to a request of the target, once for each request: a
// replay repeats the request, not the question. An answer that could not be sent is owed
// when the request comes again.
func (s *session) answer(ctx context.Context, until time.Duration, id, body []byte) {
	if s.r.c.Modern || !s.answers.first(id) { // 2026-07-28: a server must not ask, a client must not answer
		return
	}
	ctx, cancel := context.WithDeadline(ctx, s.r.instant(until))
	defer cancel()
	err := s.exchange(ctx, s.post(body), false, func(_ *link, resp *wire.Response) error { return skip(resp) })
	switch {
	case err == nil:
		s.r.c.Live.answers.Add(1)
	case !sent(err):
		s.answers.forget(id)
	}
}

// lost marks a session that is of no use: the next arrival opens another.
func (s *session) lost() {
	s.gone.Store(true)
	s.links.close()
}

// end deletes the session; a target may refuse that (405), which is fine.
func (s *session) end(ctx context.Context) {
	if s.hasID && !s.gone.Load() {
		req := wire.Request{Method: "DELETE", Target: s.r.target, Host: s.r.host, Fields: s.fields}
		// Whether a session could be ended says nothing about its streams.
		_ = s.exchange(ctx, &req, true, func(_ *link, resp *wire.Response) error { return skip(resp) })
	}
	s.links.close()
}

// post returns the request for one message of the session.
func (s *session) post(body []byte) *wire.Request {
	fields := make([]wire.Field, 0, len(s.fields)+2)
	fields = append(fields, wire.Field{Name: "Content-Type", Value: "application/json"},
		wire.Field{Name: "Accept", Value: "application/json, text/event-stream"})
	return &wire.Request{Method: "POST", Target: s.r.target, Host: s.r.host, Fields: append(fields, s.fields...), Body: body}
}

// link returns a link on which no exchange is in flight.
func (s *session) link(ctx context.Context) (*link, error) {
	if l := s.links.take(s.r.now()); l != nil {
		return l, nil
	}
	return s.r.dial(ctx)
}

// exchange carries one exchange of the session itself. With again it is repeated on
// a new link if a rested one failed before a byte of the answer came.
func (s *session) exchange(ctx context.Context, req *wire.Request, again bool, read func(*link, *wire.Response) error) error {
	if err := s.r.authorize(ctx, req); err != nil {
		return err
	}
	l, err := s.link(ctx)
	for first := true; ; first = false {
		if err != nil {
			return &UnreachableError{s.r.c.URL, unsent{err}}
		}
		err = s.attempt(ctx, l, req, read)
		if err == nil || !first || !again || !l.used || l.got {
			break
		}
		l, err = s.r.dial(ctx)
	}
	var bad *HandshakeError
	var full *busyError
	switch {
	case err == nil, errors.As(err, &bad), errors.As(err, &full), errors.Is(err, wire.ErrRequest):
		return err
	}
	return &UnreachableError{s.r.c.URL, err}
}

func (s *session) attempt(ctx context.Context, l *link, req *wire.Request, read func(*link, *wire.Response) error) error {
	return s.attemptUntil(ctx, l, req, s.r.now()+s.r.c.Handshake, read)
}

// carry carries one exchange of the session that may take until then.
func (s *session) carry(ctx context.Context, req *wire.Request, until time.Duration, read func(*link, *wire.Response) error) error {
	if err := s.r.authorize(ctx, req); err != nil {
		return err
	}
	l, err := s.link(ctx)
	if err != nil {
		return &UnreachableError{s.r.c.URL, unsent{err}}
	}
	return s.attemptUntil(ctx, l, req, until, read)
}

func (s *session) attemptUntil(ctx context.Context, l *link, req *wire.Request, until time.Duration, read func(*link, *wire.Response) error) error {
	stop := l.begin(ctx, nil, limits{until: until, end: history.EndDeadline})
	x := Exchange{Session: s.number, Link: l.id}
	if s.opener != nil {
		x.Stream, x.Handshake, x.HandshakeOf = s.opener.a.Stream, s.opener, s.opener.obs
	}
	l.Begin(x)
	resp, err := l.conn.RoundTrip(req)
	if err == nil {
		err = read(l, resp)
	}
	mine := stop() // else the stop of the run is about to touch the link
	if l.End() && mine && err == nil && resp.Reusable() {
		s.links.put(l, s.r.now())
		return nil
	}
	l.close()
	return l.explain(err)
}

// explain puts into words what went wrong with an exchange of the session.
func (l *link) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case l.sent && l.over == history.EndDeadline:
		return fmt.Errorf("it took the request and gave no whole answer within %v: %w", l.r.c.Handshake, err)
	case wire.IllegalOf(err) != 0:
		return fmt.Errorf("what it answers cannot be read: %w", err)
	}
	return err
}

// skip reads a body that nobody needs.
func skip(resp *wire.Response) error {
	if resp.SSE() {
		return nil // it may never end; the link is not used again
	}
	_, err := resp.ReadAll(headSpare)
	return err
}

// visible reports whether the text is made of 0x21 to 0x7E only (2025-11-25
// transports, Session Management 1).
func visible(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// answered remembers which requests of the target have their answer: at least the
// latest answeredMax of them.
type answered struct {
	mu       sync.Mutex
	now, old map[string]struct{}
}

const answeredMax = 1024

// first reports whether the request has no answer yet.
func (a *answered) first(id []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, inNow := a.now[string(id)]
	_, inOld := a.old[string(id)]
	if inNow || inOld {
		return false
	}
	if a.now == nil || len(a.now) == answeredMax {
		a.old, a.now = a.now, make(map[string]struct{})
	}
	a.now[string(id)] = struct{}{}
	return true
}

// forget makes a request one without an answer.
func (a *answered) forget(id []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.now, string(id))
	delete(a.old, string(id))
}
