package refserver_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// untilPolled reads to the clean end of a connection and splits off the announcement
// that stands before it.
func (s *stream) untilPolled() (events []event, retry string) {
	s.t.Helper()
	events = s.rest()
	if n := len(events) - 1; n >= 0 && !events[n].hasData && events[n].id == "" && events[n].retry != "" {
		return events[:n], events[n].retry
	}
	return events, ""
}

func TestPollingCloses_StreamGoesOn_AndEachConnectionEndsCleanly(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var polled atomic.Int32
				p := virtual(t, refserver.Config{
					Delivery: d, Store: newStore(t, store.Limits{}), Retry: 30 * time.Millisecond, KeepConnections: keep,
					OnEvent: func(e refserver.Event) {
						if e.Kind == refserver.Detached && e.Reason == refserver.ReasonPolling {
							polled.Add(1)
						}
					},
				}).open(latest)
				s := p.emit(1, "a", `{"messages":20,"interval_ms":10,"polling_closes":3}`)
				var all []event
				var ends []int
				for range 3 {
					events, retry := s.untilPolled()
					if retry != "30" {
						t.Errorf("after %d events: retry %q", len(all)+len(events), retry)
					}
					all = append(all, events...)
					ends = append(ends, numbers(t, all)[len(all)-1])
					pass(30 * time.Millisecond)
					s = p.resume(all[len(all)-1].id)
				}
				last, retry := s.untilPolled()
				if got := numbers(t, append(all, last...)); !slices.Equal(got, upTo(20)) || retry != "" {
					t.Errorf("got %v, retry %q at the end", got, retry)
				}
				if !slices.Equal(ends, []int{5, 10, 15}) || polled.Load() != 3 {
					t.Errorf("closed after %v, %d times", ends, polled.Load())
				}
				if c := p.fixture.Ledger.Take([]string{"a"})[0]; c.Emitted != 20 || c.Responses != 1 || c.Executions != 1 {
					t.Errorf("ledger %+v", c)
				}
			})
		}
	})
}

// Who could not find back is not sent away.
func TestPollingCloses_WithoutACursorToComeBackWith_AreNotMade(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		tests := []struct {
			name, revision string
			cfg            refserver.Config
			want           []int
		}{
			{"2025-06-18 – no priming", "2025-06-18", refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}, upTo(20)[1:]},
			{"no store – no ids", latest, refserver.Config{}, upTo(20)[1:]},
			{"priming event not stored – no cursor", latest, refserver.Config{Delivery: d, Store: refusing(t, "data: \n")}, upTo(20)[1:]},
		}
		for _, tt := range tests {
			synctest.Test(t, func(t *testing.T) {
				p := virtual(t, tt.cfg).open(tt.revision)
				s := p.emit(1, "a", `{"messages":20,"interval_ms":10,"polling_closes":3}`)
				if got := numbers(t, s.rest()); !slices.Equal(got, tt.want) {
					t.Errorf("%s: got %v", tt.name, got)
				}
			})
		}
	})
}

// An emitter that never pauses leaves no gap in which its log runs dry.
func TestPollingCloses_InABurst_HappenAndLoseNothing(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open(latest)
			s := p.emit(1, "a", `{"messages":9000,"polling_closes":3,"bytes":200}`)
			var all []event
			closes := 0
			for {
				events, retry := s.untilPolled()
				all = append(all, events...)
				if retry == "" {
					break
				}
				closes++
				s = p.resume(all[len(all)-1].id)
			}
			if got := numbers(t, all); !slices.Equal(got, upTo(9000)) || closes == 0 {
				t.Errorf("got %d events over %d closes", len(got), closes)
			}
		})
	})
}

// A tool of any go-sdk server closes the connection of its call, and that of the
// session's GET stream, by the hooks.
func TestCloseConnection_ByHooks(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})})
			var early, away, twice, get, gone bool
			r.fixture.Server.AddTool(&mcp.Tool{Name: "poll", InputSchema: map[string]any{"type": "object"}},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					early = refserver.StandaloneFrom(ctx).CloseConnection(time.Second)
					pass(time.Second) // the client opens its GET stream
					req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 700 * time.Millisecond})
					twice = refserver.StreamFrom(ctx).CloseConnection(0)
					get = refserver.StandaloneFrom(ctx).CloseConnection(1500 * time.Millisecond)
					pass(time.Second)
					away = refserver.StreamFrom(ctx).CloseConnection(0)
					gone = refserver.StandaloneFrom(ctx).CloseConnection(0)
					return &mcp.CallToolResult{}, nil
				})
			p := r.open(latest)
			s := p.stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"poll","arguments":{}}}`})
			pass(time.Second / 2)
			standalone := p.resumeNothing()
			events, retry := s.untilPolled()
			if len(events) != 1 || retry != "700" {
				t.Errorf("the call: %+v, retry %q", events, retry)
			}
			if primed, retry := standalone.untilPolled(); len(primed) != 1 || retry != "1500" {
				t.Errorf("the GET stream: %+v, retry %q", primed, retry)
			}
			pass(2 * time.Second)
			if rest := p.resume(events[0].id).rest(); len(rest) != 1 || !strings.Contains(rest[0].data, `"result"`) {
				t.Errorf("after the resume: %+v", rest)
			}
			if early || twice || !get || away || gone {
				t.Errorf("before the GET %t, a second time %t, the GET %t, while away %t and %t", early, twice, get, away, gone)
			}
		})
	})
}

// A client of an older revision keeps its connection also when it came with a cursor.
func TestPollingCloses_OlderRevision_NotEvenAfterAResume(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			p := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{})}).open("2025-06-18")
			s := p.emit(1, "a", `{"messages":20,"interval_ms":10,"polling_closes":3}`)
			seen := s.take(2)
			s.cut()
			if got := numbers(t, p.resume(seen[1].id).rest()); !slices.Equal(got, upTo(20)[3:]) {
				t.Errorf("got %v", got)
			}
		})
	})
}

// The connection is closed also when its log never runs dry.
func TestCloseConnection_EmitterThatNeverPauses(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		synctest.Test(t, func(t *testing.T) {
			const most = 300_000
			var left atomic.Bool
			r := virtual(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 2 * most, Bytes: 1 << 30}), OnEvent: func(e refserver.Event) {
				if e.Kind == refserver.Detached {
					left.Store(true)
				}
			}})
			sent := 0
			r.fixture.Server.AddTool(&mcp.Tool{Name: "flood", InputSchema: map[string]any{"type": "object"}},
				func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					stream := refserver.StreamFrom(ctx)
					for !left.Load() && sent < most {
						if sent++; sent == 100 {
							stream.CloseConnection(time.Second)
						}
						if err := stream.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"x"}`)); err != nil {
							return nil, err
						}
					}
					return &mcp.CallToolResult{}, nil
				})
			s := r.open(latest).stream(ask{method: "POST", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","arguments":{}}}`})
			_, retry := s.untilPolled()
			synctest.Wait()
			if retry != "1000" || sent == most {
				t.Errorf("retry %q after %d messages", retry, sent)
			}
		})
	})
}
