package refserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// bodyTime is how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// post serves one client message ("2025-11-25 transports, Sending Messages").
func (h *Handler) post(w http.ResponseWriter, r *http.Request) *refusal {
	r.Header.Del(headerCall)
	r.Header.Del(headerAlone)
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		return refuse(http.StatusNotAcceptable, "Accept must list application/json and text/event-stream")
	}
	if !isJSON(r) {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	body, hold, refused := h.body(w, r)
	if refused != nil {
		return refused
	}
	defer hold.release()
	if isBatch(body) {
		return h.batch(w, r, body, hold)
	}
	message, err := decode(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, jsonrpc.CodeInvalidRequest, err.Error()}
	}
	if h.sessionless != nil && meansModern(r, message) {
		return h.singleWith(w, r, body)
	}
	request, isRequest := message.(*jsonrpc.Request)
	if isRequest && request.Method == "initialize" && request.IsCall() && r.Header.Get(headerSession) == "" {
		if refused := checkVersion(r); refused != nil {
			return refused
		}
		return h.initialize(w, r, request)
	}
	s, refused := h.session(r)
	if refused != nil {
		return refused
	}
	if isRequest && request.IsCall() {
		return h.call(w, r, s, hold, request)
	}
	if !s.take(r, message) {
		return unknownSession()
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// take hands a notification or a response to the SDK and reports whether it took it.
func (s *session) take(r *http.Request, m jsonrpc.Message) bool {
	request, ok := m.(*jsonrpc.Request)
	if !ok {
		return s.push(r.Context(), m)
	}
	request.Extra = extraOf(r)
	received := time.Now()
	taken := s.push(r.Context(), m)
	if taken {
		s.notified(request, received)
	}
	return taken
}

// body reads the body of a request within its bounds of size and time. It holds its share
// of what all large bodies may come to, until that is released.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) ([]byte, *hold, *refusal) {
	if r.ContentLength > h.cfg.Limits.Body {
		return nil, nil, bodyRefused(new(http.MaxBytesError))
	}
	text := http.MaxBytesReader(w, r.Body, h.cfg.Limits.Body)
	body, err := io.ReadAll(io.LimitReader(text, smallBody))
	var held *hold
	if err == nil && len(body) == smallBody {
		body, held, err = h.largeBody(r, body, text)
	}
	if err != nil {
		return nil, nil, bodyRefused(err) // and the limit of time stays
	}
	limitBody(w, time.Time{})
	return body, held, nil
}

// largeBody reads on, if what all the large bodies come to allows it.
func (h *Handler) largeBody(r *http.Request, body []byte, text io.Reader) ([]byte, *hold, error) {
	most := h.cfg.Limits.Body
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	held := &hold{all: &h.bodies, bytes: most}
	held.keep()
	if h.bodies.Add(most) > h.cfg.Limits.Bodies {
		held.release()
		return nil, nil, errManyBodies
	}
	rest, err := io.ReadAll(text)
	body = append(body, rest...)
	if err != nil {
		held.release()
		return nil, nil, err
	}
	h.bodies.Add(int64(len(body)) - held.bytes) // nobody else has the hold yet
	held.bytes = int64(len(body))
	return body, held, nil
}

// hold is the share of a large body in what all of them may come to. Beside the request
// that brought it a call keeps it until it is answered, since its arguments stay in memory
// so long. A nil hold is that of a small body.
type hold struct {
	all   *atomic.Int64
	bytes int64
	users atomic.Int32
}

func (k *hold) keep() {
	if k != nil {
		k.users.Add(1)
	}
}

func (k *hold) release() {
	if k != nil && k.users.Add(-1) == 0 {
		k.all.Add(-k.bytes)
	}
}

var errManyBodies = errors.New("too many large bodies at once")

// limitBody sets when the body of a request must have come, or that it may take its time.
func limitBody(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at) // what has no link has no limit
}

// smallBody is what every connection may send without asking how much others send.
const smallBody = 64 << 10

// bodyRefused says why a body could not be read.
func bodyRefused(err error) *refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "the body is too large")
	case errors.Is(err, errManyBodies):
		return refuse(http.StatusServiceUnavailable, err.Error())
	}
	return refuse(http.StatusBadRequest, "the body could not be read")
}

