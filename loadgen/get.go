package loadgen

import (
	"context"
	"errors"
	"fmt"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// hears reports whether the messages come on a GET stream of the session.
func (s *stream) hears() bool { return s.a.Kind == history.StreamGet || s.r.c.UMCP }

// seat waits until no other GET stream of the session is open: two at once would leave
// it to the target on which of them a message comes (2025-11-25 transports, Multiple
// Connections 2), and many targets take only one.
func (s *session) seat(ctx context.Context) bool {
	select {
	case s.hearing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen opens a standalone GET stream. Once it is open the call is made that emits on
// it; from then on it is read, and taken up again, like the stream of a POST.
func (s *stream) listen(ctx context.Context) history.Outcome {
	o, ok := s.settleIn(ctx)
	if !ok {
		return o
	}
	s.seated = true
	s.name()
	o, _ = s.get(ctx, history.Exchange{Call: uint8(s.a.Call)})
	return o
}

// emit makes the call whose messages come on the GET stream. It has a link of its own,
// on which nothing is hurt. What is outstanding when it returns is OutcomeNone.
func (s *stream) emit(ctx context.Context) history.Outcome {
	s.called = true
	var data []byte
	status := 200
	err := s.r.patiently(ctx, s.a.Stream, s.deadline, false, func() error {
		return s.sess.exchange(ctx, s.sess.post(s.body()), false, func(l *link, resp *wire.Response) (err error) {
			if err = busyAnswer(resp); err != nil {
				s.r.throttled.Add(1)
				s.id = s.sess.nextID()
				return err
			}
			if status = resp.Status; status/100 != 2 {
				s.complain("HTTP %d: %s", status, s.r.refusal(resp, "the call"))
				return nil
			}
			data, err = s.sess.message(l, resp, s.id, "the call")
			return err
		})
	})
	var full *busyError
	switch {
	case errors.As(err, &full):
		s.complain("no call got through: %v", full)
		return history.OutcomeNotSent
	case status/100 != 2:
		return history.OutcomeRefused
	case err == nil:
	case ctx.Err() != nil:
		return history.OutcomeUndecided
	case !sent(err):
		return history.OutcomeNotSent
	default: // it ended without the response, or answered something else
		return history.OutcomeFailed
	}
	s.event(ctx, &wire.Event{Data: data}, true, s.r.now())
	return history.OutcomeNone
}

// done reports whether all has come that the stream waits for.
func (s *stream) done() bool {
	if !s.hears() || !s.responded {
		return s.responded && (!s.created() || s.draft.ended)
	}
	if s.of.Expected == 0 { // a target that nobody knows yet
		return s.refusedCall
	}
	return s.seen >= s.of.Expected || s.last >= int64(s.of.Expected) || s.refusedCall
}

// unsent is the error of a request that did not leave.
type unsent struct{ error }

// Unwrap returns the cause.
func (e unsent) Unwrap() error { return e.error }

// sent reports whether a request may have reached the target in spite of the error.
func sent(err error) bool {
	var none unsent
	var part *wire.SendError
	var lacks *CredentialError
	return !errors.As(err, &none) && !errors.As(err, &lacks) && !errors.As(err, &part) && !errors.Is(err, wire.ErrRequest)
}

// lacking says why the plan's GET streams cannot be carried out.
func (c Config) lacking() error {
	if c.Plan.Gets() == 0 || len(c.Calls) == 0 {
		return nil
	}
	switch first := c.Calls[0]; {
	case first.Expected == 0:
		return fmt.Errorf("%d GET streams need the number of messages per call: nothing else tells when they are done", c.Plan.Gets())
	case or(first.Numbering.Method, methodProgress) != methodProgress:
		return fmt.Errorf("%d GET streams need %s: on them nothing but the progress token tells whose a message is", c.Plan.Gets(), methodProgress)
	}
	return nil
}
