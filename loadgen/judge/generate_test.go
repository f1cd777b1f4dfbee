package judge_test

import (
	"math/rand/v2"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// A run is a random history with the setup that judges it: streams, a control call
// and a canary.
type run struct {
	setup   judge.Setup
	streams [][]history.Record
	kinds   []history.StreamKind
	brings  []bring            // by Exchange.Call
	spare   [][]history.Record // as they were made: room for the next run
}

// A bring is what one call of a run brings: n messages, in progress notifications or in
// log messages, that number themselves or are numbered by comparison; or none.
type bring struct {
	n          int
	twin, logs bool
}

// describe draws what the calls bring, and tells the judge.
func (r *run) describe(rng *rand.Rand, n int) {
	r.brings = []bring{{n: n}}
	draw := rng.IntN(6)
	if r.setup.Ledger || draw < 3 {
		if r.setup.Ledger || rng.IntN(2) == 0 {
			r.setup.Expected = int64(n)
		}
		return
	}
	r.setup.Oracle = judge.OracleTwin
	switch draw {
	case 3:
		r.brings = []bring{{n: n, twin: true, logs: rng.IntN(2) == 0}}
	case 4:
		r.setup.Oracle, r.brings = judge.OracleResponse, []bring{{}}
	default:
		r.brings = []bring{{n: n}, {n: n + 1, twin: true, logs: rng.IntN(2) == 0}, {}}
	}
	for _, b := range r.brings {
		c := judge.CallSetup{ResponseOnly: b.n == 0}
		if b.twin {
			c.Twin = int64(b.n)
		} else {
			c.Expected = int64(b.n)
		}
		if b.logs {
			c.Method = "notifications/message"
		}
		r.setup.Calls = append(r.setup.Calls, c)
	}
}

// contracts are all of them.
func contracts() []judge.Contract {
	return []judge.Contract{judge.ExactlyOnce, judge.AtLeastOnce, judge.Bounded, judge.NoPromise}
}

// legalUnder makes a history in which a correct server meets cuts of all kinds, and makes
// use of what the contract allows. At least one call is cut after a committed id, and the
// run holds. Under NoPromise every second target
// has no ids.
func legalUnder(rng *rand.Rand, c judge.Contract, spare ...[]history.Record) *run {
	return legalSetup(rng, judge.Setup{Revision: "2025-11-25", Contract: c}, spare...)
}

// legalSetup does so in a dialect.
func legalSetup(rng *rand.Rand, setup judge.Setup, spare ...[]history.Record) *run {
	c := setup.Contract
	setup.Oracle, setup.IDs = judge.OracleNumbered, true
	r := &run{spare: spare, setup: setup}
	if c == judge.NoPromise {
		r.setup.IDs = rng.IntN(2) == 0
	}
	if rng.IntN(3) > 0 {
		r.setup.Oracle, r.setup.Ledger = judge.OracleLedger, true
	}
	r.describe(rng, 2+rng.IntN(7))
	r.setup.Modern = c == judge.NoPromise && !r.setup.IDs && !r.setup.Ledger && rng.IntN(2) == 0
	loads := 1 + rng.IntN(3)
	for i := range loads {
		s := &server{rng: rng, session: uint32(1 + rng.IntN(2)), stream: uint32(i + 1), call: rng.IntN(len(r.brings)), cuts: rng.IntN(3),
			contract: c}
		if i == 0 {
			s.call = 0
			s.honest = c != judge.NoPromise
			s.cuts, s.afterID = 1+rng.IntN(3), true
		}
		r.add(s, history.StreamLoad)
		r.setup.Faults += s.cut
	}
	control := &server{rng: rng, session: 1, stream: uint32(loads + 1), call: rng.IntN(len(r.brings))}
	control.alone = rng.IntN(2) == 0
	r.add(control, history.StreamControl)
	canary := &server{rng: rng, session: 1, stream: uint32(loads + 4), canary: true}
	r.add(canary, history.StreamCanary)
	r.setup.Streams, r.setup.CutCalls = loads, 1
	return r
}

func (r *run) add(s *server, kind history.StreamKind) {
	s.bring, s.ledger, s.noIDs, s.modern = r.brings[s.call], r.setup.Ledger, !r.setup.IDs, r.setup.Modern
	s.drafted = r.setup.Dialect == "streams"
	i := len(r.streams)
	if i == len(r.spare) {
		r.spare = append(r.spare, make([]history.Record, 0, 64))
	}
	s.out = r.spare[i][:0]
	r.spare[i] = s.serve()
	r.streams, r.kinds = append(r.streams, r.spare[i]), append(r.kinds, kind)
}

// A server is a correct target and a correct client of one stream, as a script.
type server struct {
	rng             *rand.Rand
	session, stream uint32
	bring
	call, cuts      int
	afterID, ledger bool
	canary          bool
	contract        judge.Contract
	noIDs, modern   bool
	drafted         bool // it creates its streams and ends them, and is polled
	alone           bool // made before there was anything to compare it with
	honest          bool // this one does not use what the contract allows

	log     []history.Event
	out     []history.Record
	at      time.Duration
	attempt uint16
	link    uint32
	cut     int

	completed bool // a poll said so
}

func (s *server) serve() []history.Record {
	s.log = make([]history.Event, 0, s.n+6)
	s.build()
	next := 0 // the first event of the log that the client has not committed
	for {
		if s.exchange(&next) {
			break
		}
		if o := s.giveUp(); o != history.OutcomeNone {
			if s.modern {
				s.record(history.Record{Kind: history.KindProbe, Probe: history.Probe{Name: history.ProbeReissue, Offered: true, Status: 200,
					Want: int32(s.n), Messages: int32(s.n), Response: true, End: history.EndClean, Took: time.Duration(s.rng.IntN(1e9))}})
			}
			s.record(history.Record{Kind: history.KindSettled, Outcome: o})
			s.account()
			return s.out
		}
		if next == 0 && !s.afterID && s.rng.IntN(2) == 0 { // cut before the first committed id
			s.record(history.Record{Kind: history.KindSettled, Outcome: history.OutcomeIndeterminate})
			s.account()
			return s.out
		}
	}
	s.record(history.Record{Kind: history.KindSettled, Outcome: history.OutcomeCompleted})
	s.account()
	return s.out
}

// giveUp ends a call where the contract lets it: its cursor is refused, or there is none.
func (s *server) giveUp() history.Outcome {
	switch {
	case s.noIDs:
		return history.OutcomeIndeterminate
	case s.contract != judge.Bounded && s.contract != judge.NoPromise || s.honest || s.cut == 0 || s.rng.IntN(4) > 0:
		return history.OutcomeNone
	}
	if !s.out[len(s.out)-2].Injection.AfterID { // the call is indeterminate
		return history.OutcomeNone
	}
	s.attempt++
	s.link++
	s.record(history.Record{Kind: history.KindAttempt, Exchange: history.Exchange{Resume: true, Cursor: 1}})
	s.record(history.Record{Kind: history.KindHead, Head: history.Head{Status: 400 + 4*s.rng.IntN(2), Missed: -1}})
	s.record(history.Record{Kind: history.KindEnd, End: history.EndStatus})
	return history.OutcomeRefused
}

// from says where a resume begins: before the cursor, at it, or behind what fell into
// the gap.
func (s *server) from(next int) int {
	switch {
	case s.attempt == 0 || s.honest && s.contract == judge.NoPromise:
	case s.contract == judge.AtLeastOnce:
		return next - s.rng.IntN(next+1)
	case s.contract == judge.NoPromise:
		return next + s.rng.IntN(len(s.log)-next)
	}
	return next
}

// build makes the log: a priming event, the messages with an unnumbered notification
// here and there, the response.
func (s *server) build() {
	add := func(e history.Event) {
		if !s.noIDs {
			e.HasID, e.IDHash = true, uint64(s.stream)<<32|uint64(len(s.log)+1)
			e.Cursor = uint32(len(s.log) + 1)
		}
		s.log = append(s.log, e)
	}
	if s.drafted {
		add(history.Event{Class: history.ClassCreate, Owner: history.OwnerSelf, Hash: s.rng.Uint64()})
	} else {
		add(history.Event{Class: history.ClassEmpty})
	}
	for k := 1; k <= s.n; k++ {
		if s.rng.IntN(8) == 0 {
			add(history.Event{Class: history.ClassNotification, Owner: history.OwnerUnmarked, Hash: s.rng.Uint64()})
		}
		add(s.message(int64(k)))
	}
	add(history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf, Hash: s.rng.Uint64()})
	if s.drafted {
		add(history.Event{Class: history.ClassEnd, Owner: history.OwnerSelf, Hash: s.rng.Uint64()})
	}
}

