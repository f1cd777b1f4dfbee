package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/handoff"
	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// workload does everything that moves a metric, to a server that lets the newer
// connection win.
func workload(t *testing.T, r *rig, k *keeper, b *books) {
	p := b.open(r, latest)
	p.emit(1, "whole", twenty).rest()
	s := p.emit(2, "cut", `{"messages":20,"interval_ms":1000}`)
	seen := s.take(5)
	s.cut()
	pass(3500 * time.Millisecond)
	first := p.resume(seen[4].id)
	first.take(3 + 1) // and a live one
	second := p.resume(seen[4].id)
	first.lost("replaced")
	second.rest()
	polled := p.emit(3, "polled", `{"messages":9,"interval_ms":1000,"polling_closes":2}`)
	for range 2 {
		all := polled.rest()
		polled = p.resume(all[len(all)-2].id)
	}
	polled.rest()
	p.emit(4, "unstored", `{"messages":5,"interval_ms":1000}`).rest()
	long := p.emit(5, "long", `{"messages":40,"interval_ms":10}`).rest()
	other := b.open(r, "2025-06-18")
	p.refused(long[0].id, "expired", 400)
	p.refused("x-1", "unknown_id", 400)
	other.refused(seen[0].id, "foreign_session", 400)
	k.broken = true
	p.refused(long[40].id, "store_error", 503)
	k.broken = false
	slowReaders(p)
	p.request(20, "ping", "{}", "ping", "")
	p.request(21, "tools/list", "{}", "tools/list", "")
	p.request(22, "no/such", "{}", "_OTHER", "-32601")
	p.request(23, "tools/call", `{"name":"emit","arguments":{"messages":-1}}`, "tools/call", "-32602")
	p.request(24, "tools/call", `{"name":"emit","arguments":{"on":"get","messages":1},"_meta":{"progressToken":"early"}}`, "tools/call", "tool_error")
	other.end()
	old := b.open(r, "2025-03-26")
	old.emit(1, "old", twenty).rest()
	old.cancelled()
	leaving(t, p, r, b)
}

// slowReaders pause for a while, and for too long.
func slowReaders(p customer) {
	slow := p.emit(10, "slow", `{"messages":2,"bytes":200000}`)
	slow.take(1)
	pass(3 * time.Second)
	slow.rest()
	p.books.see("write_stall_seconds_count")
	slow = p.emit(11, "too slow", `{"messages":1,"bytes":1000000}`)
	cursor := slow.take(1)[0].id
	pass(8 * time.Second)
	p.books.see("write_stall_seconds_count")
	slow.lost("timeout")
	p.resume(cursor).rest()
}

// cancelled makes a call and takes it back.
func (c customer) cancelled() {
	call := c.emit(1, "enough", `{"messages":20,"interval_ms":1000}`, "_OTHER")
	call.take(1)
	if code, body := c.post(cancelFirst); code != 202 {
		c.t.Errorf("%d %s", code, body)
	}
	c.books.see(operations("notifications/cancelled", "", c.revision))
	call.rest()
}

