package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/refserver"
)

// A quirk is a server that deviates in one way, and the rows that must say so.
type quirk struct {
	rows string
	wrap wrapper

	defect func(*refserver.Config)
}

// cannotDeviate are rows of MUST, SHOULD and derived clauses that only say what they see.
var cannotDeviate = map[string]string{
	"ids-name-stream":         "an id that looks opaque may name its stream to the server",
	"modern-silent-after-cut": "what is sent after a cut reaches nobody",
	"duplicate-host":          "net/http refuses it before any handler; see TestHTTPFront",
	"duplicate-length":        "the same",
}

func TestEveryRowCanDeviate(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	var servers []server
	for _, q := range slices.Concat(requestQuirks(), streamQuirks(), resumeQuirks()) {
		names := strings.Fields(q.rows)
		for _, name := range names {
			shown[name] = true
		}
		var cfg refserver.Config
		if q.defect != nil {
			q.defect(&cfg)
		}
		servers = append(servers, server{reference(t, cfg, q.wrap), names})
	}
	deviates(t, servers)
	for name := range modernQuirks() {
		shown[name] = true // TestModernRowsCanDeviate
	}
	for _, row := range catalog() {
		if row.Level != May && row.Level != Unspecified && !shown[row.Name] && cannotDeviate[row.Name] == "" {
			t.Errorf("%s: no test makes it deviate", row.Name)
		}
	}
}

func initializing(revision string) func(*http.Request, said) bool {
	return func(_ *http.Request, m said) bool {
		return m.Method == "initialize" && strings.Contains(m.text, `"protocolVersion":"`+revision)
	}
}

// scouted skips the two handshakes that every probe begins with.
func scouted(is func(*http.Request, said) bool) func(*http.Request, said) bool {
	var n atomic.Int64
	return func(r *http.Request, m said) bool { return is(r, m) && n.Add(1) > 2 }
}

func requestQuirks() []quirk {
	with := func(name, value string) func(*http.Request, said) bool {
		return func(r *http.Request, m said) bool { return r.Header.Get(name) == value && m.Method == "ping" }
	}
	plain := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }
	starts := func(text string) func(*http.Request, said) bool {
		return func(_ *http.Request, m said) bool { return strings.HasPrefix(m.text, text) }
	}
	sessionID := func(id string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mcp-Session-Id", id)
			result(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)(w, r)
		}
	}
	return []quirk{
		{rows: "revision-2024-11-05", wrap: when(initializing("2024-11-05"), status(400))},
		{rows: "revision-2025-03-26", wrap: when(initializing("2025-03-26"), status(400))},
		{rows: "revision-2025-06-18", wrap: when(initializing("2025-06-18"), status(400))},
		{rows: "revision-2025-11-25", wrap: when(scouted(initializing("2025-11-25")), status(400))},
		{rows: "revision-2026-07-28", wrap: when(initializing("2026-07-28"), status(400))},
		{rows: "revision-unknown", wrap: when(initializing("1999"), result(`{"protocolVersion":"1999-01-01"}`))},
		{rows: "initialize-answer", wrap: func(next http.Handler) http.Handler {
			is := scouted(initializing("2025-11-25"))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if m := read(r); is(r, m) {
					w = &mistyped{w}
				}
				next.ServeHTTP(w, r)
			})
		}},
		{rows: "initialized-202", wrap: when(posted("notifications/initialized"), plain)},
		{rows: "session-charset", wrap: when(scouted(initializing("2025-11-25")), sessionID("a b"))},
		{rows: "session-unique", wrap: when(scouted(posted("initialize")), sessionID("always-the-same"))},
		{rows: "ping", wrap: when(posted("ping"), result(`{"pong":true}`))},
		{rows: "request-answer", wrap: when(posted("tools/list"), plain)},
		{rows: "response-id", wrap: when(func(_ *http.Request, m said) bool { return string(m.ID) == `"gapless-id"` },
			func(w http.ResponseWriter, r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader(""))
				result(`{}`)(w, r)
			})},
		{rows: "unknown-method", wrap: when(posted("gapless/no-such-method"), result(`{}`))},
		{rows: "unknown-tool", wrap: when(func(_ *http.Request, m said) bool { return m.Params.Name == "gapless-no-such-tool" }, result(`{"content":[]}`))},
		{rows: "response-202", wrap: when(func(_ *http.Request, m said) bool { return string(m.ID) == "987654321" }, status(500))},
		{rows: "malformed-body", wrap: when(func(_ *http.Request, m said) bool { return m.text == `{"jsonrpc":` }, result(`{}`))},
		{rows: "session-missing", wrap: when(with("Mcp-Session-Id", ""), status(422))},
		{rows: "session-unknown deleted-404", wrap: recoded(posted("ping"), 404, 400)},
		{rows: "version-bad", wrap: when(with("Mcp-Protocol-Version", never), result(`{}`))},
		{rows: "version-absent", wrap: when(with("Mcp-Protocol-Version", ""), status(400))},
		{rows: "get-answer", wrap: when(func(r *http.Request, _ said) bool { return r.Method == "GET" }, status(404))},
		{rows: "get-without-session", wrap: when(func(r *http.Request, _ said) bool {
			return r.Method == "GET" && r.Header.Get("Mcp-Session-Id") == ""
		}, status(500))},
		{rows: "origin-foreign origin-rebound", wrap: when(with("Origin", "http://"+elsewhere), result(`{}`))},
		{rows: "batch-2025-03-26", wrap: when(starts(`[{"jsonrpc":"2.0","id":`), status(400))},
		{rows: "batch-notifications", wrap: when(starts(`[{"jsonrpc":"2.0","method"`), plain)},
		{rows: "batch-initialize", wrap: when(starts(`[{"jsonrpc":"2.0","id":1,"method":"initialize"`), result(`{}`))},
		{rows: "close-announced", wrap: when(posted("ping"), hangUp)},
		{rows: "draft-unknown", wrap: when(posted("stream/resume"), result(`{}`))},
		{rows: "draft-poll", wrap: when(posted("stream/poll"), result(`{}`))},
	}
}

