package judge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A Stream judges one logical event stream. All its methods belong to the goroutine
// that owns the stream.
type Stream struct {
	judge           *Judge
	session, stream uint32
	kind            history.StreamKind

	call *CallSetup
	mute bool // only the response of its call is judged

	tally [invariantCount]count
	now   moment // the event at hand, valid during the folds
	ex    exchange
	acct  account

	// Facts of the whole stream.
	total        int64         // the number of messages that the messages announce
	hashes       []uint64      // of message i+1 as first delivered, 0 when it was not
	hashSum      uint64        // of the messages past the cap, in any order
	ids          []idUse       // every event with an id, in order
	lastID       uint64        // hash of the last committed id
	hasID        bool          // an id was committed
	idsOver      int64         // events with an id past the cap
	cursor       uint32        // ordinal of the last committed id
	cursorAt     time.Duration // when it was committed
	responses    uint32
	answeredAt   uint16        // attempt of the last response
	answeredOn   time.Duration // when the first response came
	reanswered   uint32        // responses beyond the first that the contract allows
	errors       uint32
	lastProgress float64
	progressed   bool
	begunAt      time.Duration
	lastAt       time.Duration
	lastEventAt  time.Duration

	outcome   history.Outcome
	settled   bool
	resettled bool // more than once
	settledAt time.Duration
	closed    bool
	fate      fate
	end       fateFacts
	msgs      Messages

	faults     strikes
	resumes    resumeCounts
	refused    int32 // status that ended the stream's resuming, 0 when none did
	cutAge     time.Duration
	ledger     *ledgerAccount
	attempts   []uint16 // AtLeastOnce: attempt+1 of the last delivery of message i+1
	gaps       []Range  // NoPromise: missing runs that straddle the boundary of two links
	stall      stall
	huge       oversize
	skipped    []Range // runs that a replay began behind
	counts     bool    // the target says how much it replays
	led        bool    // an event came on a resumed link
	unsteady   bool    // the total changed from message to message
	pause      pause
	polled     bool         // the target closed the last link of the living stream
	body       history.Body // of the answer to the POST
	plain      bool         // which held the response, and was no event stream
	empty      uint32       // resumes in a row that the target accepted and ended without an event
	tailGap    bool         // the response came on a later link than the last message
	created    bool         // dialect streams: the target has made a stream of it
	endedEarly bool         // it was ended before its response
	ends       uint32       // dialect streams: notifications that it has ended
	polling    polling
	strays     []stray
	straysOver int64 // those that were not kept
	probes     probing
	reissue    *history.Probe // how its call went when it was made again

	foreignTo  unlikeness // twin: messages that are equal to none of the control calls
	uncalled   uint32     // mute: messages of the call, though none was to come
	unnumbered uint32     // mute: other notifications before the response

	evidence []Evidence
	order    []Inversion
	lines    timeline
	gapAfter int32 // what finding.after says of the oldest open hole
	bad      bool  // a deciding invariant is violated
	doubtful bool  // a finding waits for the generator's alibi
}

// A count is the tally of one stream, small because a stream is open for long.
type count struct{ checked, violated, pending, soft uint32 }

// A tally counts what an invariant looked at and what it found wrong. What is pending
// was neither looked at nor found wrong until the generator has shown its alibi.
// What is soft is a deviation: a SHOULD beside the invariant's own claim.
type tally struct{ checked, violated, pending, soft int64 }

// An exchange is the state of one HTTP exchange.
type exchange struct {
	attempt       uint16
	resume        bool
	injected      bool // a fault of ours ended it
	responded     bool
	illegal       bool
	ledOn         bool // an event came
	ended         bool // the end of the stream came
	numbered      bool // a numbered message came
	over          bool
	liveFrom      int64 // number of the first message that was not replayed
	lateTo        int64 // highest number that came late
	status        int32
	body          history.Body
	missed        int32
	events        uint32 // dispatched events, those with empty data included
	link          uint32
	above         int64 // the highest number when it began
	struck        bool  // a fault of ours met it, whether it ended it or not
	began, headAt time.Duration
	cameAt        time.Duration // when something new of the call last came
}

// A moment is what the account says of the event at hand.
type moment struct {
	own      bool // this call's, and not late
	numbered bool // own, and the account tracked its number
	standing standing
	jumped   int64 // first number that it skipped
	message  bool  // it carries a JSON-RPC message
	response bool  // own response or error
	posted   bool  // it is, and came on the POST beside a GET stream
	first    bool  // the first numbered message of its exchange
	allowed  bool  // a repeat that the contract allows
	probe    probeWord
	before   bool  // own response was delivered before this event
	altered  bool  // a repeat whose bytes differ from the first delivery
	above    int64 // the highest number before it
	mark     string
}

