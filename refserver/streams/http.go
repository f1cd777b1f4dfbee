package streams

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// bodyTime is how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// ServeHTTP implements [http.Handler]: POST and DELETE on [Path], WebSocket on
// [WebSocketPath], 404 on all else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origins := r.Header.Values("Origin")
	switch {
	case r.URL.Path != Path && r.URL.Path != WebSocketPath:
		http.NotFound(w, r)
	case refserver.ForeignHost(r, s.cfg.AllowedHosts):
		refuse(w, http.StatusForbidden, "this host is not allowed")
	case len(origins) > 1 || len(origins) == 1 && !refserver.OriginAllowed(origins[0], s.cfg.AllowedOrigins):
		refuse(w, http.StatusForbidden, "this origin is not allowed")
	default:
		s.handler.ServeHTTP(w, r)
	}
}

// authenticated returns next behind the verifier of bearer tokens. What that says of a
// token stays here: it might quote it.
func (s *Server) authenticated(next http.Handler) http.Handler {
	if s.cfg.Verifier == nil {
		return next
	}
	verify := func(ctx context.Context, token string, r *http.Request) (*auth.TokenInfo, error) {
		info, err := s.cfg.Verifier(ctx, token, r)
		switch {
		case errors.Is(err, auth.ErrInvalidToken):
			return nil, auth.ErrInvalidToken
		case errors.Is(err, auth.ErrOAuth):
			return nil, auth.ErrOAuth
		case err != nil:
			s.cfg.Logger.Error("the token verifier failed", "error", strings.ReplaceAll(err.Error(), token, "[token]"))
			return nil, errors.New("bearer tokens cannot be verified now")
		}
		return info, nil
	}
	inner := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		inner.ServeHTTP(w, r)
	})
}

func principalOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		return info.UserID
	}
	return ""
}

// serve serves a request of a principal.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Del("WWW-Authenticate")
	switch {
	case r.URL.Path == WebSocketPath:
		s.webSocket(w, r)
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodDelete:
		s.delete(w, r)
	default:
		// There is no stream that is not of a call.
		w.Header().Set("Allow", "POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "method not allowed")
	}
}

func refuse(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, errorMessage(jsonrpc.ID{}, rpcError(-32000, text, "")))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone misses nothing that it could have
}

// delete ends a session, with its streams.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	if ses := s.session(w, r); ses != nil {
		ses.end(true)
		w.WriteHeader(http.StatusNoContent)
	}
}

// session finds the session of a request, or answers it.
func (s *Server) session(w http.ResponseWriter, r *http.Request) *session {
	if v := r.Header.Get(headerVersion); v != "" && !slices.Contains(Versions(), v) {
		refuse(w, http.StatusBadRequest, "unsupported protocol version; supported: "+strings.Join(Versions(), ", "))
		return nil
	}
	id := r.Header.Get(headerSession)
	if id == "" {
		refuse(w, http.StatusBadRequest, "a Mcp-Session-Id is needed")
		return nil
	}
	s.mu.Lock()
	ses := s.sessions[id]
	s.mu.Unlock()
	if ses == nil || ses.link != nil || ses.principal != principalOf(r) || !ses.isReady() {
		writeJSON(w, http.StatusNotFound, errorMessage(jsonrpc.ID{}, rpcError(-32001, "session not found", "")))
		return nil
	}
	ses.touch()
	return ses
}

// post serves one message of a client.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, "Accept must list application/json and text/event-stream")
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "Content-Type must be application/json")
		return
	}
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	m, failed := decode(body)
	if failed != nil {
		writeJSON(w, http.StatusBadRequest, errorMessage(jsonrpc.ID{}, failed))
		return
	}
	req, isRequest := m.(*jsonrpc.Request)
	isCall := isRequest && req.IsCall()
	if isCall && req.Method == methodInitialize && r.Header[headerSession] == nil {
		s.initialize(w, r, req)
		return
	}
	ses := s.session(w, r)
	if ses == nil {
		return
	}
	ours := isCall && ses.declared() && (req.Method == methodResume || req.Method == methodPoll)
	if r.Header[headerCursor] != nil && !ours {
		refuse(w, http.StatusBadRequest, "Last-Event-ID belongs to stream/resume and stream/poll")
		return
	}
	switch {
	case ours && req.Method == methodPoll:
		s.pollHTTP(w, r, req)
	case ours:
		s.resumeHTTP(w, r, ses, req)
	case isCall:
		s.callHTTP(w, r, ses, req)
	default:
		s.takeHTTP(w, r, ses, m)
	}
}

