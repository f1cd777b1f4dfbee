package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/gapless-dev/gapless/refserver/store/storetest"
	"github.com/prometheus/client_golang/prometheus"
)

func scopes() []lock.Scope { return []lock.Scope{lock.Stream, lock.Session, lock.Global} }

// over returns a hand-over store over a memory store.
func over(t testing.TB, limits store.Limits, cfg Config) *Store {
	t.Helper()
	inner, err := store.NewMemory(store.MemoryConfig{Limits: limits, Lock: cfg.Lock})
	if err != nil {
		t.Fatal(err)
	}
	return on(t, inner, cfg)
}

func on(t testing.TB, inner store.Store, cfg Config) *Store {
	t.Helper()
	s, err := New(inner, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := s.(metered); ok {
		return m.Store
	}
	return s.(*Store)
}

func TestStore_PassesTheSuite_WhateverItsLocks(t *testing.T) {
	for _, scope := range scopes() {
		for name, queue := range map[string]int{"": 0, ", queue of 1 KiB": 1 << 10} {
			t.Run(scope.String()+name, func(t *testing.T) {
				storetest.Run(t, func(t testing.TB, limits store.Limits) store.Store {
					inner, err := store.NewMemory(store.MemoryConfig{Limits: limits, Lock: scope})
					if err != nil {
						t.Fatal(err)
					}
					s, err := New(inner, Config{Lock: scope, Queue: queue})
					if err != nil {
						t.Fatal(err)
					}
					return s
				})
			})
		}
	}
}

// reusing is a store whose tails keep the promise of [store.Batch] about frames to the
// letter: with the next call of Next they are something else.
type reusing struct{ *store.Memory }

func (r reusing) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	inner, err := r.Memory.After(ctx, c)
	if err != nil {
		return nil, err
	}
	return &reusingTail{Tail: inner}, nil
}

type reusingTail struct {
	store.Tail
	buf []byte
}

func (r *reusingTail) Next(ctx context.Context) (store.Batch, error) {
	for i := range r.buf {
		r.buf[i] = '!'
	}
	batch, err := r.Tail.Next(ctx)
	r.buf = append(r.buf[:0], batch.Frames...)
	batch.Frames = r.buf
	return batch, err
}