// mistyped says that whatever is sent is plain text.
type mistyped struct{ http.ResponseWriter }

func (m *mistyped) WriteHeader(code int) {
	m.Header().Set("Content-Type", "text/plain")
	m.ResponseWriter.WriteHeader(code)
}

func (m *mistyped) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// hangUp answers and closes the link without having said so.
func hangUp(w http.ResponseWriter, r *http.Request) {
	m := read(r)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_ = conn.Close()
}

func streamQuirks() []quirk {
	call := posted("tools/call")
	at := func(k int, f func(string) string) func(int, string) string {
		return func(n int, e string) string {
			if n == k {
				return f(e)
			}
			return e
		}
	}
	drop := func(string) string { return "" }
	twice := func(e string) string { return e + e }
	unnamed := func(e string) string { _, rest, _ := strings.Cut(e, "\n"); return rest }
	noIDs := func(_ int, e string) string { return unnamed(e) }
	typed := func(name, value string) wrapper {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if m := read(r); call(r, m) {
					if name == "Content-Type" {
						w = &mistyped{w}
					}
					w.Header().Set(name, value)
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	answers := func(f func(string) string) func(int, string) string {
		return func(_ int, e string) string {
			if strings.Contains(e, `"result":`) {
				return f(e)
			}
			return e
		}
	}
	note := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n"
	return []quirk{
		{rows: "stream-type", wrap: typed("Content-Type", "text/plain")},
		{rows: "stream-encoding", wrap: typed("Content-Encoding", "br")},
		{rows: "priming", wrap: edited(call, at(0, drop))},
		{rows: "ids-all", wrap: edited(call, at(3, unnamed))},
		{rows: "ids-unique", wrap: edited(call, at(2, func(e string) string { return "id: 7\n" + unnamed(e) + "id: 7\n" + unnamed(e) }))},
		{rows: "ids-charset", wrap: edited(call, replaced("id: ", "id: ü"))},
		{rows: "unbuffered", wrap: hoarding},
		{rows: "frames", wrap: edited(call, replaced(`"jsonrpc":"2.0"`, `"jsonrpc":"1.0"`))},
		{rows: "progress-increases", wrap: edited(call, replaced(`"progress":3`, `"progress":2`))},
		{rows: "progress-token", wrap: edited(call, replaced(`"progressToken":"gapless`, `"progressToken":"other`))},
		{rows: "one-response silent-after-response", wrap: edited(call, answers(twice))},
		{rows: "silent-after-response", wrap: edited(call, answers(func(e string) string { return e + note }))},
		{rows: "response-ends-stream", wrap: lasting(call)},
		{rows: "one-stream-per-message response-not-on-get progress-on-call", wrap: new(switchboard).broadcast},
		{rows: "polling-close-id", wrap: chain(edited(call, noIDs), short(call))},
		{rows: "polling-close-retry", wrap: chain(edited(call, replaced("retry: ", "x: ")), edited(resuming, replaced("retry: ", "x: ")))},
		{rows: "polling-resume", wrap: when(resuming, status(400))},
		{rows: "early-close-2025-06-18", wrap: short(call)},
		{rows: "cancel", wrap: when(posted("notifications/cancelled"), status(202))},
		{rows: "cancel", wrap: chain(when(posted("notifications/cancelled"), status(202)), edited(call, answers(drop)))},
		{rows: "head-of-line", wrap: blocking},
		{rows: "draft-end", wrap: edited(call, at(0, func(e string) string {
			return e + "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/stream/create\",\"params\":{}}\n\n"
		}))},
	}
}

// chain puts wrappers behind one another; the last is the outermost.
func chain(all ...wrapper) wrapper {
	return func(h http.Handler) http.Handler {
		for _, w := range all {
			h = w(h)
		}
		return h
	}
}

// short ends connections after three events.
func short(is func(*http.Request, said) bool) wrapper {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m := read(r)
			if !is(r, m) {
				next.ServeHTTP(w, r)
				return
			}
			defer func() {
				if v := recover(); v != nil && v != errShort {
					panic(v)
				}
			}()
			next.ServeHTTP(&editor{ResponseWriter: w, edit: func(n int, e string) string {
				if n > 2 {
					panic(errShort)
				}
				return e
			}}, r)
		})
	}
}

