package streams

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// message is what goes to a client. Seq is its place in the stream; a negative one is not
// part of it.
type message struct {
	seq  int64
	data []byte
}

// sink is where the messages of a stream go.
type sink interface {
	// send returns when a link has taken all of them.
	send([]message) error
	// cut ends a write that is under way, if nobody else would suffer from it.
	cut()
}

// outcome is why an attachment came to its end.
type outcome int

const (
	outcomeCompleted  outcome = iota // the end was written
	outcomeLinkLost                  // the client or its link has gone
	outcomeClosed                    // the server closes the connection
	outcomeSuperseded                // another resume has taken the stream over
	outcomeReclaimed                 // the stream is no more
	outcomeLost                      // the buffer could not hold what it had to
)

// attachment is one link that follows a stream.
type attachment struct {
	st      *stream
	out     sink
	opening []byte        // the create notification, not yet sent
	wake    chan struct{} // has a token when there is something to do
	stop    chan struct{} // closed when it has to leave

	// Guarded by st.mu.
	next       int64 // the message to be sent next
	backlog    int64 // up to here it is replay
	why        outcome
	left       bool // stop is closed
	writing    bool
	closing    bool
	closeAfter int64
}

func newAttachment(st *stream, out sink) *attachment {
	return &attachment{st: st, out: out, next: 1, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

func (a *attachment) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// leave has the attachment end. st.mu is held.
func (a *attachment) leave(why outcome) {
	if a.left {
		return
	}
	a.left, a.why = true, why
	close(a.stop)
	if a.writing {
		a.out.cut()
	}
}

// end has the attachment end.
func (a *attachment) end(why outcome) {
	a.st.mu.Lock()
	defer a.st.mu.Unlock()
	a.leave(why)
}

// closedByServer tells whether it was [stream.CloseConnection] that ended it.
func (a *attachment) closedByServer() bool {
	a.st.mu.Lock()
	defer a.st.mu.Unlock()
	return a.closing
}

// attach makes a the one that follows the stream, from behind cursor; the one before
// leaves. A negative cursor is none: everything that is kept is sent.
func (st *stream) attach(a *attachment, cursor int64) *jsonrpc.Error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if failed := st.admitsLocked(cursor); failed != nil {
		return failed
	}
	if cursor >= 0 {
		st.dropLocked(int(min(cursor, st.last) - st.gone))
		st.sure = st.gone
	}
	if st.att != nil {
		st.att.leave(outcomeSuperseded)
		st.s.metrics.attached.Dec()
	}
	if st.timer != nil {
		st.timer.Stop()
	}
	st.att, a.next, a.backlog = a, st.gone+1, st.last
	st.unsent = 0
	for i := range st.entries {
		st.entries[i].written = time.Time{} // it must not age before it was sent again
		st.unsent += int64(len(st.entries[i].data))
	}
	st.movedLocked()
	st.s.metrics.attached.Inc()
	return nil
}

// follow sends the messages of the stream as they come, until the stream or the link ends.
func (a *attachment) follow(gone <-chan struct{}) outcome {
	var batch []message
	for {
		var over bool
		var why outcome
		batch, over, why = a.take(batch[:0])
		if len(batch) > 0 {
			if err := a.out.send(batch); err != nil {
				return a.reason(outcomeLinkLost)
			}
			a.wrote(batch)
		}
		switch {
		case over:
			return why
		case len(batch) > 0:
			continue
		}
		select {
		case <-a.wake:
		case <-a.stop:
			return a.reason(outcomeClosed)
		case <-gone:
			return outcomeLinkLost
		}
	}
}

// reason is why the attachment was told to leave, or else.
func (a *attachment) reason(otherwise outcome) outcome {
	a.st.mu.Lock()
	defer a.st.mu.Unlock()
	if a.left {
		return a.why
	}
	return otherwise
}

// take returns what is to be sent now, and whether and why that was all.
func (a *attachment) take(batch []message) ([]message, bool, outcome) {
	st := a.st
	st.mu.Lock()
	defer st.mu.Unlock()
	if a.left {
		return batch, true, a.why
	}
	if a.opening != nil {
		batch = append(batch, message{0, a.opening})
		a.opening = nil
	}
	size := 0
	until := st.last
	if a.closing {
		until = a.closeAfter
	}
	for ; a.next <= until && size < batchBytes; a.next++ {
		e := &st.entries[a.next-st.gone-1]
		if e.answered {
			e.written = time.Now() // it need not be sent again, and may age
			continue
		}
		batch = append(batch, message{a.next, e.data})
		size += len(e.data)
	}
	a.writing = len(batch) > 0
	switch {
	case a.next <= until:
		return batch, false, 0
	case a.closing && !(st.ended && a.next > st.last):
		return batch, true, outcomeClosed
	case !st.ended:
		return batch, false, 0
	case !st.plain():
		batch = append(batch, message{st.last + 1, endMessage(st.id)})
		a.writing = true
	}
	return batch, true, outcomeCompleted
}

// wrote notes that a batch was handed to the link.
func (a *attachment) wrote(batch []message) {
	st, now := a.st, time.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	a.writing = false
	for _, m := range batch {
		path := &st.s.metrics.live
		if m.seq > 0 && m.seq <= a.backlog {
			path = &st.s.metrics.replay
		}
		path.events.Inc()
		path.bytes.Add(float64(len(m.data)))
		// After a takeover it is for the other link to say what was written: what this one
		// has sent must not age before that has sent it as well.
		if i := m.seq - st.gone - 1; st.att == a && i >= 0 && i < int64(len(st.entries)) {
			st.entries[i].written = now
			st.unsent -= int64(len(m.data))
		}
	}
	if st.att == a {
		st.ageLocked(now)
		st.movedLocked()
	}
	if st.plain() {
		st.dropLocked(int(a.next - 1 - st.gone)) // nobody can ask for it again
	}
}

// detach is the last thing that an attachment does with its stream.
func (st *stream) detach(a *attachment, why outcome) {
	st.mu.Lock()
	st.s.metrics.closed[why].Inc()
	mine := st.att == a
	if mine {
		st.ageLocked(time.Now())
		st.att = nil
		st.unsent = 0
		st.s.metrics.attached.Dec()
		st.waitLocked()
		st.movedLocked()
		if st.plain() {
			st.dropLocked(len(st.entries))
		}
	}
	done := mine && why == outcomeCompleted && !st.plain()
	st.mu.Unlock()
	if done {
		st.s.retire(st)
	}
}
