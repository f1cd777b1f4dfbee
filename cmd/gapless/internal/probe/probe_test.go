package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
	"github.com/gapless-dev/gapless/refserver"
)

func TestTheReferenceServerDeviatesNowhere(t *testing.T) {
	for name, cfg := range map[string]refserver.Config{
		"takeover": {}, "409": {OnConflict: refserver.Refuse}, "links are kept": {KeepConnections: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick(reference(t, cfg, nil))
			c.Tool, c.Args = "", nil // it finds emit by itself
			told := 0
			for _, row := range ask(t, c) {
				if row.Status == Deviating {
					t.Errorf("%s (%s): %s", row.Name, row.Level, row.Seen)
				}
				if row.Status == Conforming || row.Status == Open {
					told++
				}
				if row.Seen == "" || row.Seen == "it was not asked" {
					t.Errorf("%s: seen %q", row.Name, row.Seen)
				}
			}
			if told < 100 {
				t.Errorf("only %d rows tell something", told)
			}
		})
	}
}

// gosdk serves a server of the SDK whose streams are kept by its own memory store.
func gosdk(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "count", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			tick := time.NewTicker(60 * time.Millisecond)
			defer tick.Stop()
			for i := 1; i <= 20; i++ {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				note := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Total: 20}
				if err := req.Session.NotifyProgress(ctx, note); err != nil {
					return nil, err
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

// TestGoSDK holds the rows against what was observed of v1.8.0 (WIRE §2.4).
func TestGoSDK(t *testing.T) {
	t.Parallel()
	c := quick(gosdk(t))
	c.Tool, c.Args = "count", nil
	rows := ask(t, c)
	for name, want := range map[string]struct {
		status Status
		seen   string // regular expression
	}{
		"accept-post":           {Open, `^400`},
		"accept-get":            {Open, `^400`},
		"session-missing":       {Conforming, `^200`},
		"deleted-404":           {Conforming, `^404`},
		"delete":                {Conforming, `^204`},
		"batch-2025-06-18":      {Open, `^400`},
		"duplicate-id":          {Open, `^400, error -32600`},
		"cursor-unknown":        {Open, `^400$`},
		"cursor-malformed":      {Open, `^400$`},
		"cursor-future":         {Open, `^200, no message`},
		"cursor-other-session":  {Conforming, `^400$`},
		"get-second":            {Open, `^409$`},
		"attached":              {Open, `^409$`},
		"half-open":             {Open, `^409 for`},
		"resume-after-response": {Conforming, `with the response`},
		"resume-ends":           {Conforming, `^ends$`},
		"resume-no-loss":        {Conforming, `before the cut`},
		"resume-no-repeat":      {Conforming, `^0 of`},
		"disconnect-no-cancel":  {Conforming, `ran on`},
		"priming":               {Conforming, `event type prime$`},
		"retry":                 {NotOffered, ``},
		"get-priming":           {Open, `nothing comes`},
		"resume-priming":        {Open, `a message`},
		"origin-foreign":        {Deviating, `^200`},
		"modern-unknown-method": {NotOffered, `2026-07-28 is not among its 4 versions`},
	} {
		if row := rows[name]; row.Status != want.status || !regexp.MustCompile(want.seen).MatchString(row.Seen) {
			t.Errorf("%s: %s: %q, want %s: %s", name, row.Status, row.Seen, want.status, want.seen)
		}
	}
	for name, row := range rows {
		known := []string{"unknown-method", "origin-foreign", "batch-initialize"}
		if row.Status == Deviating && !slices.Contains(known, name) {
			t.Errorf("%s (%s): %s", name, row.Level, row.Seen)
		}
	}
}

func TestWithoutATool(t *testing.T) {
	t.Parallel()
	c := quick(gosdk(t))
	c.Tool = ""
	rows := ask(t, c)
	for _, name := range []string{"priming", "resume", "attached", "cursor-unknown", "retention-time"} {
		if row := rows[name]; row.Status != Unsure || row.Seen != noTool {
			t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
		}
	}
	if row := rows["ping"]; row.Status != Conforming {
		t.Errorf("ping: %s: %s", row.Status, row.Seen)
	}
}

// TestServersThatCannotResume probes servers without an event store: what they do not
// offer is no deviation.
func TestServersThatCannotResume(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "now", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	for name, options := range map[string]mcp.StreamableHTTPOptions{"JSON": {JSONResponse: true}, "stateless": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &options))
			defer web.Close()
			defer web.CloseClientConnections()
			c := quick(web.URL + "/mcp")
			c.Tool, c.Args = "now", nil
			rows := ask(t, c)
			for _, row := range []string{"ids", "ids-unique", "resume", "resume-no-loss", "attached", "polling-close", "resume-after-response"} {
				if got := rows[row]; got.Status != NotOffered && got.Status != Unsure {
					t.Errorf("%s: %s: %s", row, got.Status, got.Seen)
				}
			}
			for row, got := range rows {
				known := []string{"unknown-method", "origin-foreign", "batch-initialize", "priming", "modern-last-event-id"}
				if got.Status == Deviating && !slices.Contains(known, row) {
					t.Errorf("%s (%s): %s", row, got.Level, got.Seen)
				}
			}
		})
	}
}

