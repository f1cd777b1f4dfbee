package refserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clause: a handler closes the connection of its request without ending the request: the
// client polls, and the rest reaches it. This is the hook of go-sdk itself.
func TestSeed003_CloseHook_EndsTheConnection_NotTheRequest(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		r.tool("poll", func(ctx context.Context, req *mcp.CallToolRequest) error {
			stream := refserver.StreamFrom(ctx)
			_ = stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"before"}`))
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 250 * time.Millisecond})
			pass(time.Second)
			return stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"behind"}`))
		})
		p := r.open(latest)
		begun := time.Now()
		events, retry := p.call(1, "poll").untilPolled()
		if len(events) != 2 || !strings.Contains(events[1].data, "before") || retry != "250" || time.Since(begun) > 0 {
			t.Fatalf("the connection gave %+v, retry %q, after %s", events, retry, time.Since(begun))
		}
		pass(250 * time.Millisecond)
		rest := p.resume(events[1].id).rest()
		if len(rest) != 2 || !strings.Contains(rest[0].data, "behind") || !strings.Contains(rest[1].data, `"result"`) || time.Since(begun) != time.Second {
			t.Errorf("the rest is %+v after %s", rest, time.Since(begun))
		}
	})
}

// Clause: the same for the session's GET stream, and each hook closes its own stream only.
func TestSeed003_CloseHook_OfTheGETStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		closed := false
		r.tool("poll", func(ctx context.Context, req *mcp.CallToolRequest) error {
			closed = refserver.StandaloneFrom(ctx).CloseConnection(300 * time.Millisecond)
			return nil
		})
		p := r.open(latest)
		get := p.resumeNothing()
		if got := numbers(t, p.call(1, "poll").rest()); !slices.Equal(got, []int{-1, 0}) || !closed {
			t.Errorf("the call: %v, closed %t", got, closed)
		}
		events, retry := get.untilPolled()
		if len(events) != 1 || retry != "300" {
			t.Errorf("the GET stream: %+v, retry %q", events, retry)
		}
		p.changeTools("new")
		if e := p.resume(events[0].id).take(1)[0]; !strings.Contains(e.data, "list_changed") {
			t.Errorf("missed: %+v", e)
		}
	})
}

// tryHooks runs a tool that tries all hooks and returns what they reported and what the call
// came to on the connection it had.
func tryHooks(r *rig, p *peer) (reported []bool, call []event) {
	r.t.Helper()
	r.tool("try", func(ctx context.Context, req *mcp.CallToolRequest) error {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Second})
		reported = []bool{
			refserver.StreamFrom(ctx).CloseConnection(time.Second),
			refserver.StandaloneFrom(ctx).CloseConnection(time.Second),
		}
		return refserver.StreamFrom(ctx).Send(ctx, []byte(`{"jsonrpc":"2.0","method":"x"}`))
	})
	call = p.call(1, "try").rest()
	return reported, call
}

// Clause: the hooks are for sessions of 2025-11-25 and later; an earlier client would not
// come back, and is answered on the connection it has.
func TestSeed003_CloseHooks_EarlierRevisions_ReportFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, revision := range []string{"2025-03-26", "2025-06-18"} {
			cfg.Store = newStore(t, store.Limits{})
			r := virtual(t, cfg)
			p := r.open(revision)
			get := p.resumeNothing()
			synctest.Wait()
			reported, call := tryHooks(r, p)
			if slices.Contains(reported, true) || len(call) != 2 {
				t.Errorf("%s: hooks reported %v, the call got %+v", revision, reported, call)
			}
			pass(time.Second)
			e := get.take(1)[0]
			if !strings.Contains(e.data, "list_changed") { // it is still there
				t.Errorf("%s: GET stream: %+v", revision, e)
			}
			get.cut()
			p.resume(e.id) // with a cursor it would find back, but not by itself
			synctest.Wait()
			if reported, call := tryHooks(r, p); slices.Contains(reported, true) || len(call) != 2 {
				t.Errorf("%s: after a resume hooks reported %v, the call got %+v", revision, reported, call)
			}
		}
	})
}

// Clause: without a store there is no cursor, so nothing is closed.
func TestSeed003_CloseHooks_NoStore_ReportFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		r := virtual(t, cfg)
		p := r.open(latest)
		p.resumeNothing()
		synctest.Wait()
		if reported, call := tryHooks(r, p); slices.Contains(reported, true) || len(call) != 2 {
			t.Errorf("hooks reported %v, the call got %+v", reported, call)
		}
	})
}

