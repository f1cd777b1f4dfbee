package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver/store"
)

func secondLife(t *testing.T, open Open) {
	s := open(t, store.Limits{})
	f, ok := s.(store.Forgetter)
	if !ok {
		return
	}
	a, other := store.Stream{Session: "s", Name: "a"}, store.Stream{Session: "t", Name: "a"}
	old := put(t, s, a, "1")
	put(t, s, a, "last")
	kept := put(t, s, other, "kept")
	f.Forget("s")
	f.Forget("nobody")
	put(t, s, a, "3")
	put(t, s, a, "4")
	if _, err := s.After(t.Context(), store.Cursor{Stream: a, ID: old}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the old id: %v", err)
	}
	if got, _ := drain(t, after(t, s, a, "")); texts(got) != "3,4" {
		t.Errorf("the new life: %v", got)
	}
	after(t, s, other, kept) // a neighbour keeps what it has
}

func forgotten(t *testing.T, open Open) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Limits{})
		f, ok := s.(store.Forgetter)
		if !ok {
			return
		}
		a := store.Stream{Session: "s", Name: "a"}
		id := put(t, s, a, "1")
		waiting, idle := after(t, s, a, id), after(t, s, a, id)
		ended := make(chan error, 1)
		go func() {
			_, err := waiting.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		f.Forget("s")
		put(t, s, a, "of the next life")
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("a reader that waited: %v", err)
		}
		if got, err := drain(t, idle); len(got) > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("a reader that had caught up: %v, then %v", got, err)
		}
	})
}

func waits(t *testing.T, open Open) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Limits{})
		a := store.Stream{Session: "s", Name: "a"}
		tail := after(t, s, a, "")
		begun, reader := time.Now(), make(chan error, 1)
		var got []time.Duration
		go func() {
			for {
				if _, err := tail.Next(t.Context()); err != nil {
					reader <- err
					return
				}
				got = append(got, time.Since(begun))
			}
		}()
		for _, text := range []string{"1", "2", "last"} {
			<-time.After(time.Second)
			put(t, s, a, text)
		}
		if err := <-reader; !errors.Is(err, io.EOF) || len(got) != 3 || got[0] != time.Second || got[2] != 3*time.Second {
			t.Errorf("events came at %v, then %v", got, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := after(t, s, store.Stream{Session: "s", Name: "empty"}, "").Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader with no more time: %v", err)
		}
	})
}

func atHand(t *testing.T, open Open) {
	s := open(t, store.Limits{})
	a := store.Stream{Session: "s", Name: "a"}
	tail := after(t, s, a, "")
	for i := range 30 {
		put(t, s, a, strconv.Itoa(i))
		if got, err := drain(t, tail); texts(got) != strconv.Itoa(i) || !errors.Is(err, context.Canceled) {
			if errors.Is(err, store.ErrBehind) && texts(got) == strconv.Itoa(i) {
				continue
			}
			t.Fatalf("event %d: got %v, then %v", i, got, err)
		}
	}
}

// client is a reader that comes and goes, and checks that it gets the numbers from 0 on,
// each once.
type client struct {
	t      *testing.T
	store  store.Store
	stream store.Stream
	draw   *rand.Rand
	cursor string
	seen   int
}

// run reads to the end of the stream, over many tails. An old tail is closed when the new
// one is open, as in a takeover.
func (c *client) run() {
	var old store.Tail
	for over := false; !over; {
		tail, err := c.store.After(c.t.Context(), store.Cursor{Stream: c.stream, ID: c.cursor})
		if err != nil {
			c.t.Errorf("%v: after %d events: %v", c.stream, c.seen, err)
			return
		}
		if old != nil {
			_ = old.Close()
		}
		over = c.read(tail)
		old = tail
	}
	_ = old.Close()
}

