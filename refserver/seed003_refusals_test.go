package refserver_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// refusal is all of an answer that a client can see, except for the time.
func (p *peer) refusal(cursor string) (status int, all string) {
	p.t.Helper()
	resp := p.do(ask{method: "GET", session: p.id, version: p.revision, cursor: cursor})
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, "" // a stream, which may have no end
	}
	resp.Header.Del("Date")
	var head strings.Builder
	if err := resp.Header.Write(&head); err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, head.String() + "\n" + string(body)
}

// refusedCursors are the cursors of a session of p that lead nowhere: two sessions with a
// running call each, of which the first events of p's are no longer kept.
func refusedCursors(p, other *peer) (bad map[string]string, running *stream, good string) {
	running = p.emit(1, "a", `{"messages":20,"interval_ms":1000}`)
	priming := running.take(1)[0]
	foreign := other.emit(1, "b", `{"messages":1}`).rest()[0]
	nonce, _, _ := strings.Cut(priming.id, "-")
	pass(15*time.Second + time.Second/2) // 16 messages
	return map[string]string{
		"of another session": foreign.id,
		"unknown":            "AAAAAAAAAAAAAAAA-1",
		"malformed":          nonce,
		"with a sign":        nonce + "-+17",
		"with spaces":        nonce + "- 17",
		"markup":             "<script>alert(1)</script>",
		"not ASCII":          "événement-1",
		"very long":          strings.Repeat("x", 4000),
		"in the future":      nonce + "-4711",
		"the very next":      nonce + "-18",
		"evicted":            priming.id,
	}, running, nonce + "-17"
}

// Clause: an id of another session is refused as an unknown one is: 400, nothing replayed,
// the value not echoed. The same holds for all ids that lead nowhere, and the stream that
// they may have meant goes on undisturbed.
func TestSeed003_CursorsThatLeadNowhere_400_NothingReplayed_NotEchoed(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{Events: 8})
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		bad, running, good := refusedCursors(p, other)
		for name, cursor := range bad {
			status, all := p.refusal(cursor)
			if status != 400 || strings.Contains(all, cursor) || strings.Contains(all, "data:") || strings.Contains(all, "progress") {
				t.Errorf("%s: %d %s", name, status, all)
			}
		}
		if got := numbers(t, running.rest()); !slices.Equal(got, upTo(20)[1:]) {
			t.Errorf("the connection there was got %v", got)
		}
		if got := numbers(t, p.resume(good).rest()); !slices.Equal(got, []int{17, 18, 19, 20, 0}) {
			t.Errorf("a good cursor gives %v", got)
		}
	})
}

// Clause: "refused the same way": nobody learns from the answer whether an id is one of
// somebody else, was one once, or never was.
func TestSeed003_ForeignUnknownAndEvicted_AreAnsweredAlike(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{Events: 8})
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		bad, _, _ := refusedCursors(p, other)
		_, want := p.refusal("nothing-1")
		for name, cursor := range bad {
			if _, all := p.refusal(cursor); all != want {
				t.Errorf("%s is answered\n%s\nunknown\n%s", name, all, want)
			}
		}
	})
}

// careless is a store that finds an event whoever asks for it.
type careless struct {
	*store.Memory
	mu    sync.Mutex
	owner map[string]string // session of an event
}

func (c *careless) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.Memory.Append(ctx, s, e)
	c.owner[id] = s.Session
	return id, err
}

func (c *careless) After(ctx context.Context, cursor store.Cursor) (store.Tail, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.owner[cursor.ID]; owner != "" {
		cursor.Stream.Session = owner
	}
	return c.Memory.After(ctx, cursor)
}

// Clause: replay is bound to the session explicitly, not by ids that cannot be guessed: a
// store that does not look whose an event is leaks nothing of one session into another.
func TestSeed003_Replay_IsBoundToTheSession_WhereverTheIDIsFrom(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = &careless{Memory: newStore(t, store.Limits{}), owner: map[string]string{}}
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		get := p.resumeNothing()
		ids := idsOf(slices.Concat(get.take(1), p.emit(1, "secret", twenty).rest()))
		for i, id := range ids {
			if status, all := other.refusal(id); status != 400 || strings.Contains(all, "secret") {
				t.Errorf("event %d of another session: %d %s", i+1, status, all)
			}
		}
		if got := numbers(t, p.resume(ids[5]).rest()); !slices.Equal(got, upTo(20)[5:]) {
			t.Errorf("its own session gets %v", got)
		}
	})
}

// Clause: nothing of another principal is replayed: neither with its cursor in one's own
// session, nor in its session, which is as unknown as one that never was.
func TestSeed003_Replay_IsBoundToThePrincipal(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.Verifier = newStore(t, store.Limits{}), tokens(t)
		r := virtual(t, cfg)
		ann, bob := r.as(annToken), r.as(bobToken)
		p, own := ann.open(latest), bob.open(latest)
		s := p.emit(1, "secret", twenty)
		cursor := s.take(2)[1].id
		s.cut()
		pass(time.Second)
		if status, all := own.refusal(cursor); status != 400 || strings.Contains(all, "secret") || strings.Contains(all, cursor) {
			t.Errorf("in bob's session: %d %s", status, all)
		}
		intruder := &peer{rig: bob, id: p.id, revision: latest}
		status, all := intruder.refusal(cursor)
		unknown := &peer{rig: bob, id: "nobody", revision: latest}
		if wantStatus, want := unknown.refusal(cursor); status != 404 || status != wantStatus || all != want {
			t.Errorf("in ann's session: %d %s", status, all)
		}
		if got := numbers(t, p.resume(cursor).rest()); !slices.Equal(got, upTo(20)[2:]) {
			t.Errorf("ann herself gets %v", got)
		}
	})
}

