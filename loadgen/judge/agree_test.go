package judge_test

import (
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// damageRun changes up to two streams of a legal run.
func damageRun(rng *rand.Rand, r *run) {
	for range rng.IntN(4) {
		i := rng.IntN(len(r.streams))
		if r.kinds[i] == history.StreamCanary {
			continue
		}
		records := slices.Clone(r.streams[i])
		if rng.IntN(4) == 0 {
			r.streams[i] = cutOff(rng, records)
			continue
		}
		if rng.IntN(8) == 0 {
			r.streams[i] = inJSON(records)
			continue
		}
		k := rng.IntN(len(records))
		if d := &records[k]; d.Kind == history.KindPoll || d.Kind == history.KindEvent && d.Event.Class == history.ClassEnd {
			r.streams[i] = damageDraft(rng, records, k)
			continue
		}
		if !deciding(&records[k]) {
			continue
		}
		switch e := &records[k].Event; rng.IntN(8) {
		case 0:
			records = slices.Delete(records, k, k+1)
		case 1:
			if records[k].Kind == history.KindEvent {
				records = slices.Insert(records, k+rng.IntN(2), records[k])
			}
		case 2:
			if k > 0 && records[k-1].Kind == records[k].Kind {
				records[k-1], records[k] = records[k], records[k-1]
				records[k-1].Attempt, records[k].Attempt = records[k].Attempt, records[k-1].Attempt
			}
		case 3:
			if records[k].Kind == history.KindEvent && !e.Late {
				e.Owner, e.OwnerStream = history.OwnerOtherSession, 0
			}
		case 4:
			if records[k].Kind == history.KindLedgerMessage {
				records[k].Ledger.Hash++
			}
		case 5:
			if records[k].Kind == history.KindEvent {
				e.Digest = history.DigestWrong
			}
		case 6:
			if records[k].Kind == history.KindEvent && e.Seq > 0 { // it says nothing any more that could be numbered
				e.Seq, e.Hash, e.Ordered, e.Digest = 0, ^e.Hash, false, history.Digest(2*rng.IntN(2))
			}
		case 7:
			if p := &records[k].Probe; records[k].Kind == history.KindProbe {
				p.Foreign, p.Response = int32(rng.IntN(2)), rng.IntN(2) == 0
			} else if records[k].Kind == history.KindEvent && rng.IntN(4) == 0 {
				more := records[k]
				more.Event = history.Event{Class: history.ClassProgress, Owner: history.OwnerSelf, Hash: rng.Uint64(), Cursor: e.Cursor}
				records = slices.Insert(records, k, more)
			}
		}
		r.streams[i] = records
	}
}

// damageDraft has a poll lie, or an end come at the wrong time.
func damageDraft(rng *rand.Rand, records []history.Record, k int) []history.Record {
	if p := &records[k].Poll; records[k].Kind == history.KindPoll {
		for _, says := range []*bool{&p.Completed, &p.Pending, &p.HasError, &p.HasRequest} {
			*says = *says != (rng.IntN(3) == 0)
		}
		return records
	}
	switch rng.IntN(3) {
	case 0:
		return slices.Delete(records, k, k+1)
	case 1:
		return slices.Insert(records, k, records[k])
	}
	if records[k-1].Kind == history.KindEvent && !records[k-1].Event.Late {
		records[k-1].Event, records[k].Event = records[k].Event, records[k-1].Event
	}
	return records
}

// TestNaiveAgreesOnTheDraft does so in dialect streams.
func TestNaiveAgreesOnTheDraft(t *testing.T) {
	runs := 20_000
	if testing.Short() {
		runs = 2_000
	}
	words, alone := map[judge.Word]int{}, map[string]int{}
	var spare [][]history.Record
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		r := legalSetup(rng, judge.Setup{Revision: "2025-06-18", Dialect: "streams", Contract: judge.ExactlyOnce}, spare...)
		spare = r.spare
		if v := r.judge(); v.Word != judge.Holds {
			t.Fatalf("seed %d: a legal history %s\n%s\n%v", seed, v.Word, v.Sentence, v.Why)
		}
		damageRun(rng, r)
		_, word := judgeNaively(r)
		v := r.judge()
		if words[v.Word]++; v.Word != word {
			t.Fatalf("seed %d: the judge says %s, the naive one %s\n%s\n%v", seed, v.Word, word, v.Sentence, v.Why)
		}
		var guilty []string
		for _, inv := range v.Invariants {
			if inv.Decides && inv.Violations > 0 {
				guilty = append(guilty, inv.Name)
			}
		}
		if len(guilty) == 1 {
			alone[guilty[0]]++
		}
	}
	if words[judge.Holds] < runs/20 || words[judge.Violated] < runs/20 || alone["poll-truthful"] < runs/500 || alone["end-last"] < runs/200 {
		t.Errorf("the histories are one-sided: %v, %v", words, alone)
	}
	t.Log(words, alone)
}

