package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// With Config.UMCP every stream is the event stream of its session:
//
//	GET  ═══ messages ═══╳ cut   pause   ═══ messages ═══╡ the end, then DELETE
//	POST ─────────────────── the call ───────── response
//
// The goroutine of the stream reads the GET and keeps all records. The POST waits in one of
// its own for the answer, leaves it in an aside and wakes the reader up, once per call.

// aside is the call of a stream that is made beside its GET stream.
type aside struct {
	cancel context.CancelFunc
	over   chan struct{}        // closed when the goroutine has ended
	reader atomic.Pointer[link] // that the stream reads now, nil between exchanges
	ready  atomic.Bool          // what follows is set
	data   []byte               // the answer
	fails  history.Outcome      // why there is none

	taken bool // the stream's own: it has seen the answer
}

// wake makes a reader look at the answer. Who begins to read, or sets a limit, looks first.
func (a *aside) wake() {
	a.ready.Store(true)
	if l := a.reader.Load(); l != nil {
		l.nudge() // a link that is gone has been read to its end
	}
}

// due reports whether there is an answer that the stream has not seen.
func (s *stream) due() bool { return s.aside != nil && !s.aside.taken && s.aside.ready.Load() }

// callAside makes the call in a goroutine of its own.
func (s *stream) callAside(ctx context.Context) {
	s.called = true
	a := &aside{over: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	a.reader.Store(s.l)
	s.aside = a
	call := asideCall{r: s.r, sess: s.sess, key: s.a.Stream, until: s.deadline, id: s.id, body: s.body()}
	call.complain = func(resp *wire.Response) { s.complain("HTTP %d: %s", resp.Status, call.r.refusal(resp, "the call")) }
	s.r.group.Go(func() {
		defer close(a.over)
		a.data, a.fails = call.make(ctx)
		a.wake()
	})
}

// asideCall is all that the goroutine of a call may touch.
type asideCall struct {
	r        *runner
	sess     *session
	key      uint32
	until    time.Duration
	id       string
	body     []byte
	complain func(*wire.Response)
}

// make sends the call once, again only where the target had no time for it, and returns
// the message that answers it.
func (c *asideCall) make(ctx context.Context) (data []byte, fails history.Outcome) {
	ctx, cancel := context.WithDeadline(ctx, c.r.instant(c.until))
	defer cancel()
	refused := false
	err := c.r.patiently(ctx, c.key, c.until, false, func() error {
		return c.sess.carry(ctx, c.sess.post(c.body), c.until, func(l *link, resp *wire.Response) (err error) {
			if err = busyAnswer(resp); err != nil {
				c.r.throttled.Add(1)
				return err
			}
			if refused = resp.Status/100 != 2; refused {
				c.complain(resp)
				return nil
			}
			data, err = c.sess.message(l, resp, c.id, "the call")
			return err
		})
	})
	var full *busyError
	switch {
	case errors.As(err, &full):
		return nil, history.OutcomeNotSent
	case refused:
		return nil, history.OutcomeRefused
	case err == nil:
		return data, history.OutcomeNone
	case ctx.Err() != nil:
		return nil, history.OutcomeUndecided
	case !sent(err):
		return nil, history.OutcomeNotSent
	}
	return nil, history.OutcomeFailed
}

// hear takes the answer of the call, if it has come and was not taken yet.
func (s *stream) hear(ctx context.Context) {
	if !s.due() {
		return
	}
	s.aside.taken = true
	if s.doomed = s.aside.fails; s.doomed != history.OutcomeNone {
		if s.l != nil {
			s.l.limit(limits{until: s.r.now(), end: history.EndOpen})
		}
		return
	}
	events := s.events
	s.events += 2 // it is none of the GET stream's
	s.event(ctx, &wire.Event{Data: s.aside.data}, true, s.r.now())
	s.events = events
	if s.l != nil && !s.done() && !s.cancelled {
		s.l.limit(s.limits())
	}
}

// quiet is how long nothing must come, once the call is answered, until its missing
// messages are given up: where a link ended since the last one they may well be lost.
func (s *stream) quiet() time.Duration {
	if s.of.Expected == 0 || s.attempt > 0 && (!s.heardOn || s.last == 0) {
		return s.r.c.Tail
	}
	return s.r.c.Silence
}

// listening are the limits of an exchange of the session's event stream.
func (s *stream) listening() limits {
	now := s.r.now()
	switch {
	case s.done():
		return limits{until: now + s.r.c.Tail, end: history.EndOpen}
	case s.responded:
		return limits{until: max(s.deadline, now+s.quiet()), end: history.EndDeadline, idle: s.quiet(), since: now}
	}
	return limits{until: s.deadline, end: history.EndDeadline}
}

// complete reports whether an exchange that ended so was the last one: everything has
// come, or nothing came for long enough after the answer.
func (s *stream) complete(end history.End) bool {
	return s.done() || s.r.c.UMCP && s.responded && (end == history.EndIdle || end == history.EndOpen)
}

// settleAside says how a stream stands between two exchanges.
func (s *stream) settleAside(ctx context.Context) history.Outcome {
	s.hear(ctx)
	switch {
	case s.doomed != history.OutcomeNone:
		return s.doomed
	case s.r.c.UMCP && s.done():
		return history.OutcomeCompleted
	}
	return history.OutcomeNone
}

// leave ends what a stream has beside its own goroutine, and its session with it: the
// target lets go of an event stream at once when it is asked to, and else only when a
// write fails, until when the next stream of the session would be refused.
func (s *stream) leave(ctx context.Context) {
	if s.aside != nil {
		s.aside.cancel()
		<-s.aside.over
		s.hear(ctx) // it may have come while the stream was given up
	}
	if !s.seated {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	s.sess.end(ctx)
	s.sess.lost()
	<-s.sess.hearing
}

// settleIn waits for a session of which no other stream is open. Each stream has one to
// itself, one after the other.
func (s *stream) settleIn(ctx context.Context) (history.Outcome, bool) {
	for {
		if !s.sess.seat(ctx) {
			return history.OutcomeUndecided, false
		}
		if !s.sess.gone.Load() {
			return history.OutcomeNone, true
		}
		<-s.sess.hearing
		sess, err := s.r.session(ctx, s.a.Session, s)
		if err != nil {
			if ctx.Err() != nil {
				return history.OutcomeUndecided, false
			}
			s.homeless(err)
			return history.OutcomeNotSent, false
		}
		s.sess = sess
	}
}

// validateUMCP reports what the dialect does not have.
func (c Config) validateUMCP() error {
	switch {
	case !c.UMCP:
	case c.Modern:
		return fmt.Errorf("umcp and revision %s exclude each other", modern)
	case c.Plan.Gets() > 0:
		return fmt.Errorf("%d GET streams: with umcp each stream is one already", c.Plan.Gets())
	case c.Batches:
		return errors.New("umcp has no batches")
	case c.Probes > 0:
		return fmt.Errorf("%d probes: with umcp there is nothing to be resumed", c.Probes)
	}
	return nil
}
