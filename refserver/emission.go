package refserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// answerTime is how long emit waits for the answer to a request of its own.
	answerTime = 10 * time.Second
	// pollingRetry is announced before a polling close of a server that has no
	// reconnection time of its own.
	pollingRetry = 100 * time.Millisecond
)

// emission is one run of emit.
type emission struct {
	args    emitArgs
	token   any
	gate    *barrier
	stream  *Stream // of the call; nil behind a handler that is not ours
	out     Outlet  // where the messages go
	client  *mcp.ServerSession
	account *entry

	closed, asked int // polling closes and requests so far
}

// run waits at the gate, sends all messages of the call, and returns how many it sent.
func (e *emission) run(ctx context.Context) (sent int, err error) {
	defer func() { e.account.ended(ctx.Err() != nil) }()
	defer e.gate.leave(e.args.Hold.Key)
	if err := e.gate.wait(ctx, e.args.Hold.Key, e.args.Hold.Streams); err != nil {
		return 0, err
	}
	return e.send(ctx)
}

// inBackground leaves the messages to the session's GET stream and answers the call at
// once. A client that never opened that stream has no way to get them.
func (e *emission) inBackground(ctx context.Context) (*mcp.CallToolResult, error) {
	get := StandaloneFrom(ctx)
	if get == nil {
		e.account.ended(ctx.Err() != nil)
		result := e.result("emit: the client has not opened the GET stream of the session")
		result.IsError = true
		return result, nil
	}
	e.stream, e.out = get, get
	// What goes wrong from here on is in the ledger. Requests of the server that belong to
	// no call go on the GET stream too.
	if !get.session.background(func(ctx context.Context) { _, _ = e.run(ctx) }) {
		e.account.ended(true)
		return nil, fmt.Errorf("emit: %w", errSessionEnded)
	}
	return e.result("emitting " + strconv.Itoa(e.args.Messages) + " on the GET stream"), nil
}

// send sends burst after burst, at instants counted from the first one. A message that
// the store does not take costs nobody the rest.
func (e *emission) send(ctx context.Context) (int, error) {
	total := e.args.Messages
	if e.token == nil || total == 0 {
		return 0, nil // without a token there is nothing to notify progress of
	}
	message := newProgress(e.token, total, e.args.Bytes)
	limit := e.lag()
	pace := newPacer(e.args)
	defer pace.stop()
	for k := 1; k <= total; k++ {
		if err := pace.wait(ctx, k); err != nil {
			return k - 1, err
		}
		if err := e.out.Room(ctx, limit); err != nil {
			return k - 1, err
		}
		frame, body := message.frame(k)
		e.account.intend(xxhash.Sum64(body))
		err := e.out.Emit(ctx, frame, body)
		e.account.emitted(err)
		if err != nil && !errors.Is(err, ErrUnstored) {
			return k - 1, err
		}
		e.closeIfDue(k)
		pace.shift(e.askIfDue(ctx, k))
	}
	return total, e.out.Room(ctx, limit) // the response is one more
}

// lag is how many unread messages are left before the client.
func (e *emission) lag() int64 {
	size := int64(max(e.args.Bytes, 128))
	if e.stream == nil {
		return max(lagBytes/size, 16)
	}
	return e.stream.lag(size)
}

// due returns how many of count things, evenly spread over total messages, are to be
// done once k of them are sent.
func due(count, k, total int) int {
	return min(k*(count+1)/total, count)
}

// closeIfDue closes the connection of the stream if it is time. If nobody is connected
// it is tried again after the next message.
func (e *emission) closeIfDue(k int) {
	if e.closed < due(e.args.PollingCloses, k, e.args.Messages) && e.out.CloseConnection(e.retry()) {
		e.closed++
	}
}

func (e *emission) retry() time.Duration {
	if e.stream != nil && e.stream.session.h.cfg.Retry > 0 {
		return e.stream.session.h.cfg.Retry
	}
	return pollingRetry
}

// askIfDue sends the client the requests that are due, one after the other, waits for
// their answers, and returns how long that took.
func (e *emission) askIfDue(ctx context.Context, k int) time.Duration {
	if e.asked == due(e.args.Requests, k, e.args.Messages) {
		return 0
	}
	begun := time.Now()
	for e.asked < due(e.args.Requests, k, e.args.Messages) {
		e.asked++
		waiting, cancel := context.WithTimeout(ctx, answerTime)
		err := e.client.Ping(waiting, nil)
		cancel()
		var refused *jsonrpc.Error
		if err == nil || errors.As(err, &refused) {
			e.account.answeredRequest() // with an error, but answered
		}
	}
	return time.Since(begun)
}

// pacer says when the messages of a call are due.
type pacer struct {
	start    time.Time
	interval time.Duration
	burst    int
	timer    *time.Timer // nil before the first wait
}

func newPacer(args emitArgs) *pacer {
	return &pacer{
		start:    time.Now(),
		interval: time.Duration(args.IntervalMS * float64(time.Millisecond)),
		burst:    max(args.Burst, 1),
	}
}

// wait waits until message k is due.
func (p *pacer) wait(ctx context.Context, k int) error {
	if p.interval == 0 || k == 1 || (k-1)%p.burst != 0 {
		return nil
	}
	wait := time.Until(p.start.Add(p.interval * time.Duration((k-1)/p.burst)))
	if p.timer == nil {
		p.timer = time.NewTimer(wait)
	} else {
		p.timer.Reset(wait)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shift puts off all that is still to come.
func (p *pacer) shift(by time.Duration) { p.start = p.start.Add(by) }

func (p *pacer) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