// inJSON answers a complete call with one JSON body, which leaves its messages no stream.
func inJSON(records []history.Record) []history.Record {
	response := slices.IndexFunc(records, func(r history.Record) bool {
		return r.Kind == history.KindEvent && !r.Event.Late && r.Event.Owner == history.OwnerSelf && r.Event.Class == history.ClassResponse
	})
	settled := slices.IndexFunc(records, func(r history.Record) bool { return r.Kind == history.KindSettled })
	if response < 0 || settled < response || records[settled].Outcome != history.OutcomeCompleted {
		return records
	}
	head, event, end := records[0], records[response], records[0]
	head.Kind, head.Exchange, head.Head = history.KindHead, history.Exchange{}, history.Head{Status: 200, Body: history.BodyJSON, Missed: -1}
	event.Attempt, event.Link = 0, head.Link
	event.Event.HasID, event.Event.IDHash, event.Event.Cursor = false, 0, 0
	end.Kind, end.At, end.Exchange, end.End = history.KindEnd, event.At, history.Exchange{}, history.EndClean
	return append([]history.Record{records[0], head, event, end}, records[settled:]...)
}

// cutOff ends a stream's client side before its time, in one of the ways that there
// are, and keeps the ledger.
func cutOff(rng *rand.Rand, records []history.Record) []history.Record {
	k := slices.IndexFunc(records, func(r history.Record) bool { return r.Kind == history.KindSettled })
	if k < 0 || records[k].Outcome != history.OutcomeCompleted {
		return records
	}
	last := records[k]
	at := slices.IndexFunc(records, func(r history.Record) bool {
		return r.Kind == history.KindHead && r.Head.Status == 200 && r.Attempt > 0
	})
	if at < 0 {
		return records
	}
	at += 1 + rng.IntN(k-at)
	for at > 1 && (records[at-1].Kind == history.KindInjection || records[at-1].Kind == history.KindEnd || records[at-1].Kind == history.KindAttempt || records[at-1].Kind == history.KindPoll) {
		at--
	}
	out := slices.Clone(records[:at])
	end, settled := out[at-1], out[at-1]
	end.Kind, end.End, end.Event = history.KindEnd, history.EndDeadline, history.Event{}
	settled.Kind, settled.Outcome, settled.Event = history.KindSettled, history.OutcomeFailed, history.Event{}
	end.At += 20 * time.Second
	switch rng.IntN(3) {
	case 0:
		end.End, settled.Outcome = history.EndStopped, history.OutcomeUndecided
	case 1:
		head := end
		head.Kind, head.End, head.Head = history.KindHead, 0, history.Head{Status: 404}
		head.Attempt++
		attempt := head
		attempt.Kind, attempt.Exchange = history.KindAttempt, history.Exchange{Resume: true, Cursor: 1}
		out = append(out, attempt, head)
		end.End, settled.Outcome, end.Attempt = history.EndStatus, history.OutcomeRefused, head.Attempt
	}
	settled.At, last.At = end.At+1, end.At+1
	return append(append(out, end, settled), records[k+1:]...)
}

// TestNaiveAgrees compares the two judges on random histories, legal and damaged.
func TestNaiveAgrees(t *testing.T) {
	runs := 100_000
	if testing.Short() {
		runs = 5_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // short-lived garbage only
	words, sum := map[judge.Word]int{}, naive{}
	var spare [][]history.Record
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		r := legalUnder(rng, contracts()[max(0, rng.IntN(6)-2)], spare...) // every second one exactly-once
		spare = r.spare
		damageRun(rng, r)
		n, word := judgeNaively(r)
		v := r.judge()
		words[v.Word]++
		m := v.Messages
		got := naive{expected: m.Expected, delivered: m.Delivered, lost: m.Lost, undecided: m.Undecided, duplicated: m.Duplicated,
			misordered: m.Misordered, corrupt: m.Corrupt, foreign: m.Foreign, late: m.Late, missing: v.Responses.Missing, repeated: v.Responses.Repeated,
			lostAllowed: m.LostAllowed, duplicatedAllowed: m.DuplicatedAllowed, missingAllowed: v.Responses.MissingAllowed, severed: v.Streams.Severed}
		want := n
		want.instead, want.unlike, want.reissued, want.misfit = 0, 0, 0, false
		want.foreignIDs, want.executions, want.illegal, want.hangs, want.doubt, want.led = 0, 0, 0, 0, false, false
		if got != want || v.Word != word {
			t.Fatalf("seed %d, %s: the judge says %s %+v, the naive one %s %+v\n%s\n%v", seed, r.setup.Contract, v.Word, got, word, want, v.Sentence, v.Why)
		}
		balance(t, v)
		sum.lostAllowed += n.lostAllowed
		sum.duplicatedAllowed += n.duplicatedAllowed
		sum.missingAllowed += n.missingAllowed
		sum.severed += n.severed
	}
	if min(sum.lostAllowed, sum.duplicatedAllowed, sum.missingAllowed, sum.severed) < int64(runs/100) {
		t.Errorf("the histories make little use of what contracts allow: %+v", sum)
	}
	if words[judge.Holds] < runs/20 || words[judge.Violated] < runs/20 || words[judge.Inconclusive] < runs/100 {
		t.Errorf("the histories are one-sided: %v", words)
	}
	t.Logf("holds, violated, inconclusive: %d, %d, %d", words[judge.Holds], words[judge.Violated], words[judge.Inconclusive])
}