// initialize opens a session. It is answered with JSON: a handshake has nothing to
// resume, and its link can be used again.
func (h *Handler) initialize(w http.ResponseWriter, r *http.Request, request *jsonrpc.Request) *refusal {
	s, refused := h.newSession(principalOf(r))
	if refused != nil {
		return refused
	}
	request.Params = withRevision(request.Params)
	request.Extra = extraOf(r)
	s.transport = transportOf(r)
	reply := make(chan []byte, 1)
	if refused := s.beginReply(request.ID, reply); refused != nil {
		s.endFor(endedError)
		return refused
	}
	s.expect([]jsonrpc.Message{request}, s.opened)
	if !s.push(r.Context(), request) {
		s.endFor(endedError)
		return refuse(http.StatusServiceUnavailable, "the server is shutting down")
	}
	var answer []byte
	select {
	case answer = <-reply:
	case <-s.ctx.Done():
		return refuse(http.StatusServiceUnavailable, "the server is shutting down")
	case <-r.Context().Done():
		s.endFor(endedError)
		return refuse(http.StatusServiceUnavailable, "the client has left")
	}
	if s.negotiated(answer) {
		w.Header().Set(headerSession, s.id)
	} else {
		s.endFor(endedError) // refused by the SDK, with its reasons in the answer
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(answer) // if it does not arrive the session ends by its idle limit
	return nil
}

// call serves a request, or a batch with requests in it: the answer is a stream of its
// own, followed from the start.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, s *session, body *hold, messages ...jsonrpc.Message) *refusal {
	received, ids := time.Now(), requestIDs(messages)
	stream, refused := s.begin(ids)
	if refused != nil {
		return refused
	}
	body.keep()
	stream.body = body // before anybody can end the stream: the request was not handed on
	f, err := s.fromStart(r.Context(), stream)
	if err != nil {
		s.abandon(stream, ids)
		return h.unopened(err)
	}
	if err := stream.attach(r.Context(), f, false); err != nil {
		f.discard()
		s.abandon(stream, ids)
		return h.unopened(err)
	}
	stream.describe(messages, r)
	s.expect(messages, received)
	return h.follow(w, r, f, func() bool {
		for _, m := range messages {
			if !s.push(context.Background(), m) {
				s.abandon(stream, ids)
				return false
			}
		}
		return true
	})
}

// fromStart makes a follower of a new stream, behind its priming event if it gets
// one. Which of the two it is must not be seen by the follower: both are a cursor.
func (s *session) fromStart(ctx context.Context, stream *Stream) (*follower, error) {
	return s.primedFrom(ctx, stream, store.Cursor{Stream: stream.key})
}

// primedFrom makes a follower behind a priming event, or behind the cursor when there is
// to be none. If the session ends meanwhile nothing of the stream stays in the store.
func (s *session) primedFrom(ctx context.Context, stream *Stream, cursor store.Cursor) (*follower, error) {
	f, err := s.tryPrimed(ctx, stream, cursor)
	if !s.late() {
		return f, err
	}
	if err == nil {
		f.discard()
	}
	return nil, errSessionEnded
}

// tryPrimed does that for a session that lives. A store that fails costs the connection
// its ids, and no request.
func (s *session) tryPrimed(ctx context.Context, stream *Stream, cursor store.Cursor) (*follower, error) {
	var opening []byte
	if s.primed() {
		id, wire, err := stream.prime(ctx)
		switch {
		case err == nil:
			cursor.ID, opening = id, wire
		case errors.Is(err, store.ErrFull) || !degrades(ctx, err):
			return nil, err
		default:
			stream.reportUnstored(err, "the event store failed: a stream has no priming event", false)
		}
	}
	tail, err := s.h.store.After(ctx, cursor)
	if err == nil && cursor.ID == "" && s.h.resumable() && stream.appended.Load() > 0 {
		// The end has no id to begin behind, and the start would send all of it again.
		_ = tail.Close() // nothing was read from it
		err = errNoTail
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFull) || !degrades(ctx, err):
		return nil, err
	default:
		s.h.cfg.Logger.Error("the event store failed: a connection has no ids", "error", err)
		s.h.metrics.storeErrors.Inc()
		tail, opening = noTail{stream.key}, nil // a cursor would lead past what is sent from now on
	}
	f := newFollower(stream, tail)
	f.opening = opening
	return f, nil
}

// unopened answers for a stream that could not be opened: its session has ended, or the
// store does not take it.
func (h *Handler) unopened(err error) *refusal {
	if errors.Is(err, errSessionEnded) || errors.Is(err, errRetired) {
		return unknownSession()
	}
	h.cfg.Logger.Error("cannot open a stream", "error", err)
	return refuse(http.StatusServiceUnavailable, "the event store cannot take another stream")
}

// follow answers 200 with an event stream and lets an attached follower run.
// Begin, if any, is called once the link is ready; false lets the stream end.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, f *follower, begin func() bool) *refusal {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	if !h.cfg.KeepConnections && r.ProtoMajor == 1 {
		if k, err := h.hijack(w, r); err == nil {
			f.start(k)
			f.greet()
			if begin != nil && !begin() {
				f.drain()
			}
			go k.watch(f.gone)
			go f.run()
			return nil
		}
	}
	f.start(h.httpSink(w, r))
	f.greet()
	if begin != nil && !begin() {
		f.drain()
	}
	stop := context.AfterFunc(r.Context(), f.gone)
	defer stop()
	if !f.run() {
		panic(http.ErrAbortHandler) // the body must not look complete
	}
	return nil
}
