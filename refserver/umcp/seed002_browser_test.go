package umcp_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gapless-dev/gapless/refserver/umcp"
)

// "Authentication and Origin checks run on POST, GET and DELETE": pages of foreign
// origins are refused on each, whatever else is right.
func TestSeed002_OriginIsCheckedOnEveryVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{AllowedOrigins: []string{"https://app.example"}}).open(newer)
		for _, origin := range []string{"https://evil.example", "null", "", "http://app.example", "https://app.example.evil.example", "https://app.example:444", "http://localhost.evil.example"} {
			for _, method := range []string{"POST", "GET", "DELETE", "OPTIONS"} {
				got := p.send(request(method, "/mcp", initialized, p.fields("Origin: "+origin)...)).reply()
				if got.status != 403 || got.get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s from %q: %d %v", method, origin, got.status, got.header)
				}
			}
		}
		p.call("session", `{}`)
		for _, origin := range []string{"https://app.example", "https://app.example:443", "http://localhost:6274", "http://127.0.0.1", "http://[::1]:99"} {
			p.send(request("POST", "/mcp", initialized, p.fields("Origin: "+origin)...)).reply(202)
		}
	})
}

// "Preflight allows Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id,
// Last-Event-ID and Authorization." A browser has no token yet.
func TestSeed002_PreflightAllowsTheSixHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := virtual(t, umcp.Config{Verifier: principals}).link()
		got := l.send(request("OPTIONS", "/mcp", "", "Origin: http://localhost:6274",
			"Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: authorization, mcp-session-id")).reply(204)
		headers := strings.Split(got.get("Access-Control-Allow-Headers"), ", ")
		slices.Sort(headers)
		if want := []string{"Accept", "Authorization", "Content-Type", "Last-Event-ID", "MCP-Protocol-Version", "Mcp-Session-Id"}; !slices.Equal(headers, want) {
			t.Errorf("headers %q", headers)
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if !strings.Contains(got.get("Access-Control-Allow-Methods"), method) {
				t.Errorf("methods %q", got.get("Access-Control-Allow-Methods"))
			}
		}
		if got.get("Access-Control-Allow-Origin") != "http://localhost:6274" || got.get("Vary") != "Origin" {
			t.Errorf("%v", got.header)
		}
		l.send(request("OPTIONS", "/mcp", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST")).reply(403)
	})
}

// "Allowed browser responses expose Mcp-Session-Id": each of them, the event stream and
// refusals too, and none without an Origin.
func TestSeed002_BrowsersMayReadTheSessionId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, umcp.Config{Verifier: principals})
		origin, token := "Origin: http://localhost:6274", "Authorization: Bearer a"
		shared := func(what string, got reply) {
			if got.get("Access-Control-Expose-Headers") != "Mcp-Session-Id" || got.get("Access-Control-Allow-Origin") != "http://localhost:6274" || got.get("Vary") != "Origin" {
				t.Errorf("%s: %v", what, got.header)
			}
		}
		shared("initialize", r.link().send(request("POST", "/mcp", initBody(newer), origin, token)).reply(200))
		shared("401", r.link().send(request("POST", "/mcp", initBody(newer), origin)).reply(401))
		p := r.open(newer, token)
		shared("event stream", p.listen(origin).head)
		shared("409", p.send(request("GET", "/mcp", "", p.fields(origin)...)).reply(409))
		shared("202", p.send(request("POST", "/mcp", initialized, p.fields(origin)...)).reply(202))
		shared("DELETE", p.send(request("DELETE", "/mcp", "", p.fields(origin)...)).reply(204))
		if got := p.post(initialized); got.get("Access-Control-Expose-Headers") != "" {
			t.Errorf("without an origin: %v", got.header)
		}
	})
}

// Other methods are 405 and name those there are; media that cannot be served are 415
// and 406.
func TestSeed002_OtherMethodsAndMediaAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := virtual(t, umcp.Config{}).open(newer)
		for _, method := range []string{"PUT", "PATCH", "TRACE", "CONNECT", "post", "BREW"} {
			got := p.send(request(method, "/mcp", "", p.fields()...)).reply(405)
			if !strings.Contains(got.get("Allow"), "DELETE") {
				t.Errorf("%s: Allow: %q", method, got.get("Allow"))
			}
		}
		for _, media := range []string{"-x", "Content-Type: text/plain", "Content-Type: application/jsonp", "Content-Type: "} {
			p.send(request("POST", "/mcp", initialized, p.fields("-Content-Type", media)...)).reply(415)
		}
		p.send(request("POST", "/mcp", initialized, p.fields("Content-Encoding: gzip")...)).reply(415)
		for _, accept := range []string{"Accept: text/event-stream", "Accept: text/html", "Accept: application/json;q=0"} {
			p.send(request("POST", "/mcp", initialized, p.fields("-Accept", accept)...)).reply(406)
		}
		for _, fields := range [][]string{{"-Accept"}, {"-Accept", "Accept: */*"}, {"-Content-Type", "Content-Type: Application/JSON; charset=utf-8"}} {
			p.send(request("POST", "/mcp", initialized, p.fields(fields...)...)).reply(202)
		}
	})
}
