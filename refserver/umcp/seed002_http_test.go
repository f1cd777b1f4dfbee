package umcp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver/umcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// "HTTP/1.1 connections are persistent"; "A client may reuse one TCP connection for
// sequential POST requests".
func TestSeed002_ConnectionCarriesSequentialPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		for range 20 {
			p.call("session", `{}`)
			pass(29 * time.Second)
		}
	})
}

// "unless either peer sends Connection: close": the client does.
func TestSeed002_ClosesWhenTheClientAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		for _, option := range []string{"close", "Close", "keep-alive, close", "x , close"} {
			l := p.rig.link().send(request("POST", "/mcp", toolCall(1, "session", `{}`), p.fields("Connection: "+option)...))
			if got := l.reply(200); !got.closes() {
				t.Errorf("Connection: %s was answered with %q", option, got.get("Connection"))
			}
			l.ended(option)
		}
	})
}

// "the 30-second idle read expires". Nothing is sent then: there is no response to say
// it in, but each one before told when it would be.
func TestSeed002_IdleConnectionEndsAfter30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		fresh := r.link()
		p := r.open(newer)
		if got := p.post(initialized).get("Keep-Alive"); !strings.Contains(got, "timeout=30,") {
			t.Errorf("Keep-Alive: %q", got)
		}
		begun := time.Now()
		for what, l := range map[string]*link{"never used": fresh, "after a response": p.link} {
			l.ended(what)
			if took := time.Since(begun); took != 30*time.Second {
				t.Errorf("%s: closed after %s", what, took)
			}
		}
	})
}

// "or the default limit of 1,000 requests per connection is exhausted"; the last response
// announces it, and none before.
func TestSeed002_ThousandthResponseClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := virtual(t, umcp.Config{}).link()
		for n := 1; n <= 1000; n++ {
			got := l.send(request("OPTIONS", "/mcp", "")).reply(204)
			if got.closes() != (n == 1000) {
				t.Fatalf("response %d says Connection: %s", n, got.get("Connection"))
			}
		}
		l.ended("after 1,000 requests")
	})
}

// "Subclasses may adjust both limits."
func TestSeed002_BothLimitsCanBeAdjusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Limits: umcp.Limits{RequestsPerConnection: 2, IdleRead: 5 * time.Second}})
		begun := time.Now()
		r.link().ended("idle")
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("closed after %s", took)
		}
		l := r.link().send(request("OPTIONS", "/mcp", ""), request("OPTIONS", "/mcp", ""), request("OPTIONS", "/mcp", ""))
		first, second := l.reply(204), l.reply(204)
		if first.closes() || !second.closes() || first.get("Keep-Alive") != "timeout=5, max=1" {
			t.Errorf("two responses say %q (%q) and %q", first.get("Connection"), first.get("Keep-Alive"), second.get("Connection"))
		}
		l.ended("after two requests")
	})
}

func asHTTP10(request string) string { return strings.Replace(request, "HTTP/1.1", "HTTP/1.0", 1) }

// "HTTP/1.0 connections close after a response"
func TestSeed002_HTTP10ClosesAfterAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := virtual(t, umcp.Config{}).link().send(asHTTP10(request("POST", "/mcp", initBody(newer))))
		if got := l.reply(200); !got.closes() || got.get("Mcp-Session-Id") == "" {
			t.Errorf("answered with %v", got.header)
		}
		l.ended("HTTP/1.0")
	})
}

// "unless the client explicitly requests keep-alive."
func TestSeed002_HTTP10PersistsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := virtual(t, umcp.Config{}).link()
		for range 3 {
			got := l.send(asHTTP10(request("OPTIONS", "/mcp", "", "Connection: Keep-Alive"))).reply(204)
			if got.get("Connection") != "keep-alive" {
				t.Fatalf("Connection: %q", got.get("Connection"))
			}
		}
		got := l.send(asHTTP10(request("OPTIONS", "/mcp", "", "Connection: keep-alive, close"))).reply(204)
		if !got.closes() {
			t.Errorf("Connection: %q", got.get("Connection"))
		}
		l.ended("HTTP/1.0")
	})
}

// gate is a tool that waits until it is opened.
func gate(r *rig) (entered chan string, open chan struct{}) {
	entered, open = make(chan string, 10), make(chan struct{})
	r.tool("gate", func(_ context.Context, req *mcp.CallToolRequest) string {
		entered <- req.Session.ID()
		<-open
		return "opened"
	})
	return entered, open
}

