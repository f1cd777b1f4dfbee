package judge_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// A history of the tests is one slice of records per stream, in the order in which
// they are fed. The text form is line by line:
//
//	stream 2 session 1 load        begins a stream; load, control or canary
//	post                           attempt 0: call=1; "resume" the next ones: cursor=2 asked=1s waited=1s link=3
//	head 200 sse                   missed=2
//	prime                          id=x: an event with empty data
//	m 3                            message 3; id=x total=9 hash=x owner=other|session|nobody from=4 late illegal=1 noid p=2.5
//	                               digest=wrong; log: a log message, ordered: with a progress value; unlike: it says nothing that could be numbered
//	m 3-7                          messages 3 to 7
//	other                          a notification without a number; class=request
//	junk                           no JSON-RPC message: illegal=4
//	response                       or "error"
//	cut rst mid-event              early (before the first id), after (an id was let through), replay, opening, wide, unplanned, vague; suffers for=2s: the link lives on
//	probe replay                   status=200 want=3 got=3 wrong=1 foreign=1 noresponse took=3s end=clean not (offered)
//	                               reissue is answered unless noresponse
//	create, over, refusal, answer  dialect streams: create and end notification, error and result of a stream/resume
//	poll completed pending         request error strange; refused or unanswered
//	end clean
//	settled completed              asked=1h: how long to wait before a resume that never came
//	ledger 5                       messages 1-5 accepted, and the call; exec=1 resp=1 unknown=3,4 unstored=5 cancelled corrupt=2 short
//	unknown                        the ledger does not know the call
//	wait 12s                       time passes
type script struct {
	streams [][]history.Record
	kinds   []history.StreamKind
	cur     []history.Record
	at      time.Duration
	session uint32
	stream  uint32
	attempt uint16
	link    uint32
	cursor  uint32
	links   uint32
	noIDs   bool
}

var bodies = map[string]history.Body{"none": history.BodyNone, "sse": history.BodySSE, "json": history.BodyJSON, "other": history.BodyOther}

var ends = map[string]history.End{"clean": history.EndClean, "mid-event": history.EndMidEvent, "truncated": history.EndTruncated,
	"reset": history.EndReset, "idle": history.EndIdle, "deadline": history.EndDeadline, "status": history.EndStatus,
	"frame": history.EndFrame, "unreachable": history.EndUnreachable, "open": history.EndOpen, "stopped": history.EndStopped}

var outcomes = map[string]history.Outcome{"none": history.OutcomeNone, "completed": history.OutcomeCompleted,
	"indeterminate": history.OutcomeIndeterminate, "not-sent": history.OutcomeNotSent, "refused": history.OutcomeRefused,
	"cancelled": history.OutcomeCancelled, "undecided": history.OutcomeUndecided, "failed": history.OutcomeFailed}

var kinds = map[string]history.StreamKind{"load": history.StreamLoad, "control": history.StreamControl, "canary": history.StreamCanary,
	"get": history.StreamGet}

var owners = map[string]history.Owner{"": history.OwnerSelf, "unmarked": history.OwnerUnmarked, "other": history.OwnerOtherStream,
	"session": history.OwnerOtherSession, "nobody": history.OwnerNobody}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// messageHash is the hash of message seq of a stream, as emitter and reader see it.
func messageHash(stream uint32, seq int64) uint64 {
	return hashOf(fmt.Sprintf("message %d of %d", seq, stream))
}

// parse reads histories in text form.
func parse(t testing.TB, text string) *script {
	t.Helper()
	s := &script{}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.line(words); err != nil {
			t.Fatalf("line %d: %q: %v", n+1, line, err)
		}
	}
	s.flush()
	return s
}

func (s *script) flush() {
	if s.cur != nil {
		s.streams = append(s.streams, s.cur)
		s.cur = nil
	}
}

// add appends a record with the common fields.
func (s *script) add(r history.Record) {
	s.at += time.Millisecond
	r.At, r.Session, r.Stream, r.Attempt, r.Link = s.at, s.session, s.stream, s.attempt, s.link
	s.cur = append(s.cur, r)
}

// options are the words of the form key=value and the bare ones after the verb.
type options map[string]string

