package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestDelete_EndsStreamsAndHandlers_ThenTheSessionIsUnknown(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem := newStore(t, store.Limits{})
				r := virtual(t, refserver.Config{Delivery: d, Store: mem, KeepConnections: keep})
				p, other := r.open(latest), r.open(latest)
				s := p.emit(1, "a", `{"messages":20,"interval_ms":1000}`)
				seen := s.take(3)
				get := p.resumeNothing()
				kept := other.emit(1, "b", `{"messages":20,"interval_ms":1000}`)
				if code, body := p.status(ask{method: "DELETE", session: p.id, version: latest}); code != 204 || body != "" {
					t.Fatalf("delete: %d %q", code, body)
				}
				if rest := s.rest(); len(rest) > 0 {
					t.Errorf("after the end of the session: %+v", rest)
				}
				if got := numbers(t, get.rest()); !slices.Equal(got, []int{-1}) {
					t.Errorf("standalone stream: %v", got)
				}
				for _, a := range []ask{
					{method: "POST", body: ping}, {method: "GET"}, {method: "GET", cursor: seen[1].id}, {method: "DELETE"},
				} {
					a.session = p.id
					if code, _ := r.status(a); code != 404 {
						t.Errorf("%s %s after the end: %d", a.method, a.cursor, code)
					}
				}
				synctest.Wait()
				if c := r.fixture.Ledger.Take([]string{"a"})[0]; !c.Cancelled || c.Responses != 0 || c.Emitted > 5 {
					t.Errorf("the handler went on: %+v", c)
				}
				if got := numbers(t, kept.rest()); !slices.Equal(got, upTo(20)) {
					t.Errorf("the other session got %v", got)
				}
				if st := mem.Stats(); st.Streams != 1 || st.Evicted[store.CauseSession] != 4 {
					t.Errorf("what the store keeps: %+v", st)
				}
			})
		}
	})
}

// resumeNothing opens the standalone stream.
func (p *peer) resumeNothing() *stream { return p.stream(ask{method: "GET"}) }

func TestIdleSession_Ends_ButNotWhileSomethingIsOpen(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), Limits: refserver.Limits{Idle: time.Minute}})
			idle, used, listening, calling := r.open(latest), r.open(latest), r.open(latest), r.open(latest)
			get := listening.resumeNothing()
			call := calling.emit(1, "a", `{"messages":2,"interval_ms":200000}`)
			seen := call.take(2)
			call.cut()
			for range 4 {
				pass(40 * time.Second)
				used.post(ping)
			}
			want := map[*peer]int{idle: 404, used: 200, listening: 200, calling: 200}
			for p, status := range want {
				if code, _ := p.post(ping); code != status {
					t.Errorf("session %d: %d", slices.Index([]*peer{idle, used, listening, calling}, p), code)
				}
			}
			get.cut()
			if got := numbers(t, calling.resume(seen[1].id).rest()); !slices.Equal(got, []int{2, 0}) {
				t.Errorf("the call went on with %v", got)
			}
			pass(3 * time.Minute)
			if code, _ := listening.post(ping); code != 404 {
				t.Errorf("a session that nobody listens to any more: %d", code)
			}
		})
	})
}

func TestShutdown_StreamsEndCleanly_AndNothingIsTaken(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			p := r.open(latest)
			s := p.emit(1, "a", twenty)
			s.take(5)
			stalled := p.emit(2, "b", `{"messages":3000,"bytes":1000}`)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			begun := time.Now()
			if err := r.fixture.Handler.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("shutdown with a stalled reader: %v", err)
			}
			if time.Since(begun) != 3*time.Second {
				t.Errorf("shutdown took %s", time.Since(begun))
			}
			s.rest()
			if _, err := io.Copy(io.Discard, stalled.Body); err == nil {
				t.Error("the stalled body came to a clean end")
			}
			if code, _ := r.status(ask{method: "POST", body: initBody(latest)}); code != 503 {
				t.Errorf("a new session: %d", code)
			}
			if err := r.fixture.Handler.Shutdown(t.Context()); err != nil {
				t.Errorf("second shutdown: %v", err)
			}
		})
	})
}

// A client that is merely slow is given what was stored before the end.
func TestShutdown_SlowReader_GetsWhatWasStored(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			s := r.open(latest).emit(1, "a", `{"messages":200,"bytes":1000}`)
			synctest.Wait() // all are stored, a third of them fits the link
			down := make(chan error)
			go func() { down <- r.fixture.Handler.Shutdown(t.Context()) }()
			pass(time.Second)
			if got := numbers(t, s.rest()); !slices.Equal(got, upTo(200)) {
				t.Errorf("got %d events", len(got))
			}
			if err := <-down; err != nil {
				t.Error(err)
			}
		})
	})
}

