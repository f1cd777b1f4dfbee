package fuzz

import (
	"encoding/json"
	"strings"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// do takes a step and reports whether there was anything to do.
func (w *world) do(s step) bool {
	took := [ops]func(step) bool{
		opOpen: w.open, opCall: w.call, opGetCall: w.getCall, opBatch: w.batch,
		opCut: w.cut, opArm: w.arm, opResume: w.resume, opTakeover: w.takeover, opTwice: w.twice, opOld: w.old,
		opForeign: w.foreign, opFuture: w.future, opMalformed: w.malformed, opEmpty: w.empty, opSecondGet: w.secondGet,
		opCancel: w.cancel, opDuplicate: w.duplicate, opReuse: w.reuse, opDelete: w.delete, opDead: w.dead,
		opGarbage: w.garbage, opHeaders: w.headers, opAnswers: w.policy, opWait: w.wait, opSlow: w.slow,
		opUnasked: w.unasked, opHalf: w.half, opCrowd: w.crowd,
	}[s.op](s)
	synctest.Wait()
	for _, c := range w.calls {
		c.finish()
	}
	return took
}

func revisions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "1999-12-31"}
}

// open opens a session: a draws its revision.
func (w *world) open(s step) bool {
	if len(w.sessions) >= 8 {
		return false
	}
	asked := revisions()[s.a%4]
	q := bare("POST", jsonType())
	q.Body = []byte(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + asked +
		`","capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}`)
	a := w.ask(q)
	if a.status == 503 && w.p.crowded() {
		w.refused("a session too many", a.status, a.body, "", 503)
		w.meet("too many sessions")
		return true
	}
	var m struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if err := json.Unmarshal(a.body, &m); err != nil || a.status != 200 || a.session == "" {
		w.complain("initialize: %d %.200s", a.status, a.body)
		return false
	}
	want := asked
	if s.a%4 == 3 {
		want = "2025-11-25"
	}
	if m.Result.ProtocolVersion != want {
		w.complain("asked for %s, the server speaks %s", asked, m.Result.ProtocolVersion)
	}
	n := &session{w: w, n: uint32(len(w.sessions) + 1), id: a.session, revision: m.Result.ProtocolVersion}
	n.alive.Store(true)
	n.used = w.now()
	w.mu.Lock()
	w.sessions = append(w.sessions, n)
	w.mu.Unlock()
	if a := w.ask(n.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); a.status != 202 {
		w.complain("initialized: %d %s", a.status, a.body)
	}
	w.meet("revision " + asked)
	return true
}

// call calls emit: a picks the session, b to d are the shape.
func (w *world) call(s step) bool {
	n := w.session(s.a)
	return n != nil && w.start(n, n.newCall(newShape(s), false, false, ""))
}

// start sends a call and makes what comes its history, if the server takes it.
func (w *world) start(n *session, c *call) bool {
	l := w.dial(n.post(c.body()), "")
	synctest.Wait()
	status, _, _ := l.state()
	switch {
	case status == 200, status == 0 && w.p.tight(): // nothing came before the log ran away
		c.carry(l, false)
	case status == 404 && n.mayBeOver():
		w.expired(n)
		c.forget()
	default:
		var may []int
		if w.p.fewCalls() {
			may = append(may, 429)
		}
		if w.p.limit() == limitStreams && w.p.stored() {
			may = append(may, 503)
		}
		if w.p.smallBody() && len(c.body()) > smallBody {
			may = append(may, 413)
		}
		w.refused("a call", status, l.body, "", may...)
		w.meet("call refused")
		c.forget()
	}
	return true
}

// expired takes note that the server has ended a session that was idle.
func (w *world) expired(n *session) {
	w.meet("session expired")
	w.abandon(n)
	n.alive.Store(false)
}

// abandon gives up the calls of a session.
func (w *world) abandon(n *session) {
	for _, c := range w.calls {
		if c.s == n {
			c.quit(history.EndStopped, history.OutcomeUndecided)
		}
	}
}

// getCall opens the GET stream of a session and calls emit on it.
func (w *world) getCall(s step) bool {
	n := w.session(s.a)
	if n == nil || n.hears != nil || n.deaf {
		return false
	}
	c := n.newCall(newShape(s), true, false, "")
	l := w.dial(n.resume(""), "")
	synctest.Wait()
	status, _, _ := l.state()
	if status != 200 {
		if status == 404 && n.mayBeOver() {
			w.expired(n)
		} else if !w.p.tight() || status != 503 {
			w.complain("a first GET stream: %d", status)
		}
		c.forget()
		return true
	}
	n.hears = c
	c.carry(l, false)
	l.hold() // what comes at the same instant as the response comes after it
	a := w.ask(n.post(c.body()))
	synctest.Wait()
	if a.status == 200 && len(a.events) == 1 {
		c.respond(a.events[0])
	} else if a.status != 429 && a.status != 503 || !w.p.fewCalls() && !w.p.tight() {
		w.complain("the call of a GET stream: %d %s %d events", a.status, a.body, len(a.events))
	}
	l.adopt(c)
	if a.status != 200 {
		n.deaf = true
		c.quit(history.EndStopped, history.OutcomeUndecided)
	}
	return true
}

