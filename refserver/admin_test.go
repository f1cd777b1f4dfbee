package refserver_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// gather returns the lines of the exposition that are ours.
func gather(r *rig) map[string]string {
	r.t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(exposition(r)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && (strings.HasPrefix(name, "gapless_") || strings.HasPrefix(name, "mcp_")) {
			values[name] = value
		}
	}
	return values
}

// exposition is what a scrape gets.
func exposition(r *rig) string {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.fixture.Admin.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		r.t.Fatalf("metrics: %d", w.Code)
	}
	return w.Body.String()
}

func expect(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got["gapless_server_"+name] != value {
			t.Errorf("%s: %s is %q, want %s", when, name, got["gapless_server_"+name], value)
		}
	}
}

func TestMetrics_MoveWhileStreamsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{Store: newStore(t, store.Limits{Events: 15})})
		expect(t, "at the start", gather(r), map[string]string{
			"sessions": "0", `streams{kind="get",state="live"}`: "0", `streams{kind="post",state="detached"}`: "0",
			`events_total{path="replay"}`: "0", `resumes_total{outcome="foreign_session"}`: "0",
			`streams_closed_total{reason="replaced"}`: "0", `store_evictions_total{cause="max_bytes"}`: "0", "store_errors_total": "0",
		})
		p, q := r.open(latest), r.open(latest)
		get := p.resumeNothing()
		get.take(1)
		s := p.emit(1, "a", `{"messages":20,"interval_ms":1000}`)
		seen := s.take(5)
		size := 0
		for _, e := range seen[1:] {
			size += len("id: \ndata: \n\n") + len(e.id) + len(e.data)
		}
		synctest.Wait()
		got := gather(r)
		expect(t, "during the call", got, map[string]string{
			"sessions": "2", `streams{kind="get",state="live"}`: "1", `streams{kind="post",state="live"}`: "1",
			`streams_opened_total{kind="post"}`: "1", `streams_opened_total{kind="get"}`: "1",
			`events_total{path="live"}`: "4", `events_total{path="priming"}`: "2", `events_total{path="replay"}`: "0",
			`store_events{store="memory"}`: "6", `store_streams{store="memory"}`: "2",
		})
		if want := strconv.Itoa(size); got[`gapless_server_event_bytes_total{path="live"}`] != want {
			t.Errorf("live bytes are %s, want %s", got[`gapless_server_event_bytes_total{path="live"}`], want)
		}
		s.cut()
		pass(3 * time.Second) // messages 5 to 7
		expect(t, "cut", gather(r), map[string]string{
			`streams{kind="post",state="live"}`: "0", `streams{kind="post",state="detached"}`: "1",
			`streams_closed_total{reason="client"}`: "1",
		})
		again := p.resume(seen[4].id)
		again.take(4) // and one live
		synctest.Wait()
		expect(t, "resumed", gather(r), map[string]string{
			`events_total{path="replay"}`: "3", `events_total{path="live"}`: "5", `resumes_total{outcome="ok"}`: "1",
			`replay_events_sum`: "3", `replay_events_bucket{le="2"}`: "0", `replay_events_bucket{le="5"}`: "1",
		})
		over := p.resume(seen[4].id) // takes over: replays 5..8 again
		over.rest()
		foreign, unknown, gone := ask{method: "GET", session: q.id, cursor: seen[4].id}, ask{method: "GET", session: q.id, cursor: "x-1"}, ask{method: "GET", session: p.id, cursor: seen[0].id}
		for _, a := range []ask{foreign, unknown, unknown, gone} {
			r.status(a)
		}
		synctest.Wait()
		expect(t, "at the end", gather(r), map[string]string{
			`streams_closed_total{reason="replaced"}`: "1", `streams_closed_total{reason="server"}`: "1",
			`resumes_total{outcome="ok"}`: "2", `resumes_total{outcome="foreign_session"}`: "1", `resumes_total{outcome="unknown_id"}`: "2", `resumes_total{outcome="expired"}`: "1",
			`events_total{path="replay"}`: "7", `streams{kind="post",state="live"}`: "0", `streams{kind="post",state="detached"}`: "0",
			`store_evictions_total{cause="max_events"}`: "7", `store_events{store="memory"}`: "16", // 22 events of the call less 7, and a priming event
		})
		p.status(ask{method: "DELETE", session: p.id})
		synctest.Wait()
		expect(t, "after the session", gather(r), map[string]string{
			"sessions": "1", `store_events{store="memory"}`: "0", `store_bytes{store="memory"}`: "0", `store_streams{store="memory"}`: "0", `streams{kind="get",state="live"}`: "0",
			`streams{kind="get",state="detached"}`: "0", `store_evictions_total{cause="session_end"}`: "16",
		})
	})
}

func TestHealthz(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := virtual(t, refserver.Config{})
		get := func() int {
			w := httptest.NewRecorder()
			r.fixture.Admin.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
			return w.Code
		}
		if code := get(); code != 200 {
			t.Errorf("running: %d", code)
		}
		if err := r.fixture.Handler.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if code := get(); code != 503 {
			t.Errorf("shut down: %d", code)
		}
	})
}
