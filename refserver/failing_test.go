package refserver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hooked is a store that lets a test look at, or refuse, what is appended.
type hooked struct {
	store.Store
	before func(store.Event) error
}

func (h *hooked) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if err := h.before(e); err != nil {
		return "", err
	}
	return h.Store.Append(ctx, s, e)
}

// Whoever has the response can look into the ledger and finds it there.
func TestLedger_CountsTheResponseBeforeAnybodyCanSeeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledger *refserver.Ledger
		counted := -1
		cfg := refserver.Config{Store: &hooked{newStore(t, store.Limits{}), func(e store.Event) error {
			if e.Last && strings.Contains(string(e.Frame), "emitted") {
				counted = ledger.Take([]string{"a"})[0].Responses
			}
			return nil
		}}}
		p := virtual(t, cfg).open(latest)
		ledger = p.fixture.Ledger
		p.emit(1, "a", twenty).rest()
		if counted != 1 {
			t.Errorf("%d responses were counted when the response was stored", counted)
		}
	})
}

// What the store does not take is known to the ledger, and nobody waits for it.
func TestStoreThatFails_EndsTheCall_AndTheLedgerKnows(t *testing.T) {
	tests := []struct {
		name, refuse string
		unknown      []int64
		responses    int
		got          []int
	}{
		{"a message", `"progress":3,`, []int64{3}, 1, []int{-1, 1, 2, 0}},
		{"the response", `"result"`, []int64{}, 0, upTo(20)[:21]},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Store: &hooked{newStore(t, store.Limits{}), func(e store.Event) error {
				if strings.Contains(string(e.Frame), tt.refuse) {
					return errors.New("no space")
				}
				return nil
			}}}).open(latest)
			if got := numbers(t, p.emit(1, "a", twenty).rest()); !slices.Equal(got, tt.got) {
				t.Errorf("%s: got %v", tt.name, got)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; !slices.Equal(c.Unknown, tt.unknown) || c.Responses != tt.responses {
				t.Errorf("%s: ledger %+v", tt.name, c)
			}
			if n := gather(p.rig)["gapless_server_store_errors_total"]; n != "1" {
				t.Errorf("%s: %s errors counted", tt.name, n)
			}
		})
	}
}

// A handler that does not listen to its context holds up nobody but itself.
func TestDelete_WhileAHandlerIgnoresIt_EndsTheStreamAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{})})
		r.fixture.Server.AddTool(&mcp.Tool{Name: "deaf", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				pass(time.Minute)
				return &mcp.CallToolResult{}, nil
			})
		p := r.open(latest)
		s := p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf","arguments":{}}}`})
		s.take(1)
		begun := time.Now()
		if code, _ := p.status(ask{method: "DELETE", session: p.id}); code != 204 {
			t.Errorf("delete: %d", code)
		}
		s.rest()
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("the stream ended after %s", waited)
		}
		pass(2 * time.Minute)
	})
}

// A client that reads slowly gets all of a burst that the store could not hold: emit
// waits for it, as a handler that writes to a socket would.
func TestEmit_SlowReader_IsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Store: newStore(t, store.Limits{Events: 1000})}).open(latest)
		s := p.emit(1, "a", `{"messages":3000,"bytes":1000}`)
		var all []event
		for range 30 {
			all = append(all, s.take(100)...)
			synctest.Wait()
		}
		if got := numbers(t, append(all, s.rest()...)); !slices.Equal(got, upTo(3000)) {
			t.Errorf("got %d events", len(got))
		}
	})
}
