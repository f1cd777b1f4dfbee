package probe

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/refserver"
)

// everyThird request is what a server that limits the rate refuses to look at.
func everyThird(status int) wrapper {
	var n atomic.Int64
	return when(func(*http.Request, said) bool { return n.Add(1)%3 == 0 }, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// TestALimitedRateIsNoDeviation: what is asked again is answered, and a wait is not taken
// for what the server did.
func TestALimitedRateIsNoDeviation(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			told := 0
			for _, row := range ask(t, quick(reference(t, refserver.Config{}, everyThird(status)))) {
				if row.Status == Deviating && !strings.HasPrefix(row.Name, "duplicate-") { // those net/http answers, or not at all
					t.Errorf("%s (%s): %s", row.Name, row.Level, row.Seen)
				}
				told += b2i(row.Status == Conforming || row.Status == Open)
			}
			if told < 90 {
				t.Errorf("only %d rows tell something", told)
			}
		})
	}
}

// TestALimitThatStays is told in the rows that met it, and in no other.
func TestALimitThatStays(t *testing.T) {
	later := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	for name, tt := range map[string]struct {
		rows   string
		spared string // rows of the same experiment that tell something
		is     func(*http.Request, said) bool
	}{
		"initialize": {"revision-2025-06-18", "revision-unknown revision-2025-03-26", initializing(middle)},
		"cursors": {"cursor-long", "cursor-malformed", func(r *http.Request, _ said) bool {
			return len(r.Header.Get("Last-Event-ID")) >= longID
		}},
		"resumes": {"window-rst resume-no-loss disconnect-no-cancel resume-thrice attached resume-idempotent retention-events", "", resuming},
		"calls":   {"priming resume head-of-line cancel polling-close resume-final draft-create", "unknown-method", func(_ *http.Request, m said) bool { return m.Params.Name == "emit" }},
		"headers": {"accept-post", "version-bad", func(r *http.Request, _ said) bool {
			return r.Method == "POST" && r.Header.Get("Accept") == "application/json"
		}},
		"modern": {"modern-discover modern-get", "", posted("server/discover")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := strings.Fields(tt.rows), strings.Fields(tt.spared)
			rows := ask(t, quick(reference(t, refserver.Config{}, when(tt.is, later))), append(bad, good...)...)
			for _, row := range bad {
				if r := rows[row]; r.Status != Unsure || !strings.Contains(r.Seen, "the server limits the rate: 429, come back after 1h") {
					t.Errorf("%s: %s: %s", row, r.Status, r.Seen)
				}
			}
			for _, row := range good {
				if r := rows[row]; r.Status == Unsure || r.Status == Deviating {
					t.Errorf("%s: %s: %s", row, r.Status, r.Seen)
				}
			}
		})
	}
}

func TestALimitAtTheDoor(t *testing.T) {
	_, err := Run(t.Context(), quick(reference(t, refserver.Config{}, when(posted("initialize"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))))
	var limit *client.LimitedError
	if !errors.As(err, &limit) || limit.Status != 503 {
		t.Errorf("%v", err)
	}
}

func TestAToolThatIsNotThere(t *testing.T) {
	c := quick(reference(t, refserver.Config{}, nil))
	c.Tool = "nope"
	_, err := Run(t.Context(), c)
	var none *NoToolError
	if !errors.As(err, &none) || none.Name != "nope" || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("%v", err)
	}
}

// TestAToolThatComplains is quoted in the rows that needed a stream of it.
func TestAToolThatComplains(t *testing.T) {
	for name, tt := range map[string]struct{ answer, seen string }{
		"isError":   {`{"isError":true,"content":[{"type":"text","text":"n must be\na number"}]}`, "the tool answers with an error: n must be a number"},
		"no word":   {`{"isError":true,"content":[]}`, "the tool answers with an error, without a word"},
		"long word": {`{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("x", 4000) + `"}]}`, "xxx..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			emit := func(_ *http.Request, m said) bool { return m.Params.Name == "emit" }
			for _, sse := range []bool{false, true} {
				do := result(tt.answer)
				if sse {
					do = inEvent(tt.answer)
				}
				names := []string{"one-response", "resume", "attached", "cancel", "polling-close", "resume-final", "early-close-2025-06-18", "retention-time"}
				rows := ask(t, quick(reference(t, refserver.Config{}, when(emit, do))), names...)
				for _, row := range names {
					if r := rows[row]; r.Status != Unsure || !strings.HasSuffix(r.Seen, tt.seen) || len(r.Seen) > 300 {
						t.Errorf("%s: %s: %s (event stream: %v)", row, r.Status, r.Seen, sse)
					}
				}
			}
		})
	}
}

// inEvent answers a request with one event that has an id.
func inEvent(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := read(r)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("id: a1\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + string(m.ID) + ",\"result\":" + text + "}\n\n")) // seen at the other end
	}
}
