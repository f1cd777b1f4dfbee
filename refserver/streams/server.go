package streams

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shutdownTime is how long [Server.Serve] waits for exchanges to end.
const shutdownTime = 5 * time.Second

// Server serves one MCP endpoint on HTTP, WebSocket and lines.
type Server struct {
	cfg     Config
	server  *mcp.Server
	metrics *metrics
	handler http.Handler  // behind authentication
	lead    string        // what the names of calls begin with; see [Server.route]
	nobody  [32]byte      // what tokens of streams that are none are compared with
	closed  chan struct{} // closed when the server takes no more

	bytes, messages atomic.Int64 // of all buffers

	// running counts links, and sessions until the SDK is done with them.
	running sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	sessions map[string]*session
	links    map[*link]struct{}
	streams  map[string]*stream
	done     *list.List // streams whose end was written, oldest first
	doneAt   map[*stream]*list.Element
	graves   map[string]grave // streams that are no more, the latest of them
	buried   []string         // their ids, as a ring
	calls    map[string]*call // in flight, by name
	asked    map[string]question
	lastCall int
}

// grave is what is left of a stream: enough to tell its client what became of it.
type grave struct {
	token     [sha256.Size]byte
	principal string
	reason    string
}

// question is a request of the server that its client has not answered.
type question struct {
	session *session
	id      jsonrpc.ID // by which the SDK knows it
	stream  *stream    // nil when it was asked outside a call
	seq     int64
}

// New returns a server that serves sessions of server. It adds a receiving middleware to
// it, by which the context of a tool handler leads to the stream of its call (see
// [refserver.WithOutlet]). The server should serve [Versions].
func New(server *mcp.Server, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	s := &Server{
		cfg:      cfg.withDefaults(),
		server:   server,
		lead:     rand.Text(),
		nobody:   sha256.Sum256([]byte(rand.Text())),
		closed:   make(chan struct{}),
		sessions: make(map[string]*session),
		links:    make(map[*link]struct{}),
		streams:  make(map[string]*stream),
		done:     list.New(),
		doneAt:   make(map[*stream]*list.Element),
		graves:   make(map[string]grave),
		calls:    make(map[string]*call),
		asked:    make(map[string]question),
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Registerer, s); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	s.handler = s.authenticated(http.HandlerFunc(s.serve))
	server.AddReceivingMiddleware(s.route)
	return s, nil
}

// Serve serves HTTP and WebSocket on a listener until ctx is done or [Server.Shutdown] is
// called; root, which has the server in it, serves the requests, nil the server alone.
// Then it ends all sessions and waits up to 5 s for what runs.
func (s *Server) Serve(ctx context.Context, ln net.Listener, root http.Handler) error {
	if root == nil {
		root = s
	}
	server := refserver.NewServer(root)
	server.ErrorLog = slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	var err error
	select {
	case err = <-failed:
		failed <- http.ErrServerClosed
	case <-ctx.Done():
	case <-s.closed:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err != nil {
		err = fmt.Errorf("streams: serving %s: %w", ln.Addr(), err)
	}
	s.stop()
	err = errors.Join(err, server.Shutdown(grace), s.Shutdown(grace), server.Close())
	<-failed
	return err
}

// Healthy reports whether the server takes new sessions.
func (s *Server) Healthy() bool {
	select {
	case <-s.closed:
		return false
	default:
		return true
	}
}

// Shutdown ends all sessions, streams and links, and waits until nothing runs any more, or
// ctx is done.
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
		return ctx.Err()
	}
}

func (s *Server) stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.closed)
	}
	sessions := slices.Collect(maps.Values(s.sessions))
	links := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	for _, ses := range sessions {
		ses.end(true)
	}
	var closing sync.WaitGroup
	for _, l := range links { // each may have a client that takes its time
		closing.Go(func() { l.close("the server is shutting down") })
	}
	closing.Wait()
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	for _, st := range left {
		st.reclaim(reasonAbandoned)
	}
}

