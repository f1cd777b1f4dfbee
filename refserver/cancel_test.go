package refserver_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const cancelFirst = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`

// A cancelled call ends at once, whatever it waits for, and so does its stream.
func TestCancel_EndsTheCallAndItsStream(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		tests := []struct {
			name, args string
			emitted    int
		}{
			{"between messages", `{"messages":20,"interval_ms":1000}`, 3},
			{"at the gate", `{"messages":20,"hold":{"key":"k","streams":2}}`, 0},
			{"while the client does not answer", `{"messages":20,"requests":19}`, 1},
		}
		for _, tt := range tests {
			for _, away := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
					s := p.emit(1, "a", tt.args)
					cursor := s.take(1)[0].id
					if away {
						s.cut()
					}
					pass(2500 * time.Millisecond)
					if code, _ := p.post(cancelFirst); code != 202 {
						t.Errorf("%s: %d", tt.name, code)
					}
					synctest.Wait()
					c := p.fixture.Ledger.Take([]string{"a"})[0]
					if !c.Cancelled || c.Emitted != tt.emitted || c.Responses > 1 {
						t.Errorf("%s: ledger %+v", tt.name, c)
					}
					begun := time.Now()
					if away {
						s = p.resume(cursor)
					}
					all := s.rest()
					responses := slices.DeleteFunc(slices.Clone(all), func(e event) bool { return !strings.Contains(e.data, `"id":1,`) || strings.Contains(e.data, "ping") })
					if len(responses) != c.Responses || time.Since(begun) > 0 {
						t.Errorf("%s: %d responses, after %s", tt.name, len(responses), time.Since(begun))
					}
					again := p.resume(cursor)
					same(t, "the same again", again.rest(), all)
				})
			}
		}
	})
}

// With a store that does not even take the response, nothing hangs.
func TestCancel_ResponseNotStored_StreamEndsAllTheSame(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: refusing(t, `"error"`)}).open(latest)
			s := p.emit(1, "a", twenty)
			seen := s.take(4)
			s.cut()
			synctest.Wait()
			p.post(cancelFirst)
			synctest.Wait()
			if rest := p.resume(seen[3].id).rest(); len(rest) > 1 {
				t.Errorf("after the cancellation: %+v", rest)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; !c.Cancelled || c.Responses != 0 {
				t.Errorf("ledger %+v", c)
			}
		})
	})
}