func optionsOf(words []string) options {
	o := options{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	return o
}

func (o options) has(k string) bool { _, ok := o[k]; return ok }

func (o options) int(k string, otherwise int64) int64 {
	if v, ok := o[k]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	return otherwise
}

func (o options) duration(k string) time.Duration {
	if v, ok := o[k]; ok {
		d, err := time.ParseDuration(v)
		if err != nil {
			panic(err)
		}
		return d
	}
	return 0
}

func (s *script) line(w []string) error {
	switch w[0] {
	case "stream":
		s.flush()
		return s.begin(w)
	case "wait":
		d, err := time.ParseDuration(w[1])
		s.at += d
		return err
	case "noids":
		s.noIDs = true
	case "post", "resume":
		o := optionsOf(w[1:])
		if w[0] == "resume" {
			s.attempt++
		}
		s.links++
		s.link = s.links
		s.add(history.Record{Kind: history.KindAttempt, Exchange: history.Exchange{Resume: w[0] == "resume",
			Cursor: uint32(o.int("cursor", int64(s.cursor))), Call: uint8(o.int("call", 0)), Asked: o.duration("asked"), Waited: o.duration("waited")}})
	case "head":
		o := optionsOf(w[2:])
		status, err := strconv.Atoi(w[1])
		body := history.BodyNone
		for name, b := range bodies {
			if o.has(name) {
				body = b
			}
		}
		s.add(history.Record{Kind: history.KindHead, Head: history.Head{Status: status, Body: body, Missed: int32(o.int("missed", -1))}})
		return err
	case "cut":
		o := optionsOf(w[3:])
		planned := 0
		if o.has("unplanned") {
			planned = history.Unplanned
		}
		s.add(history.Record{Kind: history.KindInjection, Injection: history.Injection{Kind: w[1], Place: w[2], Planned: planned,
			Ends: !o.has("suffers"), For: o.duration("for"),
			Approximate: o.has("vague"), RunWide: o.has("wide"), AfterID: !o.has("early") && s.cursor > 0 || o.has("after"), InReplay: o.has("replay"), Opening: o.has("opening"), Offset: 61}})
	case "poll":
		o := optionsOf(w[1:])
		s.add(history.Record{Kind: history.KindPoll, Poll: history.Poll{Status: 200, Answered: !o.has("refused") && !o.has("unanswered"), Refused: o.has("refused"),
			Completed: o.has("completed"), Pending: o.has("pending"), HasRequest: o.has("request"), HasError: o.has("error"), Strange: o.has("strange")}})
	case "probe":
		s.probe(w[1], optionsOf(w[2:]))
	case "end":
		s.add(history.Record{Kind: history.KindEnd, End: ends[w[1]]})
	case "settled":
		s.add(history.Record{Kind: history.KindSettled, Outcome: outcomes[w[1]], Exchange: history.Exchange{Asked: optionsOf(w[2:]).duration("asked")}})
	case "unknown":
		s.add(history.Record{Kind: history.KindLedgerCall})
	case "ledger":
		return s.ledger(w)
	default:
		return s.event(w)
	}
	return nil
}

var probeNames = []string{"none", "replay", "again", "unknown-cursor", "malformed-cursor", "foreign-cursor", "missing-session", "dead-session", "origin", "reissue"}

func (s *script) probe(name string, o options) {
	i := slices.Index(probeNames, name)
	if i < 0 {
		panic("no probe is called " + name)
	}
	p := history.Probe{Name: history.ProbeName(i), Offered: !o.has("not"), Status: int(o.int("status", 200)), Want: int32(o.int("want", 0)),
		Wrong: int32(o.int("wrong", 0)), Foreign: int32(o.int("foreign", 0)), End: history.EndClean, Took: o.duration("took")}
	p.Messages = int32(o.int("got", int64(p.Want)))
	p.Response = (i <= 2 || p.Name == history.ProbeReissue) && p.Status == 200 && !o.has("noresponse")
	if end, ok := o["end"]; ok {
		p.End = ends[end]
	}
	p.Events = p.Messages + p.Wrong + p.Foreign
	s.add(history.Record{Kind: history.KindProbe, Probe: p})
}

func (s *script) begin(w []string) error {
	stream, err := strconv.Atoi(w[1])
	if err != nil || len(w) != 5 {
		return fmt.Errorf("want: stream N session N KIND")
	}
	session, err := strconv.Atoi(w[3])
	s.stream, s.session, s.attempt, s.cursor, s.noIDs = uint32(stream), uint32(session), 0, 0, false
	s.cur = []history.Record{}
	s.kinds = append(s.kinds, kinds[w[4]])
	return err
}

// event adds one event, or a run of messages.
func (s *script) event(w []string) error {
	e := history.Event{}
	rest := w[1:]
	first, last := int64(0), int64(0)
	switch w[0] {
	case "prime":
		e.Class = history.ClassEmpty
	case "other":
		e.Class = history.ClassNotification
	case "junk":
		e.Class = history.ClassJunk
	case "response":
		e.Class = history.ClassResponse
	case "error":
		e.Class = history.ClassError
	case "create":
		e.Class = history.ClassCreate
	case "over":
		e.Class = history.ClassEnd
	case "refusal":
		e.Class = history.ClassRefusal
	case "answer":
		e.Class = history.ClassOther
	case "m":
		e.Class = history.ClassProgress
		a, b, isRun := strings.Cut(w[1], "-")
		first, _ = strconv.ParseInt(a, 10, 64)
		last = first
		if isRun {
			last, _ = strconv.ParseInt(b, 10, 64)
		}
		rest = w[2:]
	default:
		return fmt.Errorf("unknown verb")
	}
	o := optionsOf(rest)
	if o["class"] == "request" {
		e.Class = history.ClassRequest
	}
	for seq := first; seq <= last; seq++ {
		s.one(e, seq, o)
	}
	return nil
}

func (s *script) one(e history.Event, seq int64, o options) {
	e.Owner = owners[o["owner"]]
	e.OwnerStream = uint32(o.int("from", 0))
	e.Bytes = uint32(o.int("bytes", 0))
	e.Late, e.Illegal = o.has("late"), history.Illegal(o.int("illegal", 0))
	if e.Class == history.ClassEmpty || e.Class == history.ClassJunk {
		e.Owner = history.OwnerUnmarked
	}
	if e.Class == history.ClassProgress {
		e.Seq, e.Total = seq, o.int("total", 0)
		e.Ordered, e.Progress = true, float64(seq)
		if p, ok := o["p"]; ok { // a progress value that is no numbering
			e.Seq = 0
			e.Progress, _ = strconv.ParseFloat(p, 64)
		}
	}
	e.Digest = map[string]history.Digest{"wrong": history.DigestWrong, "right": history.DigestRight}[o["digest"]]
	if o.has("log") {
		e.Class, e.Ordered = history.ClassNotification, o.has("ordered")
	}
	if o.has("unlike") {
		e.Seq, e.Digest = 0, history.DigestWrong
	}
	e.Hash = hashOf(fmt.Sprint(e.Class, s.stream, s.attempt, len(s.cur)))
	if e.Seq > 0 {
		e.Hash = messageHash(s.stream, e.Seq)
	}
	if h, ok := o["hash"]; ok {
		e.Hash = hashOf(h)
	}
	if !o.has("noid") && !s.noIDs {
		if !e.Late {
			s.cursor++
		}
		id := fmt.Sprintf("%d-%d-%d", s.session, s.stream, s.cursor)
		if x, ok := o["id"]; ok {
			id = x
		}
		e.HasID, e.IDHash = true, hashOf(id)
	}
	e.Cursor = s.cursor
	s.add(history.Record{Kind: history.KindEvent, Event: e})
}

func (s *script) ledger(w []string) error {
	n, err := strconv.ParseInt(w[1], 10, 64)
	o := optionsOf(w[2:])
	set := func(k string) map[string]bool {
		m := map[string]bool{}
		for _, x := range strings.Split(o[k], ",") {
			m[x] = true
		}
		return m
	}
	unknown, unstored, corrupt := set("unknown"), set("unstored"), set("corrupt")
	for seq := int64(1); seq <= n; seq++ {
		l := history.Ledger{Seq: seq, Hash: messageHash(s.stream, seq), Fate: history.FateAccepted}
		name := strconv.FormatInt(seq, 10)
		switch {
		case unknown[name]:
			l.Fate = history.FateUnknown
		case unstored[name]:
			l.Fate = history.FateUnstored
		case corrupt[name]:
			l.Hash++
		}
		s.add(history.Record{Kind: history.KindLedgerMessage, Ledger: l})
	}
	emitted := n
	if o.has("short") {
		emitted++
	}
	s.add(history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{Known: true, Emitted: emitted,
		Executions: int32(o.int("exec", 1)), Responses: int32(o.int("resp", 1)), Cancelled: o.has("cancelled"), CancelSeen: o.has("seen")}})
	return err
}

