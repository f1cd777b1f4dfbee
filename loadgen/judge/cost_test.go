package judge_test

import (
	"testing"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// feeder makes the events of one endless healthy stream, in one Record.
type feeder struct {
	r  history.Record
	st *judge.Stream
}

func newFeeder(setup judge.Setup) *feeder {
	f := &feeder{st: judge.New(setup).Open(1, 1, history.StreamLoad)}
	f.feed(history.Record{Kind: history.KindAttempt, Link: 1})
	f.feed(history.Record{Kind: history.KindHead, Link: 1, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: -1}})
	f.feed(history.Record{Kind: history.KindEvent, Link: 1, Event: history.Event{Class: history.ClassEmpty, HasID: true, IDHash: 1, Cursor: 1}})
	return f
}

func (f *feeder) feed(r history.Record) {
	f.r = r
	f.r.Session, f.r.Stream = 1, 1
	f.st.Observe(&f.r)
}

func (f *feeder) message(seq int64) {
	f.r = history.Record{Kind: history.KindEvent, Session: 1, Stream: 1, Link: 1, At: 1, Event: history.Event{Class: history.ClassProgress,
		Owner: history.OwnerSelf, HasID: true, IDHash: uint64(seq) + 1, Cursor: uint32(seq) + 1, Seq: seq, Ordered: true,
		Progress: float64(seq), Hash: uint64(seq), Bytes: 200}}
	f.st.Observe(&f.r)
}

func costSetup() judge.Setup {
	return judge.Setup{Revision: "2025-11-25", Oracle: judge.OracleLedger, Ledger: true, IDs: true, Expected: 1024, Streams: 1, Faults: 1}
}

// TestNoAllocationPerEvent: within the expectation, and past every cap.
func TestNoAllocationPerEvent(t *testing.T) {
	f := newFeeder(costSetup())
	seq := int64(0)
	next := func() { seq++; f.message(seq) }
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations per expected event", n)
	}
	for seq < 10_000 {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations per event past the caps", n)
	}
	jump := newFeeder(costSetup())
	jump.message(1)
	seq = 2
	gapped := func() { seq++; jump.message(seq) }
	gapped()
	if n := testing.AllocsPerRun(1000, gapped); n != 0 {
		t.Errorf("%v allocations per event after a hole", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	f := newFeeder(costSetup())
	seq := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		f.message(seq)
	}
}

// BenchmarkStream judges whole streams of 50 messages, and reports the cost per
// message: opening, ledger, closing and the comparison of ids included.
func BenchmarkStream(b *testing.B) {
	setup := costSetup()
	setup.Expected, setup.Streams = 50, b.N
	j := judge.New(setup)
	n := uint32(0)
	var r history.Record // one for all, as the generator does it
	b.ReportAllocs()
	for b.Loop() {
		n++
		st := j.Open(1+n%100, n, history.StreamLoad)
		r = history.Record{Session: 1 + n%100, Stream: n, Link: 1}
		feed := func(kind history.Kind) {
			r.Kind = kind
			st.Observe(&r)
		}
		feed(history.KindAttempt)
		r.Head = history.Head{Status: 200, Body: history.BodySSE, Missed: -1}
		feed(history.KindHead)
		for seq := int64(1); seq <= 50; seq++ {
			r.Event = history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf, HasID: true,
				IDHash: uint64(n)*1000003 + uint64(seq)*0x9e3779b97f4a7c15, Cursor: uint32(seq), Seq: seq, Ordered: true, Progress: float64(seq), Hash: uint64(seq)}
			feed(history.KindEvent)
		}
		r.Event = history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf}
		feed(history.KindEvent)
		r.End, r.Outcome = history.EndClean, history.OutcomeCompleted
		feed(history.KindEnd)
		feed(history.KindSettled)
		for seq := int64(1); seq <= 50; seq++ {
			r.Ledger = history.Ledger{Seq: seq, Hash: uint64(seq), Fate: history.FateAccepted}
			feed(history.KindLedgerMessage)
		}
		r.Ledger = history.Ledger{Known: true, Emitted: 50, Executions: 1, Responses: 1}
		feed(history.KindLedgerCall)
		st.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50, "ns/message")
}