// poll asks how the stream stands: it is live or, from one poll to the next, completed.
func (s *server) poll(next int) {
	if !s.drafted || s.rng.IntN(2) == 0 {
		return
	}
	s.completed = s.completed || s.rng.IntN(2) == 0
	s.record(history.Record{Kind: history.KindPoll, Poll: history.Poll{Status: 200, Answered: true, Completed: s.completed,
		Pending: next < len(s.log)-1 && (s.completed || s.rng.IntN(2) == 0)}})
}

// message is one that counts.
func (s *server) message(k int64) history.Event {
	e := history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf, Seq: k, Total: int64(s.n), Ordered: true,
		Progress: float64(k), Hash: s.hash(k)}
	if s.twin {
		e.Total, e.Progress = 0, 10*float64(k)
		if s.alone {
			e.Seq = 0
		}
	}
	if s.logs {
		e.Class, e.Owner, e.Ordered, e.Progress = history.ClassNotification, history.OwnerUnmarked, false, 0
	}
	return e
}

func (s *server) hash(seq int64) uint64 { return uint64(s.stream)*1000003 + uint64(seq)*7919 }

func (s *server) record(r history.Record) {
	s.at += time.Duration(1+s.rng.IntN(5)) * time.Millisecond
	r.At, r.Session, r.Stream, r.Attempt, r.Link = s.at, s.session, s.stream, s.attempt, s.link
	s.out = append(s.out, r)
}