// "Requests on one connection are processed in order."
func TestSeed002_RequestsOfOneConnectionAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		entered, open := gate(r)
		p := r.open(newer)
		post := func(body string) string { return request("POST", "/mcp", body, p.fields()...) }
		p.send(post(toolCall(1, "gate", `{}`)), post(toolCall(2, "gate", `{}`)), post(toolCall(3, "session", `{}`)))
		synctest.Wait()
		if len(entered) != 1 {
			t.Errorf("%d requests were begun before the first was answered", len(entered))
		}
		close(open)
		for id := 1; id <= 3; id++ {
			if got := p.reply(200); !strings.Contains(got.body, fmt.Sprintf(`"id":%d,`, id)) {
				t.Errorf("response %d is %s", id, got.body)
			}
		}
	})
}

// "Separate connections remain concurrent"
func TestSeed002_SeparateConnectionsAreConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		entered, open := gate(r)
		p := r.open(newer)
		other := r.link()
		p.send(request("POST", "/mcp", toolCall(1, "gate", `{}`), p.fields()...))
		other.send(request("POST", "/mcp", toolCall(2, "gate", `{}`), p.fields()...))
		synctest.Wait()
		if len(entered) != 2 {
			t.Errorf("%d of two requests run", len(entered))
		}
		third := r.link().send(request("POST", "/mcp", toolCall(3, "session", `{}`), p.fields()...)).reply(200)
		if !strings.Contains(third.body, `"id":3,`) {
			t.Errorf("%s", third.body)
		}
		close(open)
		p.reply(200)
		other.reply(200)
	})
}

// refusals are requests with an error response that leaves the connection as it is.
func refusals(p *peer) map[string]string {
	other := "MCP-Protocol-Version: " + older
	post := func(body string, fields ...string) string { return request("POST", "/mcp", body, fields...) }
	return map[string]string{
		"202":             post(initialized, p.fields()...),
		"200 parse error": post("{", p.fields()...),
		"200 batch":       post("["+initialized+"]", p.fields()...),
		"400 no version":  post(toolCall(1, "session", `{}`), "Authorization: Bearer a"),
		"400 version":     post(toolCall(1, "session", `{}`), "Authorization: Bearer a", other, "Mcp-Session-Id: "+p.id),
		"401":             post(initBody(newer)),
		"401 large":       post(strings.Repeat("x", 1<<20)),
		"403 origin":      post(initBody(newer), "Authorization: Bearer a", "Origin: https://evil.example"),
		"403 principal":   post(initialized, "Authorization: Bearer b", "Mcp-Session-Id: "+p.id, "MCP-Protocol-Version: "+newer),
		"404 session":     post(initialized, "Authorization: Bearer a", "Mcp-Session-Id: none", "MCP-Protocol-Version: "+newer),
		"404 path":        request("GET", "/other", ""),
		"405":             request("PUT", "/mcp", "body"),
		"406":             request("GET", "/mcp", "", p.fields("-Accept")...),
		"415":             post(initialized, p.fields("-Content-Type", "Content-Type: text/plain")...),
		"417":             post(initialized, p.fields("Expect: tea")...),
	}
}

// "A server must never advertise or imply persistence and then close an otherwise valid
// connection without warning": what does not say close is followed by another response.
func TestSeed002_ResponsesThatImplyPersistenceAreFollowedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{Verifier: principals}).open(newer, "Authorization: Bearer a")
		for what, text := range refusals(p) {
			l := p.rig.link().send(text)
			got := l.reply()
			if want := what[:3]; strconv.Itoa(got.status) != want || got.get("Connection") != "keep-alive" {
				t.Errorf("%s: status %d, Connection: %q, %s", what, got.status, got.get("Connection"), got.body)
			}
			l.alive(what)
		}
	})
}

