package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// revisionModern is the first revision without sessions: each POST says all that has to
// be known, nothing is resumed, and a client that leaves has cancelled its request.
const revisionModern = "2026-07-28"

// metaVersion is where a request of such a revision repeats its header.
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// sessionless serves requests that belong to no session, by the SDK's own handler. It
// knows neither the event store nor the sessions of the [Handler] beside it.
type sessionless struct {
	sdk     http.Handler
	limits  Limits          // on sessions: to the SDK each request is one
	running *sync.WaitGroup // of the [Handler]

	mu     sync.Mutex
	closed bool
	last   int // names what is in flight
	ends   map[int]context.CancelFunc
	held   map[string]int // in flight of each principal
}

func newSessionless(server *mcp.Server, cfg Config, running *sync.WaitGroup) *sessionless {
	return &sessionless{
		sdk: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
			Stateless: true,
			Logger:    cfg.Logger,
			// A client that left has cancelled ("2026-07-28 transports, Cancellation").
			PropagateRequestCancellation: true,
			MaxRequestBodyBytes:          cfg.Limits.Body,
			DisableLocalhostProtection:   true, // [Handler.checkHead] knows which hosts are allowed
		}),
		limits:  cfg.Limits,
		running: running,
		ends:    make(map[int]context.CancelFunc),
		held:    make(map[string]int),
	}
}

// begin takes a request in. Its context ends with the client or with the handler; done
// lets go of it.
func (s *sessionless) begin(ctx context.Context, principal string) (context.Context, func(), *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, refuse(http.StatusServiceUnavailable, "the server is shutting down")
	}
	if len(s.ends) >= s.limits.Sessions {
		return nil, nil, refuse(http.StatusServiceUnavailable, "too many requests in flight")
	}
	if principal != "" && s.held[principal] >= s.limits.PrincipalSessions {
		return nil, nil, refuse(http.StatusTooManyRequests, "too many requests in flight for this principal")
	}
	ctx, cancel := context.WithCancel(ctx)
	s.last++
	name := s.last
	s.ends[name] = cancel
	s.held[principal]++
	s.running.Add(1)
	return ctx, func() {
		defer s.running.Done()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ends, name)
		if s.held[principal]--; s.held[principal] == 0 {
			delete(s.held, principal)
		}
	}, nil
}

// stop takes no more requests and cancels those in flight.
func (s *sessionless) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, cancel := range s.ends {
		cancel()
	}
}

// namesModern tells whether the header of a request names a revision without sessions,
// or one that is later still: the SDK has the words for what it does not know.
func namesModern(r *http.Request) bool { return r.Header.Get(headerVersion) >= revisionModern }

// meansModern tells whether a message is of a revision without sessions although its
// header does not say so, which has an answer of its own there.
func meansModern(r *http.Request, m jsonrpc.Message) bool {
	request, ok := m.(*jsonrpc.Request)
	if !ok || !request.IsCall() || len(r.Header.Values(headerVersion)) > 0 || len(r.Header.Values(headerSession)) > 0 {
		return false
	}
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(request.Params, &params) != nil {
		return false
	}
	var revision string
	return json.Unmarshal(params.Meta[metaVersion], &revision) == nil && revision >= revisionModern
}

// withoutSession tells whether a request is none of the sessions' business.
func (h *Handler) withoutSession(r *http.Request) bool { return h.cfg.Stateless || namesModern(r) }

// single serves a request that belongs to no session.
func (h *Handler) single(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return h.singleWith(w, r, nil) // and the SDK refuses it
	}
	body, hold, refused := h.body(w, r)
	if refused != nil {
		return refused
	}
	defer hold.release()
	return h.singleWith(w, r, body)
}

// singleWith serves a request that belongs to no session and whose body was read. If
// such are not served it says which revisions are, so that a client of both kinds finds
// its way ("2026-07-28 versioning, Errors").
func (h *Handler) singleWith(w http.ResponseWriter, r *http.Request, body []byte) *refusal {
	if h.sessionless == nil {
		refuseModern(w, r, body)
		return nil
	}
	ctx, done, refused := h.sessionless.begin(r.Context(), principalOf(r))
	if refused != nil {
		return refused
	}
	defer done()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, name := range []string{headerCall, headerSession, headerCursor} {
		r.Header.Del(name) // these revisions ignore them, the SDK does not
	}
	r.Header.Set(headerAlone, transportOf(r))
	h.sessionless.sdk.ServeHTTP(&timedWriter{w, http.NewResponseController(w), h.cfg.WriteTimeout}, r)
	return nil
}

// refuseModern answers a request of a revision without sessions where only the others
// are served.
func refuseModern(w http.ResponseWriter, r *http.Request, body []byte) {
	var id any
	if m, err := decode(body); err == nil {
		if request, ok := m.(*jsonrpc.Request); ok {
			id = request.ID.Raw()
		}
	}
	versions := revisions()
	data, err := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: versions, Requested: r.Header.Get(headerVersion)})
	if err != nil {
		panic(err) // strings can always be written
	}
	writeError(w, http.StatusBadRequest, id, jsonrpc.Error{
		Code: mcp.CodeUnsupportedProtocolVersion, Data: data,
		Message: "this revision of MCP is not served here; supported: " + strings.Join(versions, ", "),
	})
}

// timedWriter cuts a client that leaves one write unread for too long. The limit does
// not outlive the request: net/http lifts it before the next one on the link.
type timedWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

func (t *timedWriter) Write(b []byte) (int, error) {
	if err := t.rc.SetWriteDeadline(time.Now().Add(t.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap leads [http.ResponseController] to the rest.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
