package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver/lock"
)

func newMemory(t *testing.T, limits Limits) *Memory {
	t.Helper()
	var n atomic.Int64
	m, err := NewMemory(MemoryConfig{Limits: limits, Nonce: func() string { return fmt.Sprintf("n%d", n.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func put(t *testing.T, s Store, stream Stream, text string) string {
	t.Helper()
	id, err := s.Append(t.Context(), stream, Event{Frame: []byte("data: " + text + "\n\n"), Last: text == "last"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// read returns the data of what is at hand behind a cursor, and how reading ended.
func read(t *testing.T, tail Tail) (texts []string, err error) {
	t.Helper()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		batch, err := tail.Next(done)
		if err != nil {
			return texts, err
		}
		events := strings.SplitAfter(string(batch.Frames), "\n\n")
		if len(events)-1 != batch.Events || events[len(events)-1] != "" {
			t.Fatalf("a batch of %d events is %q", batch.Events, batch.Frames)
		}
		for _, e := range events[:batch.Events] {
			_, data, _ := strings.Cut(e, "data: ")
			texts = append(texts, strings.TrimSuffix(data, "\n\n"))
		}
	}
}

func after(t *testing.T, s Store, stream Stream, id string) []string {
	t.Helper()
	tail, err := s.After(t.Context(), Cursor{Stream: stream, ID: id})
	if err != nil {
		t.Fatalf("after %q: %v", id, err)
	}
	defer tail.Close()
	texts, err := read(t, tail)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		t.Fatalf("after %q: %v", id, err)
	}
	return texts
}

func TestMemory_AfterEachID_TheRest(t *testing.T) {
	for _, size := range []int{10, 20_000, 70_000} { // within a segment, over several, larger than one
		m := newMemory(t, Limits{})
		a, b := Stream{"s", "a"}, Stream{"s", "b"}
		var ids, texts []string
		for i := range 20 {
			text := fmt.Sprintf("%d%s", i, strings.Repeat("x", size))
			ids, texts = append(ids, put(t, m, a, text)), append(texts, text)
			put(t, m, b, "other")
		}
		texts = append(texts, "last")
		ids = append(ids, put(t, m, a, "last"))
		for i, id := range append([]string{""}, ids...) {
			if got := after(t, m, a, id); strings.Join(got, ",") != strings.Join(texts[i:], ",") {
				t.Fatalf("size %d, after event %d: %d events", size, i, len(got))
			}
			tail, _ := m.After(t.Context(), Cursor{Stream: a, ID: id})
			if p := tail.Position(); p.Missed != len(texts)-i || p.Stream != a {
				t.Errorf("after event %d: position %+v", i, p)
			}
		}
		if _, err := m.Append(t.Context(), a, Event{Frame: []byte("data: late\n\n")}); !errors.Is(err, ErrEnded) {
			t.Errorf("append behind the last event: %v", err)
		}
	}
}

func TestMemory_CursorsThatLeadNowhere(t *testing.T) {
	m := newMemory(t, Limits{Events: 3})
	s := Stream{"s", "a"}
	var ids []string
	for range 6 {
		ids = append(ids, put(t, m, s, "x"))
	}
	for id, want := range map[string]error{
		ids[5]: nil, ids[2]: nil, ids[1]: ErrEvicted, ids[0]: ErrEvicted,
		"n1-7": ErrUnknown, "n1-0": ErrUnknown, "n1-": ErrUnknown, "n1": ErrUnknown, "n1-04": ErrUnknown, "n2-1": ErrUnknown, "-4": ErrUnknown, "n1-4 ": ErrUnknown, "n1--4": ErrUnknown,
	} {
		if _, err := m.After(t.Context(), Cursor{Stream: Stream{Session: "s"}, ID: id}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
	}
	if _, err := m.After(t.Context(), Cursor{Stream: Stream{Session: "other"}, ID: ids[5]}); !errors.Is(err, ErrForeign) {
		t.Errorf("foreign: %v", err)
	}
	if _, err := m.After(t.Context(), Cursor{Stream: s}); !errors.Is(err, ErrEvicted) {
		t.Errorf("from a start that is gone: %v", err)
	}
}

// A reader that is overtaken by trimming is told so; it never skips.
func TestMemory_ReaderOvertaken_IsToldSo(t *testing.T) {
	m := newMemory(t, Limits{Events: 3})
	s := Stream{"s", "a"}
	tail, _ := m.After(t.Context(), Cursor{Stream: s})
	for range 4 {
		put(t, m, s, "x")
	}
	if texts, err := read(t, tail); len(texts) > 0 || !errors.Is(err, ErrEvicted) {
		t.Errorf("got %v, %v", texts, err)
	}
	kept, _ := m.After(t.Context(), Cursor{Stream: s, ID: "n1-4"})
	m.Forget("s")
	if _, err := read(t, kept); !errors.Is(err, io.EOF) {
		t.Errorf("caught up, and the session was forgotten: %v", err)
	}
}

// Each life of a stream has ids of its own.
func TestMemory_SecondLife_OldIDsMatchNothing(t *testing.T) {
	m := newMemory(t, Limits{})
	s := Stream{"s", "a"}
	old := put(t, m, s, "1")
	put(t, m, s, "2")
	m.Forget("s")
	put(t, m, s, "3")
	put(t, m, s, "4")
	if _, err := m.After(t.Context(), Cursor{Stream: s, ID: old}); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old id: %v", err)
	}
	if got := after(t, m, s, ""); strings.Join(got, "") != "34" {
		t.Errorf("the new life: %v", got)
	}
}

func TestMemory_BytesBound_TheHogPaysAndFinishedStreamsGoFirst(t *testing.T) {
	const limit = 20_000
	m := newMemory(t, Limits{Bytes: limit})
	modest, done, open := Stream{"modest", "a"}, Stream{"hog", "done"}, Stream{"hog", "open"}
	first := put(t, m, modest, "kept")
	put(t, m, done, strings.Repeat("x", 3000))
	put(t, m, done, "last")
	text := strings.Repeat("y", 100)
	reader, _ := m.After(t.Context(), Cursor{Stream: open})
	for i := range 1000 {
		put(t, m, open, text)
		if got := m.Stats().Bytes; got > limit {
			t.Fatalf("after event %d it holds %d bytes", i, got)
		}
	}
	if got := after(t, m, modest, first); len(got) != 0 {
		t.Errorf("the modest session: %v", got)
	}
	if _, err := m.After(t.Context(), Cursor{Stream: Stream{Session: "hog"}, ID: "n2-1"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("the finished stream is still there: %v", err)
	}
	if _, err := read(t, reader); !errors.Is(err, ErrEvicted) {
		t.Errorf("a reader that is too slow: %v", err)
	}
	st := m.Stats()
	if kept := st.Events - 1; kept < 100 || kept > 200 || st.Evicted[CauseBytes] != 1000+2-kept {
		t.Errorf("stats: %+v", st)
	}
	put(t, m, modest, strings.Repeat("z", 2*limit)) // larger than all: it stays until the next
	if got := after(t, m, modest, first); len(got) != 1 {
		t.Errorf("an event larger than the bound: %d", len(got))
	}
}

// Sessions that hold alike pay alike: none gives so much that a reader which is only a
// little behind its writer loses events, be the appends one after the other or at once.
func TestMemory_BytesBound_EqualsPayAlike(t *testing.T) {
	const sessions, limit = 8, 400_000
	m := newMemory(t, Limits{Bytes: limit})
	text := strings.Repeat("y", 100)
	for range 500 {
		for s := range sessions {
			put(t, m, Stream{fmt.Sprint(s), "a"}, text)
		}
		for _, s := range m.shelves() {
			if all := m.Stats().Bytes; all > limit*7/8 && s.bytes.Load() < limit/sessions*3/4 {
				t.Fatalf("one of %d sessions keeps %d of %d bytes", sessions, s.bytes.Load(), all)
			}
		}
	}
	var group sync.WaitGroup
	for s := range sessions {
		group.Go(func() {
			stream := Stream{fmt.Sprint(s), "live"}
			tail, err := m.After(t.Context(), Cursor{Stream: stream})
			for k := 0; k < 5000 && err == nil; k++ {
				if _, err = m.Append(t.Context(), stream, Event{Frame: []byte("data: " + text + "\n\n")}); err == nil && k%100 == 99 {
					for behind := 100; behind > 0 && err == nil; {
						var b Batch
						b, err = tail.Next(t.Context())
						behind -= b.Events
					}
				}
			}
			if err != nil {
				t.Errorf("a reader at most 100 events behind: %v", err)
			}
		})
	}
	group.Wait()
	if got := m.Stats().Bytes; got > limit {
		t.Errorf("it holds %d bytes", got)
	}
}

func TestLevelOf(t *testing.T) {
	for _, tt := range []struct {
		sizes []int64
		over  int64
		want  int64
	}{
		{[]int64{10, 10, 10, 10}, 4, 9},
		{[]int64{1, 20, 10}, 5, 15},
		{[]int64{1, 20, 10}, 16, 7},
		{[]int64{1, 20, 10}, 31, 0},
		{[]int64{1, 2}, 9, 0},
		{nil, 1, 0},
	} {
		if got := levelOf(slices.Clone(tt.sizes), tt.over); got != tt.want {
			t.Errorf("%v less %d: %d, want %d", tt.sizes, tt.over, got, tt.want)
		}
	}
}

// A finished stream that somebody still reads is the last to go.
func TestMemory_BytesBound_SparesWhatIsBeingRead(t *testing.T) {
	m := newMemory(t, Limits{Bytes: 20_000})
	read, unread := Stream{"s", "read"}, Stream{"s", "unread"}
	for _, s := range []Stream{read, unread} {
		put(t, m, s, strings.Repeat("x", 3000))
		put(t, m, s, "last")
	}
	tail, _ := m.After(t.Context(), Cursor{Stream: read})
	defer tail.Close()
	for range 100 {
		put(t, m, Stream{"s", "open"}, strings.Repeat("y", 200))
	}
	if got := after(t, m, read, ""); len(got) != 2 {
		t.Errorf("the stream that is being read: %d events", len(got))
	}
	if got := after(t, m, unread, ""); len(got) != 0 {
		t.Errorf("the other: %d events", len(got))
	}
}

func TestMemory_SessionBytes_EvictNobodyElse(t *testing.T) {
	m := newMemory(t, Limits{SessionBytes: 5000})
	put(t, m, Stream{"quiet", "a"}, "x")
	for range 500 {
		put(t, m, Stream{"loud", "a"}, strings.Repeat("y", 50))
	}
	if got := m.sessions["loud"].bytes.Load(); got > 5000 || got < 4000 {
		t.Errorf("the loud session keeps %d bytes", got)
	}
	if got := after(t, m, Stream{"quiet", "a"}, ""); len(got) != 1 {
		t.Errorf("the quiet one: %v", got)
	}
}

func TestMemory_StreamsBound(t *testing.T) {
	m := newMemory(t, Limits{Streams: 3})
	for _, name := range []string{"a", "b", "c"} {
		put(t, m, Stream{"s", name}, "x")
	}
	if _, err := m.Append(t.Context(), Stream{"t", "d"}, Event{}); !errors.Is(err, ErrFull) {
		t.Errorf("fourth open stream: %v", err)
	}
	put(t, m, Stream{"s", "b"}, "last")
	put(t, m, Stream{"t", "d"}, "x")
	if st := m.Stats(); st.Streams != 3 || st.Evicted[CauseStreams] != 2 {
		t.Errorf("stats: %+v", st)
	}
}

// However appends, forgetting and readers mix, what a reader gets is a run of the
// appended texts without a gap, and the counters end at what is there.
func TestMemory_Concurrent(t *testing.T) {
	m, err := NewMemory(MemoryConfig{Limits: Limits{Events: 50, Bytes: 30_000, Streams: 12}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(worker), 1))
			for n := range 300 {
				s := Stream{fmt.Sprint("s", draw.IntN(3)), fmt.Sprint(worker, n/40)}
				text := fmt.Sprintf("data: %d.%s\n\n", n, strings.Repeat("x", draw.IntN(300)))
				id, err := m.Append(t.Context(), s, Event{Frame: []byte(text), Last: n%40 == 39})
				if err != nil && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrFull) {
					t.Error(err)
				}
				if tail, err := m.After(t.Context(), Cursor{Stream: s, ID: id}); err == nil {
					if texts, _ := read(t, tail); len(texts) > 0 && id != "" {
						t.Errorf("events behind the newest: %v", texts)
					}
					tail.Close()
				}
				if draw.IntN(100) == 0 {
					m.Forget(s.Session)
				}
			}
		})
	}
	all.Wait()
	for i := range 3 {
		m.Forget(fmt.Sprint("s", i))
	}
	if st := m.Stats(); st.Events != 0 || st.Bytes != 0 || st.Streams != 0 || len(m.nonces) != 0 || len(m.sessions) != 0 {
		t.Errorf("all sessions are forgotten, and it holds %+v", st)
	}
}

func TestTails_WaitAtTheEnd(t *testing.T) {
	for _, name := range []string{"memory", "passing"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s Store
				if name == "memory" {
					s = newMemory(t, Limits{})
				} else {
					s = NewPassing()
				}
				stream := Stream{"s", "a"}
				tail, err := s.After(t.Context(), Cursor{Stream: stream})
				if err != nil {
					t.Fatal(err)
				}
				var got []time.Duration
				start := time.Now()
				reader := make(chan error, 1)
				go func() {
					for {
						_, err := tail.Next(t.Context())
						if err != nil {
							reader <- err
							return
						}
						got = append(got, time.Since(start))
					}
				}()
				for _, text := range []string{"1", "2", "last"} {
					<-time.After(time.Second)
					put(t, s, stream, text)
				}
				if err := <-reader; !errors.Is(err, io.EOF) || len(got) != 3 || got[2] != 3*time.Second {
					t.Errorf("events came at %v, then %v", got, err)
				}
			})
		})
	}
}