// errShort takes a handler off its connection, which net/http then ends as it should.
var errShort = errors.New("enough")

// hoarding keeps what a call sends until it is over.
func hoarding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := read(r); m.Method != "tools/call" {
			next.ServeHTTP(w, r)
			return
		}
		kept := &editor{ResponseWriter: w}
		var all strings.Builder
		kept.edit = func(_ int, e string) string {
			all.WriteString(e)
			return ""
		}
		next.ServeHTTP(kept, r)
		_, _ = io.WriteString(w, all.String())
	})
}

// blocking lets pings wait while a large call is open.
func blocking(next http.Handler) http.Handler {
	var large atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch m := read(r); {
		case strings.Contains(m.text, "65536"):
			large.Add(1)
			defer large.Add(-1)
		case m.Method == "ping" && large.Load() > 0:
			<-time.After(slowest + slowest/5)
		}
		next.ServeHTTP(w, r)
	})
}

// A switchboard knows the streams that are open and what came on them.
type switchboard struct {
	mu    sync.Mutex
	gets  map[chan string]string // open GET streams by session
	owner map[string]string      // sessions by event id
	last  map[string]string      // event by progress token
}

// broadcast sends what belongs to calls on the GET streams of the session too.
func (s *switchboard) broadcast(next http.Handler) http.Handler { return s.copying(next, false) }

// share sends it to resumed connections, which follow nothing of their own.
func (s *switchboard) share(next http.Handler) http.Handler { return s.copying(next, true) }

func (s *switchboard) copying(next http.Handler, resumes bool) http.Handler {
	s.gets = map[chan string]string{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		m := read(r)
		switch {
		case m.Method == "tools/call", resuming(r, m) && !resumes:
			next.ServeHTTP(&editor{ResponseWriter: w, edit: func(_ int, e string) string {
				s.mu.Lock()
				defer s.mu.Unlock()
				for get, of := range s.gets {
					if of == session {
						get <- e
					}
				}
				return e
			}}, r)
		case r.Method == "GET" && resuming(r, m) == resumes:
			s.listen(w, r, session)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *switchboard) listen(w http.ResponseWriter, r *http.Request, session string) {
	events := make(chan string, 1000)
	s.mu.Lock()
	s.gets[events] = session
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.gets, events)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case e := <-events:
			_, _ = io.WriteString(w, e)
		case <-r.Context().Done():
			return
		}
	}
}

func resumeQuirks() []quirk {
	held := func() func(int, string) string {
		var kept string
		return func(n int, e string) string {
			switch n {
			case 0:
				kept = e
				return ""
			case 1:
				return e + kept
			}
			return e
		}
	}
	noResult := func(_ int, e string) string {
		if strings.Contains(e, `"result":`) {
			return ""
		}
		return e
	}
	long := func(r *http.Request, _ said) bool { return len(r.Header.Get("Last-Event-ID")) > 1000 }
	return []quirk{
		{rows: "resume-no-loss get-resume-no-loss resume-thrice", defect: func(c *refserver.Config) { c.Defect.ID = "S03b" }},
		{rows: "resume-no-repeat get-resume-no-loss", defect: func(c *refserver.Config) { c.Defect.ID = "S03a" }},
		{rows: "disconnect-no-cancel", defect: func(c *refserver.Config) { c.Defect.ID = "S05b" }},
		{rows: "resume-in-order", wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { edited(resuming, held())(next).ServeHTTP(w, r) })
		}},
		{rows: "resume-own-stream cursor-other-stream", wrap: new(switchboard).mixed},
		{rows: "resume-after-response", wrap: edited(resuming, noResult)},
		{rows: "resume-ends resume-final", wrap: lasting(resuming)},
		{rows: "resume-idempotent", wrap: every(2)},
		{rows: "resume-thrice", wrap: every(3)},
		{rows: "ids-stable", wrap: edited(resuming, replaced(`"total":16`, `"total":17`))},
		{rows: "disconnect-no-cancel", wrap: cancelling},
		{rows: "cursor-other-session", wrap: new(switchboard).everybodys},
		{rows: "cursor-long", wrap: when(long, status(500))},
		{rows: "one-consumer", wrap: new(switchboard).share},
		{rows: "stalled-resume", wrap: new(switchboard).exclusive},
		{rows: "retention-overrun", wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if m := read(r); resuming(r, m) {
					w = &mute{ResponseWriter: w}
				}
				next.ServeHTTP(w, r)
			})
		}},
		{rows: "deleted-cursor", wrap: undead},
	}
}