func TestLimits_SessionsAndCalls(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Streams: 3}), Limits: refserver.Limits{Sessions: 2, Calls: 2}})
			p, q := r.open(latest), r.open(latest)
			if code, _ := r.status(ask{method: "POST", body: initBody(latest)}); code != 503 {
				t.Errorf("third session: %d", code)
			}
			first := p.emit(1, "a", twenty)
			p.emit(2, "b", twenty)
			if code, _ := p.post(ping); code != 429 {
				t.Errorf("third call: %d", code)
			}
			q.emit(1, "c", twenty)
			if code, _ := q.post(ping); code != 503 {
				t.Errorf("a stream that the store does not take: %d", code)
			}
			if n := gather(r)["gapless_server_store_errors_total"]; n != "0" {
				t.Errorf("a limit counts as %s failures of the store", n)
			}
			first.rest()
			synctest.Wait() // the client saw the end before the server had put the stream away
			if code, _ := q.post(ping); code != 200 {
				t.Errorf("after a stream has finished: %d", code)
			}
		})
	})
}

func TestStandaloneStream(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), Retry: time.Second})
			server := r.fixture.Server
			p, never := r.open(latest), r.open(latest)
			addTool := func(name string) {
				server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, nil)
				pass(time.Second) // the SDK collects such changes for a moment
			}
			get := p.resumeNothing()
			priming := get.take(1)
			if code, _ := p.status(ask{method: "GET", session: p.id}); code != 409 {
				t.Errorf("second plain GET: %d", code)
			}
			addTool("one")
			seen := get.take(1)
			get.cut()
			synctest.Wait()
			addTool("two") // while nobody is connected
			again := p.resume(seen[0].id)
			missed := again.take(1)
			if !strings.Contains(missed[0].data, "list_changed") || again.Header.Get("Gapless-Missed") != "1" {
				t.Errorf("missed while away: %+v", missed)
			}
			again.cut()
			synctest.Wait()
			whole := p.resume(priming[0].id)
			same(t, "resume from the priming event", whole.take(2), slices.Concat(seen, missed))
			whole.cut()
			synctest.Wait()
			addTool("three")
			fresh := p.resumeNothing() // it does not ask for what it missed
			same(t, "plain GET", numbersOnly(fresh.take(1)), numbersOnly(priming))
			addTool("four")
			if e := fresh.take(1)[0]; !strings.Contains(e.data, "list_changed") {
				t.Errorf("live: %+v", e)
			}
			late := never.resumeNothing() // opened only now: nothing was kept for it
			late.take(1)
			late.cut()
		})
	})
}

// numbersOnly drops the ids of events.
func numbersOnly(events []event) []event {
	out := slices.Clone(events)
	for i := range out {
		out[i].id = ""
	}
	return out
}

// A request from the server goes out on the stream of the call it is made for, also
// when that stream was cut meanwhile, and the answer finds its way back.
func TestServerRequest_IsOnTheStreamOfItsCall_AndSurvivesACut(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			r.fixture.Server.AddTool(&mcp.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					pass(time.Second)
					if err := req.Session.Ping(ctx, nil); err != nil {
						return nil, err
					}
					outside, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					begun := time.Now()
					err := req.Session.Ping(outside, nil) // no standalone stream is open
					text := fmt.Sprintf("outside: %t after %s", err != nil, time.Since(begun))
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
				})
			p := r.open(latest)
			s := p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}`})
			cursor := s.take(1)[0].id
			s.cut()
			pass(2 * time.Second)
			again := p.resume(cursor)
			request := again.take(1)[0]
			if !strings.Contains(request.data, `"method":"ping"`) {
				t.Fatalf("got %+v", request)
			}
			id := request.data[strings.Index(request.data, `"id":`)+5:]
			id = id[:strings.IndexAny(id, ",}")]
			if code, _ := p.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`); code != 202 {
				t.Errorf("the answer: %d", code)
			}
			if rest := again.rest(); len(rest) != 1 || !strings.Contains(rest[0].data, "outside: true after 0s") {
				t.Errorf("result: %+v", rest)
			}
		})
	})
}

func TestCancel_StopsTheHandler(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			s := p.emit(1, "a", twenty)
			s.take(4)
			p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if rest := s.rest(); len(rest) > 2 {
				t.Errorf("%d events after the cancellation", len(rest))
			}
			if c := p.fixture.Ledger.Take([]string{"a"})[0]; !c.Cancelled || c.Emitted > 4 {
				t.Errorf("ledger: %+v", c)
			}
		})
	})
}
