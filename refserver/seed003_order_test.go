package refserver_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tapped is a listener on whose links a test is told of each write, before it is made and by
// whoever makes it.
type tapped struct {
	net.Listener
	write atomic.Pointer[func([]byte)]
}

// Accept implements [net.Listener].
func (l *tapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return tappedConn{conn, l}, err
}

type tappedConn struct {
	net.Conn
	of *tapped
}

// NetConn leads to the link below, which can be reset.
func (c tappedConn) NetConn() net.Conn { return c.Conn }

// Write implements [net.Conn].
func (c tappedConn) Write(b []byte) (int, error) {
	if f := c.of.write.Load(); f != nil {
		(*f)(b)
	}
	return c.Conn.Write(b)
}

// serveTapped serves a fixture on whose links f is called once, when a text is written, and
// waits until all that follows from f has happened.
func serveTapped(t *testing.T, cfg refserver.Config) (r *rig, when func(text string, f func())) {
	ln := memnet.Listen()
	l := &tapped{Listener: ln}
	return serve(t, cfg, l, ln.Dial), func(text string, f func()) {
		tap := func(b []byte) {
			if bytes.Contains(b, []byte(text)) {
				l.write.Store(nil)
				f()
				synctest.Wait()
			}
		}
		l.write.Store(&tap)
	}
}

func message(method string) []byte { return []byte(`{"jsonrpc":"2.0","method":"` + method + `"}`) }

// Clause: what the store does not take is written without an id, in its place. While such a
// message is being written another is stored and a third refused: they come in this order.
func TestSeed003_MessageThatWasNotStored_DoesNotOvertakeOneThatWas(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = refusing(t, "refused")
		var stream *refserver.Stream
		sent := make(chan error, 1)
		r, when := serveTapped(t, cfg)
		when("refused-1", func() {
			go func() {
				_ = stream.Send(context.Background(), message("stored-2"))
				sent <- stream.Send(context.Background(), message("refused-3"))
			}()
		})
		r.tool("send", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			stream = refserver.StreamFrom(ctx)
			_ = stream.Send(ctx, message("refused-1"))
			return <-sent
		})
		all := r.open(latest).call(1, "send").rest()
		var got []string
		for _, e := range all[1:4] {
			_, method, _ := strings.Cut(e.data, `"method":"`)
			got = append(got, strings.TrimSuffix(method, `"}`))
		}
		if strings.Join(got, " ") != "refused-1 stored-2 refused-3" || len(all) != 5 || all[2].id == "" {
			t.Errorf("got %v of %+v", got, all)
		}
	})
}

// Clause: the response ends its stream, and is there before the end, although the last that
// was written before it passed the store by.
func TestSeed003_ResponseBehindAMessageThatWasNotStored_IsSentBeforeTheEnd(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = refusing(t, "refused")
		answer := make(chan struct{})
		r, when := serveTapped(t, cfg)
		when("refused", func() { close(answer) })
		r.tool("send", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			stream := refserver.StreamFrom(ctx)
			go func() { _ = stream.Send(context.WithoutCancel(ctx), message("refused")) }()
			<-answer // while it is being written
			return nil
		})
		all := r.open(latest).call(1, "send").rest()
		if len(all) != 3 || !strings.Contains(all[1].data, "refused") || !strings.Contains(all[2].data, `"result"`) || all[2].id == "" {
			t.Errorf("got %+v", all)
		}
	})
}

// Clause: "stored and sent": while the priming event is being written its connection is not
// closed yet, and the request it belongs to has not begun, so that its handler can close it
// first thing of all.
func TestSeed003_CloseHooks_WhileThePrimingEventIsBeingSent_ReportFalse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r, when := serveTapped(t, cfg)
		var get, call []bool
		held := make(chan context.Context)
		r.tool("hold", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			held <- ctx
			<-ctx.Done()
			return nil
		})
		r.tool("close", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			call = append(call, refserver.StreamFrom(ctx).CloseConnection(0))
			return nil
		})
		p := r.open(latest)
		p.call(1, "hold").take(1)
		ctx := <-held
		hook := func() { get = append(get, refserver.StandaloneFrom(ctx).CloseConnection(0)) }
		when("retry: 100", hook)
		stream := p.resumeNothing()
		stream.take(1)
		hook()
		when("retry: 100", func() { call = append(call, false) }) // first of the two, however long it takes
		events, _ := p.call(2, "close").untilPolled()
		synctest.Wait() // the end of a connection may be seen before the hook has returned
		if len(get) != 2 || get[0] || !get[1] || len(stream.rest()) != 0 {
			t.Errorf("the GET stream, while it was sent and then: %v", get)
		}
		if len(call) != 2 || call[0] || !call[1] || len(events) == 0 {
			t.Errorf("the call, while it was sent and then: %v, events %+v", call, events)
		}
	})
}
