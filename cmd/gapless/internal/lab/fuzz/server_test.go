package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/wire"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/store"
)

// secret stands in every id that a server of these tests gives out, so that an id which
// is where none should be can be found.
const secret = "secret"

// A world is a server in a bubble, and the clients that it has.
type world struct {
	t       *testing.T
	p       program
	ln      *memnet.Listener
	fixture *refserver.Fixture
	began   time.Time

	sessions []*session
	calls    []*call
	links    []*link
	judges   map[string]*judge.Judge
	lastLink uint32
	helpers  sync.WaitGroup // answers to requests of the server

	mu      sync.Mutex
	tokens  map[string]*call
	met     map[string]int // what happened, by name
	wrong   []string       // what must not have happened, the judge's findings apart
	checked map[string]int64
	log     bytes.Buffer
}

// An outcome is what became of a program.
type outcome struct {
	met       map[string]int
	wrong     []string         // rules that the server broke, found without the judge
	convicted map[string]int64 // what the judge found, by invariant
	checked   map[string]int64 // what it looked at
	evidence  []string
	histories []string // of the calls, in their order
}

// run carries out a program in a bubble of its own.
func run(t *testing.T, p program, planted defect.Set) (out outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, planted)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- refserver.Serve(ctx, w.ln, w.root(), w.fixture.Handler) }()
		w.open(step{a: p.head[5]})
		for _, s := range p.steps {
			if w.do(s) {
				w.meet(s.op.String())
			}
			synctest.Wait()
		}
		w.drain()
		out = w.verdict()
		w.leave()
		cancel()
		if err := <-served; err != nil {
			w.complain("the end of the server: %v", err)
		}
		for _, l := range w.links {
			l.close(false)
		}
		w.helpers.Wait()
		if at := strings.Index(w.log.String(), secret); at >= 0 {
			w.complain("an id is in the log: %.300s", w.log.String()[max(0, at-200):])
		}
		out.met, out.wrong, out.checked = w.met, w.wrong, w.checked
	})
	return out
}

func newWorld(t *testing.T, p program, planted defect.Set) *world {
	t.Helper()
	w := &world{
		t: t, p: p, ln: memnet.Listen(), began: time.Now(), judges: map[string]*judge.Judge{},
		tokens: map[string]*call{}, met: map[string]int{}, checked: map[string]int64{},
	}
	cfg := p.config(planted)
	cfg.Nonce = counter("session")
	cfg.Logger = slog.New(slog.NewTextHandler(w, nil))
	if p.stored() {
		m, err := store.NewMemory(store.MemoryConfig{Limits: p.storeLimits(), Nonce: counter("stream"), Lock: p.scope()})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Store = m
	} else {
		cfg.Defect = defect.Set{}
	}
	var err error
	if w.fixture, err = refserver.NewFixture(cfg, refserver.LedgerConfig{}, "test"); err != nil {
		t.Fatal(err)
	}
	return w
}

// counter returns names that are never the same, and say that they are secret.
func counter(what string) func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("%s-%s-%d", what, secret, n)
	}
}

// Write takes the server's log.
func (w *world) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

// root serves, and notes a panic, which net/http would only print.
func (w *world) root() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() {
			if x := recover(); x != nil {
				if x != http.ErrAbortHandler {
					w.complain("panic: %v", x)
				}
				panic(http.ErrAbortHandler)
			}
		}()
		w.fixture.Handler.ServeHTTP(rw, r)
	})
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// meet notes that something happened.
func (w *world) meet(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.met[what]++
}

// complain notes that a rule was broken.
func (w *world) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf("at %v: ", time.Since(w.began))+fmt.Sprintf(format, args...))
	}
}

// judgeOf returns the judge of the sessions of one revision.
func (w *world) judgeOf(revision string) *judge.Judge {
	if j := w.judges[revision]; j != nil {
		return j
	}
	setup := judge.Setup{
		Revision: revision, Oracle: judge.OracleLedger, Ledger: true, IDs: w.p.stored(), Sessions: true, Strict: true, Faults: 1,
	}
	switch {
	case !w.p.stored():
		setup.Contract = judge.NoPromise
		setup.Ignore = append(setup.Ignore, "primed", "retry-announced", "no-early-close")
	case w.p.tight():
		setup.Contract = judge.Bounded
		// A client that the log runs away from is cut, whatever it was told before.
		setup.Ignore = append(setup.Ignore, "no-early-close", "retry-announced")
	case w.p.retry() == 0:
		setup.Ignore = append(setup.Ignore, "retry-announced")
	}
	w.judges[revision] = judge.New(setup)
	return w.judges[revision]
}

