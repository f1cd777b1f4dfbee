package streams_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// "requestId": on one link several streams are told apart by it, and none waits for
// another.
func TestSeed000_StreamsShareALinkAndAreToldApart(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		of := make(map[any]stream)
		for _, key := range []string{"a", "b", "c"} {
			_, st := p.steps(key)
			of[st.RequestID] = st
		}
		if len(of) != 3 || of[1.0].ID == of[2.0].ID {
			t.Fatalf("creates: %v", of)
		}
		f := p.carrier.(*linkCarrier).f
		r.progress("a", 1)
		r.progress("b", 10)
		r.progress("a", 2)
		r.finish("c")
		r.progress("b", 11)
		f.expect("1, 10, 2, result of 3, end, 11")
		p.cut()
		r.progress("b", 12)
		r.finish("a")
		p = p.again()
		p.lastID = 100
		f = p.resume(of[2.0])
		f.expect("10, 11, 12") // those of its own stream alone
		p.resume(of[1.0])
		f.expect("1, 2, result of 1, end, {} of 102")
		r.finish("b")
		f.expect("result of 2, end, {} of 101")
	}, "ws", "stdio")
}

// "All of the above works regardless of transport": a stream is resumed on another one.
func TestSeed000_AStreamMovesToAnotherTransport(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		from := r.transport
		for i, to := range transports() {
			r.transport = from
			key := fmt.Sprint("k", i)
			p := r.open()
			_, st := p.steps(key)
			r.progress(key, 1)
			p.cut()
			r.progress(key, 2)
			r.transport = to
			q := r.open()
			q.lastID = 100
			f := q.resume(st)
			f.expect("1, 2")
			r.finish(key)
			f.expect("result of 1, end, {} of 101")
		}
	})
}

// A new link begins with its own initialize: before it there is nothing to resume.
func TestSeed000_ALinkBeginsWithInitialize(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		_, st := cutOff(r, "a", 1)
		link := r.dialLines
		if r.transport == "ws" {
			link = func() *linkCarrier { return r.dialWS("") }
		}
		p := &peer{carrier: link(), rig: r}
		f := p.resume(st)
		texts, _ := f.drain()
		if have := brief(texts); !strings.HasPrefix(have, "error ") {
			t.Errorf("before initialize: %s", have)
		}
		pass(31 * time.Second)
		if _, ended := f.drain(); !ended {
			t.Error("a link without a handshake lives on")
		}
	}, "ws", "stdio")
}

// Requests of the server reach the client on the link that it has now, and its answer
// reaches the handler; nobody else can give it.
func TestSeed000_AnswersComeFromTheNewLink(t *testing.T) {
	each(t, streams.Config{Verifier: principals}, func(r *rig) {
		p := r.openAs(`{"streams":{}}`, "alice")
		_, st := p.steps("a")
		p.cut()
		ponged := make(chan error, 1)
		r.stepsOf("a") <- func(ctx context.Context, req *mcp.CallToolRequest) { ponged <- req.Session.Ping(ctx, nil) }
		synctest.Wait()
		p = p.again()
		f := p.resume(st)
		synctest.Wait()
		texts, _ := f.drain()
		if have := brief(texts); have != "ping" {
			t.Fatalf("arrived: %s", have)
		}
		r.openAs(`{"streams":{}}`, "bob").answer(texts[0])
		select {
		case err := <-ponged:
			t.Fatalf("another principal answered: %v", err)
		default:
		}
		p.answer(texts[0])
		if err := <-ponged; err != nil {
			t.Errorf("the handler got %v", err)
		}
	}, "http", "ws")
}

// A client that does not read loses its link, and not its streams.
func TestSeed000_ASlowReaderLosesTheLinkAndNotTheStream(t *testing.T) {
	each(t, streams.Config{WriteTimeout: 10 * time.Second}, func(r *rig) {
		conn, _, err := r.tryWS("", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		write := func(text string) {
			if err := conn.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"streams":{}},"clientInfo":{"name":"t","version":"1"}}}`)
		synctest.Wait()
		write(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":{"messages":200,"bytes":20000},"_meta":{"progressToken":"t"}}}`)
		synctest.Wait()
		var st stream
		for st.ID == "" {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "stream/create") {
				st = created(t, string(text))
			}
		}
		pass(5 * time.Second)
		if n := r.value("links", "transport=ws"); n != 1 {
			t.Fatalf("%v links", n)
		}
		if bytes := r.value("buffer_bytes"); bytes > 2<<20 {
			t.Errorf("the handler ran ahead by %v bytes", bytes)
		}
		pass(10 * time.Second)
		if n := r.value("links", "transport=ws"); n != 0 {
			t.Errorf("the link lives on with a client that does not read")
		}
		p := r.open()
		p.lastID = 100
		texts, _ := p.resume(st).drain()
		if have := brief(texts); !strings.HasPrefix(have, "1, 2, 3, ") || !strings.HasSuffix(have, "199, 200, result of 1, end, {} of 101") {
			t.Errorf("resumed: %.60s … %s", have, have[max(0, len(have)-60):])
		}
	}, "ws")
}