// unsafe are requests whose end is in doubt.
func unsafe() map[string]string {
	post := func(fields ...string) string { return request("POST", "/mcp", initBody(newer), fields...) }
	raw := func(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }
	get := request("GET", "/mcp", "")
	return map[string]string{
		"400 no words":              raw("POST"),
		"400 two words":             raw("GET /mcp", "Host: x"),
		"400 four words":            raw("GET /mcp /x HTTP/1.1", "Host: x"),
		"400 two blanks":            raw("GET  /mcp HTTP/1.1", "Host: x"),
		"400 empty target":          raw("GET  HTTP/1.1", "Host: x"),
		"400 relative target":       raw("GET mcp HTTP/1.1", "Host: x"),
		"400 fragment":              raw("GET /mcp#a HTTP/1.1", "Host: x"),
		"400 method":                raw("G(T /mcp HTTP/1.1", "Host: x"),
		"400 no HTTP":               raw("GET /mcp SPDY/1", "Host: x"),
		"400 lower case":            raw("GET /mcp http/1.1", "Host: x"),
		"505 HTTP/2":                raw("PRI * HTTP/2.0", ""),
		"505 HTTP/1.2":              raw("GET /mcp HTTP/1.2", "Host: x"),
		"400 binary":                "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
		"400 no host":               request("GET", "/mcp", "", "-Host"),
		"400 host list":             request("GET", "/mcp", "", "-Host", "Host: a, b"),
		"400 other host":            raw("GET http://a/mcp HTTP/1.1", "Host: b"),
		"400 no colon":              request("GET", "/mcp", "", "Nothing"),
		"400 no name":               request("GET", "/mcp", "", ": value"),
		"400 blank in name":         request("GET", "/mcp", "", "Accept : x"),
		"400 continued line":        request("GET", "/mcp", "", "X-A: b\r\n c"),
		"400 line feed alone":       strings.ReplaceAll(get, "\r\n", "\n"),
		"400 one line feed alone":   strings.Replace(get, "\r\n", "\n", 1),
		"400 carriage return":       request("GET", "/mcp", "", "X-A: b\rX-B: c"),
		"400 NUL":                   request("GET", "/mcp", "", "X-A: b\x00"),
		"400 three empty lines":     "\r\n\r\n\r\n" + get,
		"411 no length":             post("-Content-Length"),
		"400 length list":           post("-Content-Length", "Content-Length: 5, 5"),
		"400 length +":              post("-Content-Length", "Content-Length: +5"),
		"400 length -":              post("-Content-Length", "Content-Length: -5"),
		"400 length hex":            post("-Content-Length", "Content-Length: 0x5"),
		"400 length blank":          post("-Content-Length", "Content-Length: 1 5"),
		"400 length empty":          post("-Content-Length", "Content-Length:"),
		"400 length fraction":       post("-Content-Length", "Content-Length: 5.0"),
		"400 length digits":         post("-Content-Length", "Content-Length: \u0665"),
		"400 two lengths":           post("Content-Length: 5"),
		"400 equal lengths":         post(fmt.Sprintf("Content-Length: %d", len(initBody(newer)))),
		"413 body":                  post("-Content-Length", "Content-Length: 4194305"),
		"413 length overflows":      post("-Content-Length", "Content-Length: 99999999999999999999999"),
		"400 chunked":               post("-Content-Length", "Transfer-Encoding: chunked"),
		"400 chunked and length":    post("Transfer-Encoding: chunked"),
		"400 identity":              post("Transfer-Encoding: identity"),
		"400 empty encoding":        post("Transfer-Encoding:"),
		"400 encoding on a GET":     request("GET", "/mcp", "", "transfer-encoding: gzip, chunked"),
		"431 lines":                 request("GET", "/mcp", "", strings.Split(strings.Repeat("X-A: b\n", 99), "\n")[:99]...),
		"431 bytes":                 request("GET", "/mcp", "", "X-A: "+strings.Repeat("b", 64<<10)),
		"431 bytes of request line": raw("GET /"+strings.Repeat("b", 64<<10)+" HTTP/1.1", "Host: x"),
	}
}

// refusesUnsafe sends what must be refused, with another request behind it: one response,
// which says close, and then the end.
func refusesUnsafe(t *testing.T, r *rig, what, text string) {
	t.Helper()
	l := r.link()
	_, _ = io.WriteString(l, text+request("POST", "/mcp", toolCall(1, "canary", `{}`), "MCP-Protocol-Version: "+newer)) // it may be refused halfway
	got, err := l.read()
	if err != nil || !strings.HasPrefix(what, strconv.Itoa(got.status)) || !got.closes() || got.get("Content-Type") != "application/json" {
		t.Errorf("%s: answered with %d, Connection: %q, %s, %v", what, got.status, got.get("Connection"), got.body, err)
		return
	}
	l.ended(what)
}

// canary makes a tool that must never be called.
func canary(r *rig) {
	r.tool("canary", func(context.Context, *mcp.CallToolRequest) string {
		r.t.Error("a request behind an unsafe one was served")
		return "alive"
	})
}