func TestPassing_KeepsNothing_AndWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPassing()
		s := Stream{"s", "a"}
		if id := put(t, p, s, "nobody reads"); id != "" {
			t.Errorf("id %q", id)
		}
		tail, _ := p.After(t.Context(), Cursor{Stream: s})
		put(t, p, s, strings.Repeat("x", passingBytes))
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Append(limited, s, Event{Frame: []byte("data: y\n\n")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append behind a reader that is too slow: %v", err)
		}
		go func() { <-time.After(time.Second); _, _ = tail.Next(t.Context()) }()
		put(t, p, s, "fits again")
		if texts, _ := read(t, tail); len(texts) != 1 || texts[0] != "fits again" {
			t.Errorf("got %.50q", texts)
		}
		if _, err := p.After(t.Context(), Cursor{Stream: s, ID: "x-1"}); !errors.Is(err, ErrUnknown) {
			t.Errorf("a cursor: %v", err)
		}
		tail.Close()
		put(t, p, s, "gone")
		if len(p.pipes) != 0 {
			t.Errorf("%d pipes are left", len(p.pipes))
		}
	})
}

func TestValidate(t *testing.T) {
	err := MemoryConfig{Limits: Limits{Events: -1, SessionBytes: -1, Bytes: -1, Streams: -1}, Lock: 3}.Validate()
	if err == nil || strings.Count(err.Error(), "negative") != 4 || !strings.Contains(err.Error(), "unknown scope 3") {
		t.Errorf("got %v", err)
	}
}