// keep takes a stream in, if need be in the place of a completed one, and reports whether
// there was a place.
func (s *Server) keep(st *stream) bool {
	for {
		s.mu.Lock()
		if len(s.streams) < s.cfg.Limits.Streams && !s.stopped {
			if s.streams[st.id] != nil {
				panic("streams: Config.Nonce repeats itself")
			}
			s.streams[st.id] = st
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		if !s.evict() {
			return false
		}
	}
}

// retire notes that a stream has nothing left that was never written.
func (s *Server) retire(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.doneAt[st]; e != nil {
		s.done.MoveToBack(e)
	} else if s.streams[st.id] == st {
		s.doneAt[st] = s.done.PushBack(st)
	}
}

// evict reclaims the stream that was done first, and reports whether there was one.
func (s *Server) evict() bool {
	s.mu.Lock()
	first := s.done.Front()
	s.mu.Unlock()
	if first == nil {
		return false
	}
	st := first.Value.(*stream)
	st.reclaim(reasonGone)
	s.metrics.evicted.Inc()
	return true
}

// forget takes a stream out, and remembers what became of it.
func (s *Server) forget(st *stream, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] != st {
		return
	}
	delete(s.streams, st.id)
	if e := s.doneAt[st]; e != nil {
		s.done.Remove(e)
		delete(s.doneAt, st)
	}
	if len(s.buried) >= s.cfg.Limits.Streams {
		delete(s.graves, s.buried[0])
		s.buried = s.buried[1:]
	}
	s.buried = append(s.buried, st.id)
	s.graves[st.id] = grave{st.token, st.principal, reason}
}

// made returns the streams of calls of a session.
func (s *Server) made(ses *session) []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*stream
	for _, st := range s.streams {
		if st.session == ses {
			all = append(all, st)
		}
	}
	return all
}

// find returns the stream that a client claims. It learns nothing about streams whose
// token it does not have, or that are another principal's.
func (s *Server) find(c claim, principal string) (*stream, *jsonrpc.Error) {
	s.mu.Lock()
	st, dead := s.streams[c.id], grave{token: s.nobody}
	_, known := s.graves[c.id]
	if known {
		dead = s.graves[c.id]
	}
	s.mu.Unlock()
	want, owner := dead.token, dead.principal
	if st != nil {
		want, owner = st.token, st.principal
	}
	shown := sha256.Sum256([]byte(c.token))
	same := subtle.ConstantTimeCompare(shown[:], want[:]) == 1
	switch {
	case !same || owner != principal || st == nil && !known:
		return nil, streamError(reasonUnknown)
	case st == nil:
		return nil, streamError(dead.reason)
	}
	return st, nil
}

// enter gives a call a name, by which [Server.route] finds it.
func (s *Server) enter(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastCall++
	c.name = s.lead + strconv.Itoa(s.lastCall)
	s.calls[c.name] = c
}

func (s *Server) leave(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c.name)
}

// route puts the way to the client into the context of a handler, and ends that context
// when nobody can get the response any more.
func (s *Server) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.Header.Get(headerCall) != "" {
			s.mu.Lock()
			c := s.calls[extra.Header.Get(headerCall)]
			s.mu.Unlock()
			if c != nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				c.onAbort(cancel)
				ctx = refserver.WithOutlet(context.WithValue(ctx, callKey{}, c), c.stream, c.onAnswer)
			}
		}
		return next(ctx, method, req)
	}
}

// add takes a new session in.
func (s *Server) add(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || len(s.sessions) >= s.cfg.Limits.Sessions {
		return false
	}
	if s.sessions[ses.id] != nil {
		panic("streams: Config.Nonce repeats itself")
	}
	s.sessions[ses.id] = ses
	s.running.Add(1)
	s.metrics.sessions.Inc()
	return true
}

// drop takes a session out: its id is unknown from now on, and what it asked cannot be
// answered any more.
func (s *Server) drop(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[ses.id] != ses {
		return
	}
	delete(s.sessions, ses.id)
	s.metrics.sessions.Dec()
	maps.DeleteFunc(s.asked, func(_ string, q question) bool { return q.session == ses })
}

// ask gives a request of the server the id under which its client will know it.
func (s *Server) ask(q question) string {
	name := s.cfg.Nonce()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name] = q
	return name
}

// placed notes where in its stream a request is.
func (s *Server) placed(name string, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.asked[name]; ok {
		q.seq = seq
		s.asked[name] = q
	}
}

// withdraw forgets a request that the SDK no longer waits for, and returns its name.
func (s *Server) withdraw(ses *session, id jsonrpc.ID) (string, question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.asked {
		if q.session == ses && q.id == id {
			delete(s.asked, name)
			return name, q
		}
	}
	return "", question{}
}

// answer hands the answer to a request of the server to the session that asked. Only the
// principal that was asked can answer.
func (s *Server) answer(m *jsonrpc.Response, principal string) {
	name, ok := m.ID.Raw().(string)
	if !ok {
		return
	}
	s.mu.Lock()
	q, ok := s.asked[name]
	if ok = ok && q.session.principal == principal; ok {
		delete(s.asked, name)
	}
	s.mu.Unlock()
	if !ok {
		return
	}
	if q.stream != nil {
		q.stream.answered(q.seq)
	}
	m.ID = q.id
	q.session.push(m)
}
