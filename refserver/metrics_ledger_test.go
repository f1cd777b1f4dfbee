package refserver_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// What the ledger says was executed, emitted and answered, call by call, is what the
// metrics add up to, however often the calls were cut meanwhile.
func TestMetrics_AgreeWithTheLedger(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			var tokens []string
			cuts := 0
			for range 4 {
				p := r.open(latest)
				for id := range 5 {
					token := fmt.Sprintf("call %d", len(tokens))
					tokens = append(tokens, token)
					s := p.emit(id, token, fmt.Sprintf(`{"messages":%d,"interval_ms":100}`, 10+len(tokens)))
					for k := range id { // so many cuts
						seen := s.take(k + 1)
						s.cut()
						s = p.resume(seen[k].id)
						cuts++
					}
					s.rest()
				}
			}
			emitted, executed, answered := 0, 0, 0
			for _, c := range r.fixture.Ledger.Take(tokens) {
				if !c.Known || len(c.Unstored)+len(c.Unknown) > 0 {
					t.Errorf("ledger %+v", c)
				}
				emitted, executed, answered = emitted+c.Emitted, executed+c.Executions, answered+c.Responses
			}
			if emitted == 0 || executed != len(tokens) || answered != len(tokens) {
				t.Fatalf("ledger: %d emitted, %d executed, %d answered", emitted, executed, answered)
			}
			got := gather(r)
			count := func(name string) int {
				n, err := strconv.Atoi(got[name])
				if err != nil {
					t.Errorf("%s is %q", name, got[name])
				}
				return n
			}
			primed := count(`gapless_server_events_total{path="priming"}`)
			for name, want := range map[string]int{
				`gapless_server_streams_opened_total{kind="post"}`: executed,
				`gapless_server_resumes_total{outcome="ok"}`:       cuts,
				`gapless_server_store_events{store="memory"}`:      emitted + answered + primed,
				`gapless_server_` + storeOps("append", "ok"):       emitted + answered + primed,
				operations("tools/call", "", latest):               executed,
			} {
				if n := count(name); n != want {
					t.Errorf("%s is %d, by the ledger %d", name, n, want)
				}
			}
			written := count(`gapless_server_events_total{path="live"}`) + count(`gapless_server_events_total{path="replay"}`)
			if primed != executed || written < emitted+answered {
				t.Errorf("%d priming events, %d others written; by the ledger %d and at least %d", primed, written, executed, emitted+answered)
			}
		})
	})
}