// Clause: each life of a stream has a nonce of its own, so the id of a stream that was
// dropped and written to again matches nothing newer.
func TestSeed003_StaleID_OfAStreamThatWasDroppedAndWrittenAgain_400(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newStore(t, store.Limits{})
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		old := get.take(1)[0]
		p.changeTools("one")
		old = get.take(1)[0]
		get.cut()
		synctest.Wait()
		kept.Forget(p.id)
		p.changeTools("two")
		p.changeTools("three")
		fresh := p.resumeNothing()
		now := fresh.take(1)[0]
		_, oldNumber, _ := strings.Cut(old.id, "-")
		_, newNumber, _ := strings.Cut(now.id, "-")
		if status, all := p.refusal(old.id); status != 400 || strings.Contains(all, old.id) {
			t.Errorf("the stale id: %d %s", status, all)
		}
		if oldNumber != "2" || newNumber != "3" { // the number alone would lead to an event that is there
			t.Errorf("numbers %s and %s show nothing", oldNumber, newNumber)
		}
		p.changeTools("four")
		if e := fresh.take(1)[0]; !strings.Contains(e.data, "list_changed") {
			t.Errorf("the new life: %+v", e)
		}
	})
}

// asked counts the cursors that a store is asked about.
type asked struct {
	*store.Memory
	cursors *atomic.Int32
}

func (a asked) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	if c.ID != "" {
		a.cursors.Add(1)
	}
	return a.Memory.After(ctx, c)
}

// Clause: what cannot be an id is refused before any store, which may be a query language
// away, is given it.
func TestSeed003_ACursorThatCannotBeAnID_NeverReachesTheStore(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var cursors atomic.Int32
		cfg.Store = asked{newStore(t, store.Limits{}), &cursors}
		p := virtual(t, cfg).open("2025-06-18") // no priming event, which is a cursor too
		for _, cursor := range []string{"a b", "é", strings.Repeat("x", 257), "a\tb"} {
			if status, _ := p.refusal(cursor); status != 400 {
				t.Errorf("%q: %d", cursor, status)
			}
		}
		if n := cursors.Load(); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		if status, _ := p.refusal("x-1"); status != 400 || cursors.Load() != 1 {
			t.Errorf("what could be an id: %d, asked %d times", status, cursors.Load())
		}
	})
}

// Clause: earlier revisions have no priming event, since their clients cannot read one, and
// no announced reconnection time; their other events carry ids and can be resumed.
func TestSeed003_EarlierRevisions_NoPriming_ButIDsAndResume(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, revision := range []string{"2025-03-26", "2025-06-18"} {
			cfg.Store = newStore(t, store.Limits{})
			p := virtual(t, cfg).open(revision)
			get := p.resumeNothing()
			p.changeTools("one")
			first := get.take(1)[0]
			get.cut()
			p.changeTools("two")
			if second := p.resume(first.id).take(1)[0]; first.id == "" || second.id == "" || first.data == "" || second.id == first.id {
				t.Errorf("%s, GET stream: %+v, then %+v", revision, first, second)
			}
			for cut := 1; cut <= 21; cut++ {
				s := p.emit(cut, "a", twenty)
				seen := s.take(cut)
				s.cut()
				all := slices.Concat(seen, p.resume(seen[cut-1].id).rest())
				if got := numbers(t, all); !slices.Equal(got, upTo(20)[1:]) {
					t.Fatalf("%s, cut behind event %d: got %v", revision, cut, got)
				}
				if slices.ContainsFunc(all, func(e event) bool { return e.id == "" || e.retry != "" || e.data == "" }) {
					t.Fatalf("%s: got %+v", revision, all)
				}
			}
		}
	})
}

// Clause: the gate is the revision that was negotiated, not one that a header claims.
func TestSeed003_VersionGate_IsWhatWasNegotiated(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		old, fresh := r.open("2025-03-26"), r.open(latest)
		old.revision, fresh.revision = latest, "" // a header that lies, and none
		if e := old.emit(1, "a", twenty).take(1)[0]; e.data == "" {
			t.Errorf("a session of 2025-03-26 got %+v", e)
		}
		if e := fresh.emit(1, "a", twenty).take(1)[0]; e.data != "" || e.id == "" {
			t.Errorf("a session of %s got %+v", latest, e)
		}
	})
}

// Clause: a resume keeps to the rules of its session when the client asks in another way:
// the GET must accept an event stream.
func TestSeed003_Resume_NeedsAGETThatAcceptsEvents(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		id := p.emit(1, "a", twenty).rest()[3].id
		code, body := p.status(ask{method: http.MethodGet, session: p.id, cursor: id, header: map[string]string{"Accept": "application/json"}})
		if code != 406 || strings.Contains(body, "data:") {
			t.Errorf("%d %s", code, body)
		}
	})
}

// Clause: what is not one cursor resumes nothing. A second Last-Event-ID is not passed over
// because the first is empty, which alone means none.
func TestSeed003_MoreThanOneLastEventID_400(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		id := p.emit(1, "a", twenty).rest()[3].id
		for _, cursors := range [][]string{{id, id}, {"", id}, {id, ""}, {"", ""}} {
			req, err := http.NewRequest(http.MethodGet, p.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {p.id}, "Last-Event-Id": cursors}
			resp, err := p.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 400 {
				t.Errorf("%q: %d", cursors, resp.StatusCode)
			}
		}
	})
}