// takeHTTP takes a notification or a response.
func (s *Server) takeHTTP(w http.ResponseWriter, r *http.Request, ses *session, m jsonrpc.Message) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		s.answer(m, ses.principal)
	case *jsonrpc.Request:
		m.Extra = extra(r.Header, auth.TokenInfoFromContext(r.Context()), nil)
		if m.Method == methodCancelled {
			ses.cancelled(m)
		} else {
			ses.push(m)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// body reads the body of a request, or answers it.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // what has no link has no limit
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.Limits.Message))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return nil, false
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body could not be read")
		return nil, false
	}
	_ = rc.SetReadDeadline(time.Time{})
	return body, true
}

// accepts reports whether the Accept header admits a media type.
func accepts(r *http.Request, media string) bool {
	group, _, _ := strings.Cut(media, "/")
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(item))
		if err != nil || name != media && name != group+"/*" && name != "*/*" {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
			return true
		}
	}
	return false
}

// initialize opens a session if the SDK agrees. The answer is JSON.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) {
	ses, err := s.newSession(principalOf(r), nil)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "no session can be opened")
		return
	}
	reply := make(chan []byte, 1)
	c := &call{session: ses, id: req.ID, reply: func(data []byte) { reply <- data }}
	if failed := ses.register(c); failed != nil {
		refuse(w, http.StatusServiceUnavailable, failed.Message)
		return
	}
	declared := declaresStreams(req.Params)
	req.Params = withVersion(req.Params)
	req.Extra = extra(r.Header, auth.TokenInfoFromContext(r.Context()), nil)
	ses.push(req)
	select {
	case answer := <-reply:
		if ses.opened(answer, declared) {
			w.Header().Set(headerSession, ses.id)
		} else {
			ses.end(false) // refused by the SDK, with its reasons in the answer
		}
		writeJSON(w, http.StatusOK, answer)
	case <-ses.ctx.Done():
		refuse(w, http.StatusServiceUnavailable, "the server is shutting down")
	case <-r.Context().Done():
		ses.end(false)
	}
}

// pollHTTP answers stream/poll.
func (s *Server) pollHTTP(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) {
	writeJSON(w, http.StatusOK, s.poll(req, r.Header.Values(headerCursor), principalOf(r)))
}

// poll returns the response to stream/poll.
func (s *Server) poll(req *jsonrpc.Request, cursor []string, principal string) []byte {
	st, at, failed := s.claimed(req, cursor, principal)
	if failed == nil {
		var p *pollResult
		if p, failed = st.poll(at); failed == nil {
			s.metrics.polls[resultOK].Inc()
			return resultMessage(req.ID, p)
		}
	}
	s.metrics.polls[resultRefused].Inc()
	return errorMessage(req.ID, failed)
}

// claimed finds the stream that a request is about, and where its client is in it.
func (s *Server) claimed(req *jsonrpc.Request, cursor []string, principal string) (*stream, int64, *jsonrpc.Error) {
	c, failed := claimIn(req.Params)
	if failed != nil {
		return nil, 0, failed
	}
	st, failed := s.find(c, principal)
	if failed != nil {
		return nil, 0, failed
	}
	at, failed := st.cursorIn(cursor)
	return st, at, failed
}

// resume attaches a link to the stream that a stream/resume is about.
func (ses *session) resume(req *jsonrpc.Request, cursor []string, out sink) (*call, *jsonrpc.Error) {
	s := ses.s
	st, at, failed := s.claimed(req, cursor, ses.principal)
	if failed == nil {
		c := &call{session: ses, id: req.ID, resume: newAttachment(st, out)}
		if failed = ses.register(c); failed != nil {
			return nil, failed
		}
		if failed = st.attach(c.resume, at); failed == nil {
			s.metrics.resumes[resultOK].Inc()
			return c, nil
		}
		ses.unregister(c)
	}
	s.metrics.resumes[resultRefused].Inc()
	return nil, failed
}

