package umcp_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// "An authenticated GET /mcp with Accept: text/event-stream, MCP-Protocol-Version and
// Mcp-Session-Id attaches one event stream": without one of them there is none.
func TestSeed002_GetNeedsAcceptVersionAndSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		session, version := "Mcp-Session-Id: "+p.id, "MCP-Protocol-Version: "+newer
		for _, accept := range []string{"-Accept", "Accept: */*", "Accept: text/*", "Accept: application/json", "Accept: text/event-stream;q=0", "Accept: text/event-streams"} {
			p.send(request("GET", "/mcp", "", "-Accept", accept, session, version)).reply(406)
		}
		p.send(request("GET", "/mcp", "", version)).reply(400)
		p.send(request("GET", "/mcp", "", version, "Mcp-Session-Id: ")).reply(400)
		p.send(request("GET", "/mcp", "", session)).reply(400)
		for _, accept := range []string{"Accept: text/event-stream", "Accept: application/json, Text/Event-Stream;q=0.5"} {
			p.listen("-Accept", accept).Close()
			pass(time.Minute)
		}
	})
}

// "GET without a usable session returns 400 or 404 rather than creating anonymous
// streaming state."
func TestSeed002_GetWithoutASessionCreatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened int
		r := virtual(t, umcp.Config{OnEvent: func(refserver.Event) { happened++ }, Verifier: principals})
		l := r.link()
		for _, fields := range [][]string{
			{"MCP-Protocol-Version: " + newer}, {"MCP-Protocol-Version: " + newer, "Mcp-Session-Id: none"},
			{"Mcp-Session-Id: none"}, {}, {"MCP-Protocol-Version: " + newer, "Mcp-Session-Id: "},
		} {
			l.send(request("GET", "/mcp", "", append(fields, "Authorization: Bearer a")...)).reply(400, 404)
		}
		for range r.mcp.Sessions() {
			t.Error("a session was made")
		}
		if happened != 0 {
			t.Errorf("%d events", happened)
		}
	})
}

// "A second simultaneous stream for the same session returns 409." The first goes on.
func TestSeed002_SecondStreamIs409(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p, q := r.open(newer), r.open(newer)
		first, other := p.listen(), q.listen()
		for range 3 {
			if got := p.send(request("GET", "/mcp", "", p.fields()...)).reply(409); got.closes() {
				t.Error("a refused stream took its connection with it")
			}
			p.call("emit", `{"messages":2}`)
			if got := first.progress(2); !slices.Equal(got, upTo(2)) {
				t.Errorf("progress %v", got)
			}
		}
		q.call("emit", `{"messages":1}`)
		other.progress(1)
	})
}

// "The server sends SSE comments every 15 seconds": whether events flow or not.
func TestSeed002_CommentsComeEvery15Seconds(t *testing.T) {
	for _, flowing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, umcp.Config{})
			p := r.open(newer)
			stream, begun := p.listen(), time.Now()
			if flowing {
				r.link().send(request("POST", "/mcp", toolCall(1, "emit", `{"messages":1000,"interval_ms":999}`), p.fields()...))
			}
			for n := 1; n <= 5; {
				block, err := stream.block()
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(block, ":") {
					continue
				}
				if at := time.Since(begun); at != time.Duration(n)*15*time.Second {
					t.Errorf("comment %d came after %s", n, at)
				}
				n++
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		stream, begun := virtual(t, umcp.Config{KeepAlive: time.Second}).open(newer).listen(), time.Now()
		if block, err := stream.block(); err != nil || !strings.HasPrefix(block, ":") || time.Since(begun) != time.Second {
			t.Errorf("%q, %v after %s", block, err, time.Since(begun))
		}
	})
}

// "progress notifications use the session's active stream": not the POST, which is
// answered with JSON.
func TestSeed002_ProgressGoesToTheEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		stream := p.listen()
		got := p.post(toolCall(1, "emit", `{"messages":100,"interval_ms":10,"bytes":300}`))
		if got.status != 200 || got.get("Content-Type") != "application/json" || strings.Contains(got.body, "progress") || !strings.Contains(got.body, `"id":1,`) {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
		if got := stream.progress(100); !slices.Equal(got, upTo(100)) {
			t.Errorf("progress %v", got)
		}
		c := r.ledger.Take([]string{"t1"})[0]
		if c.Emitted != 100 || c.Executions != 1 || c.Responses != 1 || len(c.Unstored)+len(c.Unknown) > 0 || c.Cancelled {
			t.Errorf("ledger %+v", c)
		}
	})
}

