package refserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const onGet = `{"messages":20,"interval_ms":10,"on":"get"}`

func TestOnGet_CallIsAnsweredAtOnce_MessagesComeOnTheGETStream(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			get := p.resumeNothing()
			get.take(1)
			begun := time.Now()
			if got := numbers(t, p.emit(1, "a", onGet).rest()); !slices.Equal(got, []int{-1, 0}) || time.Since(begun) > 0 {
				t.Errorf("the call: %v after %s", got, time.Since(begun))
			}
			seen := get.take(7)
			get.cut()
			pass(time.Minute) // all the rest is sent meanwhile
			again := p.resume(seen[6].id)
			if missed := again.Header.Get("Gapless-Missed"); missed != "13" {
				t.Errorf("missed %s", missed)
			}
			all := slices.Concat(seen, again.take(13))
			if got := numbers(t, all); !slices.Equal(got, upTo(20)[1:21]) || !strings.Contains(all[19].data, `"progressToken":"a","total":20`) {
				t.Errorf("got %v", got)
			}
			c := p.fixture.Ledger.Take([]string{"a"})[0]
			if c.Emitted != 20 || c.Responses != 1 || c.Executions != 1 || c.Cancelled || len(c.Hashes) != 160 {
				t.Errorf("ledger: %+v", c)
			}
			// It goes on, live, for the next call.
			p.emit(2, "b", onGet).rest()
			if got := numbers(t, again.take(20)); !slices.Equal(got, upTo(20)[1:21]) {
				t.Errorf("live: %v", got)
			}
		})
	})
}

func TestOnGet_StreamNeverOpened_IsAnErrorThatSaysSo(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			all := p.emit(1, "a", onGet).rest()
			if len(all) != 2 || !strings.Contains(all[1].data, `"isError":true`) || !strings.Contains(all[1].data, "has not opened the GET stream") {
				t.Errorf("got %+v", all)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Emitted != 0 || c.Responses != 1 || c.Executions != 1 {
				t.Errorf("ledger: %+v", c)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Known {
				t.Errorf("not forgotten: %+v", c)
			}
		})
	})
}

// slowStore takes its time with one message. It is of no use with delivery by hand-over:
// there a lock is held meanwhile, and the clock of a bubble stands still for a lock.
type slowStore struct {
	*store.Memory
	text string
	time time.Duration
}

func (s slowStore) Append(ctx context.Context, stream store.Stream, e store.Event) (string, error) {
	if strings.Contains(string(e.Frame), s.text) {
		pass(s.time)
	}
	return s.Memory.Append(ctx, stream, e)
}

// The last append is still under way when the session ends; what it stores goes too.
func TestOnGet_EndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := slowStore{newStore(t, store.Limits{}), `"progress":4,`, time.Second / 2}
		p := virtual(t, refserver.Config{Store: m}).open(latest)
		get := p.resumeNothing()
		p.emit(1, "a", onGet).rest()
		get.take(3)
		pass(100 * time.Millisecond)
		p.status(ask{method: "DELETE", session: p.id})
		get.rest()
		pass(time.Second)
		if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Emitted != 4 || !c.Cancelled {
			t.Errorf("ledger: %+v", c)
		}
		if s := m.Stats(); s.Events != 0 || s.Streams != 0 {
			t.Errorf("the store keeps %+v", s)
		}
	})
}

// Several calls share one GET stream: all of each comes, in its order, also to a slow
// reader, and nobody waits for ever when that reader leaves.
func TestOnGet_SeveralCalls_SlowReaderThatLeaves(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			get := p.resumeNothing()
			cursor := get.take(1)[0].id
			for id, token := range []string{"a", "b", "c"} {
				p.emit(id+1, token, `{"messages":900,"bytes":1000,"on":"get"}`).rest()
			}
			synctest.Wait()
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Emitted == 900 {
				t.Errorf("nobody waited for the reader")
			}
			get.cut()
			synctest.Wait()
			for _, c := range p.fixture.Ledger.Take([]string{"b", "c"}) {
				if c.Emitted != 900 {
					t.Errorf("%s waits for nobody after %d", c.Call, c.Emitted)
				}
			}
			seen := map[string]int{}
			for _, e := range p.resume(cursor).take(2700) {
				token := e.data[strings.Index(e.data, `"progressToken":"`)+17:][:1]
				if seen[token]++; numbers(t, []event{e})[0] != seen[token] {
					t.Fatalf("%s: message %d came as number %d", token, numbers(t, []event{e})[0], seen[token])
				}
			}
			if seen["a"] != 900 || seen["b"] != 900 || seen["c"] != 900 {
				t.Errorf("got %v", seen)
			}
		})
	})
}
