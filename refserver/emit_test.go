package refserver_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// canonical returns JSON as encoding/json would write it with sorted keys and as few
// escapes as it can; emit must already have written it so.
func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), `\u2028`, "\u2028")
}

func TestEmit_MessagesAreCanonicalAndAsLargeAsAsked(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			id := 0
			for _, size := range []int{0, 200, 201, 202, 203, 204, 1000, 70_000} {
				id++
				token := fmt.Sprintf("t\"<%d>\u00e9", size)
				events := p.emit(id, token, fmt.Sprintf(`{"messages":11,"bytes":%d,"result_bytes":300}`, size)).rest()
				for k, e := range events[1:12] {
					if got := canonical(t, e.data); got != e.data {
						t.Fatalf("message of %d bytes is not canonical:\n%s\n%s", size, e.data, got)
					}
					if size > 0 && len(e.data) != size {
						t.Errorf("message %d has %d bytes, want %d", k+1, len(e.data), size)
					}
					var m struct {
						Params struct {
							ProgressToken   string
							Progress, Total int
						}
					}
					if err := json.Unmarshal([]byte(e.data), &m); err != nil || m.Params.ProgressToken != token || m.Params.Progress != k+1 || m.Params.Total != 11 {
						t.Errorf("message %d: %+v %v", k+1, m, err)
					}
				}
				response := events[12].data
				if !strings.Contains(response, `"text":"emitted 11 `) || len(response) < 300 {
					t.Errorf("response: %s", response)
				}
				var r struct {
					Result struct {
						Meta map[string]string `json:"_meta"`
					}
				}
				if err := json.Unmarshal([]byte(response), &r); err != nil || r.Result.Meta["gapless/call"] != token {
					t.Errorf("the response does not name its call: %s", response)
				}
			}
		})
	})
}

func TestEmit_Pace(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			start := time.Now()
			s := p.emit(1, "a", `{"messages":7,"interval_ms":2.5,"burst":3}`)
			s.take(1)
			var at []time.Duration
			for range 8 {
				s.take(1)
				at = append(at, time.Since(start))
			}
			const tick = 2500 * time.Microsecond
			if want := []time.Duration{0, 0, 0, tick, tick, tick, 2 * tick, 2 * tick}; !slices.Equal(at, want) {
				t.Errorf("events came at %v, want %v", at, want)
			}
		})
	})
}

func TestEmit_BadArgumentsAndNoToken(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			for i, args := range []string{`{"messages":-1}`, `{"messages":1e9}`, `{"bytes":1e9}`, `{"interval_ms":-1}`, `{"messages":"x"}`, `[]`} {
				if all := p.emit(i+1, "a", args).rest(); len(all) != 2 || !strings.Contains(all[1].data, "-32602") {
					t.Errorf("%s: %+v", args, all)
				}
			}
			_, body := p.post(`{"jsonrpc":"2.0","id":100,"method":"tools/call","params":{"name":"emit","arguments":{"messages":3}}}`)
			if strings.Contains(body, "progress") || !strings.Contains(body, "emitted 0") {
				t.Errorf("without a token: %s", body)
			}
			_, body = p.post(`{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"emit","arguments":{"messages":1},"_meta":{"progressToken":77}}}`)
			if !strings.Contains(body, `"progressToken":77,`) || !strings.Contains(body, `"gapless/call":"77"`) {
				t.Errorf("with a number as token: %s", body)
			}
		})
	})
}

func TestEmit_HoldsUntilAllAreOpen(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			start := time.Now()
			args := `{"messages":2,"interval_ms":3000,"hold":{"key":"k","streams":3}}`
			var streams []*stream
			for id := 1; id <= 4; id++ {
				pass(time.Second)
				s := p.emit(id, fmt.Sprint(id), args)
				s.take(1)
				streams = append(streams, s)
			}
			for i, want := range []time.Duration{6, 6, 6, 7} { // the third opens at 3 s, the fourth finds the gate open
				if got := numbers(t, streams[i].rest()); !slices.Equal(got, []int{1, 2, 0}) || time.Since(start) != want*time.Second {
					t.Errorf("stream %d: %v after %s", i+1, got, time.Since(start))
				}
			}
			if time.Since(start) != 7*time.Second {
				t.Errorf("all were done after %s", time.Since(start))
			}
			start = time.Now()
			p.emit(9, "alone", args).rest()
			if time.Since(start) != 63*time.Second {
				t.Errorf("a call alone was held for %s", time.Since(start))
			}
		})
	})
}

// take asks /ledger/take as the lab does.
func take(t *testing.T, h http.Handler, body string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/ledger/take", strings.NewReader(body)))
	var answer map[string]any
	if w.Code == 200 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code, answer
}

func TestLedger_IsWhatTheClientSaw_AndForgets(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			events := p.emit(1, "a", `{"messages":3,"bytes":300}`).rest()
			running := p.emit(2, "b", `{"messages":3,"interval_ms":1000}`)
			running.take(2)
			synctest.Wait()
			var hashes []byte
			for _, e := range events[1:4] {
				hashes = binary.BigEndian.AppendUint64(hashes, xxhash.Sum64String(e.data))
			}
			encoded, _ := json.Marshal(hashes)
			code, got := take(t, p.fixture.Admin, `{"calls":["a","nobody","b"]}`)
			calls := got["calls"].([]any)
			want := map[string]any{
				"call": "a", "known": true, "emitted": 3.0, "executions": 1.0, "responses": 1.0, "answers": 0.0, "cancelled": false,
				"hashes": strings.Trim(string(encoded), `"`), "unstored": []any{}, "unknown": []any{},
			}
			if code != 200 || got["dropped"] != 0.0 || len(calls) != 3 || !reflect.DeepEqual(calls[0], any(want)) {
				t.Errorf("%d %v, want first %v", code, got, want)
			}
			if m := calls[1].(map[string]any); m["call"] != "nobody" || m["known"] != false {
				t.Errorf("unknown call: %v", m)
			}
			if m := calls[2].(map[string]any); m["emitted"] != 1.0 || m["responses"] != 0.0 || m["known"] != true {
				t.Errorf("running call: %v", m)
			}
			running.rest()
			for _, token := range []string{"a", "b"} {
				if c := p.fixture.Ledger.Take([]string{token})[0]; c.Known {
					t.Errorf("%s is not forgotten: %+v", token, c)
				}
			}
		})
	})
}

func TestLedger_Bounds(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			for _, body := range []string{``, `[]`, `{"calls":"a"}`, `{"names":[]}`, `{"calls":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`, `{"calls":["` + strings.Repeat("a", 1<<20) + `"]}`} {
				if code, _ := take(t, p.fixture.Admin, body); code != 400 {
					t.Errorf("%.20s…: %d", body, code)
				}
			}
		})
		l, err := refserver.NewLedger(refserver.LedgerConfig{Calls: 2, Bytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Take(nil); got == nil || len(got) != 0 {
			t.Errorf("nothing asked: %#v", got)
		}
		if _, err := refserver.NewLedger(refserver.LedgerConfig{Calls: -1, Bytes: -1}); err == nil || strings.Count(err.Error(), "negative") != 2 {
			t.Errorf("negative bounds: %v", err)
		}
	})
}
