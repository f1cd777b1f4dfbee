package refserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
)

// values returns the value of each of our series, without the buckets of histograms.
func values(r *rig) map[string]float64 {
	r.t.Helper()
	out := map[string]float64{}
	for name, text := range gather(r) {
		if strings.Contains(name, "_bucket{") {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			r.t.Fatalf("%s is %q", name, text)
		}
		out[name] = v
	}
	return out
}

// books are what a workload should leave in the metrics. Each page is kept by another
// witness: what the handler told its observer, what clients did and read, and what was
// asked of the store.
type books struct {
	mu               sync.Mutex
	told, seen, kept map[string]float64
	secrets          []string // ids of sessions and of events, and tokens
	storeless        bool     // events have no ids
}

func newBooks() *books {
	return &books{told: map[string]float64{}, seen: map[string]float64{}, kept: map[string]float64{}}
}

// note enters something on a page. A series without a family is one of the server's.
func (b *books) note(page map[string]float64, series string, by float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.HasPrefix(series, "mcp_") && !strings.HasPrefix(series, "gapless_") {
		series = "gapless_server_" + series
	}
	page[series] += by
}

func (b *books) see(series string)   { b.note(b.seen, series, 1) }
func (b *books) keep(s string)       { b.note(b.kept, s, 1) }
func (b *books) secret(s ...string)  { b.mu.Lock(); b.secrets = append(b.secrets, s...); b.mu.Unlock() }
func label(name, k, v string) string { return fmt.Sprintf("%s{%s=%q}", name, k, v) }

// operations names the count of operations with these labels.
func operations(method, failure, revision string) string {
	return fmt.Sprintf("mcp_server_operation_duration_seconds_count{error_type=%q,mcp_method_name=%q,mcp_protocol_version=%q,network_transport=\"tcp\"}",
		failure, method, revision)
}

func sessionsEnded(failure, revision string) string {
	return fmt.Sprintf("mcp_server_session_duration_seconds_count{error_type=%q,mcp_protocol_version=%q}", failure, revision)
}

// observe enters what the handler tells.
func (b *books) observe(e refserver.Event) {
	kind := map[bool]string{false: "post", true: "get"}[e.Get]
	live := fmt.Sprintf("streams{kind=%q,state=\"live\"}", kind)
	switch e.Kind {
	case refserver.SessionOpened:
		b.note(b.told, "sessions", 1)
	case refserver.SessionEnded:
		b.note(b.told, "sessions", -1)
	case refserver.Attached:
		b.note(b.told, live, 1)
	case refserver.Detached:
		b.note(b.told, live, -1)
		b.note(b.told, label("streams_closed_total", "reason", e.Reason.String()), 1)
	case refserver.Resumed:
		b.note(b.told, label("resumes_total", "outcome", e.Outcome.String()), 1)
		b.note(b.told, label("resume_duration_seconds_count", "phase", "lookup"), 1)
		if e.Outcome == refserver.ResumeOK {
			b.note(b.told, "replay_events_count", 1)
			b.note(b.told, "replay_events_sum", float64(e.Missed))
		}
	case refserver.Unstored:
		b.note(b.told, "store_errors_total", 1)
		if e.Written {
			b.note(b.told, label("events_total", "path", "unstored"), 1)
		}
	}
}

// keeper is a store that keeps books, and refuses some events when it is told to. It
// has all abilities of the memory store.
type keeper struct {
	*store.Memory
	books  *books
	limit  int
	refuse string // no event with this text is taken
	broken bool   // no cursor is found
	sick   bool   // what is found cannot be read
	start  time.Time

	mu   sync.Mutex
	held map[store.Stream][]keptEvent
}

type keptEvent struct {
	bytes int
	came  time.Time
}

func newKeeper(t testing.TB, b *books, limit int, refuse string) *keeper {
	return &keeper{
		Memory: newStore(t, store.Limits{Events: limit}), books: b, limit: limit, refuse: refuse,
		start: time.Now(), held: map[store.Stream][]keptEvent{},
	}
}

func storeOps(op, outcome string) string {
	return fmt.Sprintf("store_ops_total{op=%q,outcome=%q,store=\"memory\"}", op, outcome)
}

func (k *keeper) Append(ctx context.Context, s store.Stream, e store.Event) (string, error) {
	if k.refuse != "" && strings.Contains(string(e.Frame), k.refuse) {
		k.books.keep(storeOps("append", "error"))
		return "", errors.New("no space")
	}
	id, err := k.Memory.Append(ctx, s, e)
	k.books.keep(storeOps("append", map[bool]string{true: "ok", false: "refused"}[err == nil]))
	if err == nil {
		k.books.secret(id)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.held[s] = append(k.held[s], keptEvent{len("id: \n") + len(id) + len(e.Frame), time.Now()})
		if len(k.held[s]) > k.limit {
			k.held[s] = k.held[s][1:]
			k.books.keep(label("store_evictions_total", "cause", "max_events"))
		}
	}
	return id, err
}

