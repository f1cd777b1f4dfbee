package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notifier is the [Outlet] of a call without a session: its messages go through the SDK,
// on the response of its POST, which is all that there is. A client that leaves has
// cancelled the call, so whoever emits hears of it by the context.
type notifier struct{ session *mcp.ServerSession }

// Emit implements [Outlet].
func (n notifier) Emit(ctx context.Context, _, message []byte) error {
	params := bytes.TrimSuffix(bytes.TrimPrefix(message, []byte(notifyHead)), []byte("}"))
	return n.session.NotifyProgress(context.WithValue(ctx, verbatimKey{}, json.RawMessage(params)), new(mcp.ProgressNotificationParams))
}

// notifyHead is what each message of emit begins with; behind it are its parameters.
const notifyHead = `{"jsonrpc":"2.0","method":"` + methodProgress + `","params":`

const methodProgress = "notifications/progress"

// Room implements [Outlet]: the SDK writes before it returns.
func (notifier) Room(ctx context.Context, _ int64) error { return ctx.Err() }

// CloseConnection implements [Outlet]: nobody would find back.
func (notifier) CloseConnection(time.Duration) bool { return false }

type verbatimKey struct{}

// verbatim are parameters that are sent byte by byte as they are.
type verbatim struct {
	mcp.ProgressNotificationParams
	text json.RawMessage
}

// MarshalJSON implements [json.Marshaler].
func (v *verbatim) MarshalJSON() ([]byte, error) { return v.text, nil }

// unchanged has the SDK send the messages of a [notifier] as the ledger knows them: its
// own encoding of the same message has other bytes.
func unchanged(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		text, ok := ctx.Value(verbatimKey{}).(json.RawMessage)
		session, ours := req.GetSession().(*mcp.ServerSession)
		if ok && ours && method == methodProgress {
			req = &mcp.ServerRequest[mcp.Params]{Session: session, Params: &verbatim{text: text}}
		}
		return next(ctx, method, req)
	}
}

// alone serves a request without a session, which came by a transport, and measures it.
func (h *Handler) alone(next mcp.MethodHandler, transport string) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		begun := time.Now()
		session, ok := req.GetSession().(*mcp.ServerSession)
		if ok && method == methodCall {
			result, err = calledAlone(ctx, next, session, req)
		} else {
			result, err = next(ctx, method, req)
		}
		revision := req.GetExtra().Header.Get(headerVersion)
		if revision != revisionModern && !supported(revision) {
			revision = ""
		}
		h.metrics.operations.observe(operation{methodLabel(method), failureIn(result, err), revision, transport}, time.Since(begun))
		return result, err
	}
}

// calledAlone serves a call without a session: what leads to its client is its own
// request. The response is given away when the handler returns; whether the client still
// took it is known to nobody.
func calledAlone(ctx context.Context, next mcp.MethodHandler, session *mcp.ServerSession, req mcp.Request) (mcp.Result, error) {
	count := func(int) {}
	result, err := next(WithOutlet(ctx, notifier{session}, func(f func(int)) { count = f }), methodCall, req)
	if err == nil && ctx.Err() == nil {
		count(1)
	}
	return result, err
}