// "Malformed framing [...] close[s] the connection after their error response because
// unread bytes cannot be parsed safely as another request."
func TestSeed002_MalformedFramingIsAnsweredAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		canary(r)
		for what, text := range unsafe() {
			refusesUnsafe(t, r, what, text)
		}
	})
}

// "ambiguous singleton headers": two are refused, equal or not.
func TestSeed002_DuplicateSingletonHeadersAreAnsweredAndClosed(t *testing.T) {
	values := map[string][2]string{
		"Host": {"localhost", "evil.example"}, "Authorization": {"Bearer a", "Bearer b"},
		"Origin": {"http://localhost", "https://evil.example"}, "Accept": {"application/json", "text/event-stream"},
		"Content-Type": {"application/json", "text/plain"}, "MCP-Protocol-Version": {newer, older},
		"Mcp-Session-Id": {"a", "b"}, "Last-Event-ID": {"1", "2"}, "Content-Length": {"2", "3"},
	}
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Verifier: principals})
		canary(r)
		for name, v := range values {
			for _, second := range v {
				for _, spelled := range []string{name, strings.ToLower(name)} {
					text := request("POST", "/mcp", "{}", "-"+name, name+": "+v[0], "X-Between: x", spelled+": "+second)
					refusesUnsafe(t, r, "400 "+name+": "+second, text)
				}
			}
		}
	})
}

// "Request bodies keep the existing size limit." One byte less is served.
func TestSeed002_BodiesHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		canary(r)
		pad := strings.Repeat(" ", 4<<20-len(initBody(newer)))
		l := r.link()
		go l.send(request("POST", "/mcp", initBody(newer)+pad))
		l.reply(200)
		refusesUnsafe(t, r, "413", request("POST", "/mcp", initBody(newer)+pad+" "))
		small := virtual(t, umcp.Config{Limits: umcp.Limits{Body: 10, HeaderLines: 5, HeaderBytes: 200}})
		canary(small)
		refusesUnsafe(t, small, "413", request("POST", "/mcp", "12345678901"))
		refusesUnsafe(t, small, "431", request("GET", "/mcp", "", "A: 1", "B: 1", "C: 1", "D: 1"))
		refusesUnsafe(t, small, "431", request("GET", "/mcp", "", "A: "+strings.Repeat("x", 200)))
		small.link().send(request("GET", "/mcp", "", "A: 1", "B: 1", "C: 1")).reply(400)
	})
}

// "incomplete bodies": the client ends the connection, or sends no more.
func TestSeed002_IncompleteRequestsAreAnsweredAndClosed(t *testing.T) {
	whole := request("POST", "/mcp", initBody(newer))
	head := strings.Index(whole, "\r\n\r\n") + 4
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		for _, n := range []int{1, 10, head - 2, head, head + 1, len(whole) - 1} {
			l := r.link().send(whole[:n])
			if err := l.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := l.reply(400); !got.closes() {
				t.Errorf("%d bytes and the end: Connection: %q", n, got.get("Connection"))
			}
			l.ended("end")

			begun := time.Now()
			l = r.link().send(whole[:n])
			if got := l.reply(408); !got.closes() || time.Since(begun) != 30*time.Second {
				t.Errorf("%d bytes and silence: Connection: %q after %s", n, got.get("Connection"), time.Since(begun))
			}
			l.ended("silence")
		}
		l := r.link()
		for i := range head { // a byte every ten seconds is no request either
			if _, err := io.WriteString(l, whole[i:i+1]); err != nil {
				break
			}
			pass(10 * time.Second)
		}
		l.reply(408)
	})
}

// "Every response that terminates its connection includes Connection: close", over a real
// network, where closing with bytes unread could destroy the response.
func TestSeed002_LastResponseReachesTheClient(t *testing.T) {
	r := real(t, umcp.Config{})
	for range 5 {
		l := r.link()
		go func() { _, _ = io.WriteString(l, request("POST", "/mcp", strings.Repeat("x", 5<<20))) }()
		if got := l.reply(413); !got.closes() {
			t.Errorf("Connection: %q", got.get("Connection"))
		}
	}
}

