package lab

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/profiles"
)

// mcpExchange makes one request and returns the session of the answer, and its body.
func mcpExchange(t *testing.T, url, method, session, cursor, body string) (string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&text); err != nil {
		t.Fatalf("%s: %v after %q", resp.Status, err, text.String())
	}
	return resp.Header.Get("Mcp-Session-Id"), text.String()
}

// Clause of seed 003: the server that the conformance suite meets has a store and asks for a
// reconnection time of 100 ms, and its tool test_reconnection closes its connection in the
// middle of the call; the result comes on the resume.
func TestSeed003_TheServerAsItComes_Announces100ms_AndItsToolReconnects(t *testing.T) {
	f, err := NewFixture(ServeConfig{Server: profiles.Default().Server, Version: "test", Fixtures: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(Root(f))
	defer server.Close()
	url := server.URL + "/mcp"
	session, _ := mcpExchange(t, url, "POST", "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	mcpExchange(t, url, "POST", session, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, before := mcpExchange(t, url, "POST", session, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_reconnection","arguments":{}}}`)
	id, rest, _ := strings.Cut(strings.TrimPrefix(before, "id: "), "\n")
	if !strings.HasPrefix(rest, "retry: 100\ndata: \n\n") || strings.Contains(before, `"result"`) {
		t.Fatalf("the call's connection gave %q", before)
	}
	if _, after := mcpExchange(t, url, "GET", session, id, ""); !strings.Contains(after, `"id":2,"result"`) || strings.Contains(after, "isError") {
		t.Errorf("the resume gave %q", after)
	}
	_, plain := mcpExchange(t, url, "POST", session, "", `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if !strings.Contains(plain, "\nretry: 100\ndata: \n\n") {
		t.Errorf("another stream opens with %q", plain)
	}
}
