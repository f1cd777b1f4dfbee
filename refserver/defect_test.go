package refserver_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/store"
)

// cutCall makes a call of 20 messages, cuts it behind message 4, comes back after
// a while, and returns what it saw before and after. A call whose end never comes is
// cut short after a second resume.
func cutCall(p *peer, id int, away time.Duration) (before, after []int) {
	s := p.emit(id, fmt.Sprint("tok", id), twenty)
	seen := s.take(5)
	s.cut()
	pass(away)
	rest := p.resume(seen[4].id).rest()
	return numbers(p.t, seen), numbers(p.t, rest)
}

func TestDefects_ShowWhatTheyShould_AndTheCleanServerNothing(t *testing.T) {
	const short, long = 35 * time.Millisecond, time.Second
	rest := upTo(20)[5:] // 5..20 and the response
	tests := []struct {
		name, defect string
		away         time.Duration
		after        []int
	}{
		{"clean, back while it runs", "", short, rest},
		{"clean, back when it is over", "", long, rest},
		{"S03a repeats the last message seen", "S03a", short, slices.Concat([]int{4}, rest)},
		{"S03 is S03a", "S03", long, slices.Concat([]int{4}, rest)},
		{"S03b leaves one out", "S03b", short, rest[1:]},
		{"S03b leaves one out of what is over", "S03b", long, rest[1:]},
		{"S05a loses what was emitted meanwhile", "S05a", short, rest[3:]},
		{"S05a loses all to the end, the response too", "S05a", long, nil},
		{"S05b does nothing while the call runs", "S05b", short, rest},
		{"S05b loses the response", "S05b", long, rest[:16]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, err := defect.Parse(tt.defect)
				if err != nil {
					t.Fatal(err)
				}
				p := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Defect: set}).open(latest)
				before, after := cutCall(p, 1, tt.away)
				if !slices.Equal(before, upTo(4)[:5]) {
					t.Errorf("before the cut: %v", before)
				}
				if !slices.Equal(after, tt.after) {
					t.Errorf("after it: %v, want %v", after, tt.after)
				}
				// Whatever was lost, the emitter was told that it was accepted.
				if c := p.fixture.Ledger.Take([]string{"tok1"})[0]; c.Emitted != 20 || len(c.Unknown) > 0 || c.Responses != 1 {
					t.Errorf("ledger: %+v", c)
				}
				if got := numbers(t, p.emit(2, "uncut", twenty).rest()); !slices.Equal(got, upTo(20)) {
					t.Errorf("a call without a cut: %v", got)
				}
			})
		})
	}
}

func TestDefect_EveryTenthResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Defect: defect.Set{ID: defect.S03b, Every: 10}}).open(latest)
		for n := 1; n <= 20; n++ {
			want := upTo(20)[5:]
			if n%10 == 0 {
				want = want[1:]
			}
			if _, after := cutCall(p, n, time.Second); !slices.Equal(after, want) {
				t.Errorf("resume %d: %v", n, after)
			}
		}
	})
}

// Off by one at the ends of a log: before its first event, and behind its last.
func TestDefect_S03_AtTheEndsOfALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Defect: defect.Set{ID: defect.S03a}}).open("2025-06-18")
		s := a.emit(1, "a", twenty)
		seen := s.take(1)
		s.cut()
		if got := numbers(t, a.resume(seen[0].id).rest()); !slices.Equal(got, upTo(20)[1:]) {
			t.Errorf("S03a from the first event: %v", got)
		}
		b := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Defect: defect.Set{ID: defect.S03b}}).open(latest)
		all := b.emit(1, "b", twenty).rest()
		if got := b.resume(all[20].id).rest(); len(got) != 0 {
			t.Errorf("S03b before the response: %+v", got)
		}
		if got := b.resume(all[21].id).rest(); len(got) != 0 {
			t.Errorf("S03b behind the response: %+v", got)
		}
	})
}

func TestConfig_DefectNeedsAStore(t *testing.T) {
	_, err := refserver.NewFixture(refserver.Config{Defect: defect.Set{ID: defect.S05a}}, refserver.LedgerConfig{}, "test")
	if err == nil {
		t.Error("a defect of replay was planted where nothing is replayed")
	}
}
