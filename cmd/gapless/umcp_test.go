package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// umcpTarget is a server of the dialect umcp written for the tests: its tool count sends
// twenty messages on the session's event stream and answers on the POST. A habit is what is
// wrong with it.
type umcpTarget struct {
	habit string

	mu       sync.Mutex
	sessions map[string]*umcpSession
	last     *umcpSession // that has an event stream
	calls    int
}

type umcpSession struct {
	attached chan string // of the event stream; nil without one
	links    int
	sent     string // the first message of its call
}

func (u *umcpTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	s := u.sessions[r.Header.Get("Mcp-Session-Id")]
	u.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta struct{ ProgressToken string } `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &m) // GET has none
	switch {
	case m.Method == "initialize":
		u.open(w, m.ID)
	case s == nil || r.Header.Get("Mcp-Protocol-Version") != "2025-03-26":
		http.Error(w, "unknown", http.StatusNotFound)
	case r.Method == http.MethodGet:
		u.get(w, r, s)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method != "tools/call":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	default:
		u.count(s, m.Params.Meta.ProgressToken)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
	}
}

func (u *umcpTarget) open(w http.ResponseWriter, id json.RawMessage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name := "session-" + strconv.Itoa(len(u.sessions))
	u.sessions[name] = &umcpSession{}
	w.Header().Set("Mcp-Session-Id", name)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"u","version":"1"}}}`, id)
}

// get is the event stream of a session, until its client leaves.
func (u *umcpTarget) get(w http.ResponseWriter, r *http.Request, s *umcpSession) {
	mine := make(chan string, 1000)
	u.mu.Lock()
	if s.attached != nil {
		u.mu.Unlock()
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.attached = mine
	if s.links++; s.links > 1 && u.habit == "repeats after a reconnect" && s.sent != "" {
		mine <- s.sent
	}
	u.last = s
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		s.attached = nil
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	for {
		select {
		case m := <-mine:
			fmt.Fprintf(w, ": a comment is no message\n\ndata: %s\n\n", m)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// count sends the messages of a call; what finds no event stream is gone.
func (u *umcpTarget) count(s *umcpSession, token string) {
	u.mu.Lock()
	u.calls++
	habit := u.habit
	if u.calls <= 3 {
		habit = "" // the control calls show nothing of it
	}
	u.mu.Unlock()
	order := make([]int, 20)
	for i := range order {
		order[i] = i + 1
	}
	if habit == "reorders" {
		slices.Reverse(order[3:5])
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, n := range order {
		<-tick.C
		if habit == "drops on a live link" && n == 2 {
			continue
		}
		m := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":%d,"total":20}}`, token, n)
		u.mu.Lock()
		to := s
		if habit == "leaks to another session" && n == 3 {
			to = u.last
		}
		if to.attached != nil {
			to.attached <- m
		}
		if n == 1 {
			s.sent = m
		}
		u.mu.Unlock()
	}
}

// TestWrongUMCPTargets: a target that keeps the contract of uMCP holds, and one with a
// single bad habit is convicted of it.
func TestWrongUMCPTargets(t *testing.T) {
	for _, c := range []struct {
		habit string
		code  int
		says  string
	}{
		{"", exitHolds, `\nHOLDS `},
		{"repeats after a reconnect", exitViolated, `x no-duplicate`},
		{"reorders", exitViolated, `x in-order`},
		{"leaks to another session", exitViolated, `x own-session`},
		{"drops on a live link", exitViolated, `x no-loss`},
	} {
		t.Run(c.habit, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&umcpTarget{habit: c.habit, sessions: map[string]*umcpSession{}})
			defer server.Close()
			args := []string{"run", "-q", "--seed", "7", "--target", server.URL, "--dialect", "umcp", "--tool", "count", "--expect", "20",
				"--streams", "30", "--calls", "60", "--fault", "rst@get-stream:1"}
			code, stdout, stderr := gapless(t, args...)
			if code != c.code || !regexp.MustCompile(c.says).MatchString(stdout) {
				t.Errorf("exit code %d, want %d and %s\n%s\n%s", code, c.code, c.says, stdout, stderr)
			}
		})
	}
}
