package refserver_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			for _, late := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
				t.Run(fmt.Sprintf("keep connections %t, back after %s", keep, late), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cfg := refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), Retry: 100 * time.Millisecond, KeepConnections: keep}
						p := virtual(t, cfg).open(latest)
						for cut := 1; cut <= 22; cut++ {
							s := p.emit(cut, "tok"+strconv.Itoa(cut), twenty)
							seen := s.take(cut)
							s.cut()
							pass(late)
							again := p.resume(seen[cut-1].id)
							if missed := again.Header.Get("Gapless-Missed"); late == time.Second && missed != strconv.Itoa(22-cut) {
								t.Fatalf("cut after event %d of 22, %q missed", cut, missed)
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
	})
}

func TestResume_CursorThatLeadsNowhere_Is400AndDisturbsNobody(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 8})})
			p, other := r.open(latest), r.open(latest)
			s := p.emit(1, "a", `{"messages":20,"interval_ms":1000}`)
			priming := s.take(1)[0]
			foreign := other.emit(1, "b", `{"messages":1}`).rest()[0]
			nonce, _, _ := strings.Cut(priming.id, "-")
			pass(15 * time.Second) // 16 messages: the first are evicted
			bad := map[string]string{
				"unknown":      "nobody-1",
				"no number":    nonce + "-",
				"no nonce":     "-1",
				"future":       nonce + "-9999",
				"next":         nonce + "-18",
				"zero":         nonce + "-0",
				"leading zero": nonce + "-017",
				"signed":       nonce + "-+17",
				"huge":         nonce + "-99999999999999999999999",
				"long":         strings.Repeat("x", 5000),
				"spaces":       "a b-1",
				"not ASCII":    "é-1",
				"foreign":      foreign.id,
				"evicted":      priming.id,
				"markup":       "<script>-1",
			}
			for name, cursor := range bad {
				code, body := p.status(ask{method: "GET", session: p.id, version: latest, cursor: cursor})
				if code != 400 || strings.Contains(body, cursor) || strings.Contains(body, "data:") {
					t.Errorf("%s: %d %q", name, code, body)
				}
			}
			// The stream went on meanwhile, on the connection it had.
			if got := numbers(t, s.rest()); !slices.Equal(got, upTo(20)[1:]) {
				t.Errorf("the attached client got %v", got)
			}
		})
	})
}

func TestResume_WhileAttached_TakesOverAndTheOldLinkIsReset(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("keep connections %t", keep), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), KeepConnections: keep}).open(latest)
					old := p.emit(1, "a", twenty)
					seen := old.take(4)
					fresh := p.resume(seen[3].id)
					if got := numbers(t, slices.Concat(seen, fresh.rest())); !slices.Equal(got, upTo(20)) {
						t.Errorf("got %v", got)
					}
					late := 0
					for {
						_, err := old.next()
						if errors.Is(err, io.EOF) {
							t.Fatal("the old body came to a clean end")
						}
						if err != nil {
							break
						}
						late++
					}
					if late > 1 {
						t.Errorf("%d events on the old link after the takeover", late)
					}
				})
			})
		}
	})
}

func TestResume_WhileAttached_RefusedByPolicy(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), OnConflict: refserver.Refuse}).open(latest)
			s := p.emit(1, "a", twenty)
			seen := s.take(4)
			code, _ := p.status(ask{method: "GET", session: p.id, version: latest, cursor: seen[3].id})
			if code != 409 {
				t.Errorf("resume of an attached stream: %d", code)
			}
			s.cut()
			synctest.Wait()
			if got := numbers(t, slices.Concat(seen, p.resume(seen[3].id).rest())); !slices.Equal(got, upTo(20)) {
				t.Errorf("got %v", got)
			}
		})
	})
}

// A reader that stalls holds up nobody, and its stream can be taken over although
// a write to it is under way.
func TestResume_OfAStalledReader_TakesOver(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("keep connections %t", keep), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), KeepConnections: keep}).open(latest)
					stalled := p.emit(1, "a", `{"messages":3000,"bytes":1000}`)
					seen := stalled.take(10)
					synctest.Wait() // 64 KiB are in the link, the writer is blocked
					if got := numbers(t, p.emit(2, "b", twenty).rest()); !slices.Equal(got, upTo(20)) {
						t.Errorf("a neighbour got %v", got)
					}
					begun := time.Now()
					fresh := p.resume(seen[9].id)
					if waited := time.Since(begun); waited > 0 {
						t.Errorf("the takeover took %s", waited)
					}
					if got := numbers(t, slices.Concat(seen, fresh.rest())); !slices.Equal(got, upTo(3000)) {
						t.Errorf("got %d events", len(got))
					}
				})
			})
		}
	})
}

func TestStalledReader_IsCutAfterTheWriteTimeout_AndMayResume(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			reasons := make(chan refserver.Reason, 10)
			p := virtual(t, refserver.Config{
				Delivery: d, Store: newStore(t, store.Limits{}), WriteTimeout: 7 * time.Second,
				OnEvent: func(e refserver.Event) {
					if e.Kind == refserver.Detached {
						reasons <- e.Reason
					}
				},
			}).open(latest)
			begun := time.Now()
			s := p.emit(1, "a", `{"messages":3000,"bytes":1000}`)
			seen := s.take(1)
			if reason := <-reasons; reason != refserver.ReasonTimeout || time.Since(begun) != 7*time.Second {
				t.Errorf("left for reason %s after %s", reason, time.Since(begun))
			}
			if got := numbers(t, slices.Concat(seen, p.resume(seen[0].id).rest())); !slices.Equal(got, upTo(3000)) {
				t.Errorf("got %d events", len(got))
			}
		})
	})
}