// Observe folds one record. It does not keep r. A record of another stream is a
// mistake of the caller, and panics.
func (s *Stream) Observe(r *history.Record) {
	if r.Stream != s.stream || r.Session != s.session {
		panic(fmt.Sprintf("judge: a record of stream %d, session %d reached stream %d, session %d",
			r.Stream, r.Session, s.stream, s.session))
	}
	s.lastAt = max(s.lastAt, r.At)
	if r.Kind == history.KindEvent {
		s.observeEvent(r)
		return
	}
	s.now = moment{}
	switch r.Kind {
	case history.KindAttempt:
		s.begin(r)
	case history.KindHead:
		s.head(r)
	case history.KindInjection:
		s.inject(r)
	case history.KindProbe:
		s.probes.begin(r)
	case history.KindSettled:
		s.resettled = s.settled
		s.outcome, s.settled, s.settledAt = r.Outcome, true, r.At
		s.pause.asked = cmp.Or(r.Exchange.Asked, s.pause.asked)
		s.fate, s.end = s.decideFate()
	case history.KindLedgerMessage, history.KindLedgerCall:
		s.audit(r)
	}
	for _, f := range s.judge.facts {
		f(s, r)
	}
	switch r.Kind {
	case history.KindEnd:
		s.ended(r)
	case history.KindProbe:
		s.probes.note(r, s.now.probe)
		if p := s.asked(r, history.ProbeReissue); p != nil {
			again := *p
			s.reissue = &again
		}
	}
	s.lines.fact(s, r)
}

// observeEvent notes what the event is and lets the invariants look at it.
func (s *Stream) observeEvent(r *history.Record) {
	s.note(r)
	for _, f := range s.judge.events {
		f(s, r)
	}
	s.lines.event(s, r)
	s.after(r)
}

// note fills the moment: whose the event is, and how it stands in the sequence.
func (s *Stream) note(r *history.Record) {
	e := &r.Event
	s.now = moment{before: s.responses > 0, above: s.acct.highest}
	n := &s.now
	s.lastEventAt, s.pause.asleep = r.At, 0
	s.huge.note(e)
	n.message = e.Class.Message()
	n.response = !e.Late && e.Owner == history.OwnerSelf && (e.Class == history.ClassResponse || e.Class == history.ClassError)
	n.posted = n.response && s.hears()
	if s.framing(r) {
		return
	}
	if !n.posted && !e.Late {
		s.ex.events++
		s.led = s.led || s.ex.resume
	}
	if e.HasID && !e.Late && !n.posted {
		s.noteID(r)
	}
	if e.Late {
		s.msgs.Late++
		return
	}
	if e.Owner > history.OwnerSelf {
		s.msgs.Foreign++
		s.noteStray(e)
		return
	}
	n.own = true
	switch {
	case n.response:
		s.answer(r)
	case !n.message || e.Class == history.ClassJunk:
	case s.mute:
		s.unasked(e)
	case e.Seq > 0:
		s.number(e)
	case s.call.Twin > 0:
		s.compare(e)
	}
	if n.message && s.ex.resume && s.ex.missed >= 0 && s.ex.events <= uint32(s.ex.missed) {
		s.resumes.replayed++
	}
}

// answer notes the response of this call.
func (s *Stream) answer(r *history.Record) {
	if s.responses > 0 {
		if s.now.allowed = s.repeatAllowed(s.answeredAt); s.now.allowed {
			s.reanswered++
		}
	} else {
		s.tailGap = !s.hears() && !s.ex.numbered && s.ex.attempt > 0
		s.answeredOn = r.At
		s.plain = s.inJSON()
	}
	s.responses++
	s.answeredAt = s.ex.attempt
	if r.Event.Class == history.ClassError {
		s.errors++
	}
	s.ex.responded = !s.now.posted
}