// verdict asks the ledger, settles the calls and collects what the judges found.
func (w *world) verdict() outcome {
	out := outcome{convicted: map[string]int64{}}
	for _, c := range w.calls {
		account := w.fixture.Ledger.Take([]string{c.token})[0]
		c.audit(account)
		c.judged.Close()
		out.histories = append(out.histories, c.text())
	}
	if n := w.fixture.Ledger.Dropped(); n > 0 {
		w.complain("the ledger dropped %d", n)
	}
	for _, j := range w.judges {
		v := j.Finish(judge.Tail{Trailer: true})
		for _, inv := range v.Invariants {
			w.checked[inv.Name] += inv.Checked
			if inv.Violations > 0 {
				out.convicted[inv.Name] += inv.Violations
				for _, e := range inv.Evidence {
					out.evidence = append(out.evidence, fmt.Sprintf("%s: stream %d: %s %v after %q", e.Invariant, e.Stream, e.What, e.Ranges, e.After))
				}
			}
		}
		if m := v.Messages; m.Expected != m.Delivered+m.Lost+m.LostAllowed+m.Degraded+m.Undecided {
			w.complain("messages do not balance: %+v", m)
		}
	}
	return out
}

// audit tells the judge what the server says of the call.
func (c *call) audit(a refserver.Call) {
	fates := map[int64]history.Fate{}
	for _, seq := range a.Unstored {
		fates[seq] = history.FateUnstored
	}
	for _, seq := range a.Unknown {
		fates[seq] = history.FateUnknown
	}
	for seq := int64(1); seq <= int64(a.Emitted); seq++ {
		fate, other := fates[seq]
		if !other {
			fate = history.FateAccepted
		}
		var hash uint64
		for _, b := range a.Hashes[8*(seq-1) : 8*seq] {
			hash = hash<<8 | uint64(b)
		}
		c.observe(history.Record{Kind: history.KindLedgerMessage, Ledger: history.Ledger{Seq: seq, Hash: hash, Fate: fate}})
	}
	c.observe(history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{
		Known: a.Known, Emitted: int64(a.Emitted), Executions: int32(a.Executions), Responses: int32(a.Responses),
		Answers: int32(a.Answers), Cancelled: a.Cancelled, CancelSeen: c.cancelled,
	}})
	if c.outcome != history.OutcomeCompleted || c.failed || !c.s.w.p.stored() {
		return
	}
	// What the judge says of many streams is said here of each one in plain words.
	if a.Emitted != c.shape.messages || a.Executions != 1 || a.Responses != 1 || c.seen != c.shape.messages {
		c.s.w.complain("stream %d is complete with %d of %d messages; the ledger: %d emitted, %d executions, %d responses",
			c.n, c.seen, c.shape.messages, a.Emitted, a.Executions, a.Responses)
	}
	// An answer that takes too long counts for nothing.
	if prompt := c.rec.Attempt == 0 && !c.slow; a.Answers > c.asked || prompt && a.Answers < c.asked {
		c.s.w.complain("stream %d: %d requests of the server were answered, the ledger knows of %d", c.n, c.asked, a.Answers)
	}
}

// leave ends the sessions; nothing may be left of them.
func (w *world) leave() {
	for _, s := range w.sessions {
		if s.alive.Load() {
			w.end(s)
		}
	}
	for _, l := range w.links {
		l.close(false)
	}
	<-time.After(2 * time.Minute) // handlers that wait for something give up
	synctest.Wait()
	families, err := w.fixture.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	gone := []string{"gapless_server_sessions", "gapless_server_streams"}
	if w.p.stored() {
		gone = append(gone, "gapless_server_store_streams", "gapless_server_store_events", "gapless_server_store_bytes")
	}
	looked := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			looked[f.GetName()] = true
			if v := m.GetGauge().GetValue(); v != 0 && slices.Contains(gone, f.GetName()) {
				w.complain("%s %v is %v when all sessions have ended", f.GetName(), m.GetLabel(), v)
			}
		}
	}
	for _, name := range gone {
		if !looked[name] {
			w.t.Fatalf("no metric %s", name)
		}
	}
}

// An answer is what a request got that is over.
type answer struct {
	status  int
	session string // Mcp-Session-Id
	body    []byte
	events  []string // data of the events, where it was a stream
	end     history.End
}

// patience is how long a request that should be answered at once may take.
const patience = time.Minute

// ask makes a request on a link of its own and reads the answer to its end.
func (w *world) ask(q wire.Request) answer {
	conn, err := w.ln.Dial(context.Background())
	if err != nil {
		w.complain("dial: %v", err)
		return answer{}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // memnet always takes it
	c := wire.NewConn(conn, wire.Limits{})
	resp, err := c.RoundTrip(&q)
	if err != nil {
		w.complain("%s: no answer: %v", q.Method, err)
		return answer{}
	}
	a := answer{status: resp.Status, session: resp.Get("Mcp-Session-Id")}
	w.use(q, a.status)
	if !resp.SSE() {
		if a.body, err = resp.ReadAll(1 << 20); err != nil {
			w.complain("%s: a body of %d: %v", q.Method, a.status, err)
		}
		return a
	}
	var rd wire.Reader
	var ev wire.Event
	rd.Reset(resp, nil)
	for {
		if err := rd.Next(&ev); err != nil {
			a.end = endOf(err)
			return a
		}
		if len(ev.Data) > 0 {
			a.events = append(a.events, string(ev.Data))
		}
	}
}
