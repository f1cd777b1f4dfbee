package refserver_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

const twenty = `{"messages":20,"interval_ms":10}`

func upTo(n int) []int {
	all := []int{-1}
	for k := 1; k <= n; k++ {
		all = append(all, k)
	}
	return append(all, 0)
}

// Whatever a client has seen, a resume from there yields the rest and nothing else,
// whether the call still runs or is long answered, over either kind of link.
func TestResume_CutAtEveryEvent_YieldsExactlyTheRest(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, late := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("keep connections %t, back after %s", keep, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := refserver.Config{Store: newStore(t, store.Limits{}), Retry: 100 * time.Millisecond, KeepConnections: keep}
					p := virtual(t, cfg).open(latest)
					for cut := 1; cut <= 22; cut++ {
						s := p.emit(cut, "tok"+strconv.Itoa(cut), twenty)
						seen := s.take(cut)
						s.cut()
						time.Sleep(late)
						again := p.resume(seen[cut-1].id)
						if cut < 22 && again.Header.Get("Gapless-Missed") == "" {
							t.Fatal("no Gapless-Missed on a resume")
						}
						all := slices.Concat(seen, again.rest())
						if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
							t.Fatalf("cut after event %d: got %v", cut, got)
						}
						if all[0].retry != "100" || !all[0].hasData {
							t.Fatalf("priming event is %+v", all[0])
						}
					}
				})
			})
		}
	}
}
