package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
)

// A court hands every record of the load to the judge and, once a stream has
// settled, the target's own account of its call.
type court struct {
	judge  *judge.Judge
	faults *chaos.Plan
	marks  loadgen.Marks
	ledger *ledger // nil: the target keeps none
	saved  *archive
	// violated, if set, is called after every batch from the first violation on.
	violated func()
	beside   loadgen.Observer // nil: nobody looks on

	cuts    atomic.Int64
	idle    idleCuts
	settled chan *track
	group   guard.Group
	broken  chan struct{} // closed when the clerk panicked: nobody reads settled any more
	// The clerk's until close:
	dropped int64 // calls that the ledger had no room for
	failed  error // why accounts are missing
}

// A track follows one stream. It belongs to the stream's goroutine until the
// stream settles, then to the clerk's.
type track struct {
	court  *court
	stream *judge.Stream
	of     loadgen.Arrival
	victim *chaos.Victim // nil: no faults
	call   string        // the key of its call in the ledger
	saved  *history.Recorder
	beside loadgen.StreamObserver // nil: nobody looks on
	// Of the current exchange:
	heard  time.Duration // when something last came, or the request left
	struck bool          // a fault of ours ended it, or starves it

	answered bool // its response has come
	reissued bool // its call was made again
	surplus  int32
}

func newCourt(j *judge.Judge, faults *chaos.Plan, marks loadgen.Marks, l *ledger, a *archive, beside loadgen.Observer) *court {
	c := &court{judge: j, faults: faults, marks: marks, ledger: l, saved: a, beside: beside, settled: make(chan *track, 4*ledgerBatch), broken: make(chan struct{})}
	c.group.OnPanic = func() { close(c.broken) }
	c.group.Go(c.clerk)
	return c
}

// Open implements loadgen.Observer.
func (c *court) Open(a loadgen.Arrival) loadgen.StreamObserver {
	t := &track{court: c, of: a, stream: c.judge.Open(a.Session, a.Stream, a.Kind), call: c.marks.Of(a.Session, a.Stream)}
	t.saved = c.saved.open(a.Kind, a.Session, a.Stream)
	if c.beside != nil {
		t.beside = c.beside.Open(a)
	}
	if a.Kind == history.StreamLoad || a.Kind == history.StreamGet {
		t.victim = c.faults.Victim(a.Stream)
	}
	return t
}

// Observe implements loadgen.StreamObserver.
func (t *track) Observe(r *history.Record) {
	t.note(r)
	if t.beside != nil {
		t.beside.Observe(r)
	}
	switch r.Kind {
	case history.KindAttempt:
		t.heard, t.struck = r.At, false
	case history.KindHead:
		t.heard = r.At
	case history.KindEvent:
		t.heard = r.At
		if c := r.Event.Class; c == history.ClassResponse || c == history.ClassError {
			t.answered = true
		}
	case history.KindEnd:
		if !t.struck {
			t.court.idle.note(r.At-t.heard, r.End)
		}
	case history.KindInjection:
		t.struck = true
		if r.Injection.Ends { // what only slows a link down is no cut
			t.court.cuts.Add(1)
		}
	case history.KindProbe:
		t.reissued = t.reissued || r.Probe.Name == history.ProbeReissue
	case history.KindSettled:
		select {
		case t.court.settled <- t:
		case <-t.court.broken:
		}
	}
}

// note gives a record to the judge and to the archive.
func (t *track) note(r *history.Record) {
	t.stream.Observe(r)
	if t.saved != nil {
		t.saved.Record(r)
	}
}

// close waits until every settled stream is judged. Its error is a panic of the
// clerk.
func (c *court) close() error {
	close(c.settled)
	return c.group.Wait()
}

// clerk asks for the accounts of settled calls, as many at once as wait for it.
//
// Calls that were cut and not answered are asked for last: their handlers may still run.
func (c *court) clerk() {
	var batch, later []*track
	for t := range c.settled {
		if c.ledger != nil && !t.answered && len(later) < maxLater {
			later = append(later, t)
		} else {
			batch = append(batch, t)
		}
		if len(batch) == ledgerBatch || len(batch) > 0 && len(c.settled) == 0 {
			c.hear(batch)
			batch = nil
		}
	}
	for batch := range slices.Chunk(append(batch, later...), ledgerBatch) {
		c.hear(batch)
	}
}

// maxLater bounds how many calls are asked for at the end.
const maxLater = 10_000

// hear takes the accounts of a few streams and closes them.
func (c *court) hear(batch []*track) {
	c.account(batch)
	for _, t := range batch {
		t.stream.Close()
		c.saved.put(t.saved, t.stream.Damaged())
	}
	if c.violated != nil && c.judge.Violations() > 0 {
		c.violated()
	}
}

func (c *court) account(batch []*track) {
	if c.ledger == nil {
		return
	}
	if c.failed = errors.Join(c.failed, c.accountAgain(batch)); c.failed != nil {
		return
	}
	calls := make([]string, len(batch))
	for i, t := range batch {
		calls[i] = t.call
	}
	dropped, err := c.ledger.take(context.Background(), calls, func(i int, r *history.Record) {
		t := batch[i]
		r.Session, r.Stream = t.of.Session, t.of.Stream
		if r.Kind == history.KindLedgerCall && t.surplus > 0 {
			r.Ledger.Executions = max(r.Ledger.Executions, 1) + t.surplus
		}
		t.note(r)
	})
	if err != nil { // the judge then misses the accounts, and says so
		c.failed = fmt.Errorf("%d calls without an account: %w", len(batch), err)
		return
	}
	c.dropped = dropped
}

// accountAgain takes the accounts of calls that were made again, which the ledger would
// keep for ever. One that ran more than once counts against its stream: each issue of a
// call runs once.
func (c *court) accountAgain(batch []*track) error {
	var again []*track
	var calls []string
	for _, t := range batch {
		if t.reissued {
			again, calls = append(again, t), append(calls, c.marks.Again(t.of.Session, t.of.Stream))
		}
	}
	if len(again) == 0 {
		return nil
	}
	_, err := c.ledger.take(context.Background(), calls, func(i int, r *history.Record) {
		if r.Kind == history.KindLedgerCall {
			again[i].surplus = max(0, r.Ledger.Executions-1)
		}
	})
	if err != nil {
		return fmt.Errorf("%d calls that were made again are without an account: %w", len(again), err)
	}
	return nil
}
