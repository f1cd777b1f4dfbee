package judge_test

import (
	"testing"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// long feeds one stream of n messages past the caps; change may alter a message.
func long(n int64, change func(*history.Record) bool) judge.Verdict {
	setup := costSetup()
	setup.Expected = 0
	f := newFeeder(setup)
	j := judge.New(setup)
	f.st = j.Open(1, 1, history.StreamLoad)
	f.feed(history.Record{Kind: history.KindAttempt, Link: 1})
	f.feed(history.Record{Kind: history.KindHead, Link: 1, Head: history.Head{Status: 200, Body: history.BodySSE, Missed: -1}})
	for seq := int64(1); seq <= n; seq++ {
		f.r = history.Record{Kind: history.KindEvent, Link: 1, Event: history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf,
			HasID: true, IDHash: uint64(seq) + 1, Cursor: uint32(seq), Seq: seq, Ordered: true, Progress: float64(seq), Hash: uint64(seq) * 31}}
		if change(&f.r) {
			f.feed(f.r)
		}
	}
	f.feed(history.Record{Kind: history.KindEvent, Link: 1, Event: history.Event{Class: history.ClassResponse, Owner: history.OwnerSelf}})
	f.feed(history.Record{Kind: history.KindEnd, End: history.EndClean})
	f.feed(history.Record{Kind: history.KindSettled, Outcome: history.OutcomeCompleted})
	for seq := int64(1); seq <= n; seq++ {
		f.feed(history.Record{Kind: history.KindLedgerMessage, Ledger: history.Ledger{Seq: seq, Hash: uint64(seq) * 31, Fate: history.FateAccepted}})
	}
	f.feed(history.Record{Kind: history.KindLedgerCall, Ledger: history.Ledger{Known: true, Emitted: n, Executions: 1, Responses: 1}})
	f.st.Close()
	return j.Finish(wellTail())
}

func TestCaps(t *testing.T) {
	const n = 20_000
	rows := []struct {
		name      string
		change    func(*history.Record) bool
		invariant string
		want      int64
	}{
		{"nothing – intact holds", func(*history.Record) bool { return true }, "intact", 0},
		{"a corrupt message past the cap – intact violated", func(r *history.Record) bool {
			if r.Event.Seq == 15_000 {
				r.Event.Hash++
			}
			return true
		}, "intact", 1},
		{"a lost message past the cap – no-loss violated", func(r *history.Record) bool { return r.Event.Seq != 15_000 }, "no-loss", 1},
		{"a lost message past the cap – intact holds", func(r *history.Record) bool { return r.Event.Seq != 15_000 }, "intact", 0},
		{"every second message lost – no-loss violated", func(r *history.Record) bool { return r.Event.Seq%2 == 1 }, "no-loss", n / 2},
	}
	for _, r := range rows {
		v := long(n, r.change)
		balance(t, v)
		inv := invariantOf(t, v, r.invariant)
		if inv.Violations != r.want || (r.want == 0) != (inv.State == "holds") && r.invariant == "intact" {
			t.Errorf("%s: %s with %d violations", r.name, inv.State, inv.Violations)
		}
		if len(inv.Evidence) > 0 && len(inv.Evidence[0].Ranges) > 16 {
			t.Errorf("%s: %d ranges", r.name, len(inv.Evidence[0].Ranges))
		}
	}
}

// TestUntracked: a number far past a hole is neither delivered nor lost: it is said.
func TestUntracked(t *testing.T) {
	v := long(10, func(r *history.Record) bool {
		if r.Event.Seq == 10 {
			r.Event.Seq = 1 << 40
		}
		return true
	})
	balance(t, v)
	if v.Coverage.Untracked != 1 || v.Word == judge.Holds {
		t.Errorf("%s, coverage %+v", v.Word, v.Coverage)
	}
}

// TestIDCap: past the cap the verdict says which share was compared across streams,
// and an id that was kept is still recognised.
func TestIDCap(t *testing.T) {
	const streams, each = 600, 500
	j := judge.New(costSetup())
	for n := uint32(1); n <= streams; n++ {
		st := j.Open(1, n, history.StreamLoad)
		for k := range uint64(each) {
			id := uint64(n)<<20 + k + 1
			if n == streams && k == 0 {
				id = 1<<20 + 1 // the first id of the first stream
			}
			st.Observe(&history.Record{Kind: history.KindEvent, Session: 1, Stream: n, Event: history.Event{Class: history.ClassEmpty, HasID: true, IDHash: id, Cursor: uint32(k)}})
		}
		st.Close()
	}
	v := j.Finish(wellTail())
	c := v.Coverage
	if c.IDs != streams*each || c.IDsKept != judge.MaxIDs {
		t.Errorf("coverage %+v", c)
	}
	if inv := invariantOf(t, v, "unique-ids"); inv.Violations != 1 || inv.Streams != 1 {
		t.Errorf("%d violations in %d streams", inv.Violations, inv.Streams)
	}
}
