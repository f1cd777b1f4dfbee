package loadgen

import (
	"context"
	"errors"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// post sends the call, again while the target asks for patience, and reads what comes.
// An answer 429 or 503 is no attempt: the target did nothing. As a request id must not be
// used twice in a session, the call gets another (2025-11-25 basic, Requests).
func (s *stream) post(ctx context.Context) history.Outcome {
	s.name()
	for {
		o := s.send(ctx)
		if o != history.OutcomeNone || s.attempt > 0 || !s.busy {
			return o
		}
		s.back.failures++
		if o = s.pause(ctx); o != history.OutcomeNone {
			if o == history.OutcomeNotSent {
				s.complain("no call got through: the target answers %d%s", s.status, phrase(s.status))
			}
			return o
		}
		s.back.cut = 0
		s.id = s.sess.nextID()
	}
}

// send sends the call once and reads what comes.
func (s *stream) send(ctx context.Context) history.Outcome {
	req := s.request()
	if err := s.r.authorize(ctx, req); err != nil {
		return s.unauthorized(ctx, err)
	}
	l, err := s.sess.link(ctx)
	s.begin(l, history.Exchange{Call: uint8(s.a.Call)})
	if err != nil {
		return s.unreachable(ctx, history.OutcomeNotSent)
	}
	used := l.used
	end, err := s.exchange(ctx, req)
	var send *wire.SendError
	switch {
	case s.cancelled:
		return history.OutcomeCancelled
	case s.done():
		return history.OutcomeCompleted
	case s.doomed != history.OutcomeNone:
		return s.doomed
	case errors.As(err, &send), errors.Is(err, wire.ErrRequest):
		return history.OutcomeNotSent
	case used && !s.got && !s.struck && end != history.EndDeadline && end != history.EndStopped:
		// The target closed a link that had rested while we wrote: nobody can tell
		// whether it ran the call, and it broke no promise (RFC 9112 §9.3.1).
		return s.sever(history.OutcomeIndeterminate)
	case s.busy && end == history.EndStatus:
		return history.OutcomeNone
	}
	return s.next(end)
}

// others is how many responses to other requests are still to come on the stream.
func (s *stream) others() int {
	if s.pinged && !s.ponged {
		return 1
	}
	return 0
}

// request returns the call.
func (s *stream) request() *wire.Request {
	req := s.sess.post(s.body())
	if s.r.c.Modern {
		req.Fields = append(req.Fields, s.of.fields...)
	}
	return req
}

// body returns the message of the call.
func (s *stream) body() []byte {
	var b []byte
	if s.pinged = s.r.c.Batches && s.sess.batches && !s.hears(); s.pinged {
		b = append(b, '[')
	}
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, s.id...)
	b = append(b, `,"method":"`...)
	b = append(b, s.of.Method...)
	b = append(b, `","params":{"_meta":{"progressToken":"`...)
	b = append(b, s.token...)
	b = append(b, '"')
	if s.r.c.Modern {
		b = append(b, ',')
		b = append(b, modernMeta...)
	}
	b = append(b, '}')
	b = s.of.params(b, s.a)
	b = append(b, "}}"...)
	if s.pinged {
		b = append(b, `,{"jsonrpc":"2.0","id":"p`...)
		b = append(b, s.id...)
		b = append(b, `","method":"ping"}]`...)
	}
	return b
}

// unauthorized says what follows when there is no credential: a call is not made, a resume
// is tried again for as long as the call may take. The target is not to blame for either.
func (s *stream) unauthorized(ctx context.Context, err error) history.Outcome {
	if ctx.Err() != nil {
		return history.OutcomeUndecided
	}
	if s.attempt == 0 || !s.busy { // once in a row
		s.complain("%v", err)
	}
	if s.attempt == 0 {
		return history.OutcomeNotSent
	}
	s.busy, s.back.ended = true, s.r.now()
	s.back.failures++
	return history.OutcomeNone
}

// declined takes an answer that is none: the target has no time, or says why not.
func (s *stream) declined(resp *wire.Response) {
	s.busy = busy(resp.Status)
	call := s.attempt == 0 && !s.hears()
	if s.busy && call && !s.madeUp {
		s.r.throttled.Add(1)
	}
	if s.busy || !call || s.madeUp {
		_ = skip(resp) // only whether the link can be used again depends on it
		return
	}
	s.complain("HTTP %d: %s", resp.Status, s.r.refusal(resp, "the call"))
}

// homeless tells why there is no session, unless a fault of ours or the way there is to
// blame.
func (s *stream) homeless(err error) {
	var bad *HandshakeError
	var lacks *CredentialError
	if errors.As(err, &lacks) || errors.As(err, &bad) && !s.struck {
		s.complain("%v", err)
	}
}
