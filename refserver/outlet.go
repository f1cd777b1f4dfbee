package refserver

import (
	"context"
	"time"
)

// Outlet carries the messages of one call to its client. A [*Stream] is one; a handler of
// another dialect brings its own, and the fixture's tools work behind it as well.
type Outlet interface {
	// Emit sends a JSON-RPC message. Frame is the same message as an event without its id
	// line: "data: ", message, "\n\n". Neither is kept. An error that is [ErrUnstored] is
	// the message's alone; any other ends the emission.
	Emit(ctx context.Context, frame, message []byte) error
	// Room waits while a connected client lags by limit messages or more.
	Room(ctx context.Context, limit int64) error
	// CloseConnection ends the connection that carries the messages, cleanly, while the
	// call goes on; see [Stream.CloseConnection]. It reports whether there was one that
	// could be closed.
	CloseConnection(retry time.Duration) bool
}

// Answering has f called with 1 before the response of a call is given away, and with -1
// if it then was not.
type Answering func(f func(int))

type outletKey struct{}

// outletCall is the call of a handler that is not ours.
type outletCall struct {
	out    Outlet
	answer Answering
}

// WithOutlet returns a context by which the fixture's tools find where the messages of the
// call go that they serve, and who tells that it is answered; answer may be nil. It is for
// handlers of other dialects: [Handler] needs none.
func WithOutlet(ctx context.Context, out Outlet, answer Answering) context.Context {
	return context.WithValue(ctx, outletKey{}, outletCall{out, answer})
}

// outletFrom returns what leads from the handler of a call to its client. Stream is nil
// unless the call came through a [Handler]; ok is false when nothing leads there.
func outletFrom(ctx context.Context) (out Outlet, stream *Stream, answer Answering, ok bool) {
	if c := callFrom(ctx); c != nil {
		return c.stream, c.stream, c.onAnswer, true
	}
	if c, found := ctx.Value(outletKey{}).(outletCall); found {
		return c.out, nil, c.answer, true
	}
	return nil, nil, nil, false
}