// A client that asks before it sends a body is told to go on, or gets its refusal, after
// which nobody knows whether the body comes.
func TestSeed002_ExpectedContinueIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Verifier: principals})
		text := request("POST", "/mcp", initBody(newer), "Expect: 100-continue", "Authorization: Bearer a")
		head := strings.Index(text, "\r\n\r\n") + 4
		l := r.link().send(text[:head])
		l.reply(100)
		l.send(text[head:]).reply(200)
		l.alive("after 100")
		l = r.link().send(strings.Replace(text[:head], "Bearer a", "Bearer x", 1))
		if got := l.reply(401); !got.closes() {
			t.Errorf("Connection: %q", got.get("Connection"))
		}
		l.ended("refused")
	})
}

// "Connection: close" is said when the server leaves, too, and idle links are closed.
func TestSeed002_ShutdownAnnouncesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		entered, open := gate(r)
		defer close(open)
		p, idle := r.open(newer), r.link()
		stream := p.listen()
		p.send(request("POST", "/mcp", toolCall(1, "gate", `{}`), p.fields()...))
		synctest.Wait()
		<-entered
		r.stop()
		if got := p.reply(503); !got.closes() {
			t.Errorf("Connection: %q", got.get("Connection"))
		}
		p.ended("in flight")
		idle.ended("idle")
		stream.finish()
		if _, err := r.dial(); err == nil {
			t.Error("the server still listens")
		}
	})
}

// Connections are bounded, and the one too many is told so.
func TestSeed002_ConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Limits: umcp.Limits{Connections: 2}})
		first := r.link()
		r.link()
		synctest.Wait()
		l := r.link()
		if got := l.reply(503); !got.closes() {
			t.Errorf("Connection: %q", got.get("Connection"))
		}
		l.ended("too many")
		first.Close()
		pass(time.Second)
		r.link().alive("room again")
	})
}

// A client that does not read its response loses the connection, nothing else.
func TestSeed002_UnreadResponseIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{})
		r.tool("large", func(context.Context, *mcp.CallToolRequest) string { return strings.Repeat("x", 1<<20) })
		p := r.open(newer)
		p.send(request("POST", "/mcp", toolCall(1, "large", `{}`), p.fields()...))
		pass(31 * time.Second)
		if _, err := p.read(); err == nil {
			t.Error("a response of 1 MiB came whole from a server that was not read for 31 s")
		}
		r.open(newer).call("session", `{}`)
	})
}

// "auxiliary-route boundaries are unchanged": they are served beside the endpoint, on the
// same connections and by the same rules of framing.
func TestSeed002_AuxiliaryRoutesAreServedUnchanged(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "upgrade")
		w.Header().Set("Content-Length", "99")
		fmt.Fprintf(w, "ok %s %s", r.Host, r.URL.RawQuery)
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("planted") })
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Other: mux, Verifier: principals})
		l := r.link()
		got := l.send(request("GET", "/healthz?a=b", "", "Origin: https://evil.example")).reply(200)
		if got.body != "ok localhost a=b" || got.get("Connection") != "keep-alive" || got.get("Content-Type") == "" {
			t.Errorf("%v %q", got.header, got.body)
		}
		if got := l.send(request("POST", "/echo", "tea")).reply(418); got.body != "tea" {
			t.Errorf("%q", got.body)
		}
		l.send(request("GET", "/panic", "")).reply(500)
		l.send(request("GET", "/nothing", "")).reply(404)
		l.send(request("GET", "/mcp/", "")).reply(404)
		l.send(request("GET", "/%6dcp", "")).reply(404)
		l.alive("after other paths")
		refusesUnsafe(t, r, "400", request("POST", "/echo", "tea", "Transfer-Encoding: chunked"))
	})
}

// HEAD has no body, which a client must not take for the next response.
func TestSeed002_HeadHasNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := virtual(t, umcp.Config{Other: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "four") })}).link()
		for _, path := range []string{"/x", "/mcp"} {
			l.send(request("HEAD", path, ""))
			for {
				line, err := l.line()
				if err != nil {
					t.Fatal(err)
				}
				if line == "" {
					break
				}
			}
			l.alive("after HEAD " + path)
		}
	})
}

// A reset while the server waits for a request leaves nothing behind.
func TestSeed002_ResetConnectionsAreForgotten(t *testing.T) {
	r := real(t, umcp.Config{Limits: umcp.Limits{Connections: 3}})
	for range 30 {
		l := r.link()
		l.send(request("OPTIONS", "/mcp", "")).reply(204, 503)
		if err := l.Conn.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		l := r.link().send(request("OPTIONS", "/mcp", ""))
		got, err := l.read()
		l.Close()
		if err == nil && got.status == 204 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no room after 30 resets: %d, %v", got.status, err)
		}
	}
}