func TestOutOfTime(t *testing.T) {
	t.Parallel()
	c := quick(reference(t, refserver.Config{}, nil))
	c.Budget, c.Watch = 2*time.Second, time.Minute
	began := time.Now()
	rows := ask(t, c)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	for _, name := range []string{"retention-time", "session-expiry"} {
		if row := rows[name]; row.Status != Unsure || row.Seen != "out of time" {
			t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	c := quick("http://127.0.0.1:0/mcp")
	var far *client.UnreachableError
	if _, err := Run(t.Context(), c); !errors.As(err, &far) {
		t.Errorf("%v", err)
	}
	url := reference(t, refserver.Config{}, when(posted("initialize"), status(http.StatusUnauthorized)))
	var refused *client.StatusError
	if _, err := Run(t.Context(), quick(url)); !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("%v", err)
	}
}

// TestNothingStays looks whether the sessions of a probe are gone, and that it says so
// when they are not.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		wrap wrapper
		says string
	}{
		{"deleted", nil, ""},
		{"DELETE is not offered", when(func(r *http.Request, _ said) bool { return r.Method == "DELETE" }, status(405)), "session"},
	} {
		x := newRun(quick(reference(t, refserver.Config{}, tc.wrap)))
		x.only = func(e experiment) bool { return slices.Contains(e.rows, "ping") || slices.Contains(e.rows, "priming") }
		r, err := x.all(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.LeftOver, "; "); strings.Contains(got, "session that") != (tc.says != "") && strings.Contains(got, "sessions that") != (tc.says != "") {
			t.Errorf("%s: left behind: %s", tc.name, got)
		}
	}
}

func TestTheCatalog(t *testing.T) {
	filled := map[string]int{}
	for _, e := range experiments() {
		for _, name := range e.rows {
			filled[name]++
		}
	}
	seen := map[string]bool{}
	for _, r := range catalog() {
		if !regexp.MustCompile(`^[a-z0-9-]{2,24}$`).MatchString(r.Name) || seen[r.Name] || r.Clause == "" || r.Asks == "" || r.Group == "" {
			t.Errorf("row %+v", r)
		}
		if filled[r.Name] != 1 {
			t.Errorf("%s: filled by %d experiments", r.Name, filled[r.Name])
		}
		seen[r.Name] = true
	}
	for name := range filled {
		if !seen[name] {
			t.Errorf("an experiment fills %s, which is no row", name)
		}
	}
}

func TestTheSheet(t *testing.T) {
	s := newSheet()
	s.set("ping", Conforming, "first")
	s.set("ping", Unsure, "later")
	s.set("resume", Conforming, "fine")
	s.set("resume", Deviating, "%d bad", 1)
	s.set("resume", Conforming, "fine again")
	s.yes("attached", false, "x")
	for name, want := range map[string]struct {
		status Status
		seen   string
	}{"ping": {Conforming, "first"}, "resume": {Deviating, "1 bad"}, "attached": {Open, "x"}, "ids": {Unsure, "it was not asked"}} {
		at := slices.IndexFunc(s.list(), func(r Row) bool { return r.Name == name })
		if row := s.list()[at]; row.Status != want.status || row.Seen != want.seen {
			t.Errorf("%s: %s, %q", name, row.Status, row.Seen)
		}
	}
}