func (k *keeper) After(ctx context.Context, c store.Cursor) (store.Tail, error) {
	tail, err := k.Memory.After(ctx, c)
	outcome := "ok"
	switch {
	case k.broken:
		err, outcome = errors.New("no connection"), "error"
	case err != nil:
		outcome = "refused"
	}
	if k.sick {
		tail = sickTail{tail}
	}
	k.books.keep(storeOps("replay", outcome))
	k.books.keep(strings.Replace(storeOps("replay", outcome), "store_ops_total", "store_op_duration_seconds_count", 1))
	return tail, err
}

// sickTail cannot be read.
type sickTail struct{ store.Tail }

func (sickTail) Next(context.Context) (store.Batch, error) {
	return store.Batch{}, errors.New("a bad block")
}

func (k *keeper) Forget(session string) {
	k.Memory.Forget(session)
	k.books.keep(storeOps("trim", "ok"))
	k.books.keep(strings.Replace(storeOps("trim", "ok"), "store_ops_total", "store_op_duration_seconds_count", 1))
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, events := range k.held {
		if s.Session == session {
			k.books.note(k.books.kept, label("store_evictions_total", "cause", "session_end"), float64(len(events)))
			delete(k.held, s)
		}
	}
}

// holdings enters what the store should hold now.
func (k *keeper) holdings() {
	k.mu.Lock()
	defer k.mu.Unlock()
	oldest := time.Now()
	for _, events := range k.held {
		k.books.keep(label("store_streams", "store", "memory"))
		for _, e := range events {
			k.books.keep(label("store_events", "store", "memory"))
			k.books.note(k.books.kept, label("store_bytes", "store", "memory"), float64(e.bytes))
			if e.came.Before(oldest) {
				oldest = e.came
			}
		}
	}
	const tick = 100 * time.Millisecond // the store knows it no better
	age := (time.Since(k.start)/tick - oldest.Sub(k.start)/tick) * tick
	k.books.note(k.books.kept, label("store_oldest_event_age_seconds", "store", "memory"), age.Seconds())
}

// customer is a client that keeps books.
type customer struct {
	*peer
	books *books
}

func (b *books) open(r *rig, revision string) customer {
	p := r.open(revision)
	b.see(operations("initialize", "", revision))
	b.see(operations("notifications/initialized", "", revision))
	b.secret(p.id)
	return customer{p, b}
}

// emit calls the tool; the call will be answered with a result, or with a failure.
func (c customer) emit(id int, token, args string, failure ...string) *reader {
	c.t.Helper()
	c.books.see(label("streams_opened_total", "kind", "post"))
	c.books.see(operations("tools/call", strings.Join(failure, ""), c.revision))
	token = "token-" + token // nothing that help texts say by chance
	c.books.secret(token)
	return &reader{stream: c.peer.emit(id, token, args), books: c.books}
}

func (c customer) resume(cursor string) *reader {
	c.t.Helper()
	rd := &reader{stream: c.peer.resume(cursor), books: c.books}
	var err error
	if rd.missed, err = strconv.Atoi(rd.Header.Get("Gapless-Missed")); err != nil {
		c.t.Fatal(err)
	}
	c.books.see(label("resumes_total", "outcome", "ok"))
	c.books.see(label("resume_duration_seconds_count", "phase", "first_byte"))
	if rd.missed == 0 {
		c.books.see(label("resume_duration_seconds_count", "phase", "caught_up"))
	}
	return rd
}

// resumeInVain makes a resume that is accepted and then broken off, perhaps before the
// client has seen so much as its head.
func (c customer) resumeInVain(cursor string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range map[string]string{"Accept": "text/event-stream", "Mcp-Session-Id": c.id, "Last-Event-ID": cursor} {
		req.Header.Set(name, value)
	}
	resp, err := c.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil || resp.StatusCode != 200 {
			c.t.Errorf("%s %q came to a clean end", resp.Status, text)
		}
	}
	c.books.see(label("resumes_total", "outcome", "ok"))
	c.books.see(label("resume_duration_seconds_count", "phase", "first_byte"))
	c.books.see(label("streams_closed_total", "reason", "error"))
}

// refused makes a resume that leads nowhere.
func (c customer) refused(cursor, outcome string, status int) {
	c.t.Helper()
	if code, body := c.status(ask{method: "GET", session: c.id, cursor: cursor}); code != status {
		c.t.Errorf("%s: %d %s", outcome, code, body)
	}
	c.books.see(label("resumes_total", "outcome", outcome))
}