// leaving opens what is still there at the end, and leaves a session alone that goes by
// itself; so does the handshake that fails.
func leaving(t *testing.T, p customer, r *rig, b *books) {
	t.Helper()
	get := p.listen(true)
	get.take(1)
	p.emit(30, "background", `{"on":"get","messages":4,"interval_ms":1000}`).rest()
	get.take(4)
	away := p.emit(31, "away", `{"messages":20,"interval_ms":3600000}`)
	away.take(2)
	away.cut()
	b.see(`streams{kind="post",state="detached"}`)
	b.note(b.seen, operations("tools/call", "", latest), -1) // it has not been answered
	if code, _ := r.status(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`}); code != 200 {
		t.Errorf("initialize without parameters: %d", code)
	}
	b.see(operations("initialize", "_OTHER", "")) // the SDK says so with code 0
	b.see(sessionsEnded("_OTHER", ""))
	pass(61 * time.Minute)
	b.see(sessionsEnded("timeout", "2025-03-26"))
}

// Every metric has the value that the witnesses of a workload agree on, and each child
// of each moves in one workload or another.
func TestMetrics_AreWhatTheWitnessesSaw(t *testing.T) {
	moved := map[string]bool{}
	add := func(got map[string]float64) {
		for series, v := range got {
			moved[series] = moved[series] || v != 0
		}
	}
	for name, delivery := range map[string]refserver.Delivery{"follow": refserver.Follow, "handoff": refserver.Handoff} {
		t.Run("a store and takeovers, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks()
				k := newKeeper(t, b, 30, `"progress":3,"progressToken":"token-unstored"`)
				r := virtual(t, refserver.Config{
					Store: k, WriteTimeout: 7 * time.Second, Retry: 100 * time.Millisecond, OnEvent: b.observe,
					Limits: refserver.Limits{Idle: time.Hour}, Delivery: delivery,
				})
				workload(t, r, k, b)
				synctest.Wait()
				k.holdings()
				add(b.settle(r))
				discreet(r, b)
			})
		})
	}
	t.Run("a reader that does not catch up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { add(neverThere(t)) })
	})
	t.Run("conflicts, failures of the store, all revisions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { add(hardships(t)) })
	})
	t.Run("no store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { add(withoutStore(t)) })
	})
	t.Run("a full store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { add(fullStore(t)) })
	})
	t.Run("locks", func(t *testing.T) { add(contention(t)) })
	var still []string
	for _, series := range slices.Sorted(maps.Keys(moved)) {
		// In virtual time most things take none; what many combinations fall into has a
		// test of its own.
		if !moved[series] && !strings.Contains(series, "_sum{") && !strings.Contains(series, `mcp_method_name="_OTHER",mcp_protocol_version=""`) {
			still = append(still, series)
		}
	}
	if len(still) > 0 {
		t.Errorf("these never moved:\n%s", strings.Join(still, "\n"))
	}
}

// hardships is what a server meets that refuses a second connection.
func hardships(t *testing.T) map[string]float64 {
	b := newBooks()
	k := newKeeper(t, b, 1000, "lost")
	r := virtual(t, refserver.Config{Store: k, OnConflict: refserver.Refuse, OnEvent: b.observe, Limits: refserver.Limits{Idle: time.Hour}})
	var call *refserver.Stream
	r.tool("leak", func(ctx context.Context, _ *mcp.CallToolRequest) error {
		call = refserver.StreamFrom(ctx)
		return errors.Join(call.Send(ctx, []byte(`"lost"`)), call.Send(ctx, []byte(`"lost too"`)))
	})
	p := b.open(r, latest)
	p.request(1, "tools/call", `{"name":"leak","arguments":{}}`, "tools/call", "")
	if err := call.Send(t.Context(), []byte(`"lost as well"`)); err == nil {
		t.Error("an event was taken that came too late")
	}
	if err := call.Send(t.Context(), []byte(`"late"`)); !errors.Is(err, store.ErrEnded) {
		t.Errorf("too late: %v", err)
	}
	s := p.emit(2, "held", `{"messages":20,"interval_ms":3600000}`)
	cursor := s.take(2)[0].id
	p.refused(cursor, "conflict", 409)
	b.note(b.seen, operations("tools/call", "", latest), -1) // it has not been answered
	done := p.emit(3, "done", twenty).rest()
	k.sick = true
	p.resumeInVain(done[3].id)
	k.sick = false
	p.leavesACall()
	get := p.listen(true)
	get.take(1)
	get.cut()
	b.see(`streams{kind="get",state="detached"}`)
	for _, revision := range []string{latest, "2025-06-18", "2025-03-26"} {
		c := b.open(r, revision)
		c.request(1, "ping", "{}", "ping", "")
		c.request(2, "tools/list", "{}", "tools/list", "")
		c.emit(3, "any", twenty).rest()
		c.end()
		b.open(r, revision)
	}
	pass(61 * time.Minute)
	for _, revision := range []string{latest, "2025-06-18", "2025-03-26"} {
		b.see(sessionsEnded("timeout", revision))
	}
	s.take(1)
	k.holdings()
	return b.settle(r)
}

// leavesACall ends another session in the middle of a call: it is never answered.
func (c customer) leavesACall() {
	c = c.books.open(c.rig, latest)
	call := c.emit(1, "left", `{"messages":20,"interval_ms":3600000}`, "_OTHER")
	call.take(2)
	c.end()
	call.rest()
}

// withoutStore is a server whose clients cannot come back: a GET stream that cannot be
// written to ends its session.
func withoutStore(t *testing.T) map[string]float64 {
	b := newBooks()
	b.storeless = true
	r := virtual(t, refserver.Config{WriteTimeout: 7 * time.Second, OnEvent: b.observe})
	for _, revision := range []string{latest, "2025-06-18", "2025-03-26"} {
		c := b.open(r, revision)
		get := c.listen(true)
		c.emit(1, "large", `{"on":"get","messages":1,"bytes":1000000}`).rest()
		pass(8 * time.Second)
		get.lost("timeout")
		b.see("write_stall_seconds_count")
		b.see(sessionsEnded("_OTHER", revision))
	}
	return b.settle(r)
}

// neverThere is a hand-over to a reader that finds new events after each pass.
func neverThere(t *testing.T) map[string]float64 {
	r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{}), Delivery: refserver.Handoff})
	p := r.open(latest)
	s := p.emit(1, "a", `{"messages":200,"interval_ms":100,"bytes":70000}`)
	cursor := s.take(2)[1].id
	s.cut()
	pass(300 * time.Millisecond)
	s = p.resume(cursor)
	for {
		pass(101 * time.Millisecond)
		e, err := s.next()
		if err != nil || strings.Contains(e.data, `"result"`) {
			break
		}
		cursor = e.id
	}
	synctest.Wait()
	got := values(r)
	if got[`gapless_server_streams_closed_total{reason="behind"}`] != 1 {
		t.Errorf("the last event was %s", cursor)
	}
	return got
}

// fullStore has more streams and more bytes than fit.
func fullStore(t *testing.T) map[string]float64 {
	r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{Streams: 3, SessionBytes: 20_000})})
	p := r.open(latest)
	events := 0
	for id := 1; id <= 4; id++ {
		events += len(p.emit(id, "a", twenty).rest())
	}
	events += len(p.emit(5, "large", `{"messages":9,"interval_ms":1,"bytes":5000}`).rest())
	synctest.Wait()
	got := values(r)
	kept := got[`gapless_server_store_events{store="memory"}`]
	for cause, least := range map[string]float64{"max_streams": 22, "max_bytes": 6} {
		n := got[fmt.Sprintf("gapless_server_store_evictions_total{cause=%q}", cause)]
		if n < least {
			t.Errorf("%v events were evicted for %s, at least %v had to be", n, cause, least)
		}
		kept += n
	}
	if kept != float64(events) {
		t.Errorf("%d events came, %v are kept or were evicted", events, kept)
	}
	return got
}

// contention has many want one lock at once.
func contention(t *testing.T) map[string]float64 {
	memory, err := store.NewMemory(store.MemoryConfig{Lock: lock.Global})
	if err != nil {
		t.Fatal(err)
	}
	delivering, err := handoff.New(memory, handoff.Config{Lock: lock.Global})
	if err != nil {
		t.Fatal(err)
	}
	r := real(t, refserver.Config{Store: delivering})
	stop := make(chan struct{})
	var busy sync.WaitGroup
	var appended atomic.Int64
	for i := range 8 {
		busy.Go(func() { appended.Add(int64(crowd(t, delivering, strconv.Itoa(i), stop))) })
	}
	moved := map[string]float64{}
	eventually(t, "contention of all operations", func() bool {
		for series, v := range values(r) {
			if strings.HasPrefix(series, "gapless_lock_") {
				moved[series] = max(moved[series], v)
			}
		}
		return len(moved) > 0 && len(idle(moved)) == 0
	})
	close(stop)
	busy.Wait()
	got := values(r)
	for _, name := range []string{"store", "delivery"} {
		if n := got[fmt.Sprintf("gapless_lock_acquisitions_total{lock=%q,op=\"append\"}", name)]; n != float64(appended.Load()) {
			t.Errorf("lock %s was taken %v times to append %d events", name, n, appended.Load())
		}
		if n := got[label("gapless_lock_waiters", "lock", name)]; n != 0 {
			t.Errorf("%v wait for lock %s, that nobody has", n, name)
		}
	}
	for series, n := range got {
		if contended, ok := strings.CutPrefix(series, "gapless_lock_contended_total"); ok && n != got["gapless_lock_wait_seconds_count"+contended] {
			t.Errorf("%s is %v, but %v waits were measured", series, n, got["gapless_lock_wait_seconds_count"+contended])
		}
	}
	return moved
}

// idle lists the metrics of locks that have not moved.
func idle(values map[string]float64) []string {
	var out []string
	for series, v := range values {
		if v == 0 {
			out = append(out, series)
		}
	}
	return out
}

// crowd does all that a store can do until it is stopped, and returns how many events it
// appended.
func crowd(t *testing.T, s store.Store, session string, stop chan struct{}) (appended int) {
	event := store.Event{Frame: []byte("data: " + strings.Repeat("x", 4000) + "\n\n")}
	stream := store.Stream{Session: session, Name: "1"}
	for {
		select {
		case <-stop:
			return appended
		default:
		}
		for range 20 {
			if _, err := s.Append(t.Context(), stream, event); err != nil {
				t.Error(err)
			}
			appended++
		}
		tail, err := s.After(t.Context(), store.Cursor{Stream: stream})
		if err != nil {
			t.Error(err)
			return appended
		}
		if _, err := tail.Next(t.Context()); err != nil {
			t.Error(err)
		}
		s.(store.Forgetter).Forget(session)
		if err := tail.Close(); err != nil {
			t.Error(err)
		}
	}
}
