package judge_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// deciding tells the records that a verdict has to rest on. Bytes that came late are
// neither delivered nor repeated, and an unnumbered notification cannot be missed.
func deciding(r *history.Record) bool {
	switch r.Kind {
	case history.KindEvent:
		return !r.Event.Late && (r.Event.Seq > 0 || r.Event.Class == history.ClassResponse)
	case history.KindSettled, history.KindLedgerMessage, history.KindLedgerCall, history.KindProbe:
		return true
	}
	return false
}

// indeterminate tells that a call was cut before it could be resumed, so that what is
// missing of it is not due.
func indeterminate(records []history.Record) bool {
	return slices.ContainsFunc(records, func(r history.Record) bool { return r.Outcome == history.OutcomeIndeterminate })
}

func without(records []history.Record, i int) []history.Record {
	return slices.Delete(slices.Clone(records), i, i+1)
}

// mutants calls try with every single-record mutation of one stream.
func mutants(records []history.Record, try func(what string, mutant []history.Record)) {
	last := -1
	for i := range records {
		r := &records[i]
		if !deciding(r) {
			continue
		}
		try("drop", without(records, i))
		try("duplicate", slices.Insert(slices.Clone(records), i, *r))
		if r.Kind == history.KindEvent || r.Kind == history.KindLedgerMessage {
			if last >= 0 && records[last].Kind == r.Kind {
				m := slices.Clone(records)
				m[last].Event, m[i].Event = m[i].Event, m[last].Event
				m[last].Ledger, m[i].Ledger = m[i].Ledger, m[last].Ledger
				try("swap", m)
			}
			last = i
		}
		relabel(records, i, try)
	}
	if slices.ContainsFunc(records, func(r history.Record) bool { return r.Event.Seq > 0 }) {
		try("answered with JSON", inJSON(records))
	}
	for i := 1; i < len(records); i++ {
		if slices.ContainsFunc(records[i:], func(r history.Record) bool { return deciding(&r) }) {
			try("truncate", slices.Clone(records[:i]))
		}
	}
}

// relabel changes what one record says.
func relabel(records []history.Record, i int, try func(string, []history.Record)) {
	change := func(what string, f func(*history.Record)) {
		m := slices.Clone(records)
		f(&m[i])
		try(what, m)
	}
	switch r := &records[i]; r.Kind {
	case history.KindEvent:
		change("sibling's", func(r *history.Record) { r.Event.Owner, r.Event.OwnerStream = history.OwnerOtherStream, 77 })
		change("other session's", func(r *history.Record) { r.Event.Owner = history.OwnerOtherSession })
		change("nobody's", func(r *history.Record) { r.Event.Owner = history.OwnerNobody })
		change("late", func(r *history.Record) { r.Event.Late = true })
		change("illegal", func(r *history.Record) { r.Event.Illegal = history.IllegalJSON })
		change("wrong digest", func(r *history.Record) { r.Event.Digest = history.DigestWrong })
		change("another id", func(r *history.Record) { r.Event.IDHash = uint64(r.Stream)<<32 | 1 })
		if r.Event.Seq > 0 {
			change("next number", func(r *history.Record) { r.Event.Seq++ })
			change("number past the end", func(r *history.Record) { r.Event.Seq += 1000 })
			change("unlike", func(r *history.Record) {
				r.Event.Seq, r.Event.Hash, r.Event.Digest = 0, ^r.Event.Hash, history.DigestWrong
			})
			change("no number", func(r *history.Record) { r.Event.Seq, r.Event.Hash = 0, ^r.Event.Hash })
			if r.Event.Seq > 1 && r.Event.Ordered {
				change("falling progress", func(r *history.Record) { r.Event.Progress = -1 })
			}
			if r.Event.Hash != 0 && records[len(records)-1].Kind == history.KindLedgerCall {
				change("other bytes", func(r *history.Record) { r.Event.Hash++ })
			}
		} else {
			change("an error", func(r *history.Record) { r.Event.Class = history.ClassError })
		}
	case history.KindProbe:
		change("a message after the cut", func(r *history.Record) { r.Probe.Foreign = 1 })
		change("not answered again", func(r *history.Record) { r.Probe.Response = false })
	case history.KindLedgerMessage:
		change("ledger number", func(r *history.Record) { r.Ledger.Seq++ })
		change("ledger hash", func(r *history.Record) { r.Ledger.Hash++ })
	case history.KindLedgerCall:
		change("executed twice", func(r *history.Record) { r.Ledger.Executions = 2 })
		change("unknown call", func(r *history.Record) { r.Ledger = history.Ledger{} })
		change("more emitted", func(r *history.Record) { r.Ledger.Emitted++ })
		change("two responses", func(r *history.Record) { r.Ledger.Responses = 2 })
	}
}

// TestMutation: under each contract the judge holds for legal histories however their
// streams interleave, and for none in which a single deciding record was changed. Under a
// contract that allows something, a change may have made a legal history of it: there
// the naive judge has to agree.
func TestMutation(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 25
	}
	tried, legalised := map[string]int{}, map[judge.Contract]int{}
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		r := legalUnder(rng, contracts()[max(0, seed%7-3)])
		v := r.judge()
		if v.Messages.Expected > 0 && v.Messages.Delivered == 0 {
			continue // nothing but losses that the contract allows
		}
		if v.Word != judge.Holds {
			t.Fatalf("seed %d: under %s a legal history is %s: %s %v", seed, r.setup.Contract, v.Word, v.Sentence, v.Why)
		}
		balance(t, v)
		for range 3 {
			if w := r.interleaved(rng); !reflect.DeepEqual(v, w) {
				t.Fatalf("seed %d: interleaved otherwise, the verdict differs:\n%+v\n%+v", seed, v, w)
			}
		}
		for i, records := range r.streams {
			if r.kinds[i] == history.StreamCanary || indeterminate(records) {
				continue
			}
			mutants(records, func(what string, mutant []history.Record) {
				tried[what]++
				r.streams[i] = mutant
				v := r.judge()
				if v.Word == judge.Holds {
					if _, naively := judgeNaively(r); naively != judge.Holds || r.setup.Contract == judge.ExactlyOnce {
						t.Errorf("seed %d, stream %d, under %s: %s goes unnoticed", seed, i+1, r.setup.Contract, what)
					}
					legalised[r.setup.Contract]++
				}
				balance(t, v)
			})
			r.streams[i] = records
		}
	}
	for _, what := range []string{"drop", "duplicate", "swap", "truncate", "next number", "other bytes", "sibling's", "answered with JSON"} {
		if tried[what] == 0 {
			t.Errorf("no mutant of the kind %q was tried", what)
		}
	}
	t.Logf("%v; legal all the same %v", tried, legalised)
}