func TestStore_OverOneThatReusesItsFrames_PassesTheSuite(t *testing.T) {
	storetest.Run(t, func(t testing.TB, limits store.Limits) store.Store {
		inner, err := store.NewMemory(store.MemoryConfig{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(reusing{inner}, Config{Pass: 100 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func stream(name string) store.Stream { return store.Stream{Session: "s", Name: name} }

func put(t testing.TB, s store.Store, name, text string) string {
	t.Helper()
	id, err := s.Append(t.Context(), stream(name), store.Event{Frame: []byte("data: " + text + "\n\n"), Last: text == "last"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func after(t testing.TB, s store.Store, name, id string) *tail {
	t.Helper()
	reader, err := s.After(t.Context(), store.Cursor{Stream: stream(name), ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return reader.(*tail)
}

func done(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// one reads one batch that is at hand and returns its texts.
func one(t testing.TB, reader store.Tail) (string, error) {
	t.Helper()
	batch, err := reader.Next(done(t))
	if err != nil {
		return "", err
	}
	return texts(batch), nil
}

func texts(batch store.Batch) string {
	var out []string
	for part := range strings.SplitSeq(strings.TrimSuffix(string(batch.Frames), "\n\n"), "\n\n") {
		_, text, _ := strings.Cut(part, "data: ")
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// attach makes a reader wait on its queue.
func attach(t testing.TB, reader *tail) {
	t.Helper()
	if got, err := one(t, reader); !errors.Is(err, context.Canceled) || !reader.attached {
		t.Fatalf("not attached: %q, %v", got, err)
	}
}

// A connection replays sixteen times and no more, however many events keep coming, and
// whoever insists gets them all the same.
func TestNext_EventsDuringEachPass_IsSentBackAfterTheSixteenth(t *testing.T) {
	s := over(t, store.Limits{}, Config{})
	reader := after(t, s, "a", "")
	cursor := ""
	for n := 1; n <= Passes; n++ {
		cursor = put(t, s, "a", strconv.Itoa(n))
		if got, err := one(t, reader); got != strconv.Itoa(n) || err != nil {
			t.Fatalf("pass %d: %q, %v", n, got, err)
		}
	}
	put(t, s, "a", "17")
	if got, err := one(t, reader); !errors.Is(err, store.ErrBehind) {
		t.Fatalf("after the sixteenth pass: %q, %v", got, err)
	}
	if got, err := one(t, after(t, s, "a", cursor)); got != "17" || err != nil {
		t.Errorf("from the new cursor: %q, %v", got, err)
	}
	put(t, s, "a", "18")
	var insisted []string
	for range 2 {
		got, err := one(t, reader)
		if err != nil {
			t.Fatal(err)
		}
		insisted = append(insisted, got)
	}
	if strings.Join(insisted, ",") != "17,18" {
		t.Errorf("asked again: %q", insisted)
	}
}

// Also when there is nothing more at the moment: it is closed instead of attached. But a
// stream that is complete just ends.
func TestNext_SixteenthPassWasTheLast_IsNotAttached(t *testing.T) {
	for _, last := range []bool{false, true} {
		s := over(t, store.Limits{}, Config{})
		reader := after(t, s, "a", "")
		for n := 1; n < Passes; n++ {
			put(t, s, "a", "x")
			one(t, reader)
		}
		want := store.ErrBehind
		if last {
			put(t, s, "a", "last")
			want = io.EOF
		} else {
			put(t, s, "a", "x")
		}
		one(t, reader)
		if got, err := one(t, reader); !errors.Is(err, want) || reader.attached {
			t.Errorf("last event in it: %t; then %q, %v", last, got, err)
		}
	}
}

// Fifteen passes, and it is attached: then it may stay as long as it keeps up.
func TestNext_AttachedInTime_Stays(t *testing.T) {
	s := over(t, store.Limits{}, Config{})
	reader := after(t, s, "a", "")
	for range Passes - 1 {
		put(t, s, "a", "x")
		one(t, reader)
	}
	attach(t, reader)
	for n := range 5 * Passes {
		put(t, s, "a", strconv.Itoa(n))
		if got, err := one(t, reader); got != strconv.Itoa(n) || err != nil {
			t.Fatalf("event %d: %q, %v", n, got, err)
		}
	}
}

// watched is a store whose tails tell when they found nothing at hand.
type watched struct {
	store.Store
	empty func()
}

func (w *watched) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	inner, err := w.Store.After(ctx, c)
	return &watchedTail{inner, w}, err
}

type watchedTail struct {
	store.Tail
	store *watched
}

func (w *watchedTail) Next(ctx context.Context) (store.Batch, error) {
	batch, err := w.Tail.Next(ctx)
	if errors.Is(err, context.Canceled) {
		w.store.empty()
	}
	return batch, err
}

// An event that comes between the pass that finds nothing and the attachment waits for
// the lock that both are made under, and is queued.
func TestNext_EventBetweenTheLastPassAndTheAttachment_IsQueued(t *testing.T) {
	for _, scope := range scopes() {
		inner, err := store.NewMemory(store.MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Store: inner}
		s := on(t, w, Config{Lock: scope})
		reader := after(t, s, "a", "")
		appended := make(chan error, 1)
		w.empty = func() {
			w.empty = func() {}
			go func() {
				_, err := s.Append(context.Background(), stream("a"), store.Event{Frame: []byte("data: between\n\n")})
				appended <- err
			}()
			for waiters(t, s) == 0 { // nothing gets in: the lock is held
				select {
				case <-appended:
					t.Fatalf("%s: an event was stored during a pass", scope)
				default:
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		batch, err := reader.Next(ctx)
		if err != nil || texts(batch) != "between" {
			t.Errorf("%s: %+v, %v", scope, batch, err)
		}
		if err := <-appended; err != nil || !reader.attached || reader.passes != 0 {
			t.Errorf("%s: append %v, attached %t after %d passes", scope, err, reader.attached, reader.passes)
		}
	}
}

func waiters(t testing.TB, s *Store) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(s.probe); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gapless_lock_waiters" {
			return f.Metric[0].Gauge.GetValue()
		}
	}
	t.Fatal("no gauge of waiters")
	return 0
}

// While a batch is written, which may take for ever, whoever appends goes on: to the same
// stream, to others, and to the queue of a reader that does not come back.
func TestAppend_WaitsForNoReader(t *testing.T) {
	for _, scope := range scopes() {
		s := over(t, store.Limits{}, Config{Lock: scope, Queue: 4 << 10})
		put(t, s, "a", "1")
		replayed, attached := after(t, s, "a", ""), after(t, s, "b", "")
		one(t, replayed) // and never comes back
		attach(t, attached)
		finished := make(chan struct{})
		go func() {
			for range 1000 {
				put(t, s, "a", "x")
				put(t, s, "b", strings.Repeat("y", 100))
			}
			close(finished)
		}()
		select {
		case <-finished:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: append waits for a reader", scope)
		}
		if n := cap(attached.buf) + cap(attached.taken); n > 16<<10 {
			t.Errorf("%s: %d bytes are queued for a reader that does not read", scope, n)
		}
	}
}

// A reader that is too slow for its queue is replayed the rest, once.
func TestQueue_Overflow_TheRestComesFromTheLog(t *testing.T) {
	for _, returned := range []int{0, 3} {
		s := over(t, store.Limits{}, Config{Queue: 1 << 10})
		put(t, s, "a", "0")
		reader := after(t, s, "a", "")
		one(t, reader)
		attach(t, reader)
		var want, got []string
		for n := range 100 {
			text := fmt.Sprint(n, strings.Repeat("x", 50))
			want = append(want, text)
			put(t, s, "a", text)
			if len(reader.buf) > 1<<10 {
				t.Fatalf("%d bytes are queued", len(reader.buf))
			}
			if n < returned {
				text, err := one(t, reader)
				if got = append(got, text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if reader.events > 0 || !reader.lost {
			t.Fatal("the queue did not overflow")
		}
		text, err := one(t, reader)
		if got = append(got, text); err != nil || strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("%d events returned before: got %d, %v", returned, len(strings.Split(strings.Join(got, ","), ",")), err)
		}
		if reader.passes != 2 {
			t.Errorf("the passes begin anew: %d", reader.passes)
		}
		attach(t, reader)
		put(t, s, "a", "last")
		if text, err := one(t, reader); text != "last" || err != nil {
			t.Errorf("attached again: %q, %v", text, err)
		}
		if _, err := one(t, reader); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
}

// An event that is larger than the queue goes through it when it is alone.
func TestQueue_LargeEvents_DoNotOverflow(t *testing.T) {
	s := over(t, store.Limits{}, Config{Queue: 1 << 10})
	reader := after(t, s, "a", "")
	attach(t, reader)
	for range 3 * Passes {
		put(t, s, "a", strings.Repeat("x", 5000))
		if got, err := one(t, reader); len(got) != 5000 || err != nil {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if reader.passes != 0 {
		t.Errorf("%d passes", reader.passes)
	}
}

// What the slow reader needs may be gone when it comes to the log; it is told so.
func TestQueue_Overflow_AndTheRestWasEvicted(t *testing.T) {
	for _, forget := range []bool{false, true} {
		s := over(t, store.Limits{Events: 10}, Config{Queue: 1 << 10})
		reader := after(t, s, "a", "")
		attach(t, reader)
		put(t, s, "a", "1")
		one(t, reader)
		for range 40 {
			put(t, s, "a", strings.Repeat("x", 50))
		}
		if forget {
			s.Forget("s")
		}
		if got, err := one(t, reader); !errors.Is(err, store.ErrEvicted) {
			t.Errorf("forgotten %t: %q, %v", forget, got, err)
		}
	}
}

// unsure is a store that stores some events and says it failed.
type unsure struct{ *store.Memory }

func (u unsure) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	id, err := u.Memory.Append(ctx, s, e)
	if strings.Contains(string(e.Frame), "unsure") {
		return "", errors.New("no answer")
	}
	return id, err
}

// Whether an event is in the log after an error only the log knows: the reader gets what
// is there, once and in its place.
func TestAppend_Fails_TheReaderGoesByTheLog(t *testing.T) {
	inner, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := on(t, unsure{inner}, Config{})
	reader := after(t, s, "a", "")
	attach(t, reader)
	put(t, s, "a", "1")
	if _, err := s.Append(t.Context(), stream("a"), store.Event{Frame: []byte("data: unsure\n\n")}); err == nil {
		t.Fatal("no error")
	}
	put(t, s, "a", "2")
	var got []string
	for range 2 {
		text, err := one(t, reader)
		if got = append(got, text); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(got, ",") != "1,unsure,2" {
		t.Errorf("got %q", got)
	}
}

// forgetful does something right after it has forgotten a session, and before it says so.
type forgetful struct {
	*store.Memory
	before, then func()
}

func (f *forgetful) Forget(session string) {
	f.before()
	f.Memory.Forget(session)
	f.then()
}

// Nobody who reads the old life of a stream gets events of the next one, whenever they
// come: not who was attached, and not who would like to be while the session is forgotten.
func TestForget_ReadersOfTheOldLife_GetNothingOfTheNext(t *testing.T) {
	inner, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Memory: inner}
	s := on(t, f, Config{})
	id := put(t, s, "a", "1")
	attached, late := after(t, s, "a", id), after(t, s, "a", id)
	attach(t, attached)
	put(t, s, "a", "2")
	one(t, late)
	f.before = func() {
		if got, err := one(t, late); !errors.Is(err, context.Canceled) {
			t.Errorf("while it is forgotten: %q, %v", got, err)
		}
	}
	f.then = func() { put(t, s, "a", "of the next life") }
	s.Forget("s")
	if got, err := one(t, attached); got != "2" || err != nil {
		t.Errorf("what was queued: %q, %v", got, err)
	}
	for _, reader := range []*tail{attached, late} {
		if got, err := one(t, reader); !errors.Is(err, io.EOF) {
			t.Errorf("then %q, %v", got, err)
		}
	}
	if got, err := one(t, after(t, s, "a", "")); got != "of the next life" || err != nil {
		t.Errorf("the next life: %q, %v", got, err)
	}
}

// Nothing is left of streams that are over, nor of sessions that were forgotten.
func TestDesks_AreThereOnlyWhileNeeded(t *testing.T) {
	for _, scope := range scopes() {
		s := over(t, store.Limits{}, Config{Lock: scope})
		for _, name := range []string{"read", "unread", "open"} {
			put(t, s, name, "1")
		}
		reader := after(t, s, "read", "")
		one(t, reader)
		attach(t, reader)
		put(t, s, "read", "last")
		put(t, s, "unread", "last")
		if n := len(s.rooms["s"].desks); n != 2 {
			t.Errorf("%s: %d desks for a stream that is open and one that is read", scope, n)
		}
		_ = reader.Close()
		_ = reader.Close() // once more does no harm
		_, _ = s.Append(t.Context(), stream("read"), store.Event{Frame: []byte("data: late\n\n")})
		if n := len(s.rooms["s"].desks); n != 1 {
			t.Errorf("%s: %d desks for a stream that is open", scope, n)
		}
		s.Forget("s")
		if len(s.rooms) != 0 {
			t.Errorf("%s: rooms are left: %v", scope, s.rooms)
		}
	}
}

// How far a reader lags counts all that was appended behind what it was given.
func TestNext_Behind_CountsWhatCameSinceThePass(t *testing.T) {
	s := over(t, store.Limits{}, Config{})
	for range 5 {
		put(t, s, "a", strings.Repeat("x", 50_000))
	}
	reader := after(t, s, "a", "")
	if p := reader.Position(); p.Missed != 5 || p.Stream != stream("a") {
		t.Errorf("at the start %+v", p)
	}
	for want := 4; want >= 0; want-- {
		batch, err := reader.Next(t.Context())
		if err != nil || batch.Events != 1 {
			t.Fatalf("%d events, %v", batch.Events, err)
		}
		if came := 4 - want; batch.Behind != want+came {
			t.Errorf("batch %d: %d behind, want %d", came, batch.Behind, want+came)
		}
		put(t, s, "a", "more")
	}
	if p := reader.Position(); p.Missed != 5 {
		t.Errorf("after the pass %+v", p)
	}
}

// Who shares a delivery lock is what was asked for.
func TestDesks_LockScope(t *testing.T) {
	for scope, want := range map[lock.Scope][2]bool{
		lock.Stream: {false, false}, lock.Session: {true, false}, lock.Global: {true, true},
	} {
		s := over(t, store.Limits{}, Config{Lock: scope})
		a, b, other := s.place(stream("a")).mu, s.place(stream("b")).mu, s.place(store.Stream{Session: "t", Name: "a"}).mu
		if got := [2]bool{a == b, a == other}; got != want || a == nil {
			t.Errorf("%s: shared within a session and beyond it: %v, want %v", scope, got, want)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	memory, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		inner store.Store
		cfg   Config
	}{
		"no store":                   {nil, Config{}},
		"a store that keeps nothing": {store.NewPassing(), Config{}},
		"a negative bound":           {memory, Config{Queue: -1}},
		"another negative bound":     {memory, Config{Pass: -1}},
		"a scope that is none":       {memory, Config{Lock: 7}},
	} {
		if _, err := New(tt.inner, tt.cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s, err := New(unmetered{memory}, Config{}); err != nil {
		t.Error(err)
	} else if _, ok := s.(store.Meter); ok {
		t.Error("it says how much is kept by a store that does not")
	}
}

type unmetered struct{ store.Store }
