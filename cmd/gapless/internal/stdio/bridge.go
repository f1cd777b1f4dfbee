// Package stdio puts servers that speak MCP over stdin and stdout behind an HTTP endpoint,
// so that the load generator can talk to them.
//
//	POST initialize ─► session ─► process        a process per session: ids and progress
//	POST request ────► │ stdin  ─► newline-      tokens pass as they are, none can clash
//	  ◄── SSE ──────── │ stdout ◄─ delimited
//	DELETE ──────────► ends it     JSON-RPC
//
// A pipe has no cursor, and neither have these streams: events carry no ids, GET is not
// offered, and what is said while nobody listens is lost. So is a call whose POST was
// dropped: it runs on in the server, and its messages go nowhere. That is no fault of the
// bridge, it is what the transport has to offer.
//
// What a message carries says where it goes: a response to the POST of its request, a
// notification with a progress token to the POST that gave the token out, anything else to
// the oldest open POST. So messages without a token can be told apart only while a session
// has one call at a time.
package stdio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
	"github.com/gapless-dev/gapless/internal/guard"
)

const (
	sessionHeader = "Mcp-Session-Id"

	maxSessions = 64       // processes at once
	maxMessage  = 16 << 20 // bytes of one message, either way

	// leave is how long a server has to end after its stdin was closed, with the half of it
	// before it is told by a signal.
	leave = 4 * time.Second
)

// Serve opens the endpoint, on a port of its own of this machine; newProcess starts a server
// with piped stdin and stdout and is called once per session. The endpoint ends with ctx or
// with stop, which ends all servers, waits for them, and whose error says what went wrong
// with them: how many died or broke the transport, and how the first did.
func Serve(ctx context.Context, newProcess func() (*process.Process, error)) (endpoint string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("stdio: %w", err)
	}
	b := newBridge(l.Addr().String(), newProcess)
	b.group.Go(func() { _ = b.server.Serve(l) }) // ends with Close, or with the listener
	once := sync.OnceValue(b.stop)
	quit := context.AfterFunc(ctx, func() { _ = once() })
	return "http://" + b.host + b.path, func() error { quit(); return once() }, nil
}

// A bridge is the endpoint.
type bridge struct {
	host       string
	path       string // nobody else on this machine guesses it, and starts servers
	server     *http.Server
	newProcess func() (*process.Process, error)
	group      guard.Group    // the goroutines of sessions, and the listener's
	handlers   sync.WaitGroup // those of exchanges; http.Server does not wait for them

	mu       sync.Mutex
	closed   bool
	slots    int // processes that run, or are about to
	sessions map[string]*session
	ended    int   // sessions that ended by a fault of the server
	first    error // of the first of them
	strays   int64 // messages that belonged to no call
	panicked error
}

func newBridge(host string, newProcess func() (*process.Process, error)) *bridge {
	b := &bridge{host: host, path: "/" + rand.Text() + "/mcp", newProcess: newProcess, sessions: map[string]*session{}}
	b.server = &http.Server{Handler: b, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	return b
}

func (b *bridge) stop() error {
	b.mu.Lock()
	b.closed = true
	all := make([]*session, 0, len(b.sessions))
	for _, s := range b.sessions {
		all = append(all, s)
	}
	b.mu.Unlock()
	_ = b.server.Close()
	for _, s := range all {
		s.end(nil)
	}
	b.handlers.Wait()
	err := b.group.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := []error{err, b.panicked}
	if b.first != nil {
		errs = append(errs, fmt.Errorf("%d of the servers failed; the first: %w", b.ended, b.first))
	}
	if b.strays > 0 {
		errs = append(errs, fmt.Errorf("%d messages of the servers belonged to no open call and were dropped: "+
			"a second response, or progress of a call that was over", b.strays))
	}
	return errors.Join(errs...)
}

// ServeHTTP implements http.Handler.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.handlers.Add(1)
	}
	b.mu.Unlock()
	if closed {
		panic(http.ErrAbortHandler)
	}
	defer b.handlers.Done()
	defer func() { // a bug of ours must not look like a link that was cut
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler {
				b.mu.Lock()
				b.panicked = errors.Join(b.panicked, &guard.PanicError{Value: v, Stack: debug.Stack()})
				b.mu.Unlock()
			}
			panic(http.ErrAbortHandler)
		}
	}()
	switch origin := r.Header.Get("Origin"); {
	case r.Host != b.host || origin != "" && origin != "http://"+b.host:
		refuse(w, http.StatusForbidden, "this endpoint is for "+b.host+" alone") // 2025-11-25 transports, Security Warning
	case r.URL.Path != b.path:
		refuse(w, http.StatusNotFound, "there is nothing at this path")
	case r.Method == http.MethodPost:
		b.post(w, r)
	case r.Method == http.MethodDelete:
		if s := b.session(w, r); s != nil {
			s.end(nil)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "a stdio server has no stream to listen to or to resume")
	}
}

// session finds the session of a request, or answers it.
func (b *bridge) session(w http.ResponseWriter, r *http.Request) *session {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		refuse(w, http.StatusBadRequest, "the request has no "+sessionHeader+"; initialize comes first")
		return nil
	}
	b.mu.Lock()
	s := b.sessions[id]
	b.mu.Unlock()
	if s == nil {
		refuse(w, http.StatusNotFound, "no such session: it was ended, or its server died")
	}
	return s
}

// open starts a server for a new session, or answers the request.
func (b *bridge) open(w http.ResponseWriter) *session {
	b.mu.Lock()
	full := b.slots >= maxSessions
	if !full {
		b.slots++
	}
	b.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf(
			"%d sessions are open, and each is a process of its own: use fewer sessions, or delete some", maxSessions))
		return nil
	}
	p, err := b.newProcess()
	if err != nil {
		b.release()
		b.failed(err)
		refuse(w, http.StatusBadGateway, err.Error())
		return nil
	}
	s := newSession(b, rand.Text(), p)
	b.mu.Lock()
	closed := b.closed
	b.sessions[s.id] = s
	b.mu.Unlock()
	s.start()
	if closed {
		s.end(nil)
	}
	return s
}

func (b *bridge) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots--
}

// failed notes what a server did wrong.
func (b *bridge) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended++; b.first == nil {
		b.first = err
	}
}

func (b *bridge) remove(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, id)
}

func (b *bridge) stray() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strays++
}