// exchange plays one exchange from the cursor on, and reports whether the response came.
func (s *server) exchange(next *int) bool {
	resume := len(s.out) > 0
	if resume {
		s.poll(*next)
		s.attempt++
	}
	s.link++
	s.record(history.Record{Kind: history.KindAttempt, Exchange: history.Exchange{Resume: resume, Cursor: uint32(*next), Call: uint8(s.call)}})
	missed := int32(-1)
	if resume {
		missed = int32(s.rng.IntN(len(s.log) - *next + 1))
	}
	if resume && s.rng.IntN(6) == 0 { // the old link still had something
		late := s.log[s.rng.IntN(max(1, *next+int(missed)))]
		late.Late, late.Cursor = true, uint32(*next)
		s.record(history.Record{Kind: history.KindEvent, Event: late})
	}
	if resume && s.rng.IntN(6) == 0 {
		s.record(history.Record{Kind: history.KindHead, Head: history.Head{Status: 409, Missed: -1}})
		s.record(history.Record{Kind: history.KindEnd, End: history.EndStatus})
		return false
	}
	strike := -1 // the fault fires before the event with this index
	if s.cut < s.cuts {
		strike = *next + s.rng.IntN(len(s.log)-*next+1)
		if s.afterID && *next == 0 {
			strike = 1 + s.rng.IntN(len(s.log)-1) // so that it has to resume
		}
	}
	if strike == *next && s.rng.IntN(2) == 0 {
		return s.strike("before-headers", *next)
	}
	s.record(history.Record{Kind: history.KindHead, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: missed}})
	dropped := 1 + s.rng.IntN(max(1, s.n))
	for i := s.from(*next); i < len(s.log); i++ {
		if i >= strike && strike >= *next {
			return s.strike("between-events", *next)
		}
		if s.canary && (s.log[i].Seq == int64(dropped) || s.n == 0 && s.log[i].Class == history.ClassResponse) {
			continue
		}
		s.record(history.Record{Kind: history.KindEvent, Event: s.log[i]})
		*next = max(*next, i+1)
	}
	if strike == len(s.log) {
		s.strike("after-response", *next)
		return true
	}
	s.record(history.Record{Kind: history.KindEnd, End: history.EndClean})
	return true
}

// strike cuts the link.
func (s *server) strike(place string, next int) bool {
	s.cut++
	kinds := []string{"rst", "fin", "chunk-end"}
	ends := []history.End{history.EndReset, history.EndTruncated, history.EndMidEvent}
	k := s.rng.IntN(len(kinds))
	s.record(history.Record{Kind: history.KindInjection, Injection: history.Injection{Kind: kinds[k], Place: place, Ends: true, AfterID: next > 0 && !s.noIDs}})
	s.record(history.Record{Kind: history.KindEnd, End: ends[k]})
	return false
}

// account writes the target's ledger.
func (s *server) account() {
	if !s.ledger {
		return
	}
	for k := 1; k <= s.n; k++ {
		s.record(history.Record{Kind: history.KindLedgerMessage, Ledger: history.Ledger{Seq: int64(k), Hash: s.hash(int64(k)), Fate: history.FateAccepted}})
	}
	s.record(history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{Known: true, Emitted: int64(s.n), Executions: 1, Responses: 1}})
}

// judge feeds the streams one after the other.
func (r *run) judge() judge.Verdict {
	j := judge.New(r.setup)
	for i, records := range r.streams {
		st := j.Open(records[0].Session, records[0].Stream, r.kinds[i])
		for k := range records {
			st.Observe(&records[k])
		}
		st.Close()
	}
	return j.Finish(wellTail())
}

// interleaved feeds the streams in a random interleaving.
func (r *run) interleaved(rng *rand.Rand) judge.Verdict {
	j := judge.New(r.setup)
	open := make([]*judge.Stream, len(r.streams))
	next := make([]int, len(r.streams))
	var alive []int
	for i, records := range r.streams {
		open[i] = j.Open(records[0].Session, records[0].Stream, r.kinds[i])
		alive = append(alive, i)
	}
	for len(alive) > 0 {
		k := rng.IntN(len(alive))
		i := alive[k]
		if next[i] == len(r.streams[i]) {
			open[i].Close()
			alive = append(alive[:k], alive[k+1:]...)
			continue
		}
		open[i].Observe(&r.streams[i][next[i]])
		next[i]++
	}
	return j.Finish(wellTail())
}
