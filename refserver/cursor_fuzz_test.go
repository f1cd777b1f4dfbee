package refserver_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// oddCursors are values of Last-Event-ID that lead nowhere.
func oddCursors() []string {
	return []string{
		"x", "-", "x-", "-1", "x-1", "x-0", "x--1", "x-1-1", "x-99999999999999999999", "x-0x1", "x-1e3", "x-٣", "get-1", "1-1", "null", "0", " ", "\t",
		"../../1", "%2e", "{}", `"1"`, "ü-1", "\x80-1", strings.Repeat("x", 10_000) + "-1", strings.Repeat("9", 10_000), "x-" + strings.Repeat("0", 10_000) + "1", strings.Repeat("-", 5000),
	}
}

// FuzzCursor: whatever a client says it saw last, it is answered 400, or with events of
// its own stream; nothing panics, nothing is repeated to it, and nobody else's events
// are shown.
func FuzzCursor(f *testing.F) {
	r := real(f, refserver.Config{Store: newStore(f, store.Limits{})})
	own, other := r.open(latest), r.open(latest)
	mine := own.emit(1, "own-progress-token", `{"messages":5}`).rest()
	theirs := other.emit(1, "other-progress-token", `{"messages":5}`).rest()
	for _, cursor := range oddCursors() {
		f.Add(cursor)
	}
	known := map[string]bool{}
	for i := range mine {
		known[mine[i].id] = true
		f.Add(mine[i].id)
		f.Add(theirs[i].id)
		f.Add(mine[i].id + "0")
		f.Add(strings.ToLower(mine[i].id))
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		req := httptest.NewRequest("GET", "/mcp", nil)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", own.id)
		req.Header["Last-Event-Id"] = []string{cursor}
		if cursor == "" {
			return // it asks for the standalone stream
		}
		w := httptest.NewRecorder()
		begun := time.Now()
		r.fixture.Handler.ServeHTTP(w, req)
		body := w.Body.String()
		switch {
		case known[cursor] != (w.Code == 200) || w.Code != 200 && w.Code != 400:
			t.Errorf("%q: %d", cursor, w.Code)
		case w.Code == 400 && len(cursor) > 8 && strings.Contains(body, cursor):
			t.Errorf("%q is repeated: %s", cursor, body)
		case strings.Contains(body, "other-progress-token"), w.Code == 400 && strings.Contains(body, "progress-token"):
			t.Errorf("%q shows %s", cursor, body)
		case time.Since(begun) > 10*time.Second:
			t.Errorf("%q took %s", cursor, time.Since(begun))
		}
	})
}
