package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// Clause: a store that fails is reported (to the operator, as a number, to the observer) and
// the event is written without an id. The request does not fail, and what the store took
// keeps its id.
func TestSeed003_StoreFails_IsReported_AndTheEventWrittenWithoutAnID(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		cfg.Store = refusing(t, `"progress":7,`)
		p := virtual(t, log.observe(cfg)).open(latest)
		all := p.emit(1, "a", twenty).rest()
		if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
			t.Errorf("got %v", got)
		}
		for i, e := range all {
			if (e.id == "") != (i == 7) {
				t.Errorf("event %d has id %q", i+1, e.id)
			}
		}
		lines := log.lines("the event store failed")
		if len(lines) != 1 || !strings.Contains(lines[0], "no space") || strings.Contains(lines[0], p.id) || log.count(unstored) != 1 {
			t.Errorf("reported %q, told %d times", lines, log.count(unstored))
		}
		expect(t, "at the end", gather(p.rig), map[string]string{"store_errors_total": "1", `events_total{path="unstored"}`: "1"})
	})
}

// Clause: an outage costs resumability, not requests: with a store that takes nothing at all
// everything arrives as if there were none, on both kinds of streams.
func TestSeed003_StoreTakesNothing_RequestsAreServedAsWithoutOne(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = refusing(t, "")
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		synctest.Wait()
		for i, e := range p.emit(1, "a", twenty).rest() {
			if e.id != "" || e.retry != "" || numbers(t, []event{e})[0] != (i+1)%21 {
				t.Errorf("event %d: %+v", i+1, e)
			}
		}
		p.changeTools("new")
		if e := get.take(1)[0]; e.id != "" || !strings.Contains(e.data, "list_changed") {
			t.Errorf("GET stream: %+v", e)
		}
	})
}

// down is a store that is out of order, for reading too, while it is down.
type down struct {
	*store.Memory
	now *atomic.Bool
}

var errDown = errors.New("connection refused")

func (d down) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if d.now.Load() {
		return "", errDown
	}
	return d.Memory.Append(ctx, s, e)
}

func (d down) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	if d.now.Load() {
		return nil, errDown
	}
	return d.Memory.After(ctx, c)
}

// Clause: the same when the store cannot even be read, and when it comes back in the middle
// of a call. A resume has to wait for the store, and is told to try again, not that its
// cursor is bad.
func TestSeed003_StoreIsDownAltogether_RequestsAreServed_ResumesWait(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		broken := down{newStore(t, store.Limits{}), new(atomic.Bool)}
		cfg.Store = broken
		p := virtual(t, log.observe(cfg)).open(latest)
		before := p.emit(1, "a", twenty).rest()
		broken.now.Store(true)
		get := p.resumeNothing()
		s := p.emit(2, "b", twenty)
		during := s.take(5)
		if status, all := p.refusal(before[3].id); status != 503 || strings.Contains(all, before[3].id) {
			t.Errorf("a resume meanwhile: %d %s", status, all)
		}
		broken.now.Store(false) // in the middle of the call
		during = append(during, s.rest()...)
		if got := numbers(t, during); !slices.Equal(got, upTo(20)[1:]) || during[0].id != "" {
			t.Errorf("a call meanwhile: %v", got)
		}
		p.changeTools("new")
		if e := get.take(1)[0]; !strings.Contains(e.data, "list_changed") {
			t.Errorf("GET stream: %+v", e)
		}
		same(t, "the resume, later", p.resume(before[3].id).rest(), before[4:])
		if got := numbers(t, p.emit(3, "c", twenty).rest()); !slices.Equal(got, upTo(20)) {
			t.Errorf("a call later: %v", got)
		}
		if len(log.lines("the event store failed")) == 0 || log.count(unstored) == 0 {
			t.Error("nothing was reported")
		}
	})
}

