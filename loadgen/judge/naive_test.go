package judge_test

import (
	"slices"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// The naive judge keeps the whole history in memory, sorts and compares. It shares
// no code with the real one, and knows only what decides: messages, responses, ids,
// owners and the ledger.
type naive struct {
	expected, delivered, lost, undecided, duplicated, misordered, corrupt, foreign, late int64
	missing, repeated, foreignIDs, executions, illegal, hangs                            int64
	doubt, led                                                                           bool
}

type delivery struct {
	seq, order int64
	hash       uint64
}

type idOwner struct {
	session uint32
	id      uint64
}

type idUser struct {
	stream uint32
	hash   uint64
	class  history.Class
}

// judgeNaively judges a run whose faults and generator are beyond doubt. The canary is
// not judged; what a control call did counts for the word alone.
func judgeNaively(r *run) (n naive, word judge.Word) {
	ids := map[idOwner]map[idUser]bool{}
	var control naive
	judged, injected := 0, 0
	for i, records := range r.streams {
		if r.kinds[i] == history.StreamCanary {
			continue
		}
		into := &n
		if r.kinds[i] == history.StreamControl {
			into = &control
		}
		into.stream(r.setup, records)
		cut := false
		for _, rec := range records {
			cut = cut || rec.Kind == history.KindInjection && rec.Injection.AfterID
			if rec.Kind == history.KindInjection && r.kinds[i] == history.StreamLoad {
				injected++
			}
			if e := rec.Event; rec.Kind == history.KindEvent && e.HasID && !e.Late {
				key := idOwner{rec.Session, e.IDHash}
				if ids[key] == nil {
					ids[key] = map[idUser]bool{}
				}
				ids[key][idUser{rec.Stream, e.Hash, e.Class}] = true
			}
		}
		if cut && r.kinds[i] == history.StreamLoad {
			judged++
		}
	}
	for _, users := range ids {
		n.foreignIDs += int64(len(users) - 1)
	}
	bad := func(n *naive) bool {
		return n.lost+n.duplicated+n.misordered+n.corrupt+n.foreign+n.missing+n.repeated+n.foreignIDs+n.executions+n.illegal+n.hangs > 0
	}
	switch {
	case bad(&n) || bad(&control):
		return n, judge.Violated
	case n.doubt || control.doubt || judged == 0 || injected*5 < r.setup.Faults*4 || !n.led:
		return n, judge.Inconclusive
	}
	return n, judge.Holds
}

// stream judges one stream.
func (n *naive) stream(setup judge.Setup, records []history.Record) {
	var got []delivery
	var ledger []history.Ledger
	var call *history.Ledger
	responses, total, settled := int64(0), int64(0), 0
	var outcome history.Outcome
	var lastSeen, settledAt time.Duration
	lastStatus, refusedWith, early, anchored := 0, 0, false, false
	for i := range records {
		r := &records[i]
		switch r.Kind {
		case history.KindAttempt:
			lastStatus = 0
		case history.KindHead:
			lastStatus = r.Head.Status
			if r.Attempt > 0 && lastStatus >= 400 && lastStatus != 409 {
				refusedWith = lastStatus
			}
		case history.KindInjection:
			lastSeen, early = r.At, early || !r.Injection.AfterID
		case history.KindEvent:
			lastSeen, anchored = r.At, anchored || r.Event.HasID && !r.Event.Late
			e := r.Event
			n.led = n.led || r.Attempt > 0 && responses == 0
			if e.Illegal != 0 {
				n.illegal++
			}
			switch {
			case e.Late:
				n.late++
				if e.Owner > history.OwnerSelf {
					n.foreign++
					n.late--
				}
			case e.Owner > history.OwnerSelf:
				n.foreign++
			case e.Class == history.ClassResponse:
				responses++
			case e.Seq > 0:
				got, total = append(got, delivery{e.Seq, int64(len(got)), e.Hash}), e.Total
				if responses > 0 {
					n.illegal++ // nothing comes after the response
				}
			case e.Class == history.ClassNotification && responses > 0:
				n.illegal++
			}
		case history.KindSettled:
			outcome, settledAt = r.Outcome, r.At
			settled++
		case history.KindLedgerMessage:
			ledger = append(ledger, r.Ledger)
		case history.KindLedgerCall:
			call = &r.Ledger
		}
	}
	answered := responses > 0
	refused := !answered && outcome == history.OutcomeRefused && refusedWith > 0
	if outcome == history.OutcomeFailed && early && !anchored {
		outcome = history.OutcomeIndeterminate
	}
	failed := !answered && outcome == history.OutcomeFailed
	tooLate := failed && settledAt-lastSeen >= 10*time.Second && lastStatus != 409
	undecided := !answered && (settled == 0 || outcome == history.OutcomeUndecided) || failed && lastStatus == 409
	n.doubt = n.doubt || settled != 1 || undecided
	if answered {
		n.repeated += responses - 1
	} else if refused || tooLate || outcome == history.OutcomeCompleted {
		n.missing++
	}
	if tooLate {
		n.hangs++
	}
	n.compare(setup, total, got, ledger, call, answered || refused, outcome == history.OutcomeIndeterminate)
}

// compare sorts what came and holds it against what was due.
func (n *naive) compare(setup judge.Setup, total int64, got []delivery, ledger []history.Ledger, call *history.Ledger, due, indeterminate bool) {
	last := int64(0)
	for i, d := range got {
		first := !slices.ContainsFunc(got[:i], func(e delivery) bool { return e.seq == d.seq })
		if first && slices.ContainsFunc(got[:i], func(e delivery) bool { return e.seq > d.seq }) {
			n.misordered++
		}
		last = max(last, d.seq)
	}
	slices.SortFunc(got, func(a, b delivery) int {
		if a.seq != b.seq {
			return int(a.seq - b.seq)
		}
		return int(a.order - b.order)
	})
	first := map[int64]uint64{}
	for _, d := range got {
		if h, ok := first[d.seq]; ok {
			n.duplicated++
			if h != d.hash {
				n.corrupt++
			}
			continue
		}
		first[d.seq] = d.hash
	}
	count, usable := setup.Expected, true
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
		count = total
	}
	if !usable {
		n.delivered += int64(len(first))
		n.undecided += last - int64(len(first))
		n.expected += last
		return
	}
	n.hold(first, ledger, count, last, due, indeterminate)
}

// hold counts each number from 1 on.
func (n *naive) hold(first map[int64]uint64, ledger []history.Ledger, count, last int64, due, indeterminate bool) {
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
