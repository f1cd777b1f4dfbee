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

// Clause: events of the GET stream are stored only once the client has opened it, which is
// when it has a cursor there. A session that never does costs the store nothing.
func TestSeed003_GETStreamNeverOpened_NothingIsStored(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{})
		cfg.Store = kept
		r := virtual(t, cfg)
		p := r.open(latest)
		r.tool("aside", func(_ context.Context, req *mcp.CallToolRequest) error {
			return req.Session.NotifyProgress(context.Background(), &mcp.ProgressNotificationParams{ProgressToken: "x", Progress: 1})
		})
		pass(time.Second)
		p.changeTools("one")
		if st := kept.Stats(); st.Events != 0 || st.Streams != 0 {
			t.Errorf("the store keeps %+v", st)
		}
		p.call(1, "aside").rest()
		if st := kept.Stats(); st.Events != 2 || st.Streams != 1 { // of the call itself
			t.Errorf("after a call the store keeps %+v", st)
		}
		get := p.resumeNothing()
		if e := get.take(1)[0]; e.data != "" {
			t.Errorf("what came before it was opened: %+v", e)
		}
		p.changeTools("two")
		if e := get.take(1)[0]; !strings.Contains(e.data, "list_changed") || kept.Stats().Streams != 2 {
			t.Errorf("got %+v, the store keeps %+v", e, kept.Stats())
		}
	})
}

// Clause: a broadcast reaches a session whose GET connection is closed at the moment through
// the store, and each session once.
func TestSeed003_Broadcast_ReachesAClosedGETStreamThroughTheStore(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		away, there, never := r.open(latest), r.open(latest), r.open(latest)
		closed, open := away.resumeNothing(), there.resumeNothing()
		cursor := closed.take(1)[0].id
		open.take(1)
		closed.cut()
		synctest.Wait()
		for i := range 3 {
			r.changeTools(fmt.Sprint("tool", i))
		}
		live := open.take(3)
		missed := away.resume(cursor)
		if n := missed.Header.Get("Gapless-Missed"); n != "3" {
			t.Errorf("missed %s", n)
		}
		same(t, "the one that was away", numbersOnly(missed.take(3)), numbersOnly(live))
		fresh := never.resumeNothing()
		fresh.take(1)
		r.changeTools("last")
		for _, s := range []*stream{missed, open, fresh} {
			if e := s.take(1)[0]; !strings.Contains(e.data, "list_changed") {
				t.Errorf("live: %+v", e)
			}
		}
	})
}

// Clause: what a handler sends outside the context of its request belongs to no request, and
// goes on the GET stream, through the store when that is closed.
func TestSeed003_NotificationWithoutARequest_GoesOnTheGETStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		r.tool("both", func(ctx context.Context, req *mcp.CallToolRequest) error {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "of-the-call", Progress: 1})
			return req.Session.NotifyProgress(context.Background(), &mcp.ProgressNotificationParams{ProgressToken: "of-none", Progress: 1})
		})
		p := r.open(latest)
		get := p.resumeNothing()
		cursor := get.take(1)[0].id
		get.cut()
		call := p.call(1, "both").rest()
		if len(call) != 3 || !strings.Contains(call[1].data, "of-the-call") || strings.Contains(fmt.Sprint(call), "of-none") {
			t.Errorf("the call got %+v", call)
		}
		if e := p.resume(cursor).take(1)[0]; !strings.Contains(e.data, "of-none") || e.id == "" {
			t.Errorf("the GET stream got %+v", e)
		}
	})
}

// stallGET opens a GET stream that is never read and fills its link, so that a write to it
// fails when its time is up. It returns what it would have to be resumed from.
func (p *peer) stallGET() *stream {
	p.t.Helper()
	get := p.resumeNothing()
	p.emit(1, "a", `{"messages":400,"bytes":1000,"on":"get"}`).rest()
	return get
}

// Clause: with a store a GET stream whose write fails is detached, and the session lives: the
// client resumes from its last id and has lost nothing.
func TestSeed003_GETWriteFails_WithAStore_DetachesTheStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		cfg.Store, cfg.WriteTimeout = newStore(t, store.Limits{}), 5*time.Second
		p := virtual(t, log.observe(cfg)).open(latest)
		get := p.stallGET()
		priming := get.take(1)[0]
		pass(6 * time.Second)
		if code, _ := p.post(ping); code != 200 || log.count(left(refserver.ReasonTimeout)) != 1 {
			t.Errorf("the session: %d, %d connections timed out", code, log.count(left(refserver.ReasonTimeout)))
		}
		if got := numbers(t, p.resume(priming.id).take(400)); !slices.Equal(got, upTo(400)[1:401]) {
			t.Errorf("the resume got %v", got)
		}
	})
}