// Clause: when the store failed the priming event the hooks report false, and the request is
// answered on the connection it has.
func TestSeed003_CloseHooks_PrimingNotStored_ReportFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = refusing(t, "data: \n")
		r := virtual(t, cfg)
		p := r.open(latest)
		p.resumeNothing()
		synctest.Wait()
		if reported, call := tryHooks(r, p); slices.Contains(reported, true) || len(call) != 2 || call[0].id == "" {
			t.Errorf("hooks reported %v, the call got %+v", reported, call)
		}
	})
}

// Clause: the standalone stream has no connection to close before the client opens it; the
// hook is there all the same.
func TestSeed003_CloseHook_OfAGETStreamThatWasNeverOpened_ReportsFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		reported := true
		r.tool("try", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			reported = refserver.StandaloneFrom(ctx).CloseConnection(0)
			return nil
		})
		r.open(latest).call(1, "try").rest()
		if reported || refserver.StreamFrom(t.Context()).CloseConnection(0) || refserver.StandaloneFrom(t.Context()).CloseConnection(0) {
			t.Error("a connection that does not exist was closed")
		}
	})
}

// gated is a store whose GET streams wait before an event is stored and before it is read.
type gated struct {
	*store.Memory
	storing, reading chan struct{}
}

func (g gated) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if s.Name == "get" {
		<-g.storing
	}
	return g.Memory.Append(ctx, s, e)
}

func (g gated) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	if c.Stream.Name == "get" {
		<-g.reading
	}
	return g.Memory.After(ctx, c)
}

// Clause: a connection is closed only once its priming event was stored and sent. A handler
// that closes its own first thing of all finds that done already.
func TestSeed003_CloseHooks_OnlyOnceThePrimingEventWasStoredAndSent(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		held := gated{newStore(t, store.Limits{}), make(chan struct{}), make(chan struct{})}
		cfg.Store = held
		r := virtual(t, cfg)
		var reported []bool
		r.tool("get", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			reported = append(reported, refserver.StandaloneFrom(ctx).CloseConnection(0))
			return nil
		})
		own := false
		r.tool("own", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			own = refserver.StreamFrom(ctx).CloseConnection(0)
			return nil
		})
		p := r.open(latest)
		opened := make(chan *stream, 1)
		go func() { opened <- p.resumeNothing() }()
		synctest.Wait()
		p.call(1, "get").rest() // it is being stored
		held.storing <- struct{}{}
		synctest.Wait()
		p.call(2, "get").rest() // it is stored, and was not sent
		close(held.reading)
		get := <-opened
		get.take(1)
		p.call(3, "get").rest()
		if fmt.Sprint(reported) != "[false false true]" || len(get.rest()) != 0 {
			t.Errorf("while storing, when stored, when sent: %v", reported)
		}
		events, _ := p.call(4, "own").untilPolled()
		synctest.Wait() // the end of a connection may be seen before the hook has returned
		if !own || len(events) == 0 || events[0].id == "" || events[0].data != "" {
			t.Errorf("a handler that closes at once: %t, its connection gave %+v", own, events)
		}
	})
}

// Clause: a connection that is away, was closed a moment ago, or carries a request that was
// answered, is not closed again.
func TestSeed003_CloseHook_NothingToClose_ReportsFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		var reported []bool
		r.tool("twice", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			for range 2 {
				reported = append(reported, refserver.StreamFrom(ctx).CloseConnection(0))
			}
			pass(time.Second)
			reported = append(reported, refserver.StreamFrom(ctx).CloseConnection(0))
			pass(2 * time.Second) // the client is back
			reported = append(reported, refserver.StreamFrom(ctx).CloseConnection(0))
			return nil
		})
		p := r.open(latest)
		events, _ := p.call(1, "twice").untilPolled()
		pass(2 * time.Second)
		again, _ := p.resume(events[0].id).untilPolled()
		pass(time.Second)
		if rest := p.resume(events[0].id).rest(); len(rest) != 1 || !strings.Contains(rest[0].data, `"result"`) {
			t.Errorf("the response: %+v", rest)
		}
		if fmt.Sprint(reported) != "[true false false true]" || len(again) > 1 {
			t.Errorf("reported %v, then %+v", reported, again)
		}
	})
}