// Clause: a store that fails now and then costs ids now and then: a connected client gets
// all, in order, and who comes back with an id that the store gave gets what it took.
func TestSeed003_StoreThatFlaps_LosesNothingToAConnectedClient(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		n := 0
		cfg.Store = &hooked{newStore(t, store.Limits{}), func(e store.Event) error {
			if n++; n%3 == 0 || n%7 == 0 {
				return errDown
			}
			return nil
		}}
		p := virtual(t, cfg).open(latest)
		for id := 1; id <= 10; id++ {
			for _, args := range []string{twenty, `{"messages":20}`} {
				all := p.emit(id, "a", args).rest()
				got := numbers(t, all)
				if !slices.Equal(got, upTo(20)) && !slices.Equal(got, upTo(20)[1:]) {
					t.Fatalf("call %d: got %v", id, got)
				}
				stored := slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.id == "" })
				if all[len(all)-1].id != "" {
					same(t, "a resume", p.resume(stored[0].id).rest(), stored[1:])
				}
			}
		}
	})
}

// misnaming is a store that gives some events ids which cannot stand in an id line, and
// keeps them under these, as a store of somebody else might.
type misnaming struct {
	*store.Memory
	bad  func(store.Event) bool
	with string // what is put into the id
}

func (m misnaming) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if !m.bad(e) {
		return m.Memory.Append(ctx, s, e)
	}
	// The memory store writes the id line itself, so the bad part goes into the frame; what
	// a reader gets is as if the id had it.
	marked := store.Event{Frame: append([]byte("\x00"), e.Frame...), Last: e.Last}
	id, err := m.Memory.Append(ctx, s, marked)
	return id + m.with, err
}

func (m misnaming) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	tail, err := m.Memory.After(ctx, c)
	return misnamed{tail, m.with}, err
}

type misnamed struct {
	store.Tail
	with string
}

func (m misnamed) Next(ctx context.Context) (store.Batch, error) {
	b, err := m.Tail.Next(ctx)
	b.Frames = []byte(strings.ReplaceAll(string(b.Frames), "\n\x00", m.with+"\n"))
	return b, err
}

func badIDs() []string {
	return []string{"\n", "\r", "\r\n", "\n\n", "\ndata: ", " ", "\x00", "é", "\x7f", "\nretry: 1", "\nid: x", strings.Repeat("x", 300)}
}

// Clause: an id that holds a line break is refused as a failure is: reported, and the event
// written without an id, since it would end the frame early. The same for all else that
// cannot come back in a header.
func TestSeed003_IDThatBreaksAFrame_IsReported_AndTheEventWrittenWithoutIt(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, with := range badIDs()[:9] {
			var log eventLog
			third := func(e store.Event) bool { return strings.Contains(string(e.Frame), `"progress":3,`) }
			cfg.Store = misnaming{newStore(t, store.Limits{}), third, with}
			p := virtual(t, log.observe(cfg)).open(latest)
			for _, args := range []string{twenty, `{"messages":20}`} {
				s := p.emit(1, "a", args)
				all := s.take(1)
				all = append(all, s.rest()...)
				if got := numbers(t, all); !slices.Equal(got, upTo(20)) {
					t.Errorf("%q: got %v", with, got)
				}
				for i, e := range all {
					if (e.id == "") != (i == 3) || e.retry != "" && i > 0 {
						t.Errorf("%q: event %d is %+v", with, i+1, e)
					}
				}
				same(t, "replayed", p.resume(all[1].id).rest(), all[2:]) // again without the id
			}
			if n := log.count(unstored); n != 2 || len(log.lines("bad id")) != 2 {
				t.Errorf("%q: told %d times, reported %q", with, n, log.lines("bad id"))
			}
		}
	})
}

// Clause: the same for the priming event. Its stream opens without one then, and the hook
// that closes its connection reports false.
func TestSeed003_IDOfThePrimingEventThatBreaksAFrame_NoPriming(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, with := range badIDs()[:9] {
			var log eventLog
			priming := func(e store.Event) bool { return strings.HasSuffix(string(e.Frame), "data: \n\n") }
			cfg.Store = misnaming{newStore(t, store.Limits{}), priming, with}
			r := virtual(t, log.observe(cfg))
			p := r.open(latest)
			get := p.resumeNothing()
			synctest.Wait()
			if reported, call := tryHooks(r, p); slices.Contains(reported, true) || len(call) != 2 || call[0].id == "" {
				t.Errorf("%q: hooks reported %v, the call got %+v", with, reported, call)
			}
			pass(time.Second)
			if e := get.take(1)[0]; !strings.Contains(e.data, "list_changed") || e.id == "" {
				t.Errorf("%q: the GET stream got %+v", with, e)
			}
			if log.count(unstored) != 2 {
				t.Errorf("%q: told %d times", with, log.count(unstored))
			}
		}
	})
}