// Clause: without a store the session ends, as before: nothing can be told to its client
// any more.
func TestSeed003_GETWriteFails_WithoutAStore_EndsTheSession(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.WriteTimeout = 5 * time.Second
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		p.stallGET()
		pass(4 * time.Second)
		if code, _ := p.post(ping); code != 200 {
			t.Errorf("before the time is up: %d", code)
		}
		pass(2 * time.Second)
		if code, _ := p.post(ping); code != 404 {
			t.Errorf("after it: %d", code)
		}
		if code, _ := other.post(ping); code != 200 {
			t.Errorf("another session: %d", code)
		}
	})
}

// Clause: a request's stream whose write fails is no reason to end anything: the handler goes
// on, and the stream is read when the client comes back.
func TestSeed003_RequestWriteFails_TheHandlerGoesOn(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", twenty)
		cursor := s.take(1)[0].id
		s.cut()
		pass(time.Minute)
		if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Emitted != 20 || c.Responses != 1 || c.Cancelled {
			t.Errorf("ledger: %+v", c)
		}
		if got := numbers(t, p.resume(cursor).rest()); !slices.Equal(got, upTo(20)[1:]) {
			t.Errorf("the resume got %v", got)
		}
	})
}

// Clause: each message that the server pushes has its time to be written; a reader that
// stalls longer is one more disconnected stream: what it missed is stored, with its id, and
// comes on resume.
func TestSeed003_ReaderStalls_IsCutAfterTheWriteTimeout_AndMissesNothing(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		gone := make(chan refserver.Reason, 10)
		cfg.Store, cfg.WriteTimeout = newStore(t, store.Limits{}), 7*time.Second
		cfg.OnEvent = func(e refserver.Event) {
			if e.Kind == refserver.Detached {
				gone <- e.Reason
			}
		}
		p := virtual(t, cfg).open(latest)
		begun := time.Now()
		s := p.emit(1, "a", `{"messages":1000,"bytes":1000}`)
		seen := s.take(1)
		if reason := <-gone; reason != refserver.ReasonTimeout || time.Since(begun) != 7*time.Second {
			t.Errorf("left for reason %s after %s", reason, time.Since(begun))
		}
		if got := numbers(t, slices.Concat(seen, p.resume(seen[0].id).rest())); !slices.Equal(got, upTo(1000)) {
			t.Errorf("got %d events", len(got))
		}
	})
}

// Clause: the time is that of one message, not of the stream: a reader that is slow, but
// reads, is not cut however long it takes.
func TestSeed003_WriteTimeout_IsPerMessage_NotPerStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.WriteTimeout = newStore(t, store.Limits{}), 7*time.Second
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", `{"messages":40,"interval_ms":3000,"bytes":20000}`)
		var all []event
		for range 42 { // one in three seconds: the link is full some of the time
			all = append(all, s.take(1)...)
			pass(3 * time.Second)
		}
		if got := numbers(t, all); !slices.Equal(got, upTo(40)) || len(s.rest()) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// Clause: requests of the server travel as notifications do: stored, with ids, under the same