// "Tool, prompt, resource, logging and progress notifications use the session's active
// stream."
func TestSeed002_AllNotificationsUseTheEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		r.tool("talk", func(ctx context.Context, req *mcp.CallToolRequest) string {
			//lint:ignore SA1019 the revisions of the seed have logging
			if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "said"}); err != nil {
				t.Error(err)
			}
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "t", Progress: 1}); err != nil {
				t.Error(err)
			}
			return "talked"
		})
		r.mcp.AddResource(&mcp.Resource{URI: "test:old", Name: "old"}, nil)
		r.mcp.AddPrompt(&mcp.Prompt{Name: "old"}, nil)
		pass(time.Second)
		p := r.open(newer)
		stream := p.listen()
		p.ask("logging/setLevel", `{"level":"debug"}`)
		p.ask("resources/subscribe", `{"uri":"test:old"}`)
		p.call("talk", `{}`)
		r.updated("test:old")
		r.mcp.AddTool(&mcp.Tool{Name: "new", InputSchema: map[string]any{"type": "object"}}, nil)
		r.mcp.AddPrompt(&mcp.Prompt{Name: "new"}, nil)
		r.mcp.AddResource(&mcp.Resource{URI: "test:new", Name: "new"}, nil)
		pass(time.Second)
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		all := strings.Join(stream.finish(), "\n")
		for _, method := range []string{"message", "progress", "resources/updated", "tools/list_changed", "prompts/list_changed", "resources/list_changed"} {
			if n := strings.Count(all, `"notifications/`+method+`"`); n != 1 {
				t.Errorf("%d of notifications/%s in\n%s", n, method, all)
			}
		}
	})
}

// What a session's handlers say is for its own client.
func TestSeed002_SessionsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p, q := r.open(newer), r.open(newer)
		ps, qs := p.listen(), q.listen()
		go p.call("emit", `{"messages":50,"interval_ms":10}`)
		q.call("emit", `{"messages":70,"interval_ms":7}`)
		pass(time.Minute - time.Second)
		for stream, n := range map[*events]int{ps: 50, qs: 70} {
			if got := stream.progress(n); !slices.Equal(got, upTo(n)) {
				t.Errorf("progress %v", got)
			}
		}
	})
}

// "notifications emitted during the gap are not replayed, even if the client sends
// Last-Event-ID", and they are not stored: those from before the first stream neither.
func TestSeed002_NothingIsReplayed(t *testing.T) {
	for _, cursor := range []string{"-x", "Last-Event-ID: 3", "Last-Event-ID: ", "Last-Event-ID: any thing"} {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, umcp.Config{})
			p := r.open(newer)
			p.call("emit", `{"messages":5}`)
			stream := p.listen(cursor)
			post := r.link().send(request("POST", "/mcp", toolCall(9, "emit", `{"messages":60,"interval_ms":1000}`), p.fields()...))
			if got := stream.progress(10); !slices.Equal(got, upTo(10)) {
				t.Fatalf("progress %v", got)
			}
			stream.Close()
			pass(20*time.Second + time.Millisecond)
			again := p.listen(cursor)
			if got := again.progress(30); got[0] != 31 || got[29] != 60 {
				t.Errorf("after the gap: progress %v", got)
			}
			post.reply(200)
			if c := r.ledger.Take([]string{"t9"})[0]; c.Emitted != 60 || len(c.Unstored)+len(c.Unknown) > 0 {
				t.Errorf("ledger %+v", c)
			}
		})
	}
}

// There are no ids to resume from, and nothing that a resuming client would wait for.
func TestSeed002_EventsCarryNoIds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		stream := p.listen()
		p.call("emit", `{"messages":10,"polling_closes":3}`)
		pass(16 * time.Second)
		p.link = p.rig.link()
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		blocks := stream.finish()
		for _, b := range blocks {
			if !strings.HasPrefix(b, "data: {") && !strings.HasPrefix(b, ":") || strings.Contains(b, "\n") {
				t.Errorf("block %q", b)
			}
		}
		if len(blocks) != 11 {
			t.Errorf("%d blocks", len(blocks))
		}
	})
}

