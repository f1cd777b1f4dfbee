package loadgen

import (
	"context"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// stream is one arrival: a call, its response, and all exchanges between them. It
// belongs to one goroutine. Its cursor is that of rd, which outlives every exchange:
// a resumed link that is cut before its first event leaves it where it was.
type stream struct {
	r    *runner
	a    Arrival
	of   *spoken // what it calls
	obs  StreamObserver
	sess *session

	token  string
	id     string // the JSON-RPC id as it stands in the request
	dropAt int    // the canary drops the message with this ordinal; -1 the response, 0 nothing

	cancelAt    int      // cancel after so many messages; 0 never
	sample      *sample  // nil unless the stream is to be probed
	cut         *cutCall // nil unless the call is being made again
	dropped     bool
	seated      bool // holds the session's seat for GET streams
	pinged      bool // the call is sent in one batch with a ping
	ponged      bool // which was answered
	called      bool // the call of a GET stream was made
	refusedCall bool // it was answered with an error
	cancelled   bool
	several     bool // the event at hand is a batch
	severed     bool // cut, and nothing leads back
	heardOn     bool // a message of the call came in this exchange

	aside *aside // the call that is made beside the stream; nil until then

	rd  wire.Reader
	msg wire.Message
	num numbers
	rec history.Record

	// Over the whole stream:
	deadline  time.Duration   // of the call
	left      time.Duration   // when the call was sent
	heard     time.Duration   // when the last event came, or the call was sent
	attempt   int             // the current or last exchange
	commits   uint32          // ids committed in earlier event streams
	seen      int             // messages without the response, in order
	last      int64           // the largest number that a message gave itself
	numbered  bool            // so far they count themselves 1, 2, 3 …
	begun     bool            // a message came
	doomed    history.Outcome // decided while an exchange was still open
	responded bool
	open      bool // counted as open

	back  backoff
	draft drafted

	// Of the current or last exchange:
	l        *link // nil between exchanges
	status   int
	hurt     time.Duration // when a fault of ours ended it
	struck   bool          // which one did
	got      bool          // a byte of the response was read
	madeUp   bool          // the link made up the status, the target never saw the request
	busy     bool          // the status asks for patience, or there was no credential
	gained   bool          // a message came or the cursor moved
	mattered bool          // a message came
	events   int
	headAt   time.Duration
	missed   int // events to come before the stream is caught up; -1 when unknown

	noted     time.Duration // the read whose events were last added to the live counters
	delivered int64         // of that read
	lastEvent time.Duration // of the current exchange, 0 before the first message
	batch     batch
}

// run takes the stream from its start to its outcome.
func (s *stream) run(ctx context.Context, a Arrival) {
	s.reset(a)
	began := s.r.now()
	o := s.call(ctx, began-a.Due)
	s.abandon(ctx, o)
	if s.r.c.UMCP {
		s.leave(ctx)
	}
	switch {
	case s.sample != nil && o == history.OutcomeCompleted:
		s.probe(ctx)
	case s.severed && s.r.reissues(a):
		s.reissue(ctx)
	}
	s.settle(o)
}

func (s *stream) reset(a Arrival) {
	*s = stream{r: s.r, a: a, of: &s.r.calls[a.Call], batch: s.batch, numbered: true}
	s.num.begin(&s.of.num)
	if s.r.c.Observer != nil {
		s.obs = s.r.c.Observer.Open(a)
	}
	if a.Kind == history.StreamCanary {
		s.dropAt = (s.of.Expected + 1) / 2
		if s.dropAt == 0 {
			s.dropAt = -1
		}
	}
	s.cancelAt = s.r.cancels(a)
	if s.r.sampled(a) {
		s.sample = new(sample)
	}
	s.rec.Session, s.rec.Stream = a.Session, a.Stream
}

// call makes the call and takes the stream up again until it has an outcome. late is
// what this side lost before it began.
func (s *stream) call(ctx context.Context, late time.Duration) history.Outcome {
	var err error
	if s.sess, err = s.r.session(ctx, s.a.Session, s); err != nil {
		if ctx.Err() != nil {
			return history.OutcomeUndecided
		}
		s.homeless(err)
		return history.OutcomeNotSent
	}
	ready := s.r.now()
	begin := s.post
	if s.hears() {
		begin = s.listen
	}
	o := begin(ctx)
	if s.open {
		s.measure(StartDelay, late+s.left-ready)
	}
	for o == history.OutcomeNone {
		if o = s.pause(ctx); o == history.OutcomeNone {
			o = s.settleAside(ctx)
		}
		if o == history.OutcomeNone {
			s.pollAtTimes(ctx)
			o = s.resume(ctx)
		}
	}
	if s.seated && !s.r.c.UMCP {
		<-s.sess.hearing
	}
	return o
}

// name gives the call its marks and its time.
func (s *stream) name() {
	s.token = s.r.marks.Of(s.a.Session, s.a.Stream)
	s.id = s.sess.nextID()
	s.heard = s.r.now()
	s.deadline = s.heard + s.of.Deadline
}

// resume asks for what follows the cursor and reads it.
func (s *stream) resume(ctx context.Context) history.Outcome {
	waited := s.r.now() - s.back.ended
	s.attempt++
	o, begun := s.get(ctx, history.Exchange{Resume: s.resumes(), Cursor: s.ordinal(), Asked: s.back.asked, Waited: waited})
	if !begun {
		s.attempt--
		return o
	}
	s.measure(ResumeBackoff, waited)
	s.resumed(o)
	return o
}

// resumes reports whether the exchange goes on from a cursor. Only a GET stream whose
// call has not been made yet may begin again without one.
func (s *stream) resumes() bool {
	return s.attempt > 0 && (len(s.rd.Cursor()) > 0 || s.created() || s.r.c.UMCP && s.called)
}

// get asks for an event stream and reads it; false means that it never began to.
func (s *stream) get(ctx context.Context, x history.Exchange) (history.Outcome, bool) {
	var cursor []byte
	if x.Resume {
		cursor = s.rd.Cursor()
	}
	req := s.question(cursor)
	if err := s.r.authorize(ctx, req); err != nil {
		return s.unauthorized(ctx, err), false
	}
	from := s.r.now()
	l, err := s.sess.link(ctx)
	s.begin(l, x)
	if err != nil {
		return s.unreachable(ctx, history.OutcomeNone), true
	}
	end, _ := s.exchange(ctx, req)
	if s.status != 0 && !s.madeUp && s.attempt > 0 {
		s.measure(ResumeConnect, s.headAt-from)
	}
	switch {
	case s.cancelled:
		return history.OutcomeCancelled, true
	case s.complete(end):
		return history.OutcomeCompleted, true
	case s.doomed != history.OutcomeNone:
		return s.doomed, true
	}
	return s.next(end), true
}

// resumed counts an attempt to resume.
func (s *stream) resumed(o history.Outcome) {
	if s.a.Kind != history.StreamCanary {
		s.r.c.Live.resumes.Add(1)
		status := s.status
		if s.madeUp {
			status = 0
		}
		s.r.tally.resume(status, o == history.OutcomeRefused)
	}
}

// begin reports the attempt and clears what belonged to the one before.
func (s *stream) begin(l *link, x history.Exchange) {
	s.l = l
	s.got, s.status, s.struck, s.madeUp, s.busy, s.gained, s.mattered, s.events = false, 0, false, false, false, false, false, 0
	s.heardOn = false
	s.missed, s.lastEvent = -1, 0
	s.rec.Attempt = uint16(min(s.attempt, 1<<16-1))
	s.rec.Link = 0
	if l != nil {
		s.rec.Link = l.id
	}
	s.rec.Exchange = x
	s.report(history.KindAttempt, s.r.now())
	s.rec.Exchange = history.Exchange{}
}

// unreachable ends an attempt for which no link could be opened.
func (s *stream) unreachable(ctx context.Context, o history.Outcome) history.Outcome {
	end := history.EndUnreachable
	if ctx.Err() != nil {
		end = stopEnd(ctx)
	}
	s.end(end)
	if end == history.EndUnreachable && o != history.OutcomeNone {
		return o
	}
	return s.next(end)
}

// exchange carries one exchange on the link and gives the link back or ends it.
func (s *stream) exchange(ctx context.Context, req *wire.Request) (history.End, error) {
	l := s.l
	stop := l.begin(ctx, s, s.limits())
	if s.aside != nil {
		s.aside.reader.Store(l)
		s.hear(ctx)
	}
	l.Begin(Exchange{
		Session: s.a.Session, Stream: s.a.Stream, Attempt: s.attempt, Link: l.id, Resume: s.resumes(), Get: s.hears(),
		Observer: s, Opened: s.obs, Others: s.others(), Delivered: s.seen, Expected: s.of.Expected,
	})
	resp, err := l.conn.RoundTrip(req)
	*req = wire.Request{} // it has left, and a stream may stay open for long
	var end history.End
	if err == nil {
		end = s.take(ctx, resp)
	} else {
		end = s.broken(err)
	}
	s.note()
	if s.aside != nil {
		s.aside.reader.Store(nil)
	}
	s.got, s.l = l.got, nil
	mine := stop() // else the stop of the run is about to touch the link
	if l.End() && mine && err == nil && resp.Reusable() {
		s.sess.links.put(l, s.r.now())
	} else {
		l.close()
	}
	s.end(end)
	return end, err
}

// leaves notes that the request has left: from then on the call is open.
func (s *stream) leaves(at time.Duration) {
	if s.attempt > 0 {
		return
	}
	s.heard = at
	if s.open { // the target had no time for it before
		return
	}
	s.left, s.open = at, true
	if !s.a.extra() {
		s.r.c.Live.sent()
	}
}

// limits are those of an exchange that begins now.
func (s *stream) limits() limits {
	if s.r.c.UMCP {
		return s.listening()
	}
	lim := limits{until: s.deadline, end: history.EndDeadline}
	if len(s.rd.Cursor()) > 0 {
		lim.idle, lim.since = s.r.c.Idle, s.r.now()
	}
	return lim
}

// take reads a response whose head is complete.
func (s *stream) take(ctx context.Context, resp *wire.Response) history.End {
	s.status, s.headAt = resp.Status, s.l.at
	s.madeUp = s.struck // what ends a link before a whole head came can only have made it up
	h := history.Head{Status: resp.Status, Missed: -1}
	switch {
	case resp.SSE():
		h.Body = history.BodySSE
	case resp.JSON():
		h.Body = history.BodyJSON
	case resp.Get("Content-Type") != "":
		h.Body = history.BodyOther
	}
	if s.attempt > 0 && resp.Status == 200 {
		h.Missed = missed(resp.Get("Gapless-Missed"))
	}
	s.missed = int(h.Missed)
	s.rec.Head = h
	s.report(history.KindHead, s.headAt)
	s.rec.Head = history.Head{}
	switch {
	case resp.Status/100 != 2:
		s.back.after = retryAfter(resp)
		s.l.limit(limits{until: min(s.deadline, s.r.now()+s.r.c.Tail), end: history.EndOpen})
		s.declined(resp)
		return history.EndStatus
	case h.Body == history.BodySSE:
		s.caughtUp(s.headAt)
		if s.hears() && !s.called {
			if s.r.c.UMCP {
				s.callAside(ctx)
			} else if s.doomed = s.emit(ctx); s.doomed != history.OutcomeNone {
				return history.EndOpen
			}
		}
		return s.read(ctx, resp)
	case h.Body == history.BodyJSON:
		return s.readJSON(ctx, resp)
	}
	if err := skip(resp); err != nil {
		return s.broken(err)
	}
	return history.EndClean
}

// broken says how the exchange ended, and reports a frame that was illegal.
func (s *stream) broken(err error) history.End {
	if bad := wire.IllegalOf(err); bad != 0 && s.l.over == history.EndNone {
		s.rec.Event = history.Event{Class: history.ClassJunk, Illegal: history.Illegal(bad), Cursor: s.ordinal()}
		s.report(history.KindEvent, s.l.at)
		s.rec.Event = history.Event{}
	}
	return s.l.endOf(err)
}

// end reports the end of an exchange.
func (s *stream) end(end history.End) {
	now := s.r.now()
	s.back.ended = now
	s.rec.End = end
	s.report(history.KindEnd, now)
	s.rec.End = history.EndNone
	if s.struck {
		s.measure(ResumeDetect, now-s.hurt)
	}
	if s.back.cut == 0 {
		s.back.cut = now
	}
}

// settle reports the outcome. Nothing of the stream follows it.
func (s *stream) settle(o history.Outcome) {
	s.rec.Outcome = o
	s.rec.Link = 0
	s.report(history.KindSettled, s.r.now())
	s.batch.flush(&s.r.measured)
	live := s.r.c.Live
	s.r.tally.settle(s.a.Kind, o)
	if s.a.extra() {
		return
	}
	live.settled.Add(1)
	if s.open {
		live.open.Add(-1)
	}
}

// ordinal is that of the last committed id.
func (s *stream) ordinal() uint32 {
	if len(s.rd.Cursor()) == 0 {
		return 0
	}
	return s.commits + uint32(s.rd.Committed())
}

// Observe takes the injections of the link, completes them and hands them on. Only a
// fault that ends the link makes the end of the exchange ours: one that delays or
// starves it leaves the target to blame for whatever ends it.
func (s *stream) Observe(rec *history.Record) {
	now := s.r.now()
	if rec.Injection.Ends {
		s.struck, s.hurt = true, now
	}
	if s.l == nil { // in a handshake
		s.rec.Link = rec.Link
	}
	s.rec.Injection = rec.Injection
	s.report(history.KindInjection, now)
	s.rec.Injection = history.Injection{}
}

func (s *stream) report(kind history.Kind, at time.Duration) {
	if s.obs == nil {
		return
	}
	s.rec.Kind, s.rec.At = kind, at
	s.obs.Observe(&s.rec)
}

// measure notes a latency. A GET stream has no call that begins and ends on it.
func (s *stream) measure(p Phase, d time.Duration) {
	switch {
	case s.a.Kind == history.StreamCanary:
	case s.a.Kind == history.StreamGet && (p == FirstEvent || p == Completion || p == StartDelay):
	default:
		s.batch.add(&s.r.measured, p, d)
		if p != EventGap { // these are few, and Live.Quantile is asked while they are new
			s.batch.flush(&s.r.measured)
		}
	}
}
