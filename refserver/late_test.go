package refserver_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A handler may keep the streams of a session for longer than the session lives. What it
// sends then is refused, and nothing is kept of it.
func TestSend_AfterTheSessionEnded_IsRefusedAndNotKept(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		var get, call *refserver.Stream
		server := mcp.NewServer(&mcp.Implementation{Name: "keeper", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "keep"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			get, call = refserver.StandaloneFrom(ctx), refserver.StreamFrom(ctx)
			return &mcp.CallToolResult{}, nil, nil
		})
		kept := &lateStore{Memory: newStore(t, store.Limits{}), forgotten: make(chan struct{}, 1)}
		h, err := refserver.New(server, refserver.Config{Store: kept, Delivery: d})
		if err != nil {
			t.Fatal(err)
		}
		p := serving(t, h, h).open(latest)
		p.stream(ask{method: "GET"})
		p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","arguments":{}}}`}).rest()
		if err := get.Send(t.Context(), []byte(`{}`)); err != nil {
			t.Errorf("while the session lives: %v", err)
		}
		if kept.end(p); d == refserver.Handoff {
			kept.armed.Store(false) // it appends under a lock that whoever forgets takes too
			kept.meanwhile()
			<-kept.forgotten
		}
		if err := get.Send(t.Context(), []byte(`{}`)); err == nil {
			t.Error("while the session ends: nobody is told")
		}
		evicted := kept.Stats().Evicted
		for name, s := range map[string]*refserver.Stream{"GET stream": get, "stream of a call": call} {
			if err := s.Send(t.Context(), []byte(`{}`)); err == nil {
				t.Errorf("%s: nobody is told", name)
			}
		}
		if st := kept.Stats(); st != (store.Stats{Evicted: evicted}) {
			t.Errorf("kept for nobody, or for a moment: %+v", st)
		}
	})
}

// lateStore is a store whose next append waits until a session was forgotten.
type lateStore struct {
	*store.Memory
	armed     atomic.Bool
	meanwhile func()
	forgotten chan struct{}
}

func (l *lateStore) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if l.armed.Swap(false) {
		l.meanwhile()
		<-l.forgotten
	}
	return l.Memory.Append(ctx, s, e)
}

func (l *lateStore) Forget(session string) {
	l.Memory.Forget(session)
	select {
	case l.forgotten <- struct{}{}:
	default:
	}
}

// end lets the next append wait until the session of p was ended and forgotten.
func (l *lateStore) end(p *peer) {
	l.meanwhile = func() {
		if code, _ := p.status(ask{method: "DELETE", session: p.id, version: p.revision}); code != 204 {
			p.t.Errorf("DELETE: %d", code)
		}
	}
	l.armed.Store(true)
}

// A session that is ended while one of its streams is about to begin leaves nothing.
func TestEnd_WhileAStreamBegins_LeavesNothingInTheStore(t *testing.T) {
	for name, a := range map[string]ask{
		"call":       {method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":{}}}`},
		"GET stream": {method: "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &lateStore{Memory: newStore(t, store.Limits{}), forgotten: make(chan struct{}, 1)}
			p := real(t, refserver.Config{Store: kept}).open(latest)
			a.session, a.version = p.id, p.revision
			kept.end(p)
			if code, body := p.status(a); code != 404 {
				t.Errorf("%d %s", code, body)
			}
			eventually(t, "nothing is kept", func() bool { return kept.Stats().Streams == 0 })
		})
	}
}
