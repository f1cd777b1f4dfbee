package refserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clause: the ready-made store in memory is bounded by events per stream: the newest stay, an
// id of one that is gone is refused, and no stream pays for another.
func TestSeed003_MemoryStore_IsBoundedByEventsPerStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{Events: 10})
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		small := p.emit(1, "a", `{"messages":5}`).rest()
		large := p.emit(2, "b", `{"messages":100,"interval_ms":1}`).rest()
		if st := kept.Stats(); st.Events != 7+10 || st.Evicted[store.CauseEvents] != 92 {
			t.Errorf("the store keeps %+v", st)
		}
		for i, e := range large {
			if status, _ := p.refusal(e.id); (status == 400) != (i < 91) {
				t.Errorf("event %d of 102: %d", i+1, status)
			}
		}
		same(t, "the newest", p.resume(large[91].id).rest(), large[92:])
		same(t, "the small stream", p.resume(small[0].id).rest(), small[1:])
	})
}

// Clause: it is bounded by streams. A finished stream goes first, the oldest before others;
// where all are open a new one is refused, before its request runs.
func TestSeed003_MemoryStore_IsBoundedByStreams(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{Streams: 3})
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		var done []string
		for id := 1; id <= 3; id++ {
			done = append(done, p.emit(id, "a", `{"messages":1}`).rest()[0].id)
		}
		synctest.Wait()
		running := p.emit(4, "b", `{"messages":3,"interval_ms":1000}`)
		for i, id := range done {
			if status, _ := p.status(ask{method: "GET", session: p.id, cursor: id}); (status == 400) != (i == 0) {
				t.Errorf("call %d: %d", i+1, status)
			}
		}
		synctest.Wait()
		p.emit(5, "b", `{"messages":3,"interval_ms":1000}`).take(1)
		p.emit(6, "b", `{"messages":3,"interval_ms":1000}`).take(1)
		if code, _ := p.post(emitCall(7, "refused", `{"messages":1}`)); code != 503 {
			t.Errorf("a fourth open stream: %d", code)
		}
		if c := p.fixture.Ledger.Take([]string{"refused"})[0]; c.Executions != 0 {
			t.Errorf("it was executed: %+v", c)
		}
		if got := numbers(t, running.rest()); !slices.Equal(got, upTo(3)) || kept.Stats().Streams > 3 {
			t.Errorf("a running call got %v, the store keeps %+v", got, kept.Stats())
		}
	})
}

// Clause: it is bounded by bytes, whatever is sent and however large an event is.
func TestSeed003_MemoryStore_IsBoundedByBytes(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		const limit = 100_000
		kept := newStore(t, store.Limits{Bytes: limit})
		cfg.Store = kept
		r := virtual(t, cfg)
		r.tool("large", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			defer pass(time.Second)
			return refserver.StreamFrom(ctx).Send(ctx, []byte(`{"jsonrpc":"2.0","method":"`+strings.Repeat("x", 150_000)+`"}`))
		})
		peers := []*peer{r.open(latest), r.open(latest), r.open(latest)}
		for id := 1; id <= 9; id++ {
			p := peers[id%3] // each has less than all by itself
			all := p.emit(id, "a", `{"messages":100,"interval_ms":1,"bytes":2000}`).rest()
			if got := numbers(t, all); !slices.Equal(got, upTo(100)) {
				t.Errorf("a client that reads got %v", got)
			}
			if st := kept.Stats(); st.Bytes > limit || st.Bytes < limit/4 {
				t.Errorf("after call %d the store keeps %+v", id, st)
			}
			same(t, "the newest", p.resume(all[90].id).rest(), all[91:])
			if status, _ := p.refusal(all[0].id); status != 400 {
				t.Errorf("the oldest: %d", status)
			}
		}
		if all := peers[0].call(11, "large").rest(); len(all) != 3 || len(all[1].data) < 150_000 {
			t.Errorf("a message of more than all: %d events", len(all))
		}
		if st := kept.Stats(); st.Bytes > limit {
			t.Errorf("in the end the store keeps %+v", st)
		}
	})
}

