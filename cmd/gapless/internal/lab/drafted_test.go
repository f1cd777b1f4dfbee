package lab

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
	"github.com/gapless-dev/gapless/refserver/streams"
)

// lying stands before a server of the draft of streams and changes what it is told and says.
type lying struct {
	next http.Handler
	ask  func(r *http.Request, body []byte) // nil: nothing
	say  func(text []byte) []byte           // nil: nothing
}

func (l lying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if l.ask != nil {
		l.ask(r, body)
	}
	if l.say != nil {
		w = lyingWriter{w, l.say}
	}
	l.next.ServeHTTP(w, r)
}

type lyingWriter struct {
	http.ResponseWriter
	say func([]byte) []byte
}

func (w lyingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lyingWriter) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(w.say(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w lyingWriter) WriteHeader(status int) {
	w.Header().Del("Content-Length") // it may not be true any more
	w.ResponseWriter.WriteHeader(status)
}

// TestServersOfTheDraftThatLie: each lie is told by the invariant that it breaks, and the
// server that tells none holds.
func TestServersOfTheDraftThatLie(t *testing.T) {
	end := regexp.MustCompile(`(?s)id: [^\n]*\ndata: [^\n]*notifications/stream/end[^\n]*\n\n`)
	isResume := func(body []byte) bool { return bytes.Contains(body, []byte(`"stream/resume"`)) }
	for name, tc := range map[string]struct {
		lie    lying
		guilty string // "" holds
		flat   bool
	}{
		"no lie":       {},
		"no lie, flat": {flat: true},
		"it ends twice": {lie: lying{say: func(p []byte) []byte {
			return end.ReplaceAllFunc(p, func(e []byte) []byte { return append(bytes.Clone(e), e...) })
		}}, guilty: "end-last"},
		"it never ends": {lie: lying{say: func(p []byte) []byte { return end.ReplaceAll(p, nil) }}, guilty: "end-last"},
		"a message after the end": {lie: lying{say: func(p []byte) []byte {
			return end.ReplaceAllFunc(p, func(e []byte) []byte {
				return append(bytes.Clone(e), "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n"...)
			})
		}}, guilty: "end-last"},
		"it repeats what was delivered": {lie: lying{ask: func(r *http.Request, body []byte) {
			if isResume(body) {
				r.Header.Del("Last-Event-Id")
			}
		}}, guilty: "no-duplicate"},
		"it loses one message on a resume": {lie: lying{ask: func(r *http.Request, body []byte) {
			tag, seq, ok := strings.Cut(r.Header.Get("Last-Event-Id"), "-")
			if n, err := strconv.Atoi(seq); ok && err == nil && isResume(body) && n < 15 {
				r.Header.Set("Last-Event-Id", fmt.Sprintf("%s-%d", tag, n+1))
			}
		}}, guilty: "no-loss"},
		"its polls say that nothing is left": {lie: lying{say: func(p []byte) []byte {
			return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte(`"pendingMessages":true`), []byte(`"pendingMessages":false`)), []byte(`"status":"live"`), []byte(`"status":"completed"`))
		}}, guilty: "poll-truthful"},
		"its polls say live for ever": {lie: lying{say: func(p []byte) []byte {
			return bytes.ReplaceAll(p, []byte(`"status":"completed"`), []byte(`"status":"live"`))
		}}, guilty: "poll-truthful"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := streams.New(countServer(), streams.Config{Min: 20 * time.Millisecond, Flat: tc.flat})
			if err != nil {
				t.Fatal(err)
			}
			tc.lie.next = s
			server := httptest.NewServer(tc.lie)
			t.Cleanup(server.Close)
			p := thirdParty(t)
			p.Target.Dialect = "streams"
			p.Mark("target.dialect")
			p.Resolve()
			p.Target.URL, p.Calls = server.URL+"/mcp", []profiles.Call{call("count")}
			p.Resume.Attempts = 3
			r := load(t, p)
			if want := map[bool]string{true: result.Holds, false: result.Violated}[tc.guilty == ""]; r.Verdict != want {
				t.Errorf("%s: %s %v", r.Verdict, r.Sentence, r.Why)
			}
			for _, inv := range r.Invariants {
				if inv.Violations > 0 {
					t.Logf("%s: %d violations", inv.Name, inv.Violations)
				}
				if inv.Name == tc.guilty && inv.Violations == 0 {
					t.Errorf("%s is not violated", inv.Name)
				}
			}
		})
	}
}