// time limit; and one that was missed is replayed and can still be answered.
func TestSeed003_ServerRequests_AreStoredAndTimedLikeNotifications(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		kept := newRecording(t)
		cfg.Store, cfg.WriteTimeout = kept, 5*time.Second
		r := virtual(t, log.observe(cfg))
		r.tool("ask", func(ctx context.Context, req *mcp.CallToolRequest) error {
			stream := refserver.StreamFrom(ctx)
			for range 100 { // fills the link of a reader that stalls
				if err := stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"x","params":"`+strings.Repeat("x", 1000)+`"}`)); err != nil {
					return err
				}
			}
			return req.Session.Ping(ctx, nil)
		})
		p := r.open(latest)
		cursor := p.call(1, "ask").take(1)[0].id
		pass(6 * time.Second)
		if n := log.count(left(refserver.ReasonTimeout)); n != 1 {
			t.Errorf("%d connections timed out", n)
		}
		again := p.resume(cursor)
		all := again.take(101)
		request := all[100]
		if ids := kept.ids("1"); requestID(request) == "" || request.id != ids[101] {
			t.Fatalf("the request is %+v", request)
		}
		if code, _ := p.post(`{"jsonrpc":"2.0","id":` + requestID(request) + `,"result":{}}`); code != 202 {
			t.Errorf("the answer: %d", code)
		}
		if rest := again.rest(); len(rest) != 1 || !strings.Contains(rest[0].data, `"result"`) || strings.Contains(rest[0].data, "isError") {
			t.Errorf("then %+v", rest)
		}
	})
}

// Clause: a reader that stalls stalls nobody else: not the one that emits to other streams of
// its session, not other sessions, not a broadcast.
func TestSeed003_StalledReader_StallsNobodyElse(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.WriteTimeout = newStore(t, store.Limits{}), time.Hour
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		get := other.resumeNothing()
		get.take(1)
		p.stallGET()
		p.emit(2, "stalled", `{"messages":3000,"bytes":1000}`).take(1)
		synctest.Wait()
		begun := time.Now()
		for i, who := range []*peer{p, other} {
			if got := numbers(t, who.emit(3, "a", `{"messages":200}`).rest()); !slices.Equal(got, upTo(200)) {
				t.Errorf("session %d got %v", i, got)
			}
		}
		if time.Since(begun) > 0 {
			t.Errorf("it took %s", time.Since(begun))
		}
		r.changeTools("new")
		if e := get.take(1)[0]; !strings.Contains(e.data, "list_changed") || time.Since(begun) != time.Second {
			t.Errorf("broadcast: %+v after %s", e, time.Since(begun))
		}
	})
}

// Clause: no lock is held across a write. The store of a session takes what its other streams
// append while a write of one of them is blocked, and a resume of that one gets through.
func TestSeed003_NoLockIsHeldAcrossAWrite(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.WriteTimeout = newStore(t, store.Limits{}), time.Hour
		r := virtual(t, cfg)
		p := r.open(latest)
		ready := make(chan *refserver.Stream)
		r.tool("free", func(ctx context.Context, _ *mcp.CallToolRequest) error {
			ready <- refserver.StreamFrom(ctx)
			<-ctx.Done()
			return ctx.Err()
		})
		stalled := p.emit(1, "a", `{"messages":3000,"bytes":1000}`)
		cursor := stalled.take(1)[0].id
		// A replay that is not read is a write under way, too.
		p.emit(2, "b", `{"messages":100,"bytes":1000}`).rest()
		free := p.call(3, "free")
		stream := <-ready
		synctest.Wait()
		begun := time.Now()
		for range 100 {
			if err := stream.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
		free.take(101)
		fresh := p.resume(cursor)
		if got := numbers(t, fresh.rest()); !slices.Equal(got, upTo(3000)[1:]) || time.Since(begun) > 0 {
			t.Errorf("%d events after %s", len(got), time.Since(begun))
		}
	})
}

// Clause: reports are told apart. A write in vain to a session's stream speaks of a message,
// since requests travel there as well; what the store does has other words.
func TestSeed003_FailedWrite_IsReportedAsAMessage_AStoreThatFailsOtherwise(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, text := range []string{"none", `"progress":3,`} {
			var log eventLog
			cfg.Store, cfg.WriteTimeout = refusing(t, text), 5*time.Second
			p := virtual(t, log.observe(cfg)).open(latest)
			p.stallGET()
			p.emit(2, "b", `{"messages":1000,"bytes":1000}`).take(1)
			pass(time.Minute)
			writes, failures := log.lines(`msg="failed to send message"`), log.lines("the event store failed")
			if len(writes) != 2 || !strings.Contains(strings.Join(writes, ""), "stream=get") || !strings.Contains(strings.Join(writes, ""), "stream=post") || !strings.Contains(writes[0], "reason=timeout") {
				t.Errorf("reports of writes: %q", writes)
			}
			if (len(failures) > 0) != (text != "none") || slices.ContainsFunc(failures, func(s string) bool { return strings.Contains(s, "failed to send") }) {
				t.Errorf("reports of the store: %q", failures)
			}
		}
	})
}

// Clause: a message that no stream took is reported in the same words: the response of a
// request, or a notification behind its end.
func TestSeed003_MessageThatNoStreamTook_IsReportedAsAMessage(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, log.observe(cfg))
		r.tool("late", func(ctx context.Context, req *mcp.CallToolRequest) error {
			go func() {
				pass(time.Second)
				_ = req.Session.NotifyProgress(context.WithoutCancel(ctx), &mcp.ProgressNotificationParams{ProgressToken: "x", Progress: 1})
			}()
			return nil
		})
		p := r.open(latest)
		all := p.call(1, "late").rest()
		pass(2 * time.Second)
		if lines := log.lines(`msg="failed to send message"`); len(lines) != 1 || !strings.Contains(lines[0], "stream=post") {
			t.Errorf("reports: %q", log.lines(""))
		}
		if rest := p.resume(all[0].id).rest(); len(rest) != 1 {
			t.Errorf("behind the response: %+v", rest)
		}
	})
}