// listen opens the GET stream; first tells that it is for the first time.
func (c customer) listen(first bool) *reader {
	c.t.Helper()
	if first {
		c.books.see(label("streams_opened_total", "kind", "get"))
	}
	return &reader{stream: c.resumeNothing(), books: c.books}
}

// request makes a request that is answered on a stream, with a failure or not.
func (c customer) request(id int, method, params, as, failure string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	rd := &reader{stream: c.stream(ask{method: "POST", body: body}), books: c.books}
	rd.rest()
	c.books.see(label("streams_opened_total", "kind", "post"))
	c.books.see(operations(as, failure, c.revision))
}

func (c customer) end() {
	c.t.Helper()
	if code, body := c.status(ask{method: "DELETE", session: c.id}); code != 204 {
		c.t.Errorf("delete: %d %s", code, body)
	}
	c.books.see(sessionsEnded("", c.revision))
}

// reader is a connection whose reader keeps books.
type reader struct {
	*stream
	books  *books
	missed int // events still to come that are replayed
}

// saw enters an event by the way it must have come.
func (rd *reader) saw(e event) {
	size := len("\n")
	for name, value := range map[string]string{"id: ": e.id, "retry: ": e.retry, "data: ": e.data} {
		if value != "" || name == "data: " && e.hasData {
			size += len(name) + len(value) + len("\n")
		}
	}
	path := "live"
	switch {
	case !e.hasData:
		return // a farewell: no client calls it an event
	case e.data == "" && rd.missed == 0:
		path = "priming"
	case e.id == "" && !rd.books.storeless:
		path = "unstored"
	case rd.missed > 0:
		path = "replay"
		if rd.missed--; rd.missed == 0 {
			rd.books.see(label("resume_duration_seconds_count", "phase", "caught_up"))
		}
	}
	rd.books.see(label("events_total", "path", path))
	rd.books.note(rd.books.seen, label("event_bytes_total", "path", path), float64(size))
}

func (rd *reader) take(n int) []event {
	rd.t.Helper()
	all := rd.stream.take(n)
	for _, e := range all {
		rd.saw(e)
	}
	return all
}

// rest reads until the connection ends, and enters why it did.
func (rd *reader) rest() []event {
	rd.t.Helper()
	all := rd.stream.rest()
	reason := "server"
	for _, e := range all {
		rd.saw(e)
		if !e.hasData {
			reason = "polling"
		}
	}
	rd.books.see(label("streams_closed_total", "reason", reason))
	return all
}

func (rd *reader) cut() {
	rd.stream.cut()
	rd.books.see(label("streams_closed_total", "reason", "client"))
	synctest.Wait()
}

// lost reads until the connection breaks.
func (rd *reader) lost(reason string) {
	rd.t.Helper()
	for {
		e, err := rd.next()
		if errors.Is(err, io.EOF) {
			rd.t.Errorf("a connection that was closed for %q came to a clean end", reason)
		}
		if err != nil {
			break
		}
		rd.saw(e)
	}
	rd.books.see(label("streams_closed_total", "reason", reason))
}

// settle compares the metrics with all books. A series that no book has is zero.
func (b *books) settle(r *rig) map[string]float64 {
	r.t.Helper()
	synctest.Wait()
	got := values(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	for who, page := range map[string]map[string]float64{"the observer was told": b.told, "clients saw": b.seen, "the store was asked": b.kept} {
		for series, want := range page {
			if v, ok := got[series]; !ok || v != want {
				r.t.Errorf("%s is %v (there: %t), %s %v", series, v, ok, who, want)
			}
		}
	}
	for series, v := range got {
		_, told := b.told[series]
		_, seen := b.seen[series]
		_, kept := b.kept[series]
		if v != 0 && !told && !seen && !kept && !elsewhere(series) {
			r.t.Errorf("%s is %v, and nobody knows of it", series, v)
		}
	}
	return got
}

// elsewhere tells which series have values that these books cannot know to the last
// digit; each has a test of its own.
func elsewhere(series string) bool {
	return strings.HasPrefix(series, "gapless_lock_") || strings.HasPrefix(series, "gapless_build_info") ||
		strings.HasPrefix(series, `gapless_server_store_op_duration_seconds_count{op="append"`) ||
		strings.Contains(series, "_seconds_sum")
}

// discreet checks that no secret is in the exposition.
func discreet(r *rig, b *books) {
	r.t.Helper()
	text := exposition(r)
	if len(b.secrets) < 100 {
		r.t.Errorf("%d secrets were looked for", len(b.secrets))
	}
	for _, s := range b.secrets {
		if strings.Contains(text, s) {
			r.t.Errorf("%q is in the exposition", s)
		}
	}
}