// run has an attachment follow its stream to the end, and gives a stream/resume its own
// result as the last message of the exchange.
func (ses *session) run(c *call, a *attachment, gone <-chan struct{}) outcome {
	why := outcomeLinkLost
	if a.opening != nil || a.out.send(nil) == nil { // there may be nothing to send for long
		why = a.follow(gone)
	}
	a.st.detach(a, why)
	if c.resume == nil {
		return why
	}
	ses.unregister(c)
	var last []byte
	switch why {
	case outcomeCompleted:
		last = resultMessage(c.id, struct{}{})
	case outcomeSuperseded:
		last = errorMessage(c.id, rpcError(-32000, "another resume has taken the stream over", reasonSuperseded))
	case outcomeReclaimed:
		last = errorMessage(c.id, streamError(reasonAbandoned))
	case outcomeLost:
		last = errorMessage(c.id, streamError(reasonGone))
	default:
		return why
	}
	if err := a.out.send([]message{{-1, last}}); err != nil {
		return outcomeLinkLost
	}
	return why
}

func (s *Server) resumeHTTP(w http.ResponseWriter, r *http.Request, ses *session, req *jsonrpc.Request) {
	out := s.newSSE(w, r)
	c, failed := ses.resume(req, r.Header.Values(headerCursor), out)
	if failed != nil {
		writeJSON(w, http.StatusOK, errorMessage(req.ID, failed))
		return
	}
	out.tag = c.resume.st.tag
	s.finish(out, ses.run(c, c.resume, r.Context().Done()))
}

func (s *Server) callHTTP(w http.ResponseWriter, r *http.Request, ses *session, req *jsonrpc.Request) {
	out := s.newSSE(w, r)
	c, a, failed := ses.begin(req, out)
	if failed != nil {
		writeJSON(w, http.StatusBadRequest, errorMessage(jsonrpc.ID{}, failed))
		return
	}
	out.tag = c.stream.tag
	req.Extra = extra(r.Header, auth.TokenInfoFromContext(r.Context()), c)
	ses.push(req) // if the session has ended so has the stream
	s.finish(out, ses.run(c, a, r.Context().Done()))
}

// finish ends the response to a POST.
func (s *Server) finish(out *sse, why outcome) {
	if why == outcomeLinkLost || !out.begin() {
		panic(http.ErrAbortHandler) // the body must not look complete
	}
}

// sse is the body of an event stream.
type sse struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	tag     string // of the stream; empty when its events have no ids
	timeout time.Duration
	own     bool // the connection carries nothing else
	begun   bool
	buf     []byte

	mu  sync.Mutex
	off bool
}

func (s *Server) newSSE(w http.ResponseWriter, r *http.Request) *sse {
	return &sse{w: w, rc: http.NewResponseController(w), timeout: s.cfg.WriteTimeout, own: r.ProtoMajor == 1}
}

// begin writes the head of the response, and reports whether it can go on.
func (o *sse) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		o.begun = true
		h := o.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
		if o.own {
			h.Set("Connection", "close")
		}
		o.w.WriteHeader(http.StatusOK)
	}
	return !o.off
}

var errCut = errors.New("the connection was cut")

// send implements [sink].
func (o *sse) send(batch []message) error {
	if !o.begin() {
		return errCut
	}
	o.buf = o.buf[:0]
	for _, m := range batch {
		if m.seq >= 0 && o.tag != "" {
			o.buf = append(append(o.buf, "id: "...), o.tag...)
			o.buf = append(strconv.AppendInt(append(o.buf, '-'), m.seq, 10), '\n')
		}
		o.buf = append(append(append(o.buf, "data: "...), m.data...), "\n\n"...)
	}
	if err := o.limit(); err != nil {
		return err
	}
	if len(o.buf) > 0 {
		if _, err := o.w.Write(o.buf); err != nil {
			return err
		}
	}
	return o.rc.Flush()
}

// limit sets how long the next write may take.
func (o *sse) limit() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.off {
		return errCut
	}
	if err := o.rc.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// cut implements [sink].
func (o *sse) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.off = true
	_ = o.rc.SetWriteDeadline(time.Unix(1, 0)) // what has no deadlines ends by itself
}
