package lab

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// A hostile server is a small MCP server with an event store, that keeps its promise
// but for one habit.
type hostile struct {
	habit string
	bomb  []byte // gzip

	mu       sync.Mutex
	sessions map[string]bool
	streams  map[string]*hostileLog // by session and call
	calls    int
	rand     *rand.Rand
}

// A hostileLog is the event store of one call.
type hostileLog struct {
	mu     sync.Mutex
	events []string // as they go over the wire
	done   bool
	grown  chan struct{} // closed when there is more
}

func (l *hostileLog) add(event string, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.done = append(l.events, event), done
	close(l.grown)
	l.grown = make(chan struct{})
}

// after returns what follows the first n events.
func (l *hostileLog) after(n int) (events []string, done bool, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[min(n, len(l.events)):], l.done, l.grown
}

const hostileMessages = 20

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.habit == "redirects":
		http.Redirect(w, r, "/again?secret=hush", http.StatusTemporaryRedirect)
	case r.Method == http.MethodGet:
		h.get(w, r)
	case r.Method == http.MethodDelete:
		h.mu.Lock()
		delete(h.sessions, r.Header.Get("Mcp-Session-Id"))
		h.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		h.post(w, r)
	}
}

// knows answers for a session that is missing or over.
func (h *hostile) knows(w http.ResponseWriter, r *http.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch id := r.Header.Get("Mcp-Session-Id"); {
	case id == "":
		w.WriteHeader(http.StatusBadRequest)
		return false
	case !h.sessions[id]:
		w.WriteHeader(http.StatusNotFound)
		return false
	}
	return true
}