// read reads a while, and reports whether there is no more.
func (c *client) read(tail store.Tail) (over bool) {
	for range 1 + c.draw.IntN(4) {
		batch, err := tail.Next(c.t.Context())
		switch {
		case errors.Is(err, store.ErrBehind):
			return false
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			c.t.Errorf("%v: after %d events: %v", c.stream, c.seen, err)
			return true
		}
		all := parse(c.t, batch)
		cut := c.draw.IntN(3) == 0 // the link is cut: the rest of the batch does not arrive
		if cut {
			all = all[:c.draw.IntN(len(all))]
		}
		for _, e := range all {
			if n, _, _ := strings.Cut(e.text, "."); n != strconv.Itoa(c.seen) && e.text != "last" {
				c.t.Errorf("%v: event %.20s comes after %d events", c.stream, e.text, c.seen)
				return true
			}
			c.seen, c.cursor = c.seen+1, e.id
		}
		if cut {
			return false
		}
	}
	return false
}

// takeovers: however appending and coming back mix, each event arrives once, in order.
func takeovers(t *testing.T, open Open) {
	const streams, events = 6, 500
	s := open(t, store.Limits{Events: 2 * events})
	var all sync.WaitGroup
	for i := range streams {
		stream := store.Stream{Session: fmt.Sprint("s", i%2), Name: fmt.Sprint(i)}
		put(t, s, stream, "0") // a stream begins with an event that is there
		c := &client{t: t, store: s, stream: stream, draw: rand.New(rand.NewPCG(uint64(i), 2))}
		all.Go(c.run)
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(i), 3))
			for n := 1; n < events; n++ {
				text := strconv.Itoa(n) + "." + strings.Repeat("x", draw.IntN(400))
				if _, err := s.Append(t.Context(), stream, event(text)); err != nil {
					t.Error(err)
				}
				if draw.IntN(20) == 0 {
					runtime.Gosched()
				}
			}
			if _, err := s.Append(t.Context(), stream, event("last")); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			if c.seen != events+1 {
				t.Errorf("%v: %d events came of %d", stream, c.seen, events+1)
			}
		})
	}
	all.Wait()
}

// mixed: however appends, trimming, forgetting and readers mix, what a reader gets is a
// run of one life's events without a gap, and in the end nothing is kept.
func mixed(t *testing.T, open Open) {
	const workers, sessions, each, life = 6, 3, 200, 40
	s := open(t, store.Limits{Events: 50, Bytes: 30_000, SessionBytes: 20_000, Streams: 12})
	f, forgets := s.(store.Forgetter)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(worker), 1))
			var readers []store.Tail
			for n := range each {
				stream := store.Stream{Session: fmt.Sprint("s", draw.IntN(sessions)), Name: fmt.Sprint(worker, n/life)}
				text := strconv.Itoa(n) + "." + strings.Repeat("x", draw.IntN(300))
				id, err := s.Append(t.Context(), stream, store.Event{Frame: event(text).Frame, Last: n%life == life-1})
				if err != nil && !errors.Is(err, store.ErrEnded) && !errors.Is(err, store.ErrFull) {
					t.Error(err)
				}
				if tail, err := s.After(t.Context(), store.Cursor{Stream: stream, ID: id}); err == nil {
					readers = append(readers, tail)
				}
				for _, tail := range readers {
					ascending(t, tail)
				}
				if len(readers) > 3 {
					_ = readers[0].Close()
					readers = readers[1:]
				}
				if forgets && draw.IntN(100) == 0 {
					f.Forget(stream.Session)
				}
			}
			for _, tail := range readers {
				_ = tail.Close()
			}
		})
	}
	all.Wait()
	if !forgets {
		return
	}
	for i := range sessions {
		f.Forget(fmt.Sprint("s", i))
	}
	if m, ok := s.(store.Meter); ok {
		if st := m.Stats(); st.Events != 0 || st.Bytes != 0 || st.Streams != 0 {
			t.Errorf("all sessions are forgotten, and it holds %+v", st)
		}
	}
}

// ascending reads what is at hand. The numbers of a stream that one worker appends to
// ascend; two lives in one read would not, and nor would an event that comes twice.
func ascending(t *testing.T, tail store.Tail) {
	got, _ := drain(t, tail)
	last, nonce := -1, ""
	for _, e := range got {
		text, _, _ := strings.Cut(e.text, ".")
		n, err := strconv.Atoi(text)
		life := e.id[:max(strings.LastIndexByte(e.id, '-'), 0)]
		if err != nil || n <= last || nonce != "" && life != nonce {
			t.Errorf("%.20s of life %q after %d of life %q", e.text, life, last, nonce)
		}
		last, nonce = n, life
	}
}