// The bounds of a WebSocket: messages of a size, text alone, a page of a known origin, and
// somebody at the other end.
func TestSeed000_AWebSocketIsBounded(t *testing.T) {
	each(t, streams.Config{AllowedOrigins: []string{"https://app.example"}, Ping: 20 * time.Second, Limits: streams.Limits{Message: 2000, Sessions: 3}}, func(r *rig) {
		for origin, want := range map[string]int{"https://evil.example": 403, "null": 403, "https://app.example": 101, "http://localhost:5173": 101, "": 101} {
			h := make(http.Header)
			if origin != "" {
				h.Set("Origin", origin)
			}
			conn, resp, err := r.tryWS("", h)
			if resp == nil || resp.StatusCode != want {
				t.Errorf("origin %q: %v, %v", origin, resp, err)
			}
			if conn != nil {
				conn.CloseNow()
				synctest.Wait()
			}
		}
		big := r.open()
		big.send(strings.Repeat("x", 2001))
		binary, _, err := r.tryWS("", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = binary.Write(context.Background(), websocket.MessageBinary, []byte(`{}`))
		if _, _, err := binary.Read(context.Background()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
			t.Errorf("binary: %v", err)
		}
		if _, ended := big.carrier.(*linkCarrier).f.drain(); !ended {
			t.Error("a message that is too large does not end the link")
		}
		deaf, _, err := r.tryWS("", nil) // it never reads, so it answers no ping
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.CloseNow()
		pass(25 * time.Second)
		if n := r.value("links", "transport=ws"); n != 1 {
			t.Errorf("%v links, want 1", n)
		}
		pass(20 * time.Second)
		if n := r.value("links", "transport=ws"); n != 0 {
			t.Errorf("%v links answer no ping", n)
		}
		for range 3 {
			r.open()
		}
		many, _, err := r.tryWS("", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := many.Read(context.Background()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("one session too many: %v", err)
		}
	}, "ws")
}

// A link answers what is no message of the protocol, and goes on; a line that never ends
// ends it.
func TestSeed000_ALinkSurvivesNonsense(t *testing.T) {
	each(t, streams.Config{Limits: streams.Limits{Message: 2000, Calls: 2}}, func(r *rig) {
		p := r.open()
		f := p.send("not JSON")
		f.expect("error -32700 ")
		p.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		p.send(`{"jsonrpc":"2.0","id":null,"method":"ping"}`)
		p.send(`{"jsonrpc":"1.0","id":1,"method":"ping"}`)
		p.send(`{"jsonrpc":"2.0","id":"nobody asked","result":{}}`)
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}`)
		f.expect("error -32600 , error -32600 , error -32600 ")
		p.call("steps", `{"key":"a"}`)
		synctest.Wait()
		p.lastID = 0
		p.call("steps", `{"key":"b"}`) // the id of the first one
		synctest.Wait()
		p.call("steps", `{"key":"c"}`)
		synctest.Wait()
		p.call("steps", `{"key":"d"}`)
		f.expect("create, error -32600 , create, error -32000 ")
		p.send(`{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":"` + strings.Repeat("x", 1000) + `"}}`)
		f.expect("error -32000 ")
		_ = p.carrier.(*linkCarrier).write(strings.Repeat("x", 5000))
		if _, ended := f.drain(); !ended {
			t.Error("a line that is too long does not end the link")
		}
	}, "ws", "stdio")
}

// What a link carried ends with it, but for its streams: no session and no handler stays
// behind for a client that cannot come back.
func TestSeed000_ALinkLeavesNothingButItsStreams(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		plain := r.openAs(`{}`, "")
		plain.call("steps", `{"key":"plain"}`)
		p := r.open()
		_, st := p.steps("a")
		synctest.Wait()
		plain.cut()
		p.cut()
		if err, ended := r.handler("plain"); !ended || err == nil {
			t.Errorf("the handler of a plain call: %v, ended %t", err, ended)
		}
		if n := r.value("sessions"); n != 1 {
			t.Errorf("%v sessions, want that of the stream", n)
		}
		r.finish("a")
		if n := r.value("sessions"); n != 0 {
			t.Errorf("%v sessions after the call", n)
		}
		p = p.again()
		p.resume(st).expect("result of 1, end, {} of 1")
	}, "ws", "stdio")
}