// The oldest event is the oldest of all streams, and goes with what is dropped.
func TestMemory_OldestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, Limits{Events: 2})
		check := func(when string, want time.Duration) {
			t.Helper()
			if got := m.OldestAge(); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		put := func(session string) {
			if _, err := m.Append(t.Context(), Stream{session, "1"}, Event{Frame: []byte("data: x\n\n")}); err != nil {
				t.Error(err)
			}
		}
		check("empty", 0)
		time.Sleep(time.Hour)
		put("a")
		check("just now", 0)
		time.Sleep(3 * time.Second)
		put("b")
		check("the first of two streams", 3*time.Second)
		put("a")
		time.Sleep(2 * time.Second)
		put("a")
		check("the first was trimmed, b is as old as the next", 2*time.Second)
		m.Forget("b")
		check("a alone", 2*time.Second)
		time.Sleep(time.Second)
		put("a")
		check("trimmed again", time.Second)
		m.Forget("a")
		check("nothing is left", 0)
	})
}

// Who shares a lock is what was asked for.
func TestMemory_LockScope(t *testing.T) {
	for scope, want := range map[lock.Scope][2]bool{
		lock.Stream: {false, false}, lock.Session: {true, false}, lock.Global: {true, true},
	} {
		m, err := NewMemory(MemoryConfig{Lock: scope})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Stream{{"s", "a"}, {"s", "b"}, {"t", "a"}} {
			put(t, m, s, "x")
		}
		a, b, other := m.logs[Stream{"s", "a"}].mu, m.logs[Stream{"s", "b"}].mu, m.logs[Stream{"t", "a"}].mu
		if got := [2]bool{a == b, a == other}; got != want || a == nil {
			t.Errorf("%s: shared within a session and beyond it: %v, want %v", scope, got, want)
		}
	}
}

// What a log says it could spare is all but its newest event, whatever was dropped.
func TestMemory_Spareable_IsAllButTheNewestEvent(t *testing.T) {
	m := newMemory(t, Limits{Events: 20, SessionBytes: 3000})
	draw := rand.New(rand.NewPCG(1, 1))
	for n := range 500 {
		s := Stream{"s", fmt.Sprint(draw.IntN(4))}
		put(t, m, s, strings.Repeat("x", draw.IntN(400)))
		sum := int64(0)
		for _, l := range m.sessions["s"].logs {
			kept := int64(0)
			for i := range l.segments {
				g := &l.segments[i]
				kept += int64(len(g.buf)) - int64(g.at(g.trimmed))
			}
			if got := l.spareable.Load(); got != kept-l.newest {
				t.Fatalf("after %d events: %d can be spared, want %d", n, got, kept-l.newest)
			}
			sum += kept
		}
		if held := m.sessions["s"].bytes.Load(); held != sum || held > 3000 {
			t.Fatalf("after %d events it holds %d bytes, the logs %d", n, held, sum)
		}
	}
}