// judgeScript judges the streams one after the other.
func judgeScript(setup judge.Setup, s *script, tail judge.Tail) judge.Verdict {
	j := judge.New(setup)
	for i, records := range s.streams {
		if len(records) == 0 {
			continue
		}
		st := j.Open(records[0].Session, records[0].Stream, s.kinds[i])
		for k := range records {
			st.Observe(&records[k])
		}
		st.Close()
	}
	return j.Finish(tail)
}

// invariantOf finds the verdict on one invariant.
func invariantOf(t testing.TB, v judge.Verdict, name string) judge.Invariant {
	t.Helper()
	for _, inv := range v.Invariants {
		if inv.Name == name {
			return inv
		}
	}
	t.Fatalf("no invariant is called %q", name)
	return judge.Invariant{}
}

// wellTail is the tail of a run in which the generator did everything right.
func wellTail() judge.Tail {
	return judge.Tail{Trailer: true}
}

// canaryScript loses message 2 of a canary.
const canaryScript = `
stream 99 session 9 canary
post
head 200 sse
prime
m 1 total=3
m 3 total=3
response
end clean
settled completed
ledger 3
`

// muteCanaryScript loses the response of one, for runs in which only responses are judged.
const muteCanaryScript = `
stream 99 session 9 canary
post
head 200 sse
prime
end clean
settled completed
`

// ledgerSetup is a run against the reference server with one cut call planned.
func ledgerSetup() judge.Setup {
	return judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleLedger, Ledger: true, IDs: true, Expected: 5,
		Streams: 1, Faults: 1}
}

func balance(t testing.TB, v judge.Verdict) {
	t.Helper()
	m := v.Messages
	if m.Expected != m.Delivered+m.Lost+m.LostAllowed+m.Degraded+m.Undecided {
		t.Errorf("messages do not balance: %+v", m)
	}
	if r := v.Responses; r.Expected != r.Received+r.Missing+r.MissingAllowed {
		t.Errorf("responses do not balance: %+v", r)
	}
	st := v.Streams
	if st.Opened != st.Completed+st.Indeterminate+st.NotSent+st.Refused+st.Cancelled+st.Undecided+st.Failed+st.Severed {
		t.Errorf("streams do not balance: %+v", st)
	}
}
