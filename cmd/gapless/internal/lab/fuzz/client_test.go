package fuzz

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// How a session answers requests of the server.
const (
	answerOnce = iota
	answerTwice
	answerNever
	answers
)

// A session is one as its client knows it.
type session struct {
	w        *world
	n        uint32
	id       string
	revision string
	alive    atomic.Bool // it was not deleted, and is not known to have expired
	lastID   int

	mu     sync.Mutex // the last to be locked
	used   time.Duration
	idled  time.Duration // when it was last used after so long a time that it may have ended
	spent  []string      // ids of calls that are over
	policy int
	hears  *call // that has the GET stream
	deaf   bool  // the GET stream may still bring what belongs to a call that was given up
}

// request is what every request of the session needs.
func (s *session) request(method string, more ...wire.Field) wire.Request {
	s.mu.Lock()
	if now := s.w.now(); now-s.used >= s.w.p.idle() {
		s.idled = now
	}
	s.mu.Unlock()
	return bare(method, append([]wire.Field{
		{Name: "Mcp-Session-Id", Value: s.id}, {Name: "Mcp-Protocol-Version", Value: s.revision},
	}, more...)...)
}

func (s *session) post(body string) wire.Request {
	q := s.request("POST", wire.Field{Name: "Content-Type", Value: "application/json"})
	q.Body = []byte(body)
	return q
}

// resume asks for what follows a cursor; an empty one is left out.
func (s *session) resume(cursor string) wire.Request {
	if cursor == "" {
		return s.request("GET")
	}
	return s.request("GET", wire.Field{Name: "Last-Event-ID", Value: cursor})
}

func bare(method string, more ...wire.Field) wire.Request {
	fields := append([]wire.Field{{Name: "Accept", Value: "application/json, text/event-stream"}}, more...)
	return wire.Request{Method: method, Target: "/mcp", Host: "127.0.0.1", Fields: fields}
}

// use notes that the server took a request of a session: one that it refused may have been
// refused before it looked whose it is.
func (w *world) use(q wire.Request, status int) {
	if status/100 != 2 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		for _, f := range q.Fields {
			if f.Value == s.id {
				s.mu.Lock()
				s.used = w.now()
				s.mu.Unlock()
			}
		}
	}
}

// mayBeOver tells that the server may have ended the session, since nobody used it until
// now.
func (s *session) mayBeOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.w.now()
	return now-s.used >= s.w.p.idle() || s.idled > 0 && s.idled == now
}

// A call is one call of emit as its client sees it: one stream of the judge.
type call struct {
	s         *session
	n         uint32
	id, token string
	shape     shape
	get       bool // its messages come on the GET stream
	batch     bool // a ping was sent along
	cancelled bool
	slow      bool // it was read slowly

	mu       sync.Mutex // guards the rest; the lock of a link may be held before it
	judged   *judge.Stream
	rec      history.Record // session and stream, attempt and link
	records  []history.Record
	link     *link // that carries it now
	last     time.Duration
	cursor   string
	ordinal  uint32
	retry    time.Duration
	log      []logged // every event with an id, in order
	events   int      // of the link
	missed   int32    // that the link has to replay
	seen     int      // messages
	asked    int      // requests of the server that were answered
	answered bool
	failed   bool // with an error
	ponged   bool
	refusal  int // status of a resume
	outcome  history.Outcome
	armed    func(*link) // what is to become of the next link

	msg wire.Message
}

// logged is an event as the stream's log must have it.
type logged struct {
	id   string
	hash uint64
}

// newCall registers a call; nothing is sent yet.
func (s *session) newCall(st shape, get, batch bool, id string) *call {
	w := s.w
	c := &call{s: s, n: uint32(len(w.calls) + 1), id: id, shape: st, get: get, batch: batch, missed: -1}
	c.token = fmt.Sprintf("token-%d-%d", s.n, c.n)
	if c.id == "" {
		s.lastID++
		c.id = strconv.Itoa(s.lastID)
	}
	kind := history.StreamLoad
	if get {
		kind = history.StreamGet
	}
	c.rec = history.Record{Session: s.n, Stream: c.n}
	c.judged = w.judgeOf(s.revision).Open(s.n, c.n, kind)
	w.mu.Lock()
	w.tokens[c.token] = c
	w.mu.Unlock()
	w.calls = append(w.calls, c)
	return c
}

