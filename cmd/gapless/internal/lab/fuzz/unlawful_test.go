package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

func hashOf(data []byte) uint64 { return xxhash.Sum64(data) }

func jsonType() wire.Field { return wire.Field{Name: "Content-Type", Value: "application/json"} }

// refused holds an answer against the statuses that it may have. A refusal is an error in
// JSON-RPC, and repeats neither a secret nor what was sent.
func (w *world) refused(what string, status int, body []byte, sent string, may ...int) {
	if !slices.Contains(may, status) {
		w.complain("%s: status %d, want %v: %.200s", what, status, may, body)
		return
	}
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.JSONRPC != "2.0" || len(m.Error) == 0 {
		w.complain("%s: the refusal %d is no JSON-RPC error: %.200q", what, status, body)
	}
	if strings.Contains(string(body), secret) || len(sent) > 5 && strings.Contains(string(body), sent) {
		w.complain("%s: the refusal repeats what nobody else may know: %.200q", what, body)
	}
}

// nowhere asks a session for what follows a cursor that leads nowhere.
func (w *world) nowhere(n *session, what, cursor string) bool {
	a := w.ask(n.resume(cursor))
	if a.status == 404 && n.mayBeOver() {
		w.expired(n)
		return true
	}
	w.refused(what, a.status, a.body, cursor, 400)
	return true
}

// foreign resumes with a cursor of another session.
func (w *world) foreign(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	c := pick(w.calls, s.b, func(c *call) bool { return c.s != n && c.cursor != "" })
	if c == nil {
		return false
	}
	cursor, _ := c.known(s.c)
	return w.nowhere(n, "a foreign cursor", cursor)
}

// future resumes from an event behind the end of a log.
func (w *world) future(s step) bool {
	c := pick(w.calls, s.a, func(c *call) bool { return c.s.alive.Load() && c.cursor != "" })
	if c == nil {
		return false
	}
	dash := strings.LastIndexByte(c.cursor, '-')
	return w.nowhere(c.s, "a future cursor", c.cursor[:dash+1]+strconv.Itoa(10_000+int(s.b)))
}

// malformed resumes from what was never an id.
func (w *world) malformed(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	known := "stream-x-1"
	if c := pick(w.calls, s.c, func(c *call) bool { return c.cursor != "" }); c != nil {
		known = c.cursor
	}
	stem := known[:strings.LastIndexByte(known, '-')+1]
	all := []string{
		"-", "--", "x", "0", "1-", "-1", stem, stem + "0", stem + "-1", stem + "+1", stem + "01", stem + "1.0", stem + "1e0",
		stem + "99999999999999999999999", stem + "0x1", known + "\x80\xff", known + "\u00e9", known + "," + known, strings.Repeat("9", 9000),
		known + "\t1", stem + "18446744073709551615", stem + "9223372036854775807", fmt.Sprintf("%c%c%c", '!'+s.c%90, '!'+s.d%90, '!'+s.a%90),
	}
	return w.nowhere(n, "a malformed cursor", all[int(s.b)%len(all)])
}

// empty sends an empty cursor: a plain GET.
func (w *world) empty(s step) bool {
	return w.plainGet(s, wire.Field{Name: "Last-Event-ID", Value: ""})
}

// secondGet opens a GET stream, beside the one there is, if there is one.
func (w *world) secondGet(s step) bool { return w.plainGet(s) }

func (w *world) plainGet(s step, more ...wire.Field) bool {
	n := w.session(s.a)
	if n == nil || !w.p.stored() { // without a store it would take what another is waiting for
		return false
	}
	idled, held := n.mayBeOver(), n.hears != nil && awake(n.hears)
	l := w.dial(n.request("GET", more...), "")
	synctest.Wait()
	status, _, _ := l.state()
	defer func() {
		l.cut(byParted)
		synctest.Wait()
	}()
	switch {
	case status == 404 && idled:
		w.expired(n)
	case n.hears != nil && n.hears.slow: // who knows what it has not read
	case held:
		// The GET stream may have lost its link at this instant, and nobody knows yet.
		if status != 409 && awake(n.hears) {
			w.complain("a second GET stream: %d", status)
		}
		w.meet("second GET refused")
	case status != 200 && (status != 503 || !w.p.tight()):
		w.complain("a GET stream: %d %s", status, l.body)
	}
	return true
}

