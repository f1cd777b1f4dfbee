package refserver_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clause: the store serves the streams of requests and the GET stream alike, and what goes
// on the wire is the id that the store gave, under which the event is kept.
func TestSeed003_EventsOfRequestAndGETStreams_CarryTheIDsTheStoreGave(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newRecording(t)
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		onGet := get.take(1)
		p.changeTools("new")
		onGet = append(onGet, get.take(1)...)
		call := p.emit(1, "a", twenty).rest()
		if got, want := idsOf(onGet), kept.ids("get"); !slices.Equal(got, want) || len(got) != 2 {
			t.Errorf("the GET stream carries %v, the store gave %v", got, want)
		}
		if got, want := idsOf(call), kept.ids("1"); !slices.Equal(got, want) || len(got) != 22 {
			t.Errorf("the call carries %v, the store gave %v", got, want)
		}
		get.cut()
		same(t, "GET stream, from the store", p.resume(onGet[0].id).take(1), onGet[1:])
		for i := range call {
			same(t, "call, from the store", p.resume(call[i].id).rest(), call[i+1:])
		}
	})
}

// Clause: each stream opens with a priming event: its id, the reconnection time, no data,
// and nothing before it.
func TestSeed003_EachStream_OpensWithAPrimingEvent(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		kept := newRecording(t)
		cfg.Store = kept
		p := virtual(t, cfg).open(latest)
		body := p.asSent(p.emitRequest(1, `{"messages":1}`), whole)
		ids := kept.ids("1")
		want := "id: " + ids[0] + "\nretry: 100\ndata: \n\nid: " + ids[1] + "\ndata: {"
		if !strings.HasPrefix(body, want) {
			t.Errorf("a call begins with %q, want %q", body, want)
		}
		body = p.asSent(p.getRequest(), func(s string) bool { return strings.HasSuffix(s, "\n\n") })
		if want := "id: " + kept.ids("get")[0] + "\nretry: 100\ndata: \n\n"; body != want {
			t.Errorf("the GET stream begins with %q, want %q", body, want)
		}
		// It comes at once, however long the first message takes.
		begun := time.Now()
		s := p.emit(2, "b", `{"messages":2,"hold":{"key":"k","streams":2}}`)
		if e := s.take(1)[0]; e.id == "" || e.data != "" || !e.hasData || time.Since(begun) > 0 {
			t.Errorf("%+v after %s", e, time.Since(begun))
		}
	})
}

// Clause: the reconnection time is in milliseconds, once per stream, on the priming event.
func TestSeed003_Retry_IsAnnouncedInMilliseconds_OncePerStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.Retry = newStore(t, store.Limits{}), 1500*time.Millisecond
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		if e := get.take(1)[0]; e.retry != "1500" {
			t.Errorf("GET stream: %+v", e)
		}
		for id := 1; id <= 2; id++ {
			s := p.emit(id, "a", twenty)
			seen := s.take(3)
			s.cut()
			for i, e := range slices.Concat(seen, p.resume(seen[2].id).rest()) {
				if (e.retry == "1500") != (i == 0) {
					t.Errorf("call %d, event %d: retry %q", id, i+1, e.retry)
				}
			}
		}
	})
}

// Clause: milliseconds are what the field can say; anything finer is an error of whoever
// configures it, not something to be rounded.
func TestSeed003_Retry_ThatIsNotInWholeMilliseconds_IsRefused(t *testing.T) {
	for retry, good := range map[time.Duration]bool{
		0: true, time.Millisecond: true, time.Hour: true,
		time.Microsecond: false, 1500 * time.Microsecond: false, -time.Second: false,
	} {
		_, err := refserver.New(mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil), refserver.Config{Retry: retry})
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "milliseconds") {
			t.Errorf("retry %s: %v", retry, err)
		}
	}
}

// Clause: the reconnection time is an option; without it there is a priming event all the
// same, and no event says retry.
func TestSeed003_NoRetryConfigured_NoneIsSent(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store, cfg.Retry = newStore(t, store.Limits{}), 0
		p := virtual(t, cfg).open(latest)
		body := p.asSent(p.emitRequest(1, `{"messages":3}`), whole)
		id, _, _ := strings.Cut(strings.TrimPrefix(body, "id: "), "\n")
		if !strings.HasPrefix(body, "id: "+id+"\ndata: \n\n") || strings.Contains(body, "retry") {
			t.Errorf("got %q", body)
		}
	})
}