// Clause: the share is fair: what one session sends, be it large or in many streams, evicts
// nothing of a session that is modest.
func TestSeed003_FairShare_NoSessionsVolumeEvictsAnothers(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{Bytes: 200_000, Streams: 50})
		cfg.Store = kept
		r := virtual(t, cfg)
		modest, loud := r.open(latest), r.open(latest)
		s := modest.emit(1, "a", `{"messages":20,"interval_ms":10,"bytes":200}`)
		seen := s.take(1)
		s.cut()
		get := modest.resumeNothing()
		cursor := get.take(1)[0].id
		get.cut()
		pass(time.Second)
		r.changeTools("one")
		for id := 1; id <= 200; id++ {
			loud.emit(id, "l", `{"messages":100,"interval_ms":1,"bytes":2000}`).rest()
		}
		st := kept.Stats()
		if st.Evicted[store.CauseBytes] < 10_000 || st.Bytes > 200_000 {
			t.Fatalf("nobody was evicted: %+v", st)
		}
		all := slices.Concat(seen, modest.resume(seen[0].id).rest())
		if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
			t.Errorf("the modest session's call: %v", got)
		}
		if e := modest.resume(cursor).take(1)[0]; !strings.Contains(e.data, "list_changed") {
			t.Errorf("its GET stream: %+v", e)
		}
	})
}

// Clause: what a session kept goes when it ends: the store holds nothing of nobody.
func TestSeed003_SessionEnds_TheStoreKeepsNothingOfIt(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{})
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		get.take(1)
		p.emit(1, "a", twenty).rest()
		running := p.emit(2, "b", twenty)
		running.take(3)
		if code, _ := p.status(ask{method: "DELETE", session: p.id}); code != 204 {
			t.Errorf("delete: %d", code)
		}
		running.rest()
		get.rest()
		synctest.Wait()
		if st := kept.Stats(); st.Events != 0 || st.Bytes != 0 || st.Streams != 0 {
			t.Errorf("it keeps %+v", st)
		}
	})
}

// ownStore is what somebody else would write: two methods, an id of its own making, and
// nothing of the memory store's but its log. Its ids are not "<nonce>-<number>".
type ownStore struct{ logs *store.Memory }

func ownID(id string) string    { return "own/" + strings.ReplaceAll(id, "-", "~") }
func memoryID(id string) string { return strings.ReplaceAll(strings.TrimPrefix(id, "own/"), "~", "-") }

func (o ownStore) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	id, err := o.logs.Append(ctx, s, e)
	return ownID(id), err
}

func (o ownStore) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	if c.ID != "" && !strings.HasPrefix(c.ID, "own/") {
		return nil, store.ErrUnknown
	}
	c.ID = memoryID(c.ID)
	tail, err := o.logs.After(ctx, c)
	if err != nil {
		return nil, err
	}
	return ownTail{tail}, nil
}

type ownTail struct{ store.Tail }

func (o ownTail) Next(ctx context.Context) (store.Batch, error) {
	b, err := o.Tail.Next(ctx)
	var frames strings.Builder
	for line := range strings.Lines(string(b.Frames)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			line = "id: " + ownID(strings.TrimSuffix(id, "\n")) + "\n"
		}
		frames.WriteString(line)
	}
	b.Frames = []byte(frames.String())
	return b, err
}

// Clause: the store is an interface of two methods, and ids are its own business: one of
// somebody else serves everything that the ready-made one does.
func TestSeed003_AStoreOfTwoMethods_IsEnough(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = ownStore{newStore(t, store.Limits{})}
		r := virtual(t, cfg)
		r.tool("poll", func(ctx context.Context, req *mcp.CallToolRequest) error {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
			return nil
		})
		p := r.open(latest)
		for cut := 1; cut <= 22; cut++ {
			s := p.emit(cut, "a", twenty)
			seen := s.take(cut)
			s.cut()
			all := slices.Concat(seen, p.resume(seen[cut-1].id).rest())
			if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
				t.Fatalf("cut behind event %d: got %v", cut, got)
			}
			if slices.ContainsFunc(all, func(e event) bool { return !strings.HasPrefix(e.id, "own/") }) {
				t.Fatalf("ids %v", idsOf(all))
			}
		}
		events, _ := p.call(100, "poll").untilPolled()
		if len(events) == 0 || events[0].data != "" {
			t.Errorf("polling: %+v", events)
		}
		if status, all := p.refusal("AAAA-1"); status != 400 || strings.Contains(all, "AAAA") {
			t.Errorf("an id of another kind: %d %s", status, all)
		}
	})
}

// Clause: everything above holds for many sessions at once that use the same request ids.
func TestSeed003_ManySessions_ShareAStoreAndNothingElse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		var peers []*peer
		var streams []*stream
		for i := range 10 {
			peers = append(peers, r.open(latest))
			streams = append(streams, peers[i].emit(1, fmt.Sprintf("tok-%d-", i), twenty))
		}
		for i, s := range streams {
			seen := s.take(5)
			s.cut()
			for _, e := range slices.Concat(seen, peers[i].resume(seen[4].id).rest())[1:] {
				if !strings.Contains(e.data, fmt.Sprintf("tok-%d-", i)) || strings.Count(e.data, "tok-") != 1 {
					t.Fatalf("session %d got %s", i, e.data)
				}
			}
		}
	})
}
