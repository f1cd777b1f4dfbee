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

// BenchmarkStream judges whole streams of 50 messages with one cut, and reports the
// cost per event, opening and closing included.
func BenchmarkStream(b *testing.B) {
	setup := costSetup()
	setup.Expected = 50
	j := judge.New(setup)
	n := uint32(0)
	r := history.Record{}
	b.ReportAllocs()
	for b.Loop() {
		n++
		st := j.Open(1+n%100, n, history.StreamLoad)
		feed := func(rec history.Record) {
			r = rec
			r.Session, r.Stream, r.Link = 1+n%100, n, 1
			st.Observe(&r)
		}
		feed(history.Record{Kind: history.KindAttempt})
		feed(history.Record{Kind: history.KindHead, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: -1}})
		for seq := int64(1); seq <= 50; seq++ {
			feed(history.Record{Kind: history.KindEvent, Event: history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf, HasID: true,
				IDHash: uint64(n)*1000003 + uint64(seq)*0x9e3779b97f4a7c15, Cursor: uint32(seq), Seq: seq, Ordered: true, Progress: float64(seq), Hash: uint64(seq)}})
		}
		feed(history.Record{Kind: history.KindEvent, Event: history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf}})
		feed(history.Record{Kind: history.KindEnd, End: history.EndClean})
		feed(history.Record{Kind: history.KindSettled, Outcome: history.OutcomeCompleted})
		for seq := int64(1); seq <= 50; seq++ {
			feed(history.Record{Kind: history.KindLedgerMessage, Ledger: history.Ledger{Seq: seq, Hash: uint64(seq), Fate: history.FateAccepted}})
		}
		feed(history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{Known: true, Emitted: 50, Executions: 1, Responses: 1}})
		st.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/51, "ns/event")
}
