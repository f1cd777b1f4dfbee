package judge_test

import (
	"slices"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// The naive judge keeps the whole history in memory and compares all with all. It shares
// no code with the real one, and knows only what decides: messages, responses, ids,
// owners and the ledger.
type naive struct {
	expected, delivered, lost, undecided, duplicated, misordered, corrupt, foreign, late int64
	missing, repeated, foreignIDs, executions, illegal, hangs                            int64
	lostAllowed, duplicatedAllowed, missingAllowed, severed                              int64
	instead, unlike, reissued                                                            int64
	doubt, led, misfit                                                                   bool
}

type delivery struct {
	seq     int64
	hash    uint64
	attempt uint16
}

type idUser struct {
	stream uint32 // 0: it got what belongs to others, so this may be of any
	hash   uint64
	class  history.Class
}

// judgeNaively judges a run whose faults and generator are beyond doubt. The canary is
// not judged; what a control call did counts for the word alone.
func judgeNaively(r *run) (n naive, word judge.Word) {
	ids := map[[2]uint64]map[idUser]bool{} // by session and id
	var control naive
	judged, injected := 0, 0
	for i, records := range r.streams {
		if r.kinds[i] == history.StreamCanary {
			var c call
			for k := range records {
				(&naive{}).read(&c, &records[k], r.setup)
			}
			n.misfit = n.misfit || c.early2
			continue
		}
		into := &n
		if r.kinds[i] == history.StreamControl {
			into = &control
		}
		others := into.foreign
		into.stream(r.setup, records, r.kinds[i])
		strange := into.foreign > others
		cut := false
		for _, rec := range records {
			cut = cut || rec.Kind == history.KindInjection && rec.Injection.AfterID
			if rec.Kind == history.KindInjection && r.kinds[i] == history.StreamLoad {
				injected++
			}
			if e := rec.Event; rec.Kind == history.KindEvent && e.HasID && !e.Late {
				key := [2]uint64{uint64(rec.Session), e.IDHash}
				if ids[key] == nil {
					ids[key] = map[idUser]bool{}
				}
				u := idUser{rec.Stream, e.Hash, e.Class}
				if strange { // it may have come from the stream that it belongs to
					u.stream = 0
				}
				ids[key][u] = true
			}
		}
		if cut && r.kinds[i] == history.StreamLoad {
			judged++
		}
	}
	none := r.setup.Contract == judge.NoPromise
	judged += int(n.severed)
	if r.setup.Modern {
		judged = int(n.reissued)
	}
	if n.misfit { // then nobody knows what the messages should have been
		n.doubt = true
		n.delivered -= n.instead
		n.undecided += n.instead
		n.corrupt -= n.unlike
	}
	n.foreignIDs += clashes(ids)
	bad := func(n *naive) bool {
		return n.lost+n.duplicated+n.misordered+n.corrupt+n.foreign+n.missing+n.repeated+n.foreignIDs+n.executions+n.illegal+n.hangs > 0
	}
	switch {
	case bad(&n) || bad(&control):
		return n, judge.Violated
	case n.doubt || control.doubt || judged == 0 || n.delivered == 0 && n.expected > 0 || injected*5 < r.setup.Faults*4 || !n.led && !none:
		return n, judge.Inconclusive
	}
	return n, judge.Holds
}

// clashes counts the ids that name more than one event.
func clashes(ids map[[2]uint64]map[idUser]bool) (n int64) {
	for _, users := range ids {
		for u := range users {
			astray := idUser{0, u.hash, u.class}
			if u.stream > 0 && users[astray] {
				delete(users, astray)
			}
		}
		n += int64(max(0, len(users)-1))
	}
	return n
}

// A call is what the records of one stream say.
type call struct {
	got                 []delivery
	ledger              []history.Ledger
	account             *history.Ledger
	responses, total    int64
	settled             int
	outcome             history.Outcome
	lastSeen, settledAt time.Duration
	status, refusedWith int
	early, anchored     bool
	gap                 bool // it came on another link than the last message
	cut, severed        bool
	brings              judge.CallSetup
	mute                bool
	unlike              int64
	early2              bool // one came before any fault
	uncalled            bool
	json, plain         bool // the POST was answered with JSON, and it held the response
	end                 history.End
	draft               naiveDraft
}

// naiveDraft is what dialect streams has besides.
type naiveDraft struct {
	created, ended, endedEarly bool
	last                       *history.Poll
	events                     []history.Class // behind the last poll, of the resume that followed; nil before it began
	completed, cut             bool
}

// read looks at one record more. The lies of a poll show when the resume behind it is over.
func (d *naiveDraft) read(c *call, r *history.Record) (illegal int64) {
	own := r.Kind == history.KindEvent && !r.Event.Late && r.Event.Owner <= history.OwnerSelf
	switch {
	case r.Kind == history.KindPoll:
		p := r.Poll
		if !p.Pending && (p.HasError || p.HasRequest) || !p.Completed && (d.completed || d.ended) {
			illegal++
		}
		d.last, d.events, d.completed = &p, nil, d.completed || p.Completed
	case r.Kind == history.KindAttempt:
		if d.events != nil || r.Attempt == 0 { // it was for another resume
			d.last = nil
		}
		d.events, d.cut = []history.Class{}, false
	case r.Kind == history.KindInjection:
		d.cut = true
	case r.Kind == history.KindEnd && d.last != nil && d.events != nil:
		messages := slices.DeleteFunc(slices.Clone(d.events), func(c history.Class) bool { return c > history.ClassJunk })
		whole := !d.cut && r.End == history.EndClean && len(messages) < len(d.events)
		if d.last.Completed && d.last.Pending && !d.last.HasRequest && len(messages) == 0 && whole {
			illegal++
		}
		d.last = nil
	case own && r.Event.Class == history.ClassCreate:
		d.created = true
	case own && r.Event.Class == history.ClassEnd:
		if d.ended {
			illegal++
		}
		d.endedEarly, d.ended, d.events = d.endedEarly || c.responses == 0, true, append(d.events, history.ClassEnd)
	case own && r.Event.Class >= history.ClassProgress && r.Event.Class < history.ClassJunk:
		if d.ended {
			illegal++
		}
		d.events = append(d.events, r.Event.Class)
		if p := d.last; p != nil && p.Completed && (!p.Pending || r.Event.Class == history.ClassRequest && !p.HasRequest || r.Event.Class == history.ClassError && !p.HasError) {
			illegal++
		}
	}
	return illegal
}

// over tells what is wrong at the end of a stream.
func (d *naiveDraft) over(c *call) (illegal int64) {
	if d.endedEarly || d.created && !d.ended && c.responses > 0 && (c.outcome == history.OutcomeCompleted || c.outcome == history.OutcomeFailed) {
		illegal++
	}
	return illegal
}

// stream judges one stream.
func (n *naive) stream(setup judge.Setup, records []history.Record, kind history.StreamKind) {
	var c call
	for i := range records {
		if setup.Dialect == "streams" {
			n.illegal += c.draft.read(&c, &records[i])
		}
		n.read(&c, &records[i], setup)
	}
	if setup.Dialect == "streams" {
		n.illegal += c.draft.over(&c)
	}
	if kind == history.StreamControl {
		c.unlike, c.early2, c.uncalled = 0, false, false
	}
	n.misfit, n.doubt = n.misfit || c.early2, n.doubt || c.uncalled
	answered := c.responses > 0
	n.doubt = n.doubt || c.plain && !c.mute // its messages had no stream
	if c.outcome == history.OutcomeFailed && c.early && !c.anchored {
		c.outcome = history.OutcomeIndeterminate
	}
	over := c.end != history.EndStopped || c.settledAt-c.lastSeen >= 10*time.Second
	c.severed = setup.Contract == judge.NoPromise && !answered && c.cut && c.settled > 0 && (c.outcome == history.OutcomeFailed ||
		c.outcome == history.OutcomeUndecided && over || c.outcome == history.OutcomeRefused || c.outcome == history.OutcomeIndeterminate && !setup.IDs && !c.anchored)
	if c.severed {
		c.outcome = history.OutcomeNone
		n.severed++
		n.missingAllowed++
	}
	refused := !answered && c.outcome == history.OutcomeRefused && c.refusedWith > 0
	failed := !answered && c.outcome == history.OutcomeFailed
	purged := refused && setup.Contract == judge.Bounded && (c.refusedWith == 400 || c.refusedWith == 404)
	tooLate := failed && c.settledAt-c.lastSeen >= 10*time.Second && c.status != 409
	undecided := !answered && !c.severed && (c.settled == 0 || c.outcome == history.OutcomeUndecided) || failed && c.status == 409
	n.doubt = n.doubt || c.settled != 1 || undecided
	if answered {
		n.repeated += c.responses - 1
	} else if purged {
		n.missingAllowed++
	} else if refused || tooLate || c.outcome == history.OutcomeCompleted {
		n.missing++
	}
	if tooLate {
		n.hangs++
	}
	if c.mute || kind == history.StreamControl && c.brings.Twin > 0 && len(c.got) == 0 {
		return
	}
	lost := n.lost
	defer func() {
		instead := min(c.unlike, n.lost-lost)
		n.lost, n.delivered, n.instead = n.lost-instead, n.delivered+instead, n.instead+instead
		n.corrupt, n.unlike = n.corrupt+c.unlike, n.unlike+c.unlike
	}()
	n.compare(setup, &c, answered && !c.plain || refused, func(seq, last int64) bool {
		if seq > last {
			return purged || c.severed || setup.Contract == judge.NoPromise && answered && c.gap
		}
		i := slices.IndexFunc(c.got, func(d delivery) bool { return d.seq > seq })
		before := uint16(0) // the attempt that brought what came before the first number above
		if i > 0 {
			before = c.got[i-1].attempt
		}
		return setup.Contract == judge.NoPromise && c.got[i].attempt != before
	})
}

func (n *naive) read(c *call, r *history.Record, setup judge.Setup) {
	switch r.Kind {
	case history.KindAttempt:
		c.status = 0
		if r.Attempt == 0 {
			c.brings = judge.CallSetup{Expected: setup.Expected}
			if len(setup.Calls) > 0 {
				c.brings = setup.Calls[r.Exchange.Call]
			}
			c.mute = c.brings.ResponseOnly && !setup.Ledger
		}
	case history.KindProbe:
		n.illegal += int64(r.Probe.Foreign)
		if r.Probe.Response {
			n.reissued++
		} else {
			n.hangs++
		}
	case history.KindHead:
		c.status = r.Head.Status
		c.json = r.Attempt == 0 && r.Head.Body == history.BodyJSON
		if r.Attempt > 0 && c.status >= 400 && c.status != 409 {
			c.refusedWith = c.status
		}
	case history.KindInjection:
		c.lastSeen, c.early, c.cut = r.At, c.early || !r.Injection.AfterID, true
	case history.KindEvent:
		c.lastSeen, c.anchored = r.At, c.anchored || r.Event.HasID && !r.Event.Late
		n.led = n.led || r.Attempt > 0 && (c.responses == 0 || setup.Dialect == "streams")
		n.event(c, r)
	case history.KindEnd:
		c.end = r.End
	case history.KindSettled:
		c.outcome, c.settledAt = r.Outcome, r.At
		c.settled++
	case history.KindLedgerMessage:
		c.ledger = append(c.ledger, r.Ledger)
	case history.KindLedgerCall:
		c.account = &r.Ledger
	}
}

func (n *naive) event(c *call, r *history.Record) {
	e := &r.Event
	if !e.Late && e.Owner <= history.OwnerSelf {
		if e.Digest == history.DigestWrong {
			n.corrupt++
		}
		message := e.Class == history.ClassProgress || e.Class == history.ClassNotification
		c.uncalled = c.uncalled || c.mute && (e.Class == history.ClassProgress || e.Seq > 0)
		if c.brings.Twin > 0 && e.Seq == 0 && message && e.Digest == history.DigestWrong {
			n.corrupt-- // it is known at the end whether it was altered
			c.unlike++
			c.early2 = c.early2 || !c.cut
		}
	}
	switch {
	case e.Late:
		n.late++
	case e.Owner > history.OwnerSelf:
		n.foreign++
	case e.Class == history.ClassResponse:
		if c.responses++; c.responses == 1 {
			c.plain = c.json && r.Attempt == 0
			c.gap = r.Attempt > 0 && (len(c.got) == 0 || c.got[len(c.got)-1].attempt != r.Attempt)
		}
	case e.Seq > 0 || e.Class == history.ClassNotification || e.Class == history.ClassProgress:
		if e.Seq > 0 {
			c.got, c.total = append(c.got, delivery{e.Seq, e.Hash, r.Attempt}), e.Total
		}
		if c.responses > 0 && (e.Seq > 0 || e.Owner == history.OwnerSelf) {
			n.illegal++ // nothing comes after the response
		}
	}
}

// compare holds what came against what was due.
func (n *naive) compare(setup judge.Setup, c *call, due bool, allowed func(seq, last int64) bool) {
	got, ledger, call := c.got, c.ledger, c.account
	last, first, on := int64(0), map[int64]uint64{}, map[int64]uint16{}
	for i, d := range got {
		last = max(last, d.seq)
		if h, ok := first[d.seq]; !ok {
			first[d.seq] = d.hash
			if slices.ContainsFunc(got[:i], func(e delivery) bool { return e.seq > d.seq }) {
				n.misordered++
			}
		} else {
			if setup.Contract == judge.AtLeastOnce && d.attempt > on[d.seq] {
				n.duplicatedAllowed++
			} else {
				n.duplicated++
			}
			if h != d.hash {
				n.corrupt++
			}
		}
		on[d.seq] = d.attempt
	}
	count, usable := max(c.brings.Expected, c.brings.Twin), true
	if setup.Oracle == judge.OracleLedger {
		usable = call != nil && call.Known && call.Emitted == int64(len(ledger))
		for i, l := range ledger {
			usable = usable && l.Seq == int64(i+1)
		}
		count = int64(len(ledger))
		n.doubt = n.doubt || !usable
		if usable && call.Executions > 1 {
			n.executions++
		}
	} else if count == 0 {
		count = c.total
		n.doubt = n.doubt || count == 0 && c.responses > 0
	}
	if !usable {
		n.delivered += int64(len(first))
		n.undecided += last - int64(len(first))
		n.expected += last
		return
	}
	n.hold(first, ledger, count, last, due, c.outcome == history.OutcomeIndeterminate, allowed)
}

// hold counts each number from 1 on.
func (n *naive) hold(first map[int64]uint64, ledger []history.Ledger, count, last int64, due, indeterminate bool, allowed func(seq, last int64) bool) {
	for seq := int64(1); seq <= max(count, last); seq++ {
		h, came := first[seq]
		switch {
		case seq > count && came:
			n.corrupt++
			continue
		case seq > count:
			continue
		case came:
			n.delivered++
			if len(ledger) > 0 && ledger[seq-1].Hash != h {
				n.corrupt++
			}
		case allowed(seq, last):
			n.lostAllowed++
		case seq < last || due:
			n.lost++
		case indeterminate:
			continue
		default:
			n.undecided++
		}
		n.expected++
	}
}