// mute answers 200 and nothing where the server refuses.
type mute struct {
	http.ResponseWriter
	refused bool
}

func (s *mute) WriteHeader(code int) {
	if s.refused = code != 200; s.refused {
		s.Header().Set("Content-Type", "text/event-stream")
		s.Header().Del("Content-Length")
	}
	s.ResponseWriter.WriteHeader(200)
}

func (s *mute) Write(p []byte) (int, error) {
	if s.refused {
		return len(p), nil
	}
	return s.ResponseWriter.Write(p)
}

func (s *mute) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// every leaves the first event out of each k-th resume.
func every(k int64) wrapper {
	return func(next http.Handler) http.Handler {
		var n atomic.Int64
		lossy := edited(resuming, func(n int, e string) string {
			if n == 0 {
				return ""
			}
			return e
		})(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m := read(r); resuming(r, m) && n.Add(1)%k == 0 {
				lossy.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// cancelling takes a client that leaves for one that cancels.
func cancelling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := read(r)
		defer func() { // the handler leaves by a panic when its client has left
			if m.Method != "tools/call" || r.Context().Err() == nil {
				return
			}
			text := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID)
			c := r.Clone(context.WithoutCancel(r.Context()))
			c.Body = io.NopCloser(strings.NewReader(text))
			next.ServeHTTP(&nowhere{h: http.Header{}}, c)
		}()
		next.ServeHTTP(w, r)
	})
}

type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header         { return n.h }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}

// mixed puts an event of another call before what is replayed.
func (s *switchboard) mixed(next http.Handler) http.Handler {
	s.last = map[string]string{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := read(r)
		edit := func(n int, e string) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			if m.Params.Meta.Token != "" {
				s.last[m.Params.Meta.Token] = e
				return e
			}
			for token, other := range s.last {
				if n == 0 && !strings.Contains(e, token) && strings.Contains(other, token) {
					return other + e
				}
			}
			return e
		}
		next.ServeHTTP(&editor{ResponseWriter: w, edit: edit}, r)
	})
}

// everybodys replays a stream to whoever knows an id of it.
func (s *switchboard) everybodys(next http.Handler) http.Handler {
	s.owner = map[string]string{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if of := s.owner[r.Header.Get("Last-Event-ID")]; of != "" {
			r.Header.Set("Mcp-Session-Id", of)
		}
		s.mu.Unlock()
		session := r.Header.Get("Mcp-Session-Id")
		next.ServeHTTP(&editor{ResponseWriter: w, edit: func(_ int, e string) string {
			id, _, _ := strings.Cut(strings.TrimPrefix(e, "id: "), "\n")
			s.mu.Lock()
			defer s.mu.Unlock()
			s.owner[id] = session
			return e
		}}, r)
	})
}

// exclusive answers resumes 409 as long as the link of the first connection is there.
func (s *switchboard) exclusive(next http.Handler) http.Handler {
	held := map[string]int{}
	hold := func(session string, n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		held[session] += n
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		m := read(r)
		s.mu.Lock()
		refuse := resuming(r, m) && held[session] > 0
		s.mu.Unlock()
		if refuse {
			w.WriteHeader(409)
			return
		}
		if m.Method == "tools/call" {
			hold(session, 1)
			defer hold(session, -1)
			defer func() { <-r.Context().Done() }()
		}
		next.ServeHTTP(w, r)
	})
}

// undead replays something to sessions that are gone.
func undead(next http.Handler) http.Handler {
	var gone atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := read(r); resuming(r, m) && gone.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
			return
		}
		next.ServeHTTP(w, r)
		if r.Method == "DELETE" {
			gone.Store(true)
		}
	})
}