func TestTheText(t *testing.T) {
	s := newSheet()
	s.set("ping", Conforming, "200, a result")
	s.set("session-unknown", Deviating, "%s", "400 "+strings.Repeat("and much more ", 20))
	s.rest(named(modernRows), NotOffered, "the server does not speak it")
	x := newRun(Config{Shown: "http://h/mcp"})
	x.sheet = s
	x.leave("1 session that the server did not delete")
	r := x.report(front{"name", "2", "", newest})
	for _, clauses := range []bool{false, true} {
		var b bytes.Buffer
		if err := r.Text(&b, clauses); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for line := range strings.Lines(text) {
			if len(strings.TrimRight(line, "\n")) > width || strings.HasSuffix(line, " \n") {
				t.Errorf("line of %d columns: %q", len(line), line)
			}
		}
		for _, want := range []string{
			"gapless probe  http://h/mcp  name 2\n", "\ndeviating\n  x  session-unknown ", "\n  ok ping  ", fmt.Sprintf("%d rows: 1 conforming, 1 deviating (1 MUST, 0 SHOULD)", len(catalog())),
			"left behind: 1 session that",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if strings.Contains(text, "all 14 rows not offered") == clauses || strings.Contains(text, "JSON-RPC 2.0 §5.1") != clauses {
			t.Errorf("clauses %v:\n%s", clauses, text)
		}
	}
	var b bytes.Buffer
	if err := r.Encode(&b); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Gapless != Format || len(back.Rows) != len(catalog()) || back.Summary != r.Summary {
		t.Errorf("%v: %s", err, b.String()[:200])
	}
}

// flood sends events without end, each with a long id.
func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := "id: " + strings.Repeat("x", 1000) + "\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"" + strings.Repeat("y", 10_000) + "\"}\n\n"
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, event); err != nil {
			return
		}
	}
}

func TestAFloodIsBounded(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(flood))
	defer web.Close()
	defer web.CloseClientConnections()
	x := newRun(quick(web.URL + "/mcp"))
	st, err := x.send(t.Context(), client.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	st.drain(time.Second, time.Now().Add(20*time.Second))
	kept := 0
	for _, e := range st.all {
		kept += len(e.id) + len(e.data)
	}
	if !errors.Is(st.ended, errFlood) || kept > idBytes+keptResults*keptBytes {
		t.Errorf("%d events, %d bytes, ended by %v", len(st.all), kept, st.ended)
	}
}

func TestMisplaced(t *testing.T) {
	said := func(words string) (all []event) {
		for _, c := range words {
			all = append(all, event{hash: uint64(c)})
		}
		return all
	}
	for _, tc := range []struct {
		all, full string
		want      int
	}{
		{"abc", "abc", 0}, {"bcd", "abcd", 0}, {"acd", "abcd", 0}, {"axb", "ab", 0},
		{"acb", "abc", 1}, {"cab", "abc", 2}, {"abab", "ab", 1}, {"aab", "ab", 0},
		{"bab", "abab", 0}, // a tool that says tick, tock, tick, tock
		{"bbaa", "abab", 2},
	} {
		if got := misplaced(said(tc.all), said(tc.full)); got != tc.want {
			t.Errorf("%s of %s: %d, want %d", tc.all, tc.full, got, tc.want)
		}
	}
}

// TestTheSameWordsOnTwoStreams are one message only if they say whose they are.
func TestTheSameWordsOnTwoStreams(t *testing.T) {
	words := event{kind: wire.KindNotification, hash: 1}
	marked := event{kind: wire.KindNotification, hash: 2, token: "t"}
	for want, e := range map[Status]event{Conforming: words, Deviating: marked} {
		x := &run{sheet: newSheet()}
		on := func(all ...event) *call { return &call{stream: &stream{sse: true, all: all}} }
		none := &resumed{stream: &stream{}}
		x.broadcastRows(&stream{sse: true}, [2]*call{on(e), on(e)}, [2]*resumed{none, none})
		if row := x.sheet.rows["one-stream-per-message"]; row.Status != want {
			t.Errorf("%+v: %s, %s", e, row.Status, row.Seen)
		}
	}
}