// The polling close of a link says so, and its other streams go on as well.
func TestSeed000_ALinkThatTheServerClosesHurtsNoStream(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		_, st := p.steps("a")
		f := p.call("emit", `{"messages":4,"interval_ms":1000,"polling_closes":1}`)
		pass(10 * time.Second)
		texts, ended := f.drain()
		if have := brief(texts); have != "create, 1, 2" || !ended {
			t.Errorf("arrived %s, ended %t", have, ended)
		}
		r.progress("a", 7)
		p = p.again()
		f = p.resume(created(t, texts[0]))
		f.expect("1, 2, 3, 4, result of 2, end, {} of 1")
		p.resume(st)
		f.expect("7")
	}, "ws", "stdio")
}

// HTTP has no other stream, no cursor elsewhere, and an end of a session that takes its
// streams with it.
func TestSeed000_HTTPServesTheEndpointAlone(t *testing.T) {
	each(t, streams.Config{AllowedHosts: []string{"api.example"}}, func(r *rig) {
		p := r.open()
		c := p.carrier.(*httpCarrier)
		status := func(method, path, body string, header ...string) int {
			resp := c.do(method, path, body, header...)
			resp.Body.Close()
			return resp.StatusCode
		}
		const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
		for _, tc := range []struct {
			want                     int
			method, path, body, head string
		}{
			{405, "GET", "/mcp", "", "Accept: text/event-stream"},
			{405, "PUT", "/mcp", ping, ""},
			{404, "POST", "/other", ping, ""},
			{200, "POST", "/mcp", ping, "Origin: http://localhost:3000"},
			{403, "POST", "/mcp", ping, "Origin: https://evil.example"},
			{403, "DELETE", "/mcp", "", "Origin: https://evil.example"},
			{406, "POST", "/mcp", ping, "Accept: application/json"},
			{415, "POST", "/mcp", ping, "Content-Type: text/plain"},
			{400, "POST", "/mcp", "nonsense", ""},
			{400, "POST", "/mcp", ping, "Mcp-Protocol-Version: 1999-01-01"},
			{400, "POST", "/mcp", ping, "Mcp-Session-Id: "},
			{404, "POST", "/mcp", ping, "Mcp-Session-Id: unknown"},
			{400, "POST", "/mcp", ping, "Last-Event-ID: x-1"},
			{202, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/whatever"}`, ""},
		} {
			if have := status(tc.method, tc.path, tc.body, tc.head); have != tc.want {
				t.Errorf("%s %s %s: %d, want %d", tc.method, tc.path, tc.head, have, tc.want)
			}
		}
		_, st := p.steps("a")
		done := p.call("steps", `{"key":"b"}`)
		done.next()
		r.finish("b")
		if have := status("DELETE", "/mcp", ""); have != 204 {
			t.Errorf("DELETE: %d", have)
		}
		if err, ended := r.handler("a"); !ended || err == nil {
			t.Errorf("the handler: %v, ended %t", err, ended)
		}
		if r.value("streams") != 0 || r.value("sessions") != 0 || r.value("buffer_bytes") != 0 {
			t.Error("something stays behind")
		}
		r.open().resume(st).expect("error -32602 stream_abandoned")
	}, "http")
}

// Whoever needs a token gets nothing without one, on any verb, and no error quotes it.
func TestSeed000_EveryVerbNeedsTheToken(t *testing.T) {
	each(t, streams.Config{Verifier: principals}, func(r *rig) {
		p := r.openAs(`{"streams":{}}`, "alice")
		c := p.carrier.(*httpCarrier)
		for _, token := range []string{"", "mallory-and-her-token"} {
			c.token = token
			for _, method := range []string{"POST", "DELETE", "GET"} {
				if resp := c.do(method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
				}
			}
			if _, resp, err := r.tryWS(token, nil); err == nil || resp.StatusCode != 401 {
				t.Errorf("WebSocket: %v", err)
			}
		}
		c.token = "bob"
		if resp := c.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != 404 {
			t.Errorf("another principal: %d", resp.StatusCode)
		}
		if strings.Contains(r.log.String(), "mallory") {
			t.Error("the log has the token")
		}
	}, "http")
}