// Clause: an id is found again in the session it belongs to, so no two events of a session
// share one, whichever stream they are on.
func TestSeed003_IDs_AreUniqueInTheSession_AcrossAllItsStreams(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		p := virtual(t, cfg).open(latest)
		get := p.resumeNothing()
		all := get.take(1)
		var calls []*stream
		for id := 1; id <= 8; id++ {
			calls = append(calls, p.emit(id, fmt.Sprint(id), twenty))
		}
		p.emit(9, "get", `{"messages":20,"interval_ms":10,"on":"get"}`).rest()
		for _, s := range calls {
			all = append(all, s.rest()...)
		}
		all = append(all, get.take(20)...)
		seen := map[string]bool{}
		for _, e := range all {
			if e.id == "" || seen[e.id] {
				t.Fatalf("id %q twice, or none", e.id)
			}
			seen[e.id] = true
		}
		if len(seen) != 8*22+21 {
			t.Errorf("%d events", len(seen))
		}
	})
}

// Clause: nothing in an id counts the events of other streams: those of a stream are
// consecutive whatever else goes on, and tell nothing of the session.
func TestSeed003_IDs_CountOnlyTheEventsOfTheirStream(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		p, other := r.open(latest), r.open(latest)
		quiet := p.emit(1, "a", `{"messages":20,"interval_ms":10}`)
		busy := p.emit(2, "b", `{"messages":500,"interval_ms":1,"burst":5}`)
		foreign := other.emit(1, "c", `{"messages":500,"interval_ms":1,"burst":5}`)
		nonces := map[string]bool{}
		for _, s := range []*stream{quiet, busy, foreign} {
			for i, e := range s.rest() {
				nonce, number, _ := strings.Cut(e.id, "-")
				nonces[nonce] = true
				if number != strconv.Itoa(i+1) {
					t.Fatalf("event %d of its stream has number %s", i+1, number)
				}
				if strings.Contains(e.id, p.id) || strings.Contains(p.id, nonce) || !store.ValidID(e.id) {
					t.Fatalf("an id that tells of its session: %s", e.id)
				}
			}
		}
		if len(nonces) != 3 {
			t.Errorf("%d nonces for 3 streams", len(nonces))
		}
	})
}

// Clause: handlers see the session their request belongs to, by the id the client has.
func TestSeed003_SessionID_IsVisibleToHandlers(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		cfg.Store = newStore(t, store.Limits{})
		r := virtual(t, cfg)
		var seen []string
		r.tool("who", func(_ context.Context, req *mcp.CallToolRequest) error {
			seen = append(seen, req.Session.ID())
			return nil
		})
		p, q := r.open(latest), r.open("2025-03-26")
		p.call(1, "who").rest()
		q.call(1, "who").rest()
		if !slices.Equal(seen, []string{p.id, q.id}) || p.id == q.id || p.id == "" {
			t.Errorf("handlers saw %v", seen)
		}
	})
}

// Clause: without a store the frames are those of before: no ids, no priming event, no
// reconnection time, byte by byte, on either kind of stream.
func TestSeed003_NoStore_TheSameFramesAsBefore(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		for _, revision := range []string{latest, "2025-03-26"} {
			p := virtual(t, cfg).open(revision)
			const message = `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"","progress":%d,"progressToken":"b1","total":2}}` + "\n\n"
			want := fmt.Sprintf(message, 1) + fmt.Sprintf(message, 2) +
				`data: {"jsonrpc":"2.0","id":1,"result":{"_meta":{"gapless/call":"b1"},"content":[{"type":"text","text":"emitted 2"}]}}` + "\n\n"
			if got := p.asSent(p.emitRequest(1, `{"messages":2}`), whole); got != want {
				t.Errorf("%s: a call is\n%q, want\n%q", revision, got, want)
			}
			got := make(chan string)
			go func() {
				got <- p.asSent(p.getRequest(), func(s string) bool { return strings.HasSuffix(s, "\n\n") })
			}()
			synctest.Wait()
			p.changeTools("new")
			if got := <-got; got != `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`+"\n\n" {
				t.Errorf("%s: the GET stream is %q", revision, got)
			}
		}
	})
}

// Clause: what a client misses is only what a store kept: without one nothing can be
// resumed, and what was sent while the client was away is gone.
func TestSeed003_NoStore_NothingIsResumed(t *testing.T) {
	seed(t, func(t *testing.T, cfg refserver.Config) {
		p := virtual(t, cfg).open(latest)
		s := p.emit(1, "a", twenty)
		s.take(3)
		s.cut()
		for _, cursor := range []string{"x-1", "1", "get"} {
			resp := p.do(ask{method: "GET", session: p.id, cursor: cursor})
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 400 || strings.Contains(string(body), cursor+`"`) {
				t.Errorf("cursor %s: %d %s", cursor, resp.StatusCode, body)
			}
		}
	})
}
