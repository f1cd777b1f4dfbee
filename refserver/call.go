package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is a request in flight, and where its response goes.
type call struct {
	stream *Stream
	reply  chan []byte // for initialize, which is answered with JSON; else nil
	// answering is told what becomes of the response; see onAnswer. The handler of the
	// call sets it, and the SDK gives the response in the same goroutine.
	answering func(int)
	asked     asked
}

// onAnswer has f called with 1 before the response is given to the stream, and with
// -1 if the stream did not take it: whoever sees the response finds it counted.
func (c *call) onAnswer(f func(int)) { c.answering = f }

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// StreamFrom returns the stream of the request that a handler serves, nil when ctx
// does not come from a handler behind a [Handler].
func StreamFrom(ctx context.Context) *Stream {
	if c := callFrom(ctx); c != nil {
		return c.stream
	}
	return nil
}

// StandaloneFrom returns the GET stream of the session whose request a handler serves
// ("2025-11-25 transports, Listening for Messages"). It is nil until the client has
// opened that stream once: before, it has no cursor there, and nothing is kept for it.
func StandaloneFrom(ctx context.Context) *Stream {
	if c := callFrom(ctx); c != nil {
		return c.stream.session.stream(standalone)
	}
	return nil
}

// route puts the call of a request into the context of its handler. A call without a
// session leads to its own answer instead.
func (h *Handler) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		extra := req.GetExtra()
		if extra == nil {
			return next(ctx, method, req)
		}
		if transport := extra.Header.Get(headerAlone); transport != "" {
			return h.alone(next, transport)(ctx, method, req)
		}
		if name := extra.Header.Get(headerCall); name != "" {
			h.mu.Lock()
			s := h.sessions[req.GetSession().ID()]
			h.mu.Unlock()
			if s != nil {
				if c := s.call(name); c != nil {
					ctx = context.WithValue(ctx, callKey{}, c)
				}
			}
		}
		return next(ctx, method, req)
	}
}

const methodCall = "tools/call"

// call finds a request in flight by its id, as JSON.
func (s *session) call(name string) *call {
	id, err := decodeID([]byte(name))
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[id]; c != nil && c.stream != nil {
		return c
	}
	return nil
}

// extraOf is what the SDK is told of a message besides its text: the headers, and whose
// token they hold.
func extraOf(r *http.Request) *mcp.RequestExtra {
	return &mcp.RequestExtra{Header: r.Header, TokenInfo: auth.TokenInfoFromContext(r.Context())}
}

// lead adds what a request has besides: a header that leads [Handler.route] to the call,
// and the hook that closes the connection of its stream.
func (s *Stream) lead(id jsonrpc.ID, extra *mcp.RequestExtra) {
	name, err := json.Marshal(id.Raw())
	if err != nil {
		panic(err) // an id is a string or an integer
	}
	extra.Header.Set(headerCall, string(name))
	extra.CloseSSEStream = func(a mcp.CloseSSEStreamArgs) { s.CloseConnection(a.RetryAfter) }
}

// begin registers requests as in flight and makes the stream of their responses. If
// one of them cannot be taken none is.
func (s *session) begin(ids []jsonrpc.ID) (*Stream, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range ids {
		if refused := s.admit(id); refused != nil {
			for _, before := range ids[:i] {
				delete(s.calls, before)
			}
			return nil, refused
		}
		s.calls[id] = new(call)
	}
	s.lastName++
	s.h.metrics.opened[kindPost].Inc()
	stream := s.open(strconv.Itoa(s.lastName))
	if len(ids) > 1 {
		stream.answers = &answers{missing: len(ids)}
	}
	for _, id := range ids {
		s.calls[id].stream = stream
	}
	return stream, nil
}

// beginReply registers a request as in flight whose response goes to reply.
func (s *session) beginReply(id jsonrpc.ID, reply chan []byte) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.admit(id)
	if refused == nil {
		s.calls[id] = &call{reply: reply}
	}
	return refused
}

// admit says why a request cannot be taken. s.mu is held.
func (s *session) admit(id jsonrpc.ID) *refusal {
	switch {
	case s.ended:
		return unknownSession()
	case s.calls[id] != nil:
		// The SDK would answer nothing at all, and the map would send the first response
		// to the second stream.
		return &refusal{http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "a request with this id is in flight"}
	case len(s.calls) >= s.h.cfg.Limits.Calls:
		return refuse(http.StatusTooManyRequests, "too many requests in flight")
	}
	return nil
}

// abandon takes back requests that the SDK never saw, and their stream.
func (s *session) abandon(stream *Stream, ids []jsonrpc.ID) {
	s.mu.Lock()
	for _, id := range ids {
		delete(s.calls, id)
	}
	s.mu.Unlock()
	stream.finish()
	s.forget(stream)
}

// respond gives a response to the stream of its request.
func (s *session) respond(ctx context.Context, m *jsonrpc.Response, data []byte) {
	s.mu.Lock()
	c, revision := s.calls[m.ID], s.revision
	delete(s.calls, m.ID)
	s.mu.Unlock()
	if c == nil {
		s.h.cfg.Logger.Warn("response to a request that is not in flight")
		return
	}
	s.answered(c, m, revision)
	if c.reply != nil {
		c.reply <- data
		return
	}
	count := c.answering
	if count == nil {
		count = func(int) {}
	}
	count(1)
	if !c.stream.answer(ctx, frame(data)) {
		count(-1)
	}
}

// notify gives a notification or request to the stream of the request it was made
// for, else to the standalone stream, and reports whether a stream took it.
func (s *session) notify(ctx context.Context, framed []byte) bool {
	stream := StreamFrom(ctx)
	if stream == nil || stream.session != s {
		stream = s.stream(standalone)
	}
	if stream == nil {
		return false // the client never opened a standalone stream: it has no cursor there
	}
	err := stream.append(ctx, framed, false)
	if wasWritten(err) {
		return true
	}
	if err != nil {
		s.h.cfg.Logger.Warn(failedToSend, "stream", stream.kind().String(), "error", err)
	}
	return err == nil
}
