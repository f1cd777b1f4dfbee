package refserver_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// Clause: a GET with Last-Event-ID replays what was missed of the stream that the event
// belongs to, and of no other stream of the session, however they were interleaved.
func TestSeed003_Resume_ReplaysOnlyTheStreamOfItsEvent(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		first := get.take(1)[0]
		var cursors []string
		for id := 1; id <= 3; id++ {
			s := p.emit(id, fmt.Sprintf("tok-%d", id), twenty)
			cursors = append(cursors, s.take(2)[1].id)
			s.cut()
		}
		get.cut()
		p.emit(4, "tok-get", `{"messages":20,"interval_ms":10,"on":"get"}`).rest()
		pass(time.Second)
		for i, cursor := range cursors {
			all := p.resume(cursor).rest()
			if got := numbers(t, all); !slices.Equal(got, upTo(20)[2:]) {
				t.Errorf("stream %d: got %v", i+1, got)
			}
			for _, e := range all {
				if !strings.Contains(e.data, fmt.Sprintf(`"tok-%d"`, i+1)) || strings.Count(e.data, "tok-") != 1 {
					t.Errorf("stream %d got %s", i+1, e.data)
				}
			}
		}
		for _, e := range p.resume(first.id).take(20) {
			if !strings.Contains(e.data, `"tok-get"`) {
				t.Errorf("the GET stream got %s", e.data)
			}
		}
	})
}

// Clause: while the request runs the new connection takes the place of the old one: what the
// handler still sends arrives there, and the old one, if there is one, ends without it.
func TestSeed003_RequestStillRuns_TheRestComesOnTheNewConnection(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, log.observe(cfg)).open(latest)
		old := p.emit(1, "a", twenty)
		seen := old.take(6)
		fresh := p.resume(seen[5].id)
		if got := numbers(t, slices.Concat(seen, fresh.rest())); !slices.Equal(got, upTo(20)) {
			t.Errorf("got %v", got)
		}
		for {
			e, err := old.next()
			if errors.Is(err, io.EOF) {
				t.Error("the old connection looks complete")
			}
			if err != nil {
				break
			}
			t.Errorf("the old connection still got %+v", e)
		}
		if n := log.count(left(refserver.ReasonReplaced)); n != 1 {
			t.Errorf("%d connections were replaced", n)
		}
		if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Executions != 1 || c.Emitted != 20 || c.Cancelled {
			t.Errorf("ledger: %+v", c)
		}
	})
}

// Clause: the connection that is gone need not have been noticed: a link that died by a
// reset, and one that only looks alive, give way alike.
func TestSeed003_RequestStillRuns_TheOldLinkDiedOnTCP(t *testing.T) {
	seedTCP(t, func(t *testing.T, cfg refserver.Config) {
		for _, dead := range []bool{false, true} {
			cfg.Store = newStore(t, store.Limits{})
			p := real(t, cfg).open(latest)
			conn := p.raw(t, p.emitRequest(1, `{"messages":200,"interval_ms":1}`))
			id := readID(t, conn) // that of the priming event
			if dead {
				if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			if got := numbers(t, p.resume(id).rest()); !slices.Equal(got, upTo(200)[1:]) {
				t.Errorf("reset %t: got %v", dead, got)
			}
			conn.Close()
		}
	})
}

// Clause: the stream of a request that was answered is replayed, with its response, and
// closed then, as is asked of a server after a response.
func TestSeed003_RequestWasAnswered_ReplayThenResponseThenTheEnd(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", twenty)
		seen := s.take(6)
		s.cut()
		pass(time.Minute)
		begun := time.Now()
		for range 2 { // as often as is asked
			rest := p.resume(seen[5].id).rest()
			if got := numbers(t, rest); !slices.Equal(got, upTo(20)[6:]) || !strings.Contains(rest[len(rest)-1].data, `"id":1,"result"`) {
				t.Errorf("got %v, the last is %+v", got, rest[len(rest)-1])
			}
		}
		if time.Since(begun) > 0 {
			t.Errorf("the end came after %s", time.Since(begun))
		}
	})
}

