package loadgen

import (
	"context"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// parting bounds what is said to the target when a call is given up.
const parting = time.Second

// cancels says after how many messages a stream cancels its call, 0 for never.
func (r *runner) cancels(a Arrival) int {
	if a.Kind != history.StreamLoad || r.c.Cancel <= 0 || draw(r.c.Seed, a.Stream, 0, drawCancel) >= r.c.Cancel {
		return 0
	}
	return max((r.calls[a.Call].Expected+1)/2, 1)
}

// cancel takes the call back in the middle. From then on no response is as good as
// one (2025-11-25 cancellation, Behavior Requirements 3 and 4), so the stream is read
// to its end or for as long as a stream may stay open after a response.
func (s *stream) cancel(ctx context.Context) {
	s.cancelAt = 0
	if s.r.c.Modern { // the end of the exchange is what cancels a call
		s.cancelled = true
		s.l.limit(limits{until: s.r.now(), end: history.EndOpen})
		return
	}
	until := min(s.deadline, s.r.now()+s.r.c.Handshake)
	if s.cancelled = s.recall(ctx, until); s.cancelled {
		s.l.limit(limits{until: s.r.now() + s.r.c.Tail, end: history.EndOpen})
	}
}

// abandon tells the target, as well as it can be told, that nobody waits for the call
// any longer (2025-11-25 lifecycle, Timeouts).
func (s *stream) abandon(ctx context.Context, o history.Outcome) {
	if s.r.c.Modern || !s.open || s.responded || s.cancelled || s.hears() && !s.called || s.sess.gone.Load() {
		return
	}
	if o == history.OutcomeUndecided || o == history.OutcomeFailed {
		s.recall(context.WithoutCancel(ctx), s.r.now()+parting)
	}
}

// recall sends the notification that the call is cancelled.
func (s *stream) recall(ctx context.Context, until time.Duration) bool {
	body := append([]byte(nil), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"not needed any more","requestId":`...)
	body = append(append(body, s.id...), "}}"...)
	ctx, cancel := context.WithDeadline(ctx, s.r.instant(until))
	defer cancel()
	err := s.sess.exchange(ctx, s.sess.post(body), false, func(_ *link, resp *wire.Response) error { return skip(resp) })
	return err == nil || sent(err)
}