func TestRevisions_PrimingOnlyFromTheNewest_IdsAlways(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for revision, primed := range map[string]bool{"2025-03-26": false, "2025-06-18": false, "2025-11-25": true} {
			t.Run(revision, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), Retry: time.Second}).open(revision)
					if p.revision != revision {
						t.Fatalf("negotiated %s", p.revision)
					}
					want := upTo(20)
					if !primed {
						want = want[1:]
					}
					s := p.emit(1, "a", twenty)
					seen := s.take(3)
					s.cut()
					all := slices.Concat(seen, p.resume(seen[2].id).rest())
					if got := numbers(t, all); !slices.Equal(got, want) {
						t.Errorf("got %v", got)
					}
					ids := map[string]bool{}
					for i, e := range all {
						if e.id == "" || ids[e.id] {
							t.Errorf("event %d has id %q", i+1, e.id)
						}
						ids[e.id] = true
						if (e.retry == "1000") != (primed && i == 0) {
							t.Errorf("event %d has retry %q", i+1, e.retry)
						}
					}
				})
			})
		}
	})
}

// All sessions use the same request ids, and nothing of one is seen in another.
func TestSessions_SameRequestIDs_AreIsolated(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			var streams []*stream
			for s := range 4 {
				p := r.open(latest)
				for id := 1; id <= 3; id++ {
					streams = append(streams, p.emit(id, fmt.Sprintf("tok-%d-%d-", s, id), twenty))
				}
			}
			ids := map[string]bool{}
			for i, s := range streams {
				token := fmt.Sprintf("tok-%d-%d-", i/3, i%3+1)
				all := s.rest()
				if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
					t.Errorf("stream %d got %v", i, got)
				}
				for _, e := range all[1:] {
					if !strings.Contains(e.data, token) || strings.Count(e.data, "tok-") != 1 {
						t.Errorf("stream %d got %s", i, e.data)
					}
				}
				for _, e := range all {
					if ids[e.id] {
						t.Errorf("id %s twice", e.id)
					}
					ids[e.id] = true
				}
				if !strings.Contains(all[21].data, fmt.Sprintf(`"id":%d,`, i%3+1)) {
					t.Errorf("stream %d ends with %s", i, all[21].data)
				}
			}
		})
	})
}

// Without a store the frames are those of a server that has none, and what nobody
// reads is gone.
func TestNoStore_NoIds_NothingToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Retry: time.Second}).open(latest)
		for i, e := range p.emit(1, "a", twenty).rest() {
			if e.id != "" || e.retry != "" || e.data == "" {
				t.Errorf("event %d is %+v", i+1, e)
			}
		}
		if code, _ := p.status(ask{method: "GET", session: p.id, version: latest, cursor: "x-1"}); code != 400 {
			t.Errorf("resume without a store: %d", code)
		}
		s := p.emit(2, "b", twenty)
		if got := numbers(t, s.take(5)); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
			t.Errorf("got %v", got)
		}
		s.cut()
		pass(time.Second)
		account := p.fixture.Ledger.Take([]string{"b"})[0]
		if account.Emitted != 20 || account.Cancelled {
			t.Errorf("the call was not finished: %+v", account)
		}
	})
}

// Without a store a client whose link fails cannot be told anything more, so its
// session is over; with one it may come back.
func TestGETStream_WriteFails_EndsTheSessionOnlyWithoutAStore(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, tt := range []struct {
			cfg  refserver.Config
			want int
		}{{refserver.Config{}, 404}, {refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}, 200}} {
			synctest.Test(t, func(t *testing.T) {
				tt.cfg.WriteTimeout = 5 * time.Second
				p := virtual(t, tt.cfg).open(latest)
				p.resumeNothing() // and never reads
				p.emit(1, "a", `{"messages":400,"bytes":1000,"on":"get"}`).rest()
				pass(4 * time.Second)
				if code, _ := p.post(ping); code != 200 {
					t.Errorf("before the time is up: %d", code)
				}
				pass(2 * time.Second)
				if code, _ := p.post(ping); code != tt.want {
					t.Errorf("after a write that failed: %d, want %d", code, tt.want)
				}
			})
		}
	})
}

// The GET stream without a store: no ids, no priming, and what is sent while nobody is
// connected is gone; a client that merely leaves keeps its session.
func TestNoStore_GETStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Retry: time.Second}).open(latest)
		get := p.resumeNothing()
		if get.Header.Get("Gapless-Missed") != "" {
			t.Errorf("head: %v", get.Header)
		}
		p.emit(1, "a", onGet).rest()
		for i, e := range get.take(5) {
			if e.id != "" || e.retry != "" || numbers(t, []event{e})[0] != i+1 {
				t.Errorf("event %d is %+v", i+1, e)
			}
		}
		get.cut()
		pass(55 * time.Millisecond)
		if got := numbers(t, p.resumeNothing().take(1)); got[0] != 11 {
			t.Errorf("first after the gap: %v", got)
		}
	})
}
