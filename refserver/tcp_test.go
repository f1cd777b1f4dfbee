package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An idle stream notices at once that its client is gone, by FIN or by RST, and the
// stream is free for a resume even where a conflict is refused.
func TestTCP_DeadClient_IsNoticedWhileIdle(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			for _, rst := range []bool{false, true} {
				t.Run(fmt.Sprintf("keep connections %t, reset %t", keep, rst), func(t *testing.T) {
					left := make(chan refserver.Reason, 1)
					p := real(t, refserver.Config{
						Delivery: d, Store: newStore(t, store.Limits{}), KeepConnections: keep, OnConflict: refserver.Refuse,
						OnEvent: func(e refserver.Event) {
							if e.Kind == refserver.Detached {
								left <- e.Reason
							}
						},
					}).open(latest)
					conn := p.raw(t, p.emitRequest(1, `{"messages":3,"interval_ms":600000}`))
					id := readID(t, conn)
					if rst {
						if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
							t.Fatal(err)
						}
					}
					conn.Close()
					select {
					case reason := <-left:
						if reason != refserver.ReasonClient {
							t.Errorf("left for reason %s", reason)
						}
					case <-time.After(10 * time.Second):
						t.Fatal("the dead client was never noticed")
					}
					p.resume(id).take(1)
				})
			}
		}
	})
}

// readID reads until the first message has come and returns the id of the event
// before it.
func readID(t testing.TB, conn net.Conn) string {
	t.Helper()
	var text strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(text.String(), `"progress":1,`) {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, text.String())
		}
		text.Write(buf[:n])
	}
	_, after, _ := strings.Cut(text.String(), "id: ")
	id, _, _ := strings.Cut(after, "\n")
	return id
}

// A takeover resets the old link: the reader that stalled meets an error, and not
// megabytes that were already under way.
func TestTCP_Takeover_ResetsTheOldLink(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("keep connections %t", keep), func(t *testing.T) {
				p := real(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{Events: 50_000}), KeepConnections: keep}).open(latest)
				conn := p.raw(t, p.emitRequest(1, `{"messages":6000,"bytes":1000}`))
				defer conn.Close()
				if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
					t.Fatal(err)
				}
				id := readID(t, conn)
				got := p.resume(id).rest()
				for d == refserver.Handoff && len(got) < 6001 { // sent back: emit never pauses
					got = append(got, p.resume(got[len(got)-1].id).rest()...)
				}
				if got := numbers(t, got); !slices.Equal(got, upTo(6000)[1:]) {
					t.Errorf("the new connection got %d events", len(got))
				}
				n, err := io.Copy(io.Discard, conn)
				if !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the old link ended with %v", err)
				}
				if n > 1<<20 {
					t.Errorf("%d bytes were still delivered on the old link", n)
				}
			})
		}
	})
}

// Without KeepConnections each stream closes its link, and says so; with it the link
// is used again.
func TestTCP_LinksAfterAStream(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, keep := range []bool{false, true} {
			p := real(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), KeepConnections: keep}).open(latest)
			dialled := p.dials.Load()
			for id := 1; id <= 5; id++ {
				s := p.emit(id, "a", `{"messages":1}`)
				if s.Close == keep {
					t.Errorf("keep %t: response says close %t", keep, s.Close)
				}
				s.rest()
				s.Body.Close()
			}
			if n := p.dials.Load() - dialled; keep && n != 0 || !keep && n != 4 {
				t.Errorf("keep %t: %d links were opened", keep, n)
			}
			eventually(t, "all connections ended", func() bool {
				return gather(p.rig)[`gapless_server_streams{kind="post",state="live"}`] == "0"
			})
		}
	})
}

// The official client completes calls, pinned to the revision and left to find out.
func TestTCP_GoSDKClient_CompletesCalls(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d refserver.Delivery) {
		for _, version := range []string{latest, "2025-06-18", ""} {
			for _, keep := range []bool{false, true} {
				t.Run(fmt.Sprintf("%q, keep connections %t", version, keep), func(t *testing.T) {
					r := real(t, refserver.Config{Delivery: d, Store: newStore(t, store.Limits{}), KeepConnections: keep, Retry: 10 * time.Millisecond})
					got := make(chan float64, 100)
					client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, &mcp.ClientOptions{
						ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { got <- req.Params.Progress },
					})
					session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
					if err != nil {
						t.Fatal(err)
					}
					for range 3 {
						res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
							Name: "emit", Meta: mcp.Meta{"progressToken": "tok"}, Arguments: map[string]any{"messages": 20, "interval_ms": 1},
						})
						if err != nil || res.Content[0].(*mcp.TextContent).Text != "emitted 20" {
							t.Fatalf("%+v %v", res, err)
						}
						for k := 1.0; k <= 20; k++ {
							if n := <-got; n != k {
								t.Errorf("message %v, want %v", n, k)
							}
						}
					}
					if err := session.Close(); err != nil {
						t.Error(err)
					}
					eventually(t, "the session ended", func() bool { return gather(r)["gapless_server_sessions"] == "0" })
				})
			}
		}
	})
}
