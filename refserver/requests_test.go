package refserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// requestID returns the id of a request of the server, as JSON, "" if it is none.
func requestID(e event) string {
	if !strings.Contains(e.data, `"method":"ping"`) {
		return ""
	}
	id := e.data[strings.Index(e.data, `"id":`)+5:]
	return id[:strings.IndexAny(id, ",}")]
}

// answering reads a stream to its end and answers what the server asks.
func (p *peer) answering(s *stream, answer string) (got []int, ids []string) {
	p.t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			return got, ids
		}
		id := requestID(e)
		if id == "" {
			got = append(got, numbers(p.t, []event{e})[0])
			continue
		}
		ids = append(ids, id)
		if answer == "" {
			continue
		}
		if code, body := p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, answer)); code != 202 {
			p.t.Errorf("answer: %d %s", code, body)
		}
	}
}

func TestRequests_AreSpreadOverTheCall_AndWaitedFor(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		tests := []struct {
			name, answer string
			took         time.Duration
			answers      int
		}{
			{"answered", `"result":{}`, 190 * time.Millisecond, 3},
			{"answered with an error", `"error":{"code":-32601,"message":"no"}`, 190 * time.Millisecond, 3},
			{"not answered", "", 30*time.Second + 190*time.Millisecond, 0},
		}
		for _, tt := range tests {
			synctest.Test(t, func(t *testing.T) {
				p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
				begun := time.Now()
				s := p.emit(1, "a", `{"messages":20,"interval_ms":10,"requests":3}`)
				seen := s.take(7)
				if got := numbers(t, seen[:6]); !slices.Equal(got, []int{-1, 1, 2, 3, 4, 5}) || requestID(seen[6]) == "" {
					t.Errorf("%s: the first request comes after %v", tt.name, got)
				}
				if tt.answer != "" {
					p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, requestID(seen[6]), tt.answer))
				}
				got, ids := p.answering(s, tt.answer)
				got = slices.DeleteFunc(got, func(n int) bool { return n == 0 }) // the SDK takes back what was not answered
				if !slices.Equal(got, upTo(20)[6:21]) || len(ids) != 2 || ids[0] == ids[1] {
					t.Errorf("%s: got %v and requests %v", tt.name, got, ids)
				}
				if took := time.Since(begun); took != tt.took {
					t.Errorf("%s: took %s", tt.name, took)
				}
				if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Answers != tt.answers || c.Emitted != 20 || c.Responses != 1 {
					t.Errorf("%s: ledger %+v", tt.name, c)
				}
			})
		}
	})
}

func TestRequests_NotStored_ReachTheClientWithoutAnID(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: refusing(t, `"method":"ping"`)}).open(latest)
			got, ids := p.answering(p.emit(1, "a", `{"messages":20,"interval_ms":10,"requests":3}`), `"result":{}`)
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Answers != 3 || len(ids) != 3 || !slices.Equal(got, upTo(20)) {
				t.Errorf("got %v and requests %v, ledger %+v", got, ids, c)
			}
		})
	})
}

func TestRequests_WhileCut_AreReplayedAndAnsweredOnce(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			s := p.emit(1, "a", `{"messages":20,"interval_ms":10,"requests":1}`)
			seen := s.take(3)
			s.cut()
			pass(5 * time.Second)
			got, ids := p.answering(p.resume(seen[2].id), `"result":{}`)
			if !slices.Equal(got, upTo(20)[3:]) || len(ids) != 1 {
				t.Errorf("got %v and requests %v", got, ids)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Answers != 1 || c.Emitted != 20 {
				t.Errorf("ledger %+v", c)
			}
		})
	})
}

func TestRequests_OnTheGETStream(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			get := p.resumeNothing()
			get.take(1)
			p.emit(1, "a", `{"messages":2,"requests":1,"on":"get"}`).rest()
			seen := get.take(2)
			if numbers(t, seen)[0] != 1 || requestID(seen[1]) == "" {
				t.Errorf("got %+v", seen)
			}
			p.post(`{"jsonrpc":"2.0","id":` + requestID(seen[1]) + `,"result":{}}`)
			if got := numbers(t, get.take(1)); got[0] != 2 {
				t.Errorf("got %v", got)
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Answers != 1 || c.Emitted != 2 {
				t.Errorf("ledger %+v", c)
			}
		})
	})
}
