package umcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shutdownTime is how long [Server.Serve] waits for connections to end.
const shutdownTime = 5 * time.Second

// Server serves one MCP endpoint.
type Server struct {
	cfg     Config
	server  *mcp.Server
	metrics *metrics
	lead    string        // what the names of calls begin with; see [Server.route]
	closed  chan struct{} // closed when the server takes no more

	// running counts connections, and sessions until the SDK is done with them.
	running sync.WaitGroup

	mu        sync.Mutex
	stopped   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	sessions  map[string]*session
	anonymous map[*session]struct{} // of single requests
	calls     map[string]*call      // in flight, by name
	lastCall  int
}

// New returns a server that serves sessions of server. It adds a receiving middleware to
// it, by which the context of a tool handler leads to the event stream of its session
// (see [refserver.WithOutlet]). The server should be narrowed to [Versions] by
// [mcp.ServerOptions]; one that serves neither of them opens no session.
func New(server *mcp.Server, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("umcp: %w", err)
	}
	s := &Server{
		cfg:       cfg.withDefaults(),
		server:    server,
		lead:      rand.Text(),
		closed:    make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		sessions:  make(map[string]*session),
		anonymous: make(map[*session]struct{}),
		calls:     make(map[string]*call),
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("umcp: %w", err)
	}
	server.AddReceivingMiddleware(s.route)
	return s, nil
}

// Serve accepts connections until ctx is done or [Server.Shutdown] is called. Then it
// ends all sessions, waits up to 5 s for connections to come to their end, and closes what
// is left. The error is that of the listener or of the wait.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !s.listen(ln) {
		return errors.Join(errors.New("umcp: the server was shut down"), ln.Close())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // which ends the loop
	defer stop()
	err := s.accept(base, ln)
	if ctx.Err() == nil && !s.stopping() {
		return errors.Join(fmt.Errorf("umcp: serving %s: %w", ln.Addr(), err), s.Close())
	}
	grace, done := context.WithTimeout(base, shutdownTime)
	defer done()
	return s.Shutdown(grace)
}

// accept takes connections until the listener fails.
func (s *Server) accept(ctx context.Context, ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			c := s.newConn(ctx, nc)
			if fits, open := s.track(c); open {
				go s.run(c, fits)
			} else {
				_ = nc.Close() // nothing was read from it
			}
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED):
			select { // others may give theirs back
			case <-time.After(50 * time.Millisecond):
			case <-s.closed:
				return err
			}
		default:
			return err
		}
	}
}

// run serves one connection; one that is too many gets its refusal.
func (s *Server) run(c *conn, fits bool) {
	defer s.untrack(c)
	if fits {
		c.serve()
		return
	}
	a := refuse(http.StatusServiceUnavailable, "too many connections")
	a.close = true
	c.answer(nil, a)
	_ = c.Close() // the answer was all
}

func (s *Server) listen(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.listeners[ln] = struct{}{}
	}
	return !s.stopped
}

func (s *Server) track(c *conn) (fits, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false, false
	}
	s.running.Add(1)
	s.conns[c] = struct{}{}
	s.metrics.connections.Inc()
	return len(s.conns) <= s.cfg.Limits.Connections, true
}

func (s *Server) untrack(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
	s.running.Done()
}

func (s *Server) stopping() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Healthy reports whether the server takes new sessions.
func (s *Server) Healthy() bool { return !s.stopping() }

// Shutdown takes no more connections, closes the idle ones, ends all sessions, lets
// event streams and responses come to their end, and waits for them. When ctx is done
// first it cuts what is left and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	return errors.Join(ctx.Err(), s.Close())
}

// Close ends all sessions and closes all connections. It does not wait for the handlers
// of requests.
func (s *Server) Close() error {
	for _, c := range s.stop() {
		_ = c.Close() // whatever it says, it is closed
	}
	return nil
}

// stop closes the door, ends the sessions, and returns the connections there are.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.closed)
	}
	for ln := range s.listeners {
		_ = ln.Close() // it may be closed already
	}
	conns := slices.Collect(maps.Keys(s.conns))
	sessions := slices.AppendSeq(slices.Collect(maps.Values(s.sessions)), maps.Keys(s.anonymous))
	s.mu.Unlock()
	for _, ses := range sessions {
		ses.end()
	}
	for _, c := range conns {
		c.leave()
	}
	return conns
}

// handle answers a request that was read whole. It returns nil after it has served an
// event stream.
func (s *Server) handle(c *conn, r *request, body []byte) *answer {
	if !r.endpoint() {
		return s.other(r, body)
	}
	switch r.Method {
	case http.MethodOptions:
		return preflight(r)
	case http.MethodPost:
		return share(r, s.post(r, body))
	case http.MethodGet:
		return share(r, s.get(c, r))
	}
	return share(r, s.delete(r))
}

// delete ends a session ("A client terminates its session with authenticated DELETE").
func (s *Server) delete(r *request) *answer {
	ses, refused := s.session(r)
	if refused != nil {
		return refused
	}
	ses.end()
	return &answer{status: http.StatusNoContent}
}

// session finds the session that a request names.
func (s *Server) session(r *request) (*session, *answer) {
	version, refused := r.version()
	if refused != nil {
		return nil, refused
	}
	id := r.Header.Get(headerSession)
	if id == "" {
		return nil, refuse(http.StatusBadRequest, "a Mcp-Session-Id is needed")
	}
	s.mu.Lock()
	ses := s.sessions[id]
	s.mu.Unlock()
	switch {
	case ses == nil || !ses.ready():
		return nil, unknownSession()
	case ses.principal != r.principal():
		return nil, refuse(http.StatusForbidden, "the session is not of this principal")
	case ses.negotiated() != version:
		return nil, refuse(http.StatusBadRequest, "the session negotiated another protocol version")
	}
	ses.touch()
	return ses, nil
}

func unknownSession() *answer { return failure(http.StatusNotFound, -32001, "session not found") }

// add takes a new session in.
func (s *Server) add(ses *session) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return refuse(http.StatusServiceUnavailable, "the server is shutting down")
	case ses.id == "":
		s.anonymous[ses] = struct{}{}
	case s.sessions[ses.id] != nil:
		panic("umcp: Config.Nonce repeats itself")
	case len(s.sessions) >= s.cfg.Limits.Sessions:
		return refuse(http.StatusServiceUnavailable, "too many sessions")
	default:
		s.sessions[ses.id] = ses
	}
	s.running.Add(1)
	return nil
}

// drop takes a session out: its id is unknown from now on.
func (s *Server) drop(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.anonymous, ses)
	if s.sessions[ses.id] == ses {
		delete(s.sessions, ses.id)
	}
}

// enter gives a call a name, by which [Server.route] finds it.
func (s *Server) enter(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastCall++
	c.name = s.lead + strconv.Itoa(s.lastCall)
	s.calls[c.name] = c
}

func (s *Server) forget(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c.name)
}

// route puts the way to the client into the context of a handler.
func (s *Server) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.Header.Get(headerCall) != "" {
			s.mu.Lock()
			c := s.calls[extra.Header.Get(headerCall)]
			s.mu.Unlock()
			if c != nil {
				ctx = refserver.WithOutlet(context.WithValue(ctx, callKey{}, c), c.session, c.onAnswer)
			}
		}
		return next(ctx, method, req)
	}
}
