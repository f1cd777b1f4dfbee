// Package storetest is what every event store has to pass: one suite for the memory store,
// whatever its locks, for what decorates it, and for stores of other makers.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/refserver/store"
)

// Open makes an empty store within limits. It need not honour those of bytes and streams;
// of events it is asked to keep no more per stream.
type Open func(t testing.TB, limits store.Limits) store.Store

// Run runs the whole suite. It begins goroutines and uses testing/synctest: a store that
// waits for a network cannot pass all of it.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, clause := range map[string]func(*testing.T, Open){
		"after each id comes the rest":                        theRest,
		"cursors that lead nowhere":                           nowhere,
		"ids are unique and can stand in an id line":          ids,
		"the last event ends a stream":                        theEnd,
		"a reader that is overtaken is told so":               overtaken,
		"a stream that was forgotten begins anew":             secondLife,
		"readers of what was forgotten come to an end":        forgotten,
		"a tail waits at the end":                             waits,
		"events at hand come even to a reader with no time":   atHand,
		"appender and takeovers: exactly once":                takeovers,
		"appends, trimming and forgetting mix: runs, no gaps": mixed,
	} {
		t.Run(name, func(t *testing.T) { clause(t, open) })
	}
}

// entry is an event as it comes from a tail.
type entry struct{ id, text string }

// parse takes a batch apart.
func parse(t testing.TB, b store.Batch) []entry {
	t.Helper()
	var all []entry
	for _, part := range strings.SplitAfter(string(b.Frames), "\n\n") {
		if part == "" {
			continue
		}
		line, rest, _ := strings.Cut(part, "\n")
		id, hasID := strings.CutPrefix(line, "id: ")
		text, hasText := strings.CutPrefix(rest, "data: ")
		if !hasID || !hasText || !strings.HasSuffix(text, "\n\n") {
			t.Errorf("not an event: %q", part)
		}
		all = append(all, entry{id, strings.TrimSuffix(text, "\n\n")})
	}
	if len(all) != b.Events || len(all) == 0 {
		t.Errorf("a batch of %d events holds %d", b.Events, len(all))
	}
	return all
}

// put appends an event; the text "last" is the end of its stream.
func put(t testing.TB, s store.Store, stream store.Stream, text string) string {
	t.Helper()
	id, err := s.Append(t.Context(), stream, event(text))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func event(text string) store.Event {
	return store.Event{Frame: []byte("data: " + text + "\n\n"), Last: text == "last"}
}

// drain returns what is at hand, and how reading ended.
func drain(t testing.TB, tail store.Tail) (all []entry, err error) {
	t.Helper()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		batch, err := tail.Next(done)
		if err != nil {
			return all, err
		}
		all = append(all, parse(t, batch)...)
	}
}

// after opens a tail.
func after(t testing.TB, s store.Store, stream store.Stream, id string) store.Tail {
	t.Helper()
	tail, err := s.After(t.Context(), store.Cursor{Stream: stream, ID: id})
	if err != nil {
		t.Fatalf("after event %q: %v", id, err)
	}
	t.Cleanup(func() { _ = tail.Close() })
	return tail
}

func texts(all []entry) string {
	var out []string
	for _, e := range all {
		out = append(out, e.text)
	}
	return strings.Join(out, ",")
}

func theRest(t *testing.T, open Open) {
	for _, size := range []int{10, 20_000, 70_000} { // small, several to a batch, larger than one
		s := open(t, store.Limits{})
		a, b := store.Stream{Session: "s", Name: "a"}, store.Stream{Session: "s", Name: "b"}
		ids, want := []string{""}, []string{}
		for i := range 20 {
			text := strconv.Itoa(i) + strings.Repeat("x", size)
			ids, want = append(ids, put(t, s, a, text)), append(want, text)
			put(t, s, b, "other")
		}
		ids, want = append(ids, put(t, s, a, "last")), append(want, "last")
		for i, id := range ids {
			tail := after(t, s, a, id)
			if p := tail.Position(); p.Stream != a || p.Missed != len(want)-i {
				t.Errorf("size %d, after event %d: position %+v", size, i, p)
			}
			got, err := drain(t, tail)
			if texts(got) != strings.Join(want[i:], ",") || !errors.Is(err, io.EOF) {
				t.Fatalf("size %d, after event %d: %d events, then %v", size, i, len(got), err)
			}
			for k, e := range got {
				if e.id != ids[i+1+k] {
					t.Errorf("event %d has id %q, and it was appended as %q", i+k, e.id, ids[i+1+k])
				}
			}
			if p := tail.Position(); p.Missed != 0 {
				t.Errorf("at the end: position %+v", p)
			}
		}
	}
}