// duplicate calls with the id of a call in flight.
func (w *world) duplicate(s step) bool {
	c := w.living(s.a, func(c *call) bool { return !c.answered })
	if c == nil {
		return false
	}
	live, idled := awake(c), c.s.mayBeOver()
	a := w.ask(c.s.post(`{"jsonrpc":"2.0","id":` + c.id + `,"method":"tools/call","params":{"name":"emit","arguments":{}}}`))
	switch {
	case a.status == 404 && idled:
		w.expired(c.s)
	case a.status == 200 && !live: // it was answered, and its client has yet to see that
	case (a.status == 503 || a.status == 429) && (w.p.tight() || w.p.fewCalls()):
	default:
		w.refused("an id in flight", a.status, a.body, "", 400)
		w.meet("id in flight refused")
	}
	return true
}

// reuse makes a call with an id that was used before.
func (w *world) reuse(s step) bool {
	n := w.session(s.a)
	if n == nil || len(n.spent) == 0 {
		return false
	}
	c := pick(w.calls, s.d, func(c *call) bool {
		return c.s == n && !c.open() && c.outcome == history.OutcomeCompleted && !c.get
	})
	if c == nil || slices.ContainsFunc(w.calls, func(o *call) bool { return o != c && o.s == n && o.id == c.id }) {
		return false
	}
	return w.start(n, n.newCall(newShape(s), false, false, c.id))
}

// delete ends a session.
func (w *world) delete(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	if slices.ContainsFunc(w.calls, func(c *call) bool { return c.s == n && c.open() }) {
		w.meet("delete in mid-call")
	}
	w.end(n)
	return true
}

func (w *world) end(n *session) {
	var carriers []*link
	for _, c := range w.calls {
		if c.s != n {
			continue
		}
		c.cancelled = true // what still runs for it ends with the session
		if l := c.carrier(); l != nil {
			l.part()
			carriers = append(carriers, l)
			c.mu.Lock()
			c.link = nil
			c.observe(history.Record{Kind: history.KindEnd, End: history.EndStopped})
			c.mu.Unlock()
		}
		c.quit(history.EndStopped, history.OutcomeUndecided)
	}
	idled := n.mayBeOver()
	a := w.ask(n.request("DELETE"))
	n.alive.Store(false)
	synctest.Wait()
	if a.status != 204 && (a.status != 404 || !idled) {
		w.complain("DELETE: %d %s", a.status, a.body)
	}
	for _, l := range carriers {
		if _, ended, _ := l.state(); !ended && !l.slowed.Load() {
			w.complain("a link outlives its session")
		}
		l.cut(byParted)
	}
}

// dead uses a session that has ended: b says how.
func (w *world) dead(s step) bool {
	n := pick(w.sessions, s.a, func(n *session) bool { return !n.alive.Load() })
	if n == nil {
		return false
	}
	cursor := ""
	if c := pick(w.calls, s.c, func(c *call) bool { return c.s == n && c.cursor != "" }); c != nil {
		cursor = c.cursor
	}
	q := [4]func() wire.Request{
		func() wire.Request { return n.resume(cursor) },
		func() wire.Request { return n.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) },
		func() wire.Request { return n.post(`{"jsonrpc":"2.0","method":"notifications/x"}`) },
		func() wire.Request { return n.request("DELETE") },
	}[s.b%4]()
	a := w.ask(q)
	w.refused("a session that has ended", a.status, a.body, cursor, 404)
	return true
}