// forget takes back a call that the server did not take.
func (c *call) forget() {
	c.outcome = history.OutcomeNotSent
	c.observe(history.Record{Kind: history.KindSettled, Outcome: c.outcome})
}

// body is the message of the call.
func (c *call) body() string {
	st, on := c.shape, ""
	if c.get {
		on = `"on":"get",`
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"emit","arguments":{%s"messages":%d,"interval_ms":%d,"burst":%d,`+
		`"bytes":%d,"polling_closes":%d,"requests":%d},"_meta":{"progressToken":%q}}}`,
		c.id, on, st.messages, st.interval.Milliseconds(), st.burst, st.bytes, st.polls, st.requests, c.token)
	if c.batch {
		text = `[` + text + `,{"jsonrpc":"2.0","id":"p` + c.id + `","method":"ping"}]`
	}
	return text
}

// observe gives a record to the judge. c.mu is held, or nobody else has the call.
func (c *call) observe(r history.Record) {
	r.Session, r.Stream, r.Attempt, r.Link = c.rec.Session, c.rec.Stream, c.rec.Attempt, c.rec.Link
	r.At = max(r.At, c.last)
	if r.Kind < history.KindLedgerMessage {
		if r.At == 0 {
			r.At = c.s.w.now()
		}
		c.last = r.At
	}
	c.records = append(c.records, r)
	c.judged.Observe(&r)
}

// carry makes a link that carries the call: its first exchange, or a resume.
func (c *call) carry(l *link, resume bool) {
	c.mu.Lock()
	if resume {
		c.rec.Attempt++
	}
	c.rec.Link = l.n
	c.link, c.events, c.missed = l, 0, -1
	now := c.s.w.now()
	c.observe(history.Record{Kind: history.KindAttempt, At: now, Exchange: history.Exchange{
		Resume: resume, Cursor: c.ordinal, Asked: c.retry, Waited: max(0, now-c.last),
	}})
	c.mu.Unlock()
	l.adopt(c)
}

// apply takes one item of the link that carries the call. The link is locked.
func (c *call) apply(l *link, it item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l || c.settled() {
		return
	}
	if it.retry > 0 {
		c.retry = it.retry
	}
	switch {
	case it.head != nil:
		c.missed = it.head.Missed
		if it.head.Status != 200 && c.rec.Attempt > 0 {
			c.refusal = it.head.Status
		}
		if c.rec.Attempt == 0 {
			it.head.Missed = -1
		}
		c.observe(history.Record{Kind: history.KindHead, At: it.at, Head: *it.head})
	case it.event != nil:
		c.event(it)
	default:
		c.over(it)
	}
}

func (c *call) settled() bool { return c.outcome != history.OutcomeNone }

// injection records what we did to the link.
func (c *call) injection(at time.Duration, kind string) {
	place := "between-events"
	if c.events == 0 {
		place = "after-priming"
	}
	replaying := c.rec.Attempt > 0 && int32(c.events) < c.missed
	if replaying {
		place = "mid-replay"
		c.s.w.meet("cut in replay")
	}
	c.observe(history.Record{Kind: history.KindInjection, At: at, Injection: history.Injection{
		Kind: kind, Place: place, Ends: true, AfterID: c.cursor != "", InReplay: replaying, Event: uint32(c.events),
	}})
}

// over takes the end of the link.
func (c *call) over(it item) {
	w := c.s.w
	if it.reason != "" {
		c.injection(it.at, it.reason)
		if it.reason == bySloth {
			w.meet("write timeout")
		}
	} else if it.end == history.EndClean && !c.done() {
		w.meet("polling close")
	}
	// A store that keeps next to nothing lost what a stream begins with before it could be
	// written. An earlier revision has no priming event to come back to.
	overrun := w.p.tight() && it.end == history.EndReset && c.cursor == "" && it.reason == ""
	if overrun {
		w.meet("overrun before the first id")
		c.injection(it.at, "store-fault")
	}
	c.observe(history.Record{Kind: history.KindEnd, At: it.at, End: it.end})
	c.link = nil
	refused := c.refusal
	c.refusal = 0
	switch {
	case c.done():
		c.settle(history.OutcomeCompleted)
	case refused == 400 || refused == 404:
		w.meet("evicted")
		c.settle(history.OutcomeRefused)
	case refused != 0 || c.cursor != "":
	case it.reason != "" || overrun:
		c.settle(history.OutcomeIndeterminate)
	default:
		c.settle(history.OutcomeFailed)
	}
}

// settle gives the call its outcome. c.mu is held.
func (c *call) settle(o history.Outcome) {
	c.outcome = o
	link := c.rec.Link
	c.rec.Link = 0
	c.observe(history.Record{Kind: history.KindSettled, Outcome: o})
	c.rec.Link = link
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = append(s.spent, c.id)
	if s.hears == c {
		s.hears = nil
		s.deaf = s.deaf || o != history.OutcomeCompleted
	}
}

// quit ends the call for a reason of the client: with its link, if it has one.
func (c *call) quit(end history.End, o history.Outcome) {
	l := c.carrier()
	if l != nil {
		l.part()
	}
	c.mu.Lock()
	if !c.settled() {
		if c.link != nil {
			c.observe(history.Record{Kind: history.KindEnd, End: end})
			c.link = nil
		}
		c.settle(o)
	}
	c.mu.Unlock()
	if l != nil {
		l.cut(byParted)
	}
}

// carrier returns the link that carries the call, nil between two.
func (c *call) carrier() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

func (c *call) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.settled()
}

// done tells that all has come.
func (c *call) done() bool {
	switch {
	case !c.answered:
		return false
	case c.get:
		return c.failed || c.seen >= c.shape.messages
	}
	return !c.batch || c.ponged
}

// event takes an event. c.mu is held.
func (c *call) event(it item) {
	ev := it.event
	e := history.Event{Illegal: history.Illegal(ev.Illegal), Bytes: uint32(len(ev.Data)), HasID: ev.HasID}
	if ev.HasID {
		e.IDHash = xxhash.Sum64(ev.ID)
		c.cursor = string(ev.ID)
		c.ordinal++
		c.log = append(c.log, logged{c.cursor, xxhash.Sum64(ev.Data)})
		if !strings.Contains(c.cursor, secret) {
			c.s.w.complain("event id %q is none of the store's", ev.ID)
		}
	}
	e.Cursor = c.ordinal
	c.events++
	if len(ev.Data) == 0 {
		e.Class = history.ClassEmpty
	} else {
		c.scan(&e, ev.Data)
	}
	c.observe(history.Record{Kind: history.KindEvent, At: it.at, Event: e})
	if e.Class == history.ClassRequest {
		c.reply()
	}
}

// scan fills in what a message says, as the load generator does.
func (c *call) scan(e *history.Event, data []byte) {
	m, w := &c.msg, c.s.w
	wire.Scan(data, m)
	e.Illegal |= history.Illegal(m.Illegal)
	e.Hash = wire.Hash(data, m)
	switch m.Kind {
	case wire.KindRequest:
		e.Class = history.ClassRequest
	case wire.KindNotification:
		e.Class = history.ClassNotification
	case wire.KindResult, wire.KindError:
		e.Class, e.Owner = history.ClassResponse, history.OwnerNobody
		if m.Kind == wire.KindError {
			e.Class = history.ClassError
		}
		switch {
		case len(m.Mark) > 0 && string(m.Mark) != c.token:
			e.Owner, e.OwnerStream = w.ownerOf(c, string(m.Mark))
		case string(m.ID) == c.id:
			e.Owner = history.OwnerSelf
			c.answered = true
			c.failed = c.failed || e.Class == history.ClassError || strings.Contains(string(data), `"isError":true`)
		case c.batch && string(m.ID) == `"p`+c.id+`"`:
			e.Class, e.Owner = history.ClassOther, history.OwnerSelf
			c.ponged = true
		}
		return
	default:
		e.Class = history.ClassJunk
		return
	}
	if len(m.Token) > 0 {
		e.Owner, e.OwnerStream = w.ownerOf(c, string(m.Token))
	}
	if m.IsProgress() {
		e.Class = history.ClassProgress
		e.Ordered, e.Progress = m.HasProgress, m.Progress
		e.Seq, e.Total = int64(m.Progress), int64(m.Total)
		if e.Owner == history.OwnerSelf {
			c.seen++
		}
	}
}

// ownerOf says whose a mark is, seen from a call.
func (w *world) ownerOf(c *call, mark string) (history.Owner, uint32) {
	w.mu.Lock()
	other := w.tokens[mark]
	w.mu.Unlock()
	switch {
	case other == nil:
		return history.OwnerNobody, 0
	case other == c:
		return history.OwnerSelf, 0
	case other.s == c.s:
		return history.OwnerOtherStream, other.n
	}
	return history.OwnerOtherSession, other.n
}

// overhear looks at what came on a link whose call goes on elsewhere: it may be late, but
// it is a message of somebody here.
func (w *world) overhear(it item) {
	if it.event == nil || len(it.event.Data) == 0 {
		return
	}
	var m wire.Message
	wire.Scan(it.event.Data, &m)
	w.mu.Lock()
	known := w.tokens[string(m.Token)] != nil
	w.mu.Unlock()
	if m.IsProgress() && !known {
		w.complain("an old link brought a message of nobody's")
	}
}

// reply answers the request of the server that c.msg holds. c.mu is held.
func (c *call) reply() {
	s := c.s
	s.mu.Lock()
	times := [answers]int{1, 2, 0}[s.policy]
	s.mu.Unlock()
	if times > 0 {
		c.asked++
	}
	q := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, c.msg.ID))
	s.w.helpers.Go(func() {
		for range times {
			if a := s.w.ask(q); a.status != 202 && (a.status != 404 || s.alive.Load()) {
				s.w.complain("an answer to a request of the server: %d %s", a.status, a.body)
			}
			s.w.meet("request of the server answered")
		}
	})
}

// text is the history of the call, to be compared and to be read.
func (c *call) text() string {
	var b strings.Builder
	for i := range c.records {
		r := &c.records[i]
		fmt.Fprintf(&b, "%9v attempt %d link %d: ", r.At, r.Attempt, r.Link)
		switch r.Kind {
		case history.KindAttempt:
			fmt.Fprintf(&b, "attempt %+v\n", r.Exchange)
		case history.KindHead:
			fmt.Fprintf(&b, "head %+v\n", r.Head)
		case history.KindEvent:
			e := &r.Event
			fmt.Fprintf(&b, "event class %d, owner %d, seq %d, cursor %d, id %v %x, %d bytes %x, illegal %d\n",
				e.Class, e.Owner, e.Seq, e.Cursor, e.HasID, e.IDHash, e.Bytes, e.Hash, e.Illegal)
		case history.KindEnd:
			fmt.Fprintf(&b, "end %d\n", r.End)
		case history.KindInjection:
			fmt.Fprintf(&b, "injection %+v\n", r.Injection)
		case history.KindSettled:
			fmt.Fprintf(&b, "outcome %d\n", r.Outcome)
		case history.KindLedgerMessage:
			fmt.Fprintf(&b, "ledger: message %d, fate %d\n", r.Ledger.Seq, r.Ledger.Fate)
		default:
			fmt.Fprintf(&b, "ledger: %+v\n", r.Ledger)
		}
	}
	return b.String()
}

// finish lets go of a GET stream that has brought all it should: it never ends by itself.
func (c *call) finish() {
	c.mu.Lock()
	over := c.get && c.link != nil && !c.settled() && c.done()
	c.mu.Unlock()
	if over {
		c.quit(history.EndOpen, history.OutcomeCompleted)
	}
}

// pick chooses one of several, nil if there is none.
func pick[T any](all []*T, by byte, ok func(*T) bool) *T {
	var fit []*T
	for _, x := range all {
		if ok(x) {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[int(by)%len(fit)]
}

func (w *world) session(by byte) *session {
	return pick(w.sessions, by, func(s *session) bool { return s.alive.Load() })
}

// living picks a call that is open.
func (w *world) living(by byte, ok func(*call) bool) *call {
	return pick(w.calls, by, func(c *call) bool { return c.open() && (ok == nil || ok(c)) })
}

func resumable(c *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cursor != ""
}

func attached(c *call) bool { return c.carrier() != nil }

// awake tells that the call has a link, and that the client would know if the server had
// ended it: one that reads slowly may learn that much later.
func awake(c *call) bool { return attached(c) && !c.slow }

// known is a cursor of the call with what came after it.
func (c *call) known(by byte) (cursor string, after []logged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.log) == 0 {
		return "", nil
	}
	i := int(by) % len(c.log)
	return c.log[i].id, append([]logged(nil), c.log[i+1:]...)
}