// "If a client only closes its GET socket, the server detects that closure when a
// subsequent notification or keepalive write fails, so a replacement GET may receive 409
// in the interim."
func TestSeed002_DeadSocketIsNoticedByAWrite(t *testing.T) {
	for _, how := range []string{"keep-alive", "notification"} {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, umcp.Config{})
			p := r.open(newer)
			stream := p.listen()
			pass(5 * time.Second)
			stream.Close()
			get := func() int {
				l := r.link().send(request("GET", "/mcp", "", p.fields()...))
				status := l.reply(200, 409).status
				if status == 409 {
					l.alive("refused")
				}
				return status
			}
			for range 9 {
				pass(time.Second)
				if got := get(); got != 409 {
					t.Fatalf("%s: %d before any write", how, got)
				}
			}
			if how == "notification" {
				p.call("emit", `{"messages":1}`)
				synctest.Wait()
			} else {
				pass(time.Second + time.Millisecond)
			}
			if got := get(); got != 200 {
				t.Errorf("%s: %d after a write", how, got)
			}
		})
	}
}

// "socket failure detection can require more than one write": over a real network the
// first write to a closed socket succeeds. In the end the replacement is served, in the
// same session.
func TestSeed002_ReplacementIsServedInTheEnd(t *testing.T) {
	for _, reset := range []bool{false, true} {
		r := real(t, umcp.Config{KeepAlive: 20 * time.Millisecond})
		p := r.open(newer)
		stream := p.listen()
		if reset {
			if err := stream.Conn.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		stream.Close()
		deadline := time.Now().Add(10 * time.Second)
		for {
			l := r.link().send(request("GET", "/mcp", "", p.fields()...))
			if l.reply(200, 409).status == 200 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("reset %t: the dead socket was never noticed", reset)
			}
		}
		p.call("session", `{}`)
	}
}

// "Authenticated DELETE /mcp releases the stream immediately", a stalled one too.
func TestSeed002_DeleteReleasesAStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		p.listen()
		r.link().send(request("POST", "/mcp", toolCall(1, "emit", `{"messages":10000,"bytes":1000}`), p.fields()...))
		pass(time.Second)
		begun := time.Now()
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		synctest.Wait()
		for range r.mcp.Sessions() {
			t.Error("the session still runs")
		}
		if time.Since(begun) > 0 {
			t.Errorf("after %s", time.Since(begun))
		}
	})
}

// leaving keeps why event streams ended.
type leaving struct {
	mu  sync.Mutex
	all []refserver.Reason
}

func (l *leaving) note(e refserver.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Kind == refserver.Detached {
		l.all = append(l.all, e.Reason)
	}
}

func (l *leaving) reasons() []refserver.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// A client that does not read slows its own calls, loses its stream after the write
// timeout, and stalls nobody else.
func TestSeed002_StalledReaderStallsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := new(leaving)
		r := virtual(t, umcp.Config{OnEvent: left.note})
		p, q := r.open(newer), r.open(newer)
		p.listen()
		qs := q.listen()
		stalled := r.link().send(request("POST", "/mcp", toolCall(50, "emit", `{"messages":5000,"bytes":1000}`), p.fields()...))
		pass(time.Second)
		begun := time.Now()
		q.call("emit", `{"messages":20}`)
		qs.progress(20)
		p.call("session", `{}`)
		if time.Since(begun) > 0 {
			t.Errorf("others waited %s", time.Since(begun))
		}
		pass(28 * time.Second)
		if got := left.reasons(); len(got) != 0 {
			t.Errorf("the stream was cut early: %v", got)
		}
		if got := stalled.reply(200); !strings.Contains(got.body, "emitted 5000") || time.Since(begun) != 29*time.Second {
			t.Errorf("%s after %s", got.body, time.Since(begun))
		}
		if got := left.reasons(); !slices.Equal(got, []refserver.Reason{refserver.ReasonTimeout}) {
			t.Errorf("reasons %v", got)
		}
	})
}

// A handler that notifies through the SDK waits for a slow reader too, and loses nothing.
func TestSeed002_HandlersWaitForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		r.tool("flood", func(ctx context.Context, req *mcp.CallToolRequest) string {
			for k := range 3000 {
				progress := &mcp.ProgressNotificationParams{ProgressToken: "t", Progress: float64(k + 1), Message: strings.Repeat("x", 1000)}
				if err := req.Session.NotifyProgress(ctx, progress); err != nil {
					return err.Error()
				}
			}
			return "flooded"
		})
		p := r.open(newer)
		stream := p.listen()
		call := r.link().send(request("POST", "/mcp", toolCall(1, "flood", `{}`), p.fields()...))
		pass(10 * time.Second)
		if got := stream.progress(3000); !slices.Equal(got, upTo(3000)) {
			t.Error("the progress is not that of the handler")
		}
		if got := call.reply(200); !strings.Contains(got.body, "flooded") {
			t.Error(got.body)
		}
	})
}

