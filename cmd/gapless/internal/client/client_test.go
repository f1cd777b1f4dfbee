package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
	"github.com/gapless-dev/gapless/refserver"
)

// message is what a test server is sent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// serve answers initialize and leaves the rest to the test.
func serve(t *testing.T, h func(w http.ResponseWriter, r *http.Request, m message)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "session-0815")
			w.Header().Set("Server", "test")
			answer(w, m, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"t","version":"1"}}`)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			h(w, r, m)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

func answer(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func open(t *testing.T, c client.Config) *client.Session {
	t.Helper()
	s, err := client.New(c).Initialize(t.Context(), "2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASessionOfTheReferenceServer(t *testing.T) {
	f, err := refserver.NewFixture(refserver.Config{}, refserver.LedgerConfig{}, "1")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(f.Handler)
	defer web.Close()
	s := open(t, client.Config{URL: web.URL + "/mcp"})
	if s.ID() == "" || s.Revision() != "2025-11-25" {
		t.Errorf("session %q, revision %q", s.ID(), s.Revision())
	}
	raw, err := s.Call(t.Context(), "tools/list", nil)
	if err != nil || !strings.Contains(string(raw), `"emit"`) {
		t.Errorf("tools/list: %s, %v", raw, err)
	}
	s.Close(t.Context())
	var status *client.StatusError
	if _, err := s.Call(t.Context(), "ping", nil); !errors.As(err, &status) || status.Status != 404 {
		t.Errorf("after the end of the session: %v", err)
	}
}

func TestTheSessionIsKept(t *testing.T) {
	var got http.Header
	url := serve(t, func(w http.ResponseWriter, r *http.Request, m message) {
		got = r.Header
		answer(w, m, `{}`)
	})
	s := open(t, client.Config{URL: url, Header: []wire.Field{{Name: "X-Team", Value: "a"}},
		Credential: func(context.Context) (string, error) { return "Bearer t", nil }})
	if _, err := s.Call(t.Context(), "ping", nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Mcp-Session-Id": "session-0815", "Mcp-Protocol-Version": "2025-06-18",
		"X-Team": "a", "Authorization": "Bearer t", "Accept": "application/json, text/event-stream"} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	if s.Front() != "test" {
		t.Errorf("front %q", s.Front())
	}
}

func TestAnswers(t *testing.T) {
	sse := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
	for _, tc := range []struct {
		name string
		h    func(w http.ResponseWriter, m message)
		want string // part of the result or of the error
	}{
		{"an event stream", func(w http.ResponseWriter, m message) {
			sse(w, "id: 1\ndata: \n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+
				string(m.ID)+",\"result\":{\"a\":1}}\n\n")
		}, `{"a":1}`},
		{"an error", func(w http.ResponseWriter, m message) {
			fmt.Fprintf(typed(w), `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no\u0007\u200f such"}}`, m.ID)
		}, "x/y: error -32601: no   such"},
		{"an answer to another", func(w http.ResponseWriter, m message) {
			_, _ = io.WriteString(typed(w), `{"jsonrpc":"2.0","id":"x","result":{}}`)
		}, "not that of the request"},
		{"no JSON", func(w http.ResponseWriter, m message) { _, _ = io.WriteString(typed(w), "<html>") }, "not that of the request"},
		{"HTML", func(w http.ResponseWriter, m message) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(200)
		}, "neither application/json nor text/event-stream"},
		{"a stream that ends early", func(w http.ResponseWriter, m message) { sse(w, ": hi\n\n") }, "ended before the response"},
		{"a status", func(w http.ResponseWriter, m message) { w.WriteHeader(502) }, "x/y: status 502"},
		{"a status with a reason", func(w http.ResponseWriter, m message) {
			typed(w).WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad session-0815, Bearer hush-hush"}}`)
		}, "x/y: status 400: bad ***, ***"},
		{"a redirect", func(w http.ResponseWriter, m message) {
			w.Header().Set("Location", "https://u:p@example.com/mcp?key=secret")
			w.WriteHeader(307)
		}, "redirects to https://example.com/mcp;"},
		{"a redirect that repeats", func(w http.ResponseWriter, m message) {
			w.Header().Set("Location", "/login/hush-hush/"+strings.Repeat("x", 500))
			w.WriteHeader(302)
		}, "redirects to /login/***/" + strings.Repeat("x", 189) + "...;"},
		{"silence", func(w http.ResponseWriter, m message) {
			sse(w, ": hi\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "the link ended inside an answer"},
		{"too much", func(w http.ResponseWriter, m message) { sse(w, "data: "+strings.Repeat("x", 3<<10)) }, "longer than 2048 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request, m message) { tc.h(w, m) })
			s := open(t, client.Config{URL: url, Limits: wire.Limits{Event: 2 << 10, Line: 2 << 10},
				Credential: func(context.Context) (string, error) { return "Bearer hush-hush", nil }})
			raw, err := s.Call(t.Context(), "x/y", nil)
			got := string(raw)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tc.want) || strings.Contains(got, "secret") || strings.Contains(got, "hush") {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func typed(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("Content-Type", "application/json")
	return w
}

func TestBounds(t *testing.T) {
	held := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request, _ message) {
		select {
		case <-r.Context().Done():
		case <-held:
		}
	})
	defer close(held)
	s := open(t, client.Config{URL: url, Timeout: 50 * time.Millisecond})
	if _, err := s.Call(t.Context(), "ping", nil); err == nil || err.Error() != "ping: no answer in time" {
		t.Errorf("a server that never answers: %v", err)
	}
	s = open(t, client.Config{URL: url})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := s.Call(ctx, "ping", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]client.Config{
		"no link": {URL: "http://h/mcp", Dial: func(context.Context) (net.Conn, error) { return nil, refused }},
		"no host": {URL: "/mcp"},
	} {
		var far *client.UnreachableError
		if _, err := client.New(c).Initialize(t.Context(), "2025-11-25"); !errors.As(err, &far) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestModern(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Header.Get("Mcp-Method") != m.Method || r.Header.Get("Mcp-Session-Id") != "" ||
			r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" ||
			!strings.Contains(string(m.Params), `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`) {
			t.Errorf("%s: %v %s", m.Method, r.Header, m.Params)
		}
		answer(w, m, `{"name":"`+r.Header.Get("Mcp-Name")+`"}`)
	})
	s, err := client.New(client.Config{URL: url}).Initialize(t.Context(), client.Modern)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Call(t.Context(), "tools/call", map[string]any{"name": "emit", "_meta": map[string]any{"progressToken": "p"}})
	if err != nil || string(raw) != `{"name":"emit"}` {
		t.Errorf("%s, %v", raw, err)
	}
	if status, err := s.Delete(t.Context()); status != 0 || err != nil {
		t.Errorf("DELETE without a session: %d, %v", status, err)
	}
}