// Clause: whatever a store says in place of an id, no frame on the wire is broken by it: a
// client never sees an event that was not sent.
func TestSeed003_NoIDMakesAnEventOfItsOwn(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, with := range badIDs() {
			cfg.Store = misnaming{newStore(t, store.Limits{}), func(store.Event) bool { return true }, with}
			p := virtual(t, cfg).open(latest)
			body := p.asSent(p.emitRequest(1, `{"messages":3}`), whole)
			for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
				if strings.Contains(frame, "id: ") && !strings.Contains(frame, `"id: `) {
					t.Errorf("%q: a frame has an id: %q", with, frame)
				}
			}
			if strings.Contains(body, "\r") || strings.Contains(body, "\x00") || !strings.Contains(body, `"progress":3`) || !strings.Contains(body, `"result"`) {
				t.Errorf("%q: got %q", with, body)
			}
		}
	})
}

// Clause: an id that is made like events of its own cannot be told from them; nothing at all
// is written then, and what was sent before stays right.
func TestSeed003_IDMadeOfWholeEvents_ForgesNothing(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		third := func(e store.Event) bool { return strings.Contains(string(e.Frame), `"progress":3,`) }
		cfg.Store = misnaming{newStore(t, store.Limits{}), third, "\ndata: {\"forged\":1}\n\nid: forged-1"}
		p := virtual(t, log.observe(cfg)).open(latest)
		s := p.emit(1, "a", twenty)
		if got := numbers(t, s.take(3)); !slices.Equal(got, []int{-1, 1, 2}) {
			t.Errorf("got %v", got)
		}
		if e, err := s.next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("then %+v, %v", e, err)
		}
		synctest.Wait()
		if log.count(left(refserver.ReasonError)) != 1 || len(log.lines("not an event")) != 1 {
			t.Errorf("reports: %q", log.lines(""))
		}
	})
}

// Clause: a GET stream that is opened again begins at its end, also when the store gave it
// nothing to begin behind.
func TestSeed003_GETStreamOpenedAgain_BeginsAtItsEnd_ThoughItsIDsAreBad(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, with := range []string{"\n", " "} {
			cfg.Store = misnaming{newStore(t, store.Limits{}), func(store.Event) bool { return true }, with}
			p := virtual(t, cfg).open(latest)
			get := p.resumeNothing()
			synctest.Wait()
			p.emit(1, "old", `{"messages":3,"on":"get"}`).rest()
			if got := numbers(t, get.take(3)); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("%q: got %v", with, got)
			}
			get.cut()
			synctest.Wait()
			again := p.resumeNothing()
			synctest.Wait()
			p.emit(2, "new", `{"messages":3,"on":"get"}`).rest()
			for _, e := range again.take(3) {
				if !strings.Contains(e.data, `"new"`) || e.id != "" {
					t.Errorf("%q: got %+v", with, e)
				}
			}
		}
	})
}

// Clause: failures are told without what would let somebody else read the stream.
func TestSeed003_Reports_NameNoIDsAndNoTokens(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		var log eventLog
		cfg.Store = misnaming{newStore(t, store.Limits{}), func(e store.Event) bool { return strings.Contains(string(e.Frame), `"progress":2`) }, "\n"}
		cfg.Verifier, cfg.WriteTimeout = tokens(t), 2*time.Second
		r := virtual(t, log.observe(cfg)).as(annToken)
		p := r.open(latest)
		all := p.emit(1, "a", twenty).rest()
		p.resumeNothing()
		stalled := p.emit(2, "b", `{"messages":3000,"bytes":1000}`)
		first := stalled.take(1)[0]
		p.refusal("secret-cursor-1")
		pass(time.Minute)
		if len(log.lines("")) < 2 {
			t.Fatalf("reports: %q", log.lines(""))
		}
		for _, secret := range append(idsOf(all), first.id, p.id, annToken, "secret-cursor-1") {
			if secret == "" {
				continue
			}
			if lines := log.lines(secret); len(lines) > 0 {
				t.Errorf("a report quotes a secret: %q", lines)
			}
			if text := fmt.Sprint(gather(r)); strings.Contains(text, secret) {
				t.Errorf("a metric quotes a secret")
			}
		}
	})
}