// respond takes the response to the call of a GET stream, which comes on its POST.
func (c *call) respond(data string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := history.Event{Bytes: uint32(len(data)), Cursor: c.ordinal}
	c.scan(&e, []byte(data))
	c.observe(history.Record{Kind: history.KindEvent, At: c.s.w.now(), Event: e})
}

// batch calls emit in one body with a ping, or is told that its revision has no batches.
func (w *world) batch(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	c := n.newCall(newShape(s), false, true, "")
	if n.revision == "2025-03-26" {
		w.meet("batch taken")
		return w.start(n, c)
	}
	a := w.ask(n.post(c.body()))
	if a.status == 404 && n.mayBeOver() {
		w.expired(n)
	} else {
		w.refused("a batch", a.status, a.body, "", 400, 413)
		w.meet("batch refused")
	}
	c.forget()
	return true
}

// cut ends the link of a call: b says how.
func (w *world) cut(s step) bool {
	c := w.living(s.a, attached)
	if c == nil {
		return false
	}
	l := c.carrier()
	l.cut([]string{byReset, byFIN}[s.b&1])
	synctest.Wait()
	<-l.done
	return true
}

// arm has the link of a call cut later: at a byte or an event (b), the c-th from now. If
// there is no link it is the next one.
func (w *world) arm(s step) bool {
	c := w.living(s.a, nil)
	if c == nil {
		return false
	}
	set := func(l *link) {
		if s.b&1 != 0 {
			l.left.Store(int64(s.c)*8 + int64(s.d))
		} else {
			l.events.Store(int64(s.c%24) + 1)
		}
	}
	if l := c.carrier(); l != nil {
		set(l)
	} else {
		c.armed = set
	}
	return true
}

// resume takes a stream up again that has no link.
func (w *world) resume(s step) bool {
	c := w.living(s.a, func(c *call) bool { return !attached(c) && resumable(c) })
	return c != nil && w.again(c)
}

// again resumes a call from its cursor.
func (w *world) again(c *call) bool {
	armed := c.armed
	c.armed = nil
	w.lastLink++
	l := w.dialAs(w.lastLink, c.s.resume(c.cursor), c.cursor, armed)
	synctest.Wait()
	if status, _, _ := l.state(); status == 404 && c.s.mayBeOver() {
		w.expired(c.s)
		return true
	}
	if c.open() {
		c.carry(l, true)
	}
	return true
}

// takeover resumes a stream whose old link is still there.
func (w *world) takeover(s step) bool {
	c := w.living(s.a, func(c *call) bool { return attached(c) && resumable(c) })
	if c == nil {
		return false
	}
	old := c.carrier()
	if w.p.refuses() {
		l := w.dial(c.s.resume(c.cursor), c.cursor)
		synctest.Wait()
		// The old link may have brought the rest and ended just now.
		if status, _, _ := l.state(); status != 409 && (status != 400 || !w.p.tight()) && awake(c) {
			w.complain("a resume beside a live link: %d", status)
		}
		l.cut(byParted)
		w.meet("resume refused with 409")
		return true
	}
	w.leaveBehind(c, "blackhole")
	w.again(c)
	if _, ended, _ := old.state(); !ended && old.pause.Load() == 0 {
		w.complain("stream %d was taken over and the old link lives", c.n)
	}
	old.cut(byParted)
	w.meet("takeover")
	return true
}

