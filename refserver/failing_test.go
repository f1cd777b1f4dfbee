package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			var ledger *refserver.Ledger
			counted := -1
			cfg := refserver.Config{Delivery: d, Store: &hooked{newStore(t, store.Limits{}), func(e store.Event) error {
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
	})
}

// refusing is a store that takes no event with this text in it.
func refusing(t testing.TB, text string) *hooked {
	return &hooked{newStore(t, store.Limits{}), func(e store.Event) error {
		if strings.Contains(string(e.Frame), text) {
			return errors.New("no space")
		}
		return nil
	}}
}

// What the store does not take is written without an id, in its place; the call goes
// on, and who counts knows.
func TestStoreThatFails_CostsIDsAndNoEvents(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		tests := []struct {
			name, refuse string
			unstored     []int64
			withoutID    []int // indices of the events that came
		}{
			{"a message – it alone has no id", `"progress":3,`, []int64{3}, []int{3}},
			{"many messages – all in order", `"progress":1`, []int64{1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, []int{1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
			{"the response – the stream ends all the same", `"result"`, []int64{}, []int{21}},
			{"everything but the priming event – as without a store", `"jsonrpc"`, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, upTo(21)[1:22]},
			{"the priming event – the call is served", "data: \n", []int64{}, nil},
		}
		for _, tt := range tests {
			for _, args := range []string{twenty, `{"messages":20}`} {
				synctest.Test(t, func(t *testing.T) {
					var unstored atomic.Int32
					p := virtual(t, refserver.Config{Delivery: d, Store: refusing(t, tt.refuse), OnEvent: func(e refserver.Event) {
						if e.Kind == refserver.Unstored {
							unstored.Add(1)
						}
					}}).open(latest)
					all := p.emit(1, "a", args).rest()
					want := upTo(20)
					if strings.Contains(tt.refuse, "data") {
						want = want[1:]
					}
					if got := numbers(t, all); !slices.Equal(got, want) {
						t.Errorf("%s: got %v", tt.name, got)
					}
					var without []int
					for i, e := range all {
						if e.id == "" {
							without = append(without, i)
						}
					}
					if !slices.Equal(without, tt.withoutID) {
						t.Errorf("%s: events %v have no id", tt.name, without)
					}
					if c := p.fixture.Ledger.Take([]string{"a"})[0]; !slices.Equal(c.Unstored, tt.unstored) || c.Responses != 1 || len(c.Unknown) > 0 {
						t.Errorf("%s: ledger %+v", tt.name, c)
					}
					refused := max(len(tt.withoutID), 1)
					if n := gather(p.rig)["gapless_server_store_errors_total"]; n != strconv.Itoa(refused) || int(unstored.Load()) != refused {
						t.Errorf("%s: %s errors counted, %d told", tt.name, n, unstored.Load())
					}
				})
			}
		}
	})
}

// Send is told of what nobody will ever get, and of nothing else.
func TestSend_StoreFails_IsAnErrorOnlyWhenNobodyIsConnected(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: refusing(t, "lost")})
			var attached, stored, detached error
			r.fixture.Server.AddTool(&mcp.Tool{Name: "send", InputSchema: map[string]any{"type": "object"}},
				func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					stream := refserver.StreamFrom(ctx)
					attached = stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"lost"}`))
					pass(2 * time.Second)
					stored = stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"kept"}`))
					detached = stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"lost"}`))
					return &mcp.CallToolResult{}, nil
				})
			p := r.open(latest)
			s := p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{}}}`})
			seen := s.take(2)
			s.cut()
			pass(3 * time.Second)
			rest := p.resume(seen[0].id).rest()
			if attached != nil || stored != nil || !errors.Is(detached, refserver.ErrUnstored) || strings.Contains(detached.Error(), seen[0].id) {
				t.Errorf("attached %v, stored %v, detached %v", attached, stored, detached)
			}
			if seen[1].id != "" || !strings.Contains(seen[1].data, "lost") || len(rest) != 2 || !strings.Contains(rest[0].data, "kept") {
				t.Errorf("got %+v, then %+v", seen, rest)
			}
		})
	})
}

// With nobody connected what the store does not take is gone, and the ledger says so.
func TestStoreThatFails_WhileDetached_LosesOnlyThat(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: refusing(t, `"progress":9,`)}).open(latest)
			s := p.emit(1, "a", twenty)
			seen := s.take(4)
			s.cut()
			pass(time.Second)
			got := numbers(t, slices.Concat(seen, p.resume(seen[3].id).rest()))
			if want := slices.Delete(upTo(20), 9, 10); !slices.Equal(got, want) {
				t.Errorf("got %v", got)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; !slices.Equal(c.Unstored, []int64{9}) || c.Emitted != 20 || c.Responses != 1 {
				t.Errorf("ledger %+v", c)
			}
		})
	})
}

// A handler that does not listen to its context holds up nobody but itself.
func TestDelete_WhileAHandlerIgnoresIt_EndsTheStreamAtOnce(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
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
	})
}

// A store that keeps little costs a client that stays connected nothing: emit does not run
// ahead of it by more than the store keeps.
func TestEmit_SmallStore_LosesNothingToAConnectedClient(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, limits := range []store.Limits{{Events: 5}, {Events: 40}, {SessionBytes: 16 << 10}, {Bytes: 64 << 10}} {
			for _, size := range []int{100, 1000, 4000} {
				synctest.Test(t, func(t *testing.T) {
					p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, limits)}).open(latest)
					s := p.emit(1, "a", fmt.Sprintf(`{"messages":300,"bytes":%d}`, size))
					pass(time.Second) // it does not read at once
					if got := numbers(t, s.rest()); !slices.Equal(got, upTo(300)) {
						t.Errorf("%+v, %d bytes: got %d events of 302", limits, size, len(got))
					}
				})
			}
		}
	})
}

// A client that reads slowly gets all of a burst that the store could not hold: emit
// waits for it, as a handler that writes to a socket would.
func TestEmit_SlowReader_IsWaitedFor(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 1000})}).open(latest)
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
	})
}
