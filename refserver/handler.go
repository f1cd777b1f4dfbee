package refserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver/handoff"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler serves one MCP endpoint. Its path is the business of the caller's mux.
type Handler struct {
	cfg         Config
	server      *mcp.Server
	store       store.Store
	trusted     bool // the ids of the store need no check
	metrics     *metrics
	sessionless *sessionless  // nil when every request needs a session
	buffers     sync.Pool     // *[]byte, for the writes of followers
	resumes     atomic.Uint64 // resumes that were accepted so far
	bodies      atomic.Int64  // bytes of large bodies under way or of calls in flight

	// running counts sessions, until the SDK is done with them, followers, and requests
	// without a session.
	running sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	sessions  map[string]*session
	held      map[string]int // sessions of each principal that has any
	followers map[*follower]struct{}
}

// New returns a handler that serves sessions of server. It adds a receiving
// middleware to the server, by which a tool handler's context leads to its stream.
func New(server *mcp.Server, cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("refserver: %w", err)
	}
	h := &Handler{
		cfg:    cfg.withDefaults(),
		server: server,

		sessions:  make(map[string]*session),
		held:      make(map[string]int),
		followers: make(map[*follower]struct{}),
	}
	b := new(builder)
	err := h.setStore(b)
	if err == nil {
		h.metrics, err = newMetrics(h.cfg.Registerer, b)
	}
	if err != nil {
		return nil, fmt.Errorf("refserver: %w", err)
	}
	if h.cfg.Modern || h.cfg.Stateless {
		h.sessionless = newSessionless(server, h.cfg, &h.running)
		server.AddSendingMiddleware(unchanged)
	}
	server.AddReceivingMiddleware(h.route)
	server.AddSendingMiddleware(h.pace)
	return h, nil
}

// setStore puts what delivers events over what keeps them, both of them measured.
func (h *Handler) setStore(b *builder) error {
	if h.cfg.Store == nil {
		h.store = store.NewPassing()
		h.trusted = trusted(h.store)
		return nil
	}
	h.trusted = trusted(h.cfg.Store)
	h.store = b.measure(h.cfg.Store)
	if h.cfg.Delivery != Handoff {
		return nil
	}
	delivering, err := handoff.New(h.store, handoff.Config{Lock: h.cfg.Lock})
	if err != nil {
		return err
	}
	h.store = delivering
	b.offered(delivering)
	return nil
}

// resumable tells whether events get ids at all.
func (h *Handler) resumable() bool { return h.cfg.Store != nil }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// Who is refused may drip his body for hours, while net/http waits for its end.
		limitBody(w, time.Now().Add(bodyTime))
	}
	refused := h.checkHead(r)
	if refused == nil {
		refused = h.authenticate(w, r)
	}
	if refused != nil {
		refused.write(w)
	}
}

// serve answers a request that may be made, on behalf of its principal.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) *refusal {
	if h.withoutSession(r) {
		return h.single(w, r)
	}
	switch r.Method {
	case http.MethodPost:
		return h.post(w, r)
	case http.MethodGet:
		return h.get(w, r)
	case http.MethodDelete:
		return h.delete(w, r)
	}
	w.Header().Set("Allow", "GET, POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "method not allowed")
}

// session finds the session of a request that needs one. That of another principal is
// as unknown as one that never was.
func (h *Handler) session(r *http.Request) (*session, *refusal) {
	ids := r.Header.Values(headerSession)
	if len(ids) != 1 || ids[0] == "" {
		return nil, refuse(http.StatusBadRequest, "exactly one Mcp-Session-Id is needed")
	}
	if refused := checkVersion(r); refused != nil {
		return nil, refused
	}
	h.mu.Lock()
	s := h.sessions[ids[0]]
	h.mu.Unlock()
	if s == nil || s.principal != principalOf(r) || !s.ready() {
		return nil, unknownSession()
	}
	s.touch()
	return s, nil
}

// add takes a new session in.
func (h *Handler) add(s *session) *refusal {
	if refused := h.admit(s); refused != nil {
		return refused
	}
	h.metrics.sessions.Inc()
	h.cfg.OnEvent(Event{Kind: SessionOpened})
	return nil
}

func (h *Handler) admit(s *session) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return refuse(http.StatusServiceUnavailable, "the server is shutting down")
	}
	if len(h.sessions) >= h.cfg.Limits.Sessions {
		return refuse(http.StatusServiceUnavailable, "too many sessions")
	}
	if s.principal != "" {
		if h.held[s.principal] >= h.cfg.Limits.PrincipalSessions {
			return refuse(http.StatusTooManyRequests, "too many sessions of this principal")
		}
		h.held[s.principal]++
	}
	h.running.Add(1)
	h.sessions[s.id] = s
	return nil
}

// drop takes a session out: its id is unknown from now on.
func (h *Handler) drop(s *session) {
	h.mu.Lock()
	known := h.sessions[s.id] == s
	if known {
		delete(h.sessions, s.id)
		if h.held[s.principal]--; h.held[s.principal] <= 0 {
			delete(h.held, s.principal)
		}
	}
	h.mu.Unlock()
	if known {
		h.metrics.sessions.Dec()
		s.measureEnd()
		h.cfg.OnEvent(Event{Kind: SessionEnded})
	}
}

// track notes that a follower runs.
func (h *Handler) track(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running.Add(1)
	h.followers[f] = struct{}{}
	if h.closed {
		f.drain()
	}
}

func (h *Handler) untrack(f *follower) {
	h.mu.Lock()
	delete(h.followers, f)
	h.mu.Unlock()
	h.running.Done()
}

// Healthy reports whether the handler takes new sessions.
func (h *Handler) Healthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed
}

// Shutdown takes no more sessions, ends all there are, lets their connections
// come to a clean end and waits for them. When ctx is done first it cuts what is left
// and returns the error of ctx.
func (h *Handler) Shutdown(ctx context.Context) error {
	for _, s := range h.stop() {
		s.end()
	}
	done := make(chan struct{})
	go func() {
		h.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	return errors.Join(ctx.Err(), h.Close())
}

// Close ends all sessions and resets their connections. It does not wait for the
// handlers of requests.
func (h *Handler) Close() error {
	for _, s := range h.stop() {
		s.end()
	}
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.followers))
	h.mu.Unlock()
	for _, f := range all {
		f.stop(errShutdown)
	}
	return nil
}

// stop closes the door and returns the sessions there are.
func (h *Handler) stop() []*session {
	if h.sessionless != nil {
		h.sessionless.stop()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	all := make([]*session, 0, len(h.sessions))
	for _, s := range h.sessions {
		all = append(all, s)
	}
	return all
}