// leaveBehind gives up the link of a call without ending it.
func (w *world) leaveBehind(c *call, kind string) {
	if l := c.carrier(); l != nil {
		l.part()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil || c.settled() {
		return
	}
	c.injection(w.now(), kind)
	c.observe(history.Record{Kind: history.KindEnd, At: w.now(), End: history.EndIdle})
	c.link = nil
}

// twice resumes a stream on two links at the same instant: one of them gets it.
func (w *world) twice(s step) bool {
	c := w.living(s.a, func(c *call) bool { return !attached(c) && resumable(c) })
	if c == nil {
		return false
	}
	w.lastLink++
	q := c.s.resume(c.cursor)
	a, b := w.dialAs(w.lastLink, q, c.cursor, nil), w.dialAs(w.lastLink, q, c.cursor, nil)
	synctest.Wait()
	as, aEnded, aItems := a.state()
	bs, bEnded, bItems := b.state()
	if as == 404 && c.s.mayBeOver() {
		w.expired(c.s)
		return true
	}
	if as == 200 && bs == 200 && !aEnded && !bEnded {
		w.complain("stream %d has two live links", c.n)
	}
	for _, status := range []int{as, bs} {
		if status == 409 && !w.p.refuses() {
			w.complain("a resume met 409, though it may take over")
		}
	}
	// The one that lives, or ended well, or got more: what the other got came twice.
	if as != 200 || bs == 200 && better(bItems, bEnded, aItems, aEnded) {
		a, b = b, a
	}
	b.cut(byParted)
	c.carry(a, true)
	w.meet("two resumes at once")
	return true
}

// better tells whether what came on the first of two links, both accepted, is to be taken.
func better(x []item, xEnded bool, y []item, yEnded bool) bool {
	if xEnded != yEnded {
		return yEnded
	}
	xWell, yWell := x[len(x)-1].end == history.EndClean, y[len(y)-1].end == history.EndClean
	if xWell != yWell {
		return xWell
	}
	return len(x) > len(y)
}

// old asks for what followed an old cursor, b, of any call, and compares it with what came
// then: it is the same, or the cursor is refused.
func (w *world) old(s step) bool {
	c := pick(w.calls, s.a, func(c *call) bool { return c.s.alive.Load() && resumable(c) })
	if c == nil {
		return false
	}
	live := attached(c)
	cursor, after := c.known(s.b)
	if live && !w.p.refuses() {
		w.leaveBehind(c, "blackhole")
	}
	l := w.dial(c.s.resume(cursor), cursor)
	synctest.Wait()
	status, _, items := l.state()
	defer func() {
		l.cut(byParted)
		synctest.Wait()
	}()
	switch {
	case live && w.p.refuses():
		if status != 409 && (status != 400 || !w.p.tight()) && awake(c) {
			w.complain("an old cursor beside a live link: %d", status)
		}
		return true
	case status == 404 && c.s.mayBeOver():
		w.expired(c.s)
		return true
	case status == 400 && w.p.tight():
		w.meet("old cursor evicted")
		w.refused("an old cursor", status, l.body, cursor, 400)
		return true
	case status != 200:
		w.complain("an old cursor of stream %d: %d %s", c.n, status, l.body)
		return true
	}
	w.meet("old cursor replayed")
	w.compare(c, after, items)
	return true
}

// compare holds a replay against what was seen before.
func (w *world) compare(c *call, after []logged, items []item) {
	var got []logged
	evicted := false
	for _, it := range items {
		if it.event != nil && it.event.HasID {
			got = append(got, logged{string(it.event.ID), hashOf(it.event.Data)})
		}
		evicted = evicted || it.end == history.EndReset && w.p.tight()
	}
	for i := range min(len(got), len(after)) {
		if got[i] != after[i] {
			w.complain("stream %d: the replay of an old cursor differs at event %d of %d", c.n, i+1, len(after))
			return
		}
	}
	if len(got) < len(after) && !evicted {
		w.complain("stream %d: the replay of an old cursor brought %d of %d events", c.n, len(got), len(after))
	}
}

// cancel takes a call back.
func (w *world) cancel(s step) bool {
	c := w.living(s.a, func(c *call) bool { return !c.get && !c.answered })
	if c == nil {
		return false
	}
	a := w.ask(c.s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + c.id + `}}`))
	synctest.Wait()
	if a.status == 404 && c.s.mayBeOver() {
		w.expired(c.s)
		return true
	}
	if a.status != 202 {
		w.complain("cancel: %d %s", a.status, a.body)
	}
	c.cancelled = true
	c.quit(history.EndStopped, history.OutcomeCancelled)
	return true
}

// policy changes how a session answers requests of the server: b.
func (w *world) policy(s step) bool {
	n := w.session(s.a)
	if n == nil {
		return false
	}
	n.mu.Lock()
	n.policy = int(s.b % answers)
	n.mu.Unlock()
	w.meet([answers]string{"answer once", "answer twice", "answer never"}[s.b%answers])
	return true
}

// wait lets time pass: a draws how much.
func (w *world) wait(s step) bool {
	<-time.After([8]time.Duration{
		time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 25 * time.Second,
		6 * time.Minute, 31 * time.Minute,
	}[s.a%8])
	return true
}

// slow makes the reader of a call slow, or fast again: b.
func (w *world) slow(s step) bool {
	c := w.living(s.a, attached)
	if c == nil {
		return false
	}
	l := c.carrier()
	l.pause.Store(int64([4]time.Duration{time.Hour, 50 * time.Millisecond, 3 * time.Second, 0}[s.b%4]))
	l.slowed.Store(true)
	c.slow = true
	return true
}

// drain takes every call to its end, as a patient client does.
func (w *world) drain() {
	for range 60 {
		open := 0
		for _, c := range w.calls {
			c.finish()
			if !c.open() {
				continue
			}
			open++
			c.armed = nil
			if l := c.carrier(); l != nil {
				l.quicken()
			} else if resumable(c) {
				w.again(c)
			}
			synctest.Wait()
			c.finish()
		}
		if open == 0 {
			return
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
	}
	for _, c := range w.calls {
		if c.open() {
			w.complain("stream %d does not end: %s", c.n, strings.TrimSpace(c.text()))
			c.quit(history.EndDeadline, history.OutcomeFailed)
		}
	}
}

// quicken takes back what slows or would cut a link.
func (l *link) quicken() {
	l.pause.Store(0)
	l.events.Store(-1)
	l.left.Store(-1)
	l.once.Do(func() { close(l.wake) })
}
