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

// An ordinary tool that sends faster than its client reads waits for it: nothing of an
// uncut call is lost because the store keeps less than the tool sends.
func TestNotifyProgress_SlowReader_IsWaitedFor(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, size := range []int{10, 2000} {
			synctest.Test(t, func(t *testing.T) {
				p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 1000, Bytes: 1 << 20})})
				sent := make(chan int, 3000)
				p.fixture.Server.AddTool(&mcp.Tool{Name: "burst", InputSchema: map[string]any{"type": "object"}},
					func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						for k := range 3000 {
							progress := &mcp.ProgressNotificationParams{ProgressToken: "a", Progress: float64(k + 1), Message: strings.Repeat("x", size)}
							if err := req.Session.NotifyProgress(ctx, progress); err != nil {
								return nil, err
							}
							sent <- k
						}
						return &mcp.CallToolResult{}, nil
					})
				s := p.open(latest).call(1, "burst")
				synctest.Wait()
				if n := len(sent); n < 100 || n > 1000 {
					t.Errorf("%d messages were sent to a client that reads nothing", n)
				}
				var all []event
				for range 30 {
					all = append(all, s.take(50)...)
					synctest.Wait()
				}
				if got := numbers(t, append(all, s.rest()...)); !slices.Equal(got, upTo(3000)) {
					t.Errorf("%d bytes: got %d messages", size, len(got))
				}
			})
		}
	})
}

// What a client that came back has not read yet counts: the next burst waits until it was
// replayed, or it would evict what is being replayed.
func TestEmit_ReplayCountsAsUnread(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 30})}).open(latest)
			s := p.emit(1, "a", `{"messages":75,"interval_ms":1000,"burst":25,"bytes":70000}`)
			first := s.take(6)
			s.cut()
			pass(500 * time.Millisecond)
			s = p.resume(first[5].id)
			pass(time.Second) // the second burst is due, and nothing was read
			all := append(first, s.rest()...)
			if got := numbers(t, all); !slices.Equal(got, upTo(75)) {
				t.Errorf("got %d messages", len(got))
			}
		})
	})
}

// Many that send on one stream wait for their client, and never for one another.
func TestEmit_ManyOnOneStream_NeverWaitForever(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		p := real(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open("2025-03-26")
		var calls []string
		for k := range 40 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":{"messages":50,"bytes":16384},"_meta":{"progressToken":"t%d"}}}`, k+1, k))
		}
		if got := len(p.stream(p.batch(calls...)).rest()); got != 40*51 {
			t.Errorf("got %d events", got)
		}
	})
}