// number notes a numbered message of this call.
func (s *Stream) number(e *history.Event) {
	n := &s.now
	n.standing, n.jumped = s.acct.deliver(e.Seq)
	n.numbered, n.first = n.standing != untracked, !s.ex.numbered
	if e.Total > 0 {
		s.unsteady = s.unsteady || s.total > 0 && s.total != e.Total
		s.total = e.Total
	}
	switch n.standing {
	case repeated:
		n.altered = !s.sameHash(e.Seq, e.Hash)
		if n.allowed = s.repeatAllowed(s.lastAttempt(e.Seq)); n.allowed {
			s.msgs.DuplicatedAllowed++
		} else {
			s.msgs.Duplicated++
		}
	case fresh, behind:
		s.keepHash(e.Seq, e.Hash)
		if n.standing == behind {
			s.msgs.Misordered++
		}
	}
	switch {
	case n.jumped > 0 && s.gapAfter == afterLast:
		s.gapAfter = int32(s.faults.last)
		if s.gapAfter == 0 {
			s.gapAfter = afterNone
		}
	case s.acct.prefix == s.acct.highest:
		s.gapAfter = afterLast // every hole was filled
	}
	s.place(e.Seq)
}

// after updates what the next event is compared with.
func (s *Stream) after(r *history.Record) {
	e := &r.Event
	s.ex.illegal = s.ex.illegal || e.Illegal != 0
	if s.now.own && e.Ordered && e.Class == history.ClassProgress && s.now.standing != repeated {
		if !s.progressed || e.Progress > s.lastProgress {
			s.lastProgress = e.Progress
		}
		s.progressed = true
	}
}

func (s *Stream) begin(r *history.Record) {
	s.ex = exchange{attempt: r.Attempt, resume: r.Exchange.Resume, missed: -1, link: r.Link, above: s.acct.highest, began: r.At}
	if r.Exchange.Cursor > s.cursor { // a block with an id and no data moved it
		s.cursor, s.hasID = r.Exchange.Cursor, true
	}
	if r.Exchange.Resume {
		s.resumes.attempted++
		s.pause.waited(&r.Exchange)
	}
	if r.Attempt == 0 && s.resumes.attempted == 0 {
		s.called(r.Exchange.Call)
		if s.begunAt == 0 { // it is sent again while the target asks for patience
			s.begunAt = r.At
		}
	}
}

// called says which call of the profile the stream carries.
func (s *Stream) called(call uint8) {
	s.call = &s.judge.calls[min(int(call), len(s.judge.calls)-1)]
	s.mute = s.judge.setup.mute(s.call)
}

func (s *Stream) head(r *history.Record) {
	s.ex.status, s.ex.body, s.ex.missed, s.ex.headAt = int32(r.Head.Status), r.Head.Body, r.Head.Missed, r.At
	s.answeredBy(&r.Head)
	s.counts = s.counts || s.ex.resume && r.Head.Missed >= 0
	if !s.ex.resume || s.ex.injected { // a head after the end of its link is made up
		return
	}
	status := r.Head.Status
	s.resumes.status.add(status)
	switch {
	case status >= 200 && status < 300:
		s.resumes.succeeded++
		s.faults.resumed()
	case status == 409:
		s.resumes.conflicts++
	default:
		s.resumes.refused++
		s.refused = int32(status)
		s.cutAge = r.At - s.cursorAt
	}
}

func (s *Stream) inject(r *history.Record) {
	in := &r.Injection
	s.faults.add(in, r.At)
	s.pause.asleep = 0
	s.ex.struck = true
	if in.Ends {
		s.ex.injected = true
		s.probes.struck = s.ex.over
	}
	if !isCut(in) {
		return
	}
	if s.ex.resume && s.ex.events == 0 {
		s.resumes.doubleCuts++
	}
	if in.InReplay {
		s.resumes.cutsInReplay++
	}
}

// ended closes the exchange; the folds have seen its state.
func (s *Stream) ended(r *history.Record) {
	s.end.last, s.end.lastInjected, s.end.lastStatus = r.End, s.ex.injected, s.ex.status
	s.end.lastResume = s.ex.resume
	s.ex.over, s.pause.ended = true, r.At
	s.countEmpty(r.End)
	s.armStall(r)
	if r.End != history.EndStatus && r.End != history.EndUnreachable {
		s.end.linkEndedAt = r.At
		s.end.linkEnded = true
	}
}

// check counts n things that an invariant looked at.
func (s *Stream) check(inv ident, n int64) { s.tally[inv].checked += uint32(n) }

// Close settles the stream: every invariant gets its last word, and the counters
// become the Judge's. Further calls do nothing.
func (s *Stream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if !s.settled {
		s.fate, s.end = s.decideFate()
	}
	s.now = moment{}
	s.settleMessages()
	for _, f := range s.judge.settles {
		f(s)
	}
	s.lines.markLast(s.now.mark)
	s.now.mark = ""
	s.judge.merge(s)
}