func (h *hostile) post(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Method != "initialize" && !h.knows(w, r) {
		return
	}
	switch m.Method {
	case "initialize":
		if h.habit == "never answers at all" {
			<-r.Context().Done()
			return
		}
		session := "s" + strconv.Itoa(h.number())
		h.mu.Lock()
		h.sessions[session] = true
		h.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", session)
		h.json(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`)
	case "tools/list":
		h.json(w, m.ID, `{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		h.call(w, r, m.ID, m.Params.Meta.ProgressToken)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (h *hostile) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return h.calls
}

func (h *hostile) chance(p float64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rand.Float64() < p
}

func (h *hostile) json(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

const hostileResult = `{"content":[{"type":"text","text":"counted"}]}`

func (h *hostile) call(w http.ResponseWriter, r *http.Request, id, token json.RawMessage) {
	n := h.number()
	switch h.habit {
	case "never answers":
		<-r.Context().Done()
		return
	case "JSON now and then":
		if n%7 == 6 {
			h.json(w, id, hostileResult)
			return
		}
	case "JSON only":
		h.json(w, id, hostileResult)
		return
	case "always 429", "429 storms":
		if h.habit == "always 429" || n%3 != 0 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	case "gzip bomb":
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(h.bomb)
		return
	case "garbage":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "id: 1\ndata: {\"jsonrpc\":\n\nid: 2\ndata: \xff\xfe nothing\n\n")
		return
	case "100 MB in one event":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\ndata: ")
		piece := bytes.Repeat([]byte("x"), 1<<20)
		for range 100 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "\n\n")
		return
	}
	name := fmt.Sprintf("c%d", n)
	l := &hostileLog{grown: make(chan struct{})}
	h.mu.Lock()
	h.streams[r.Header.Get("Mcp-Session-Id")+" "+name] = l
	h.mu.Unlock()
	ctx := context.Background()
	if h.habit == "cancels on drop" {
		ctx = r.Context()
	}
	go h.work(ctx, l, name, id, token)
	h.follow(w, r, l, name, 0)
}

// work runs the tool.
func (h *hostile) work(ctx context.Context, l *hostileLog, name string, id, token json.RawMessage) {
	event := func(k int, data string) string {
		if h.habit == "no ids" || h.habit == "ids only on some events" && k%3 != 1 {
			return "data: " + data + "\n\n"
		}
		return fmt.Sprintf("id: %s-%d\ndata: %s\n\n", name, k, data)
	}
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for k := 1; k <= hostileMessages; k++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.add(": cancelled\n\n", true)
			return
		}
		l.add(event(k, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d}}`,
			token, k, hostileMessages)), false)
	}
	l.add(event(hostileMessages+1, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, hostileResult)), true)
}

// follow writes the events from the n-th on, as they come.
func (h *hostile) follow(w http.ResponseWriter, r *http.Request, l *hostileLog, name string, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_ = out.Flush()
	primed := n > 0 || h.habit == "no ids" || h.habit == "ids only on some events"
	for {
		if !primed {
			primed = true
			retry := 10
			if h.habit == "asks for an hour" {
				retry = 3600000
			}
			_, _ = fmt.Fprintf(w, "id: %s-0\nretry: %d\ndata: \n\n", name, retry)
			_ = out.Flush()
		}
		events, done, grown := l.after(n)
		for _, e := range events {
			if h.habit == "closes at random" && h.chance(0.05) {
				_, _ = io.WriteString(w, e[:h.cut(len(e))])
				_ = out.Flush()
				panic(http.ErrAbortHandler)
			}
			if _, err := io.WriteString(w, e); err != nil {
				return
			}
			n++
		}
		_ = out.Flush()
		if done {
			return
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

func (h *hostile) cut(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rand.IntN(n)
}

func (h *hostile) get(w http.ResponseWriter, r *http.Request) {
	if !h.knows(w, r) {
		return
	}
	name, k, _ := strings.Cut(r.Header.Get("Last-Event-ID"), "-")
	h.mu.Lock()
	l := h.streams[r.Header.Get("Mcp-Session-Id")+" "+name]
	h.mu.Unlock()
	n, err := strconv.Atoi(k)
	switch {
	case h.habit == "no GET":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case h.habit == "404 after each drop":
		w.WriteHeader(http.StatusNotFound)
	case l == nil || err != nil:
		w.WriteHeader(http.StatusBadRequest)
	default:
		h.follow(w, r, l, name, n)
	}
}

func newHostile(t *testing.T, habit string) string {
	t.Helper()
	h := &hostile{habit: habit, sessions: map[string]bool{}, streams: map[string]*hostileLog{}, rand: rand.New(rand.NewPCG(1, 2))}
	if habit == "gzip bomb" {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := bufio.NewWriter(z)
		for range 64 << 10 { // 64 MiB, in some 64 KiB
			_, _ = w.Write(make([]byte, 1<<10))
		}
		if err := errors.Join(w.Flush(), z.Close()); err != nil {
			t.Fatal(err)
		}
		h.bomb = b.Bytes()
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quietLog()
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// peak runs f and returns how much more memory was in use meanwhile, in bytes.
func peak(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var m runtime.MemStats
		var max uint64
		for {
			runtime.ReadMemStats(&m)
			if m.HeapInuse > max {
				max = m.HeapInuse
			}
			select {
			case <-tick.C:
			case <-done:
				most <- max
				return
			}
		}
	}()
	f()
	close(done)
	return <-most - before.HeapInuse
}

// large tells the habits that go for our memory.
func large(habit string) bool { return habit == "100 MB in one event" || habit == "gzip bomb" }

// TestHostileTargets: whatever a server does, the run ends by itself, in bounded memory,
// with the right word and a sentence that a person understands.
func TestHostileTargets(t *testing.T) {
	for _, tc := range []struct{ habit, verdict, says string }{ // says: in sentence, why, notes or error
		{"none", result.Holds, "none lost"},
		{"cancels on drop", result.Violated, "responses? never came"},
		{"404 after each drop", result.Violated, "refused"},
		{"never answers", result.Inconclusive, "^This run cannot say .*: none of the 3 control calls was answered"},
		{"never answers at all", "", "did not answer|no answer|answered nothing|timeout"},
		{"JSON only", result.Inconclusive, "offers no resumption.*(?s:.*)answer tools/call with an event stream"},
		{"JSON now and then", result.Inconclusive, "^This run cannot say .*: [0-9]+ calls were answered with JSON, without a stream for their messages"},
		{"no GET", result.Inconclusive, "offers no resumption.*(?s:.*)serve GET with Last-Event-ID"},
		{"asks for an hour", result.Inconclusive, "^This run cannot say .*: the server asks to wait 1h0m0s before a resume, longer than the calls may take .3s"},
		{"100 MB in one event", result.Inconclusive, "^This run cannot say .*(larger|none of the 3 control calls)"},
		{"garbage", result.Violated, "legal-frames|not JSON"},
		{"redirects", "", "redirects to http://127.0.0.1:[0-9]+/again; gapless follows no redirects"},
		{"gzip bomb", result.Violated, "compressed|legal-frames"},
		{"closes at random", result.Holds, "none lost"},
		{"no ids", result.Inconclusive, "offers no resumption"},
		{"ids only on some events", result.Violated, "repeated"},
		{"429 storms", result.Holds, "none lost"},
		{"always 429", result.Inconclusive, "^This run cannot say .*: all 3 control calls ended in an error: .*429"},
	} {
		t.Run(tc.habit, func(t *testing.T) {
			if !large(tc.habit) {
				t.Parallel() // the others are measured, and waiting costs nobody anything
			}
			p := thirdParty(t)
			p.Target.URL, p.Calls = newHostile(t, tc.habit), []profiles.Call{profiles.DefaultCall()}
			p.Calls[0].Tool, p.Calls[0].Deadline = "count", profiles.Duration(3*time.Second)
			p.Resume.BackoffMax, p.Resume.Idle = profiles.Duration(200*time.Millisecond), profiles.Duration(time.Second)
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			var r *result.Result
			var err error
			most := peak(func() {
				r, err = Run(t.Context(), Config{
					Profile: p, Seed: 7, Name: "0badcafe", Secret: []byte("s"), Command: "gapless run", Start: running(t, p.Target),
				})
			})
			word, text := "", fmt.Sprint(err)
			if err == nil {
				word, text = r.Verdict, strings.Join(append(append([]string{r.Sentence}, append(r.Why, r.Next...)...), r.Notes...), "\n")
				for _, i := range r.Invariants {
					if i.Verdict == result.Violated {
						text += "\n" + i.Name + ": " + i.Evidence[0].Text
					}
				}
			}
			if word != tc.verdict || !regexp.MustCompile(tc.says).MatchString(text) {
				t.Errorf("%q, want %q saying %q:\n%s", word, tc.verdict, tc.says, text)
			}
			if strings.Contains(text, "hush") {
				t.Error("a secret is shown")
			}
			if large(tc.habit) && most > 512<<20 {
				t.Errorf("%d MiB in use", most>>20)
			}
		})
	}
}
