package refserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// Calls keep their arguments in memory, so their bodies count until they are answered: who
// makes calls that last must not fill the memory with them.
func TestBodies_OfCallsInFlight_CountUntilTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Limits: refserver.Limits{Body: 512 << 10, Bodies: 1 << 20}})
		p := r.open(latest)
		large := func(p *peer, id int, args string) ask {
			return ask{method: http.MethodPost, session: p.id, body: fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":{%s,"pad":"%s"},"_meta":{"progressToken":"t"}}}`,
				id, args, strings.Repeat("x", 400<<10))}
		}
		const long = `"messages":2,"interval_ms":60000`
		for id := range 10 { // answered at once, and forgotten
			if code, body := r.status(large(p, id, `"messages":1`)); code != 200 {
				t.Fatalf("call %d alone: %d %s", id, code, body)
			}
		}
		first, second := p.stream(large(p, 11, long)), p.stream(large(p, 12, long))
		if code, body := r.status(large(p, 13, long)); code != 503 || !strings.Contains(body, "too many large bodies") {
			t.Errorf("one more, while two are in flight: %d %.100s", code, body)
		}
		if code, _ := p.post(ping); code != 200 {
			t.Errorf("a small one: %d", code)
		}
		first.take(1)
		first.cut() // nobody follows it, and the call goes on
		if code, _ := r.status(large(p, 14, `"messages":1`)); code != 503 {
			t.Errorf("one more, when a connection has gone: %d", code)
		}
		pass(2 * time.Minute)
		second.rest()
		for id := 15; id < 20; id++ {
			if code, body := r.status(large(p, id, `"messages":1`)); code != 200 {
				t.Fatalf("when both are answered: %d %.100s", code, body)
			}
		}
		gone := r.open(latest)
		third, fourth := gone.stream(large(gone, 1, long)), gone.stream(large(gone, 2, long))
		if code, _ := r.status(ask{method: http.MethodDelete, session: gone.id}); code != 204 {
			t.Fatalf("DELETE: %d", code)
		}
		third.rest()
		fourth.rest()
		synctest.Wait()
		for id := 20; id < 25; id++ {
			if code, body := r.status(large(p, id, `"messages":1`)); code != 200 {
				t.Fatalf("when their session has ended: %d %.100s", code, body)
			}
		}
	})
}