// garbage sends a body that is no message, or a strange one: b.
func (w *world) garbage(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	bodies := []string{
		"", "{", "null", "[]", "[1]", "[[]]", `"x"`, "1e999", "{}", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":-7,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":"g","method":7}`, `{"jsonrpc":"2.0","id":"g","method":"no/such"}`,
		`{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"emit","arguments":{"messages":-1}}}`,
		`{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"emit","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"emit","arguments":{"messages":1e300}}}`,
		`{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"no such tool"}}`, `{"jsonrpc":"2.0","id":"g","method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":"g","id":"h","method":"ping"}`, strings.Repeat("[", 20_000), `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
		`[{"jsonrpc":"2.0","id":"g","method":"initialize"}]`, `[{"jsonrpc":"2.0","id":"g","method":"ping"},{"jsonrpc":"2.0","id":"g","method":"ping"}]`,
		"[" + strings.Repeat("1,", 1200) + "1]", `{"jsonrpc":"2.0","id":"g","result":{},"error":{}}`, `{"jsonrpc":"2.0","id":"g","error":5}`,
		"\xff\xfe{}", "\x00", "{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"ping\"}", string([]byte{s.c, s.d, s.a}),
		`{"jsonrpc":"2.0","id":"g","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","id":"g","method":"resources/subscribe","params":{"uri":""}}`, `{"jsonrpc":"2.0","id":"g","method":"logging/setLevel","params":{"level":"x"}}`,
	}
	idled := n.mayBeOver()
	a := w.ask(n.post(bodies[int(s.b)%len(bodies)]))
	switch {
	case a.status == 404 && idled:
		w.expired(n)
	case a.status == 202:
	case a.status == 200:
		if a.end != history.EndClean || len(a.events) == 0 {
			w.complain("the answer to %.80q: %d events, end %d", bodies[int(s.b)%len(bodies)], len(a.events), a.end)
		}
	case (a.status == 503 || a.status == 429) && (w.p.tight() || w.p.fewCalls()):
	default:
		w.refused("garbage", a.status, a.body, "", 400, 413)
	}
	return true
}

// headers leaves out or falsifies something: b.
func (w *world) headers(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	ping := `{"jsonrpc":"2.0","id":"h","method":"ping"}`
	without := func(method, drop string, more ...wire.Field) wire.Request {
		q := n.post(ping)
		q.Method = method
		if method != "POST" {
			q.Body = nil
		}
		q.Fields = slices.DeleteFunc(q.Fields, func(f wire.Field) bool { return f.Name == drop })
		q.Fields = append(q.Fields, more...)
		return q
	}
	large := n.post(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", 2*smallBody) + `"}}`)
	big := 202
	if w.p.smallBody() {
		big = 413
	}
	cases := []struct {
		q      wire.Request
		status int
	}{
		{without("POST", "", wire.Field{Name: "Origin", Value: "http://evil.example"}), 403},
		{without("GET", "", wire.Field{Name: "Origin", Value: "null"}), 403},
		{without("POST", "Mcp-Protocol-Version", wire.Field{Name: "Mcp-Protocol-Version", Value: "1999-12-31"}), 400},
		{without("GET", "Mcp-Session-Id"), 400},
		{without("POST", "Mcp-Session-Id"), 400},
		{without("DELETE", "Mcp-Session-Id"), 400},
		{without("POST", "Mcp-Session-Id", wire.Field{Name: "Mcp-Session-Id", Value: ""}), 400},
		{without("POST", "Mcp-Session-Id", wire.Field{Name: "Mcp-Session-Id", Value: n.id + "0"}), 404},
		{without("GET", "Mcp-Session-Id", wire.Field{Name: "Mcp-Session-Id", Value: n.id[:len(n.id)-1]}), 404},
		{without("DELETE", "Mcp-Session-Id", wire.Field{Name: "Mcp-Session-Id", Value: "x"}), 404},
		{without("POST", "Accept", wire.Field{Name: "Accept", Value: "application/json"}), 406},
		{without("POST", "Accept"), 406},
		{without("GET", "Accept", wire.Field{Name: "Accept", Value: "application/json, text/event-stream;q=0"}), 406},
		{without("POST", "Content-Type", wire.Field{Name: "Content-Type", Value: "text/plain"}), 415},
		{without("PUT", ""), 405},
		{without("OPTIONS", ""), 405},
		{large, big},
	}
	c := cases[int(s.b)%len(cases)]
	idled := n.mayBeOver()
	a := w.ask(c.q)
	switch {
	case a.status == 404 && idled:
	case c.status == 202 && a.status == 202:
	default:
		w.refused(fmt.Sprintf("headers, case %d", int(s.b)%len(cases)), a.status, a.body, "", c.status)
	}
	return true
}

// unasked sends a notification or a response that nobody asked for: b.
func (w *world) unasked(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	bodies := []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":"no","error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`,
	}
	idled := n.mayBeOver()
	a := w.ask(n.post(bodies[int(s.b)%len(bodies)]))
	switch {
	case a.status == 404 && idled:
		w.expired(n)
	case a.status != 202:
		w.refused("what nobody asked for", a.status, a.body, "", 400)
	}
	return true
}

// half sends part of a request and ends the link: b and c say how much, d how it ends.
func (w *world) half(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	conn, err := w.ln.Dial(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	text := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
		"Mcp-Session-Id: " + n.id + "\r\nContent-Length: 46\r\n\r\n" + `{"jsonrpc":"2.0","id":"half","method":"ping"}` + "\x00\x01"
	_, _ = io.WriteString(conn, text[:(int(s.b)*256+int(s.c))%len(text)])
	switch s.d % 4 {
	case 0:
		_ = conn.(*memnet.Conn).SetLinger(0) // memnet always takes it
	case 1:
		<-time.After(40 * time.Second) // longer than a body may take
	case 2:
		_ = conn.(*memnet.Conn).CloseWrite() // a memnet link always can
		synctest.Wait()
	}
	_ = conn.Close()
	return true
}

// crowd opens sessions until there are too many.
func (w *world) crowd(s step) bool {
	for range fewSessions {
		w.open(s)
	}
	return w.p.crowded()
}