// future returns an id as the stream of another might get it later.
func future(id string, by int) string {
	i := strings.LastIndexByte(id, '-')
	n, err := strconv.Atoi(id[i+1:])
	if err != nil {
		return id + "9"
	}
	return id[:i+1] + strconv.Itoa(n+by)
}

func nowhere(t *testing.T, open Open) {
	s := open(t, store.Limits{Events: 3})
	a, other := store.Stream{Session: "s", Name: "a"}, store.Stream{Session: "other", Name: "a"}
	var ids []string
	for i := range 6 {
		ids = append(ids, put(t, s, a, strconv.Itoa(i)))
	}
	foreign := put(t, s, other, "x")
	for id, want := range map[string]error{
		ids[5]: nil, ids[2]: nil, ids[1]: store.ErrEvicted, ids[0]: store.ErrEvicted, "": store.ErrEvicted,
		future(ids[5], 1): store.ErrUnknown, future(ids[5], 1000): store.ErrUnknown, "nobody-1": store.ErrUnknown,
		"-": store.ErrUnknown, "x": store.ErrUnknown, ids[5] + " ": store.ErrUnknown, "\n": store.ErrUnknown,
		foreign: store.ErrForeign,
	} {
		tail, err := s.After(t.Context(), store.Cursor{Stream: a, ID: id})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
		if err != nil && id != "" && strings.Contains(err.Error(), id) && len(id) > 3 {
			t.Errorf("the error repeats the id: %v", err)
		}
		if tail != nil && err == nil {
			_ = tail.Close()
		}
	}
}

func ids(t *testing.T, open Open) {
	s := open(t, store.Limits{})
	seen := map[string]bool{}
	for i := range 60 {
		stream := store.Stream{Session: "s", Name: fmt.Sprint(i % 3)}
		id := put(t, s, stream, "x")
		if !store.ValidID(id) || seen[id] || strings.Contains(id, stream.Session+stream.Name) {
			t.Errorf("event %d has id %q", i, id)
		}
		seen[id] = true
	}
}

func theEnd(t *testing.T, open Open) {
	s := open(t, store.Limits{})
	a := store.Stream{Session: "s", Name: "a"}
	early := after(t, s, a, "")
	id := put(t, s, a, "1")
	put(t, s, a, "last")
	if _, err := s.Append(t.Context(), a, event("late")); !errors.Is(err, store.ErrEnded) {
		t.Errorf("append behind the last event: %v", err)
	}
	for _, tail := range []store.Tail{early, after(t, s, a, id)} {
		got, err := drain(t, tail)
		if !strings.HasSuffix(texts(got), "last") || !errors.Is(err, io.EOF) {
			t.Errorf("got %v, then %v", got, err)
		}
		if _, err := tail.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("asked again: %v", err)
		}
	}
}

func overtaken(t *testing.T, open Open) {
	s := open(t, store.Limits{Events: 3})
	a := store.Stream{Session: "s", Name: "a"}
	first := put(t, s, a, "1")
	tail := after(t, s, a, first)
	for i := range 4 {
		put(t, s, a, strconv.Itoa(i))
	}
	if got, err := drain(t, tail); len(got) > 0 || !errors.Is(err, store.ErrEvicted) {
		t.Errorf("got %v, then %v", got, err)
	}
}
