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

const oldest = "2025-03-26"

func emitCall(id int, token, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":{"progressToken":%q}}}`, id, args, token)
}

// batch posts messages as one body, without a version header, which this revision has
// not.
func (p *peer) batch(messages ...string) ask {
	return ask{method: "POST", session: p.id, body: " [" + strings.Join(messages, ",") + "]"}
}

// byToken sorts the events of several calls on one stream; responses are under their id.
func byToken(t *testing.T, events []event) map[string][]int {
	t.Helper()
	out := map[string][]int{}
	for _, e := range events {
		key := ""
		if _, rest, ok := strings.Cut(e.data, `"progressToken":"`); ok {
			key, _, _ = strings.Cut(rest, `"`)
		} else if _, rest, ok := strings.Cut(e.data, `"id":`); ok {
			key = rest[:strings.IndexAny(rest, ",}")]
		}
		out[key] = append(out[key], numbers(t, []event{e})[0])
	}
	return out
}

func TestBatch_OneStreamCarriesAllResponses_AndEndsWithTheLast(t *testing.T) {
	for _, cfg := range []refserver.Config{{Store: newStore(t, store.Limits{}), Retry: time.Second}, {}} {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, cfg).open(oldest)
			if p.revision != oldest {
				t.Fatalf("negotiated %s", p.revision)
			}
			a := p.batch(emitCall(1, "a", twenty), `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
				emitCall(2, "b", `{"messages":5,"interval_ms":70}`), ping, `{"jsonrpc":"2.0","id":"x","method":"no/such"}`)
			begun := time.Now()
			resp := p.stream(a)
			all := resp.rest()
			if took := time.Since(begun); took != 280*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			got := byToken(t, all)
			if len(all) != 29 || !slices.Equal(got["a"], upTo(20)[1:21]) || !slices.Equal(got["b"], upTo(5)[1:6]) {
				t.Errorf("%d events: %v", len(all), got)
			}
			for _, id := range []string{"1", "2", "7", `"x"`} {
				if !slices.Equal(got[id], []int{0}) {
					t.Errorf("request %s: %v", id, got[id])
				}
			}
			if !strings.Contains(all[28].data, `"id":2,`) || !strings.Contains(all[28].data, `"gapless/call":"b"`) {
				t.Errorf("the last event is %+v", all[28])
			}
			if (all[0].id != "") != (cfg.Store != nil) || all[0].retry != "" {
				t.Errorf("the first event is %+v", all[0])
			}
			for _, token := range []string{"a", "b"} {
				if c := p.fixture.Ledger.Take([]string{token})[0]; c.Responses != 1 || c.Executions != 1 {
					t.Errorf("ledger %+v", c)
				}
			}
		})
	}
}

// The responses of a batch come in any order and at one instant; whichever is last ends
// the stream, and none is lost with it.
func TestBatch_ResponsesAtOnce_AllCome_AlsoAfterACut(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(oldest)
			for round := range 20 {
				var calls []string
				for i := range 10 {
					calls = append(calls, emitCall(round*100+i, fmt.Sprintf("%d-%d", round, i), `{"messages":2,"interval_ms":5}`))
				}
				s := p.stream(p.batch(calls...))
				seen := s.take(round + 1)
				s.cut()
				pass(time.Duration(round%3) * 5 * time.Millisecond)
				got := byToken(t, slices.Concat(seen, p.resume(seen[round].id).rest()))
				for i := range 10 {
					if !slices.Equal(got[fmt.Sprintf("%d-%d", round, i)], []int{1, 2}) || len(got[fmt.Sprint(round*100+i)]) != 1 {
						t.Fatalf("round %d: %v", round, got)
					}
				}
			}
		})
	})
}

// A response that the store takes long to take is not overtaken by the end.
func TestBatch_SlowStore_LastIsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Store: slowStore{newStore(t, store.Limits{}), `"id":1,`, time.Second}}).open(oldest)
		all := p.stream(p.batch(emitCall(1, "a", `{"messages":2}`), emitCall(2, "b", `{"messages":2}`), ping)).rest()
		got := byToken(t, all)
		if len(got["1"]) != 1 || len(got["2"]) != 1 || len(got["7"]) != 1 || len(all) != 7 {
			t.Errorf("got %v", got)
		}
	})
}

func TestBatch_Statuses(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		const note, answer = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","id":99,"result":{}}`
		tests := []struct {
			name, revision string
			messages       []string
			want           int
		}{
			{"notifications and responses – nothing to answer", oldest, []string{note, answer, note}, 202},
			{"one request", oldest, []string{ping}, 200},
			{"empty", oldest, nil, 400},
			{"initialize among them", oldest, []string{ping, initBody(oldest)}, 400},
			{"initialize alone", oldest, []string{initBody(oldest)}, 400},
			{"one of them wrong", oldest, []string{ping, `{"jsonrpc":"2.0"}`}, 400},
			{"a batch in a batch", oldest, []string{"[" + ping + "]"}, 400},
			{"the same id twice", oldest, []string{ping, ping}, 400},
			{"after the one with the same id twice – the id is free", oldest, []string{ping}, 200},
			{"too many", oldest, slices.Repeat([]string{note}, 1001), 400},
			{"as many as may be", oldest, slices.Repeat([]string{note}, 1000), 202},
			{"2025-06-18", "2025-06-18", []string{ping}, 400},
			{"2025-11-25", latest, []string{ping}, 400},
			{"2025-11-25, notifications", latest, []string{note}, 400},
		}
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			peers := map[string]*peer{}
			for _, revision := range []string{oldest, "2025-06-18", latest} {
				peers[revision] = r.open(revision)
			}
			for _, tt := range tests {
				code, body := r.status(peers[tt.revision].batch(tt.messages...))
				if code != tt.want || code == 202 && body != "" {
					t.Errorf("%s: %d %s", tt.name, code, body)
				}
				if code == 400 {
					checkRefusal(t, tt.name, body)
				}
			}
			for _, body := range []string{"[" + initBody(oldest) + "]", "[" + ping + "]", "["} {
				if code, _ := r.status(ask{method: "POST", body: body}); code != 400 {
					t.Errorf("%.30s without a session: %d", body, code)
				}
			}
		})
	})
}

func TestBatch_CancelOfOne_LeavesTheOthers(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(oldest)
			s := p.stream(p.batch(emitCall(1, "a", twenty), emitCall(2, "b", twenty)))
			s.take(6)
			p.status(p.batch(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
			got := byToken(t, s.rest())
			if n := len(got["a"]); n > 1 || len(got["1"]) != 1 || len(got["2"]) != 1 || !slices.Equal(got["b"], upTo(20)[4:21]) {
				t.Errorf("got %v", got)
			}
		})
	})
}