// Clause: who has seen the response has seen everything: nothing follows, and the
// connection is closed rather than held open.
func TestSeed003_ResponseWasSeen_NothingMore_AndClosed(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		all := p.emit(1, "a", twenty).rest()
		begun := time.Now()
		s := p.resume(all[21].id)
		if rest := s.rest(); len(rest) != 0 || time.Since(begun) > 0 {
			t.Errorf("got %+v after %s", rest, time.Since(begun))
		}
	})
}

// Clause: a resume goes on where the stream was; the stream has been opened already, so
// there is no second priming event, and the first thing that comes is the next event.
func TestSeed003_Resume_BeginsWithTheNextEvent(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", twenty)
		seen := s.take(1)
		s.cut()
		again := p.resume(seen[0].id)
		if e := again.take(1)[0]; numbers(t, []event{e})[0] != 1 || e.retry != "" {
			t.Errorf("the first event is %+v", e)
		}
	})
}

// Clause: a message is either replayed or written to the connection that is attached, never
// both and never neither, wherever and however often the stream was cut.
func TestSeed003_EachMessage_IsReplayedOrLive_NeverBothNorNeither(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		draw := rand.New(rand.NewPCG(3, 681))
		for id := 1; id <= 40; id++ {
			burst := 1 + draw.IntN(8)
			s := p.emit(id, "a", fmt.Sprintf(`{"messages":300,"interval_ms":1,"burst":%d}`, burst))
			all := s.take(1)
			cuts := 0
			for {
				want := 1 + draw.IntN(60)
				var err error
				for range want {
					var e event
					if e, err = s.next(); err != nil {
						break
					}
					all = append(all, e)
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if draw.IntN(2) == 0 {
					s.cut() // else the next one takes over
				}
				pass(time.Duration(draw.IntN(30)) * time.Millisecond / 2)
				s = p.resume(all[len(all)-1].id)
				cuts++
			}
			if got := numbers(t, all); !slices.Equal(got, upTo(300)) || cuts == 0 {
				t.Fatalf("call %d, %d cuts: got %v", id, cuts, got)
			}
		}
	})
}

// The same over TCP, where goroutines truly run side by side and the emitter never pauses.
func TestSeed003_EachMessage_IsReplayedOrLive_OnTCP(t *testing.T) {
	seedTCP(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{Events: 100_000})
		p := real(t, cfg).open(latest)
		draw := rand.New(rand.NewPCG(3, 682))
		const total = 20_000
		s := p.emit(1, "a", fmt.Sprintf(`{"messages":%d}`, total))
		all := s.take(1)
		for cuts := 0; ; cuts++ {
			var err error
			for range 1 + draw.IntN(1500) {
				var e event
				if e, err = s.next(); err != nil {
					break
				}
				all = append(all, e)
			}
			if errors.Is(err, io.EOF) && len(all) == total+2 {
				break
			}
			if cuts > 10*total {
				t.Fatal("no end")
			}
			s.cut()
			s = p.resume(all[len(all)-1].id)
		}
		if got := numbers(t, all); !slices.Equal(got, upTo(total)) {
			t.Errorf("%d events", len(got))
		}
	})
}

// Clause: a stream has one connection: of many resumes at once one is left, and what it
// gets together with what was seen before is the whole stream.
func TestSeed003_ManyResumesAtOnce_OneConnectionIsLeft(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", `{"messages":20,"interval_ms":1000}`)
		seen := s.take(3)
		var again []*stream
		for range 5 {
			again = append(again, p.resume(seen[2].id))
		}
		synctest.Wait()
		complete := 0
		for _, s := range append(again, s) {
			all := slices.Clone(seen)
			for {
				e, err := s.next()
				if errors.Is(err, io.EOF) {
					complete++
					if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
						t.Errorf("got %v", got)
					}
				}
				if err != nil {
					break
				}
				all = append(all, e)
			}
		}
		if complete != 1 {
			t.Errorf("%d connections came to the end", complete)
		}
	})
}