// What comes from no call cannot wait for a slow reader: 1 MiB is kept, then the stream
// is cut, so that a loss is always behind the end of a connection.
func TestSeed002_LagIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := new(leaving)
		r := virtual(t, umcp.Config{OnEvent: left.note})
		p := r.open(newer)
		p.ask("resources/subscribe", `{"uri":"test:p"}`)
		stream := p.listen()
		for range 16_000 {
			if err := r.mcp.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: "test:p"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := left.reasons(); !slices.Equal(got, []refserver.Reason{refserver.ReasonTimeout}) {
			t.Fatalf("reasons %v", got)
		}
		n := 0
		for {
			block, err := stream.block()
			if err != nil {
				break
			}
			if !strings.HasPrefix(block, "data: ") {
				t.Fatalf("block %q", block)
			}
			n++
		}
		if n == 0 || n == 16_000 {
			t.Errorf("%d messages", n)
		}
		p.listen()
	})
}

// Requests of the server go on the event stream, and their answers come by POST; without
// a stream the handler is told at once.
func TestSeed002_ServerRequestsUseTheEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		begun := time.Now()
		p.call("emit", `{"messages":2,"requests":1}`)
		if time.Since(begun) > 0 {
			t.Errorf("a request that nobody saw was waited for %s", time.Since(begun))
		}
		stream := p.listen()
		call := r.link().send(request("POST", "/mcp", toolCall(7, "emit", `{"messages":2,"requests":1}`), p.fields()...))
		stream.progress(1)
		ping := stream.next()
		id, _, ok := strings.Cut(strings.TrimPrefix(ping, `{"jsonrpc":"2.0","id":`), ",")
		if !ok || !strings.Contains(ping, `"ping"`) {
			t.Fatalf("no ping: %s", ping)
		}
		if got := p.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`); got.status != 202 || got.body != "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		stream.progress(1)
		call.reply(200)
		if c := r.ledger.Take([]string{"t7"})[0]; c.Answers != 1 {
			t.Errorf("ledger %+v", c)
		}
	})
}

// A call goes on when its client leaves, and a cancelled one is answered.
func TestSeed002_CallsAreCancelledByNotificationAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		left := r.link().send(request("POST", "/mcp", toolCall(1, "emit", `{"messages":10,"interval_ms":1000}`), p.fields()...))
		stays := r.link().send(request("POST", "/mcp", toolCall(2, "emit", `{"messages":10,"interval_ms":1000}`), p.fields()...))
		pass(1500 * time.Millisecond)
		left.Close()
		if got := p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`); got.status != 202 {
			t.Errorf("status %d", got.status)
		}
		stays.reply(200)
		pass(10 * time.Second)
		calls := r.ledger.Take([]string{"t1", "t2"})
		if calls[0].Emitted != 10 || calls[0].Cancelled || calls[1].Emitted != 2 || !calls[1].Cancelled {
			t.Errorf("ledger %+v", calls)
		}
	})
}

// An event stream for HTTP/1.0 has no chunks; the end of the connection is its end.
func TestSeed002_EventStreamForHTTP10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		p := r.open(newer)
		l := r.link().send(asHTTP10(request("GET", "/mcp", "", p.fields("Connection: keep-alive")...)))
		for {
			line, err := l.line()
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "Transfer-Encoding") {
				t.Error(line)
			}
			if line == "" {
				break
			}
		}
		stream := &events{link: l, body: l.in}
		p.call("emit", `{"messages":3}`)
		stream.progress(3)
		p.send(request("DELETE", "/mcp", "", p.fields()...)).reply(204)
		stream.ended("HTTP/1.0")
	})
}

// The head of an event stream says that it takes its connection with it.
func TestSeed002_EventStreamAnnouncesTheEndOfItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		head := p.listen().head
		if !head.closes() || head.get("Keep-Alive") != "" || head.get("X-Accel-Buffering") != "no" || !strings.Contains(head.get("Cache-Control"), "no-cache") {
			t.Errorf("%v", head.header)
		}
	})
}
