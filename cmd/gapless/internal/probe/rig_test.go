package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// A wrapper puts something before a server.
type wrapper func(http.Handler) http.Handler

// reference serves the reference server, perhaps with something before it.
func reference(t *testing.T, cfg refserver.Config, wrap wrapper) string {
	t.Helper()
	memory, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Retry = memory, 50*time.Millisecond
	cfg.KeepConnections = wrap != nil // else its streams go past the wrapper
	f, err := refserver.NewFixture(cfg, refserver.LedgerConfig{}, "1")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Handler(f.Handler)
	if wrap != nil {
		h = wrap(h)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		_ = f.Handler.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

// quick is a probe that does not wait long.
func quick(url string) Config {
	return Config{
		Client: client.Config{URL: url, Timeout: 3 * time.Second}, Shown: url, Tool: "emit", Args: json.RawMessage(`{"messages":16,"interval_ms":60}`),
		Watch: time.Millisecond, Quiet: 500 * time.Millisecond, Budget: 30 * time.Second,
	}
}

// ask probes a server, only as far as some rows need it; none means all.
func ask(t *testing.T, c Config, rows ...string) map[string]Row {
	t.Helper()
	found, err := look(t.Context(), c, rows)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func look(ctx context.Context, c Config, rows []string) (map[string]Row, error) {
	x := newRun(c)
	if len(rows) > 0 {
		x.only = func(e experiment) bool {
			return e.after != nil || slices.ContainsFunc(e.rows, func(r string) bool { return slices.Contains(rows, r) })
		}
	}
	r, err := x.all(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]Row{}
	for _, row := range r.Rows {
		found[row.Name] = row
	}
	return found, nil
}

// atOnce is how many probes of a table are under way at the same time: they wait more than
// they work.
const atOnce = 8

// deviates probes many servers and expects the rows of each to deviate.
func deviates(t *testing.T, servers []server) {
	var group sync.WaitGroup
	lanes := make(chan struct{}, atOnce)
	for _, s := range servers {
		lanes <- struct{}{}
		group.Go(func() {
			defer func() { <-lanes }()
			rows, err := look(t.Context(), quick(s.url), s.rows)
			if err != nil {
				t.Errorf("%s: %v", s.rows, err)
				return
			}
			for _, name := range s.rows {
				if row := rows[name]; row.Status != Deviating {
					t.Errorf("%s: %s: %s", name, row.Status, row.Seen)
				}
			}
		})
	}
	group.Wait()
}

// A server deviates in some rows.
type server struct {
	url  string
	rows []string
}

// A said is the JSON-RPC message in a POST, as far as wrappers look at it.
type said struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Token string `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	text string
}

// read returns what a request says and lets the next handler read it again.
func read(r *http.Request) said {
	data, _ := io.ReadAll(r.Body) // a body that breaks off says nothing
	r.Body = io.NopCloser(bytes.NewReader(data))
	var m said
	_ = json.Unmarshal(data, &m) // so does one that is no JSON
	m.text = string(data)
	return m
}

// when answers some requests in another way.
func when(is func(*http.Request, said) bool, do http.HandlerFunc) wrapper {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m := read(r); is(r, m) {
				do(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// posted tells POSTs of a method.
func posted(method string) func(*http.Request, said) bool {
	return func(r *http.Request, m said) bool { return r.Method == "POST" && m.Method == method }
}

func resuming(r *http.Request, _ said) bool {
	return r.Method == "GET" && r.Header.Get("Last-Event-ID") != ""
}

// recoded changes the status of the answers to some requests.
func recoded(is func(*http.Request, said) bool, from, to int) wrapper {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m := read(r); is(r, m) {
				w = &recoder{w, from, to}
			}
			next.ServeHTTP(w, r)
		})
	}
}

type recoder struct {
	http.ResponseWriter
	from, to int
}

func (c *recoder) WriteHeader(code int) {
	if code == c.from {
		code = c.to
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *recoder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// result answers a request with JSON.
func result(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := read(r)
		if m.ID == nil {
			m.ID = json.RawMessage("1")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text)
	}
}

// An editor changes the events of a stream on their way. n counts them from 0.
type editor struct {
	http.ResponseWriter
	pending string
	n       int
	edit    func(n int, event string) string
}

func (e *editor) Write(p []byte) (int, error) {
	if !strings.HasPrefix(e.Header().Get("Content-Type"), "text/event-stream") {
		return e.ResponseWriter.Write(p)
	}
	e.pending += string(p)
	for {
		event, rest, whole := strings.Cut(e.pending, "\n\n")
		if !whole {
			return len(p), nil
		}
		e.pending = rest
		out := e.edit(e.n, event+"\n\n")
		e.n++
		if _, err := io.WriteString(e.ResponseWriter, out); err != nil {
			return 0, err
		}
	}
}

func (e *editor) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// edited changes the events of the answers to some requests.
func edited(is func(*http.Request, said) bool, edit func(n int, event string) string) wrapper {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m := read(r); is(r, m) {
				w = &editor{ResponseWriter: w, edit: edit}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// replaced changes one part of every event.
func replaced(from, to string) func(int, string) string {
	return func(_ int, e string) string { return strings.ReplaceAll(e, from, to) }
}

// lasting keeps the answers to some requests open when they are over.
func lasting(is func(*http.Request, said) bool) wrapper {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m := read(r)
			next.ServeHTTP(w, r)
			if is(r, m) {
				<-r.Context().Done()
			}
		})
	}
}
