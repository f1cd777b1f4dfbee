package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// busy reports whether a status asks for patience: 429 (RFC 6585 §4) and 503 (RFC 9110
// §15.6.4). The target has done nothing with the request, which may be sent again.
func busy(status int) bool { return status == 429 || status == 503 }

// phrase says in words what asks for patience, "" for any other status.
func phrase(status int) string {
	switch status {
	case 429:
		return " (too many requests)"
	case 503:
		return " (service unavailable)"
	}
	return ""
}

// busyError is the answer 429 or 503 to a request of the session.
type busyError struct {
	status int
	after  time.Duration // what it asked for
	tries  int           // in a row, so far
}

func (e *busyError) Error() string {
	return "the target answers " + strconv.Itoa(e.status) + phrase(e.status)
}

// busyAnswer returns a *busyError for an answer that asks for patience, nil for any other.
func busyAnswer(resp *wire.Response) error {
	if !busy(resp.Status) {
		return nil
	}
	e := &busyError{status: resp.Status, after: retryAfter(resp)}
	_ = skip(resp) // only whether the link can be used again depends on it
	return e
}

// patiently repeats a request for as long as its answer is 429 or 503: each time after
// what the target asked for, or longer after each failure. When the next try would come
// after until, it waits until then, so that the target is left in peace, and returns the
// *busyError; in a hurry, at once, and as soon as the run is halted.
func (r *runner) patiently(ctx context.Context, key uint32, until time.Duration, hurry bool, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		var full *busyError
		if !errors.As(err, &full) {
			return err
		}
		full.tries = n
		b := backoff{failures: n, after: full.after}
		wait := b.wait(r.c.Resume, draw(r.c.Seed, key, n, drawJitter), true)
		late := wait >= until-r.now()
		if late && hurry {
			return full
		}
		var halt <-chan struct{}
		if hurry {
			halt = r.c.Halt
		}
		timer := time.NewTimer(min(wait, until-r.now()))
		select {
		case <-halt:
			timer.Stop()
			return full
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if late {
			return full
		}
	}
}

// shake carries one exchange of the handshake, with patience as long as a call may take.
func (s *session) shake(ctx context.Context, what string, request func() *wire.Request, read func(*link, *wire.Response) error) error {
	of, key := &s.r.calls[0], s.number
	if s.opener != nil {
		of, key = s.opener.of, s.opener.a.Stream
	}
	from := s.r.now()
	err := s.r.patiently(ctx, key, from+of.Deadline, s.opener == nil, func() error {
		if s.opener != nil {
			s.opener.struck = false
		}
		err := s.exchange(ctx, request(), true, func(l *link, resp *wire.Response) error {
			if err := busyAnswer(resp); err != nil {
				return err
			}
			return read(l, resp)
		})
		var full *busyError
		if errors.As(err, &full) && (s.opener == nil || !s.opener.struck) {
			s.r.throttled.Add(1)
		}
		return err
	})
	var full *busyError
	if !errors.As(err, &full) {
		return err
	}
	reason := fmt.Sprintf("no %s got through in %v, in %d tries", what, (s.r.now() - from).Round(time.Second), full.tries)
	if full.after > 0 {
		reason += fmt.Sprintf("; it asks to come back after %v", full.after)
	}
	return &HandshakeError{full.status, reason + "; a lower rate or other credentials may help"}
}

// retryAfter reads a Retry-After field, in seconds or as a date (RFC 9110 §10.2.3); 0
// where there is none. A date counts from the target's own, so that its clock may be
// wrong.
func retryAfter(resp *wire.Response) time.Duration {
	value := strings.TrimSpace(resp.Get("Retry-After"))
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	then, ok := httpDate(value)
	if !ok {
		return 0
	}
	now, ok := httpDate(resp.Get("Date"))
	if !ok {
		now = time.Now()
	}
	return min(max(then.Sub(now), 0), longest)
}

// httpDate reads the three forms of a date (RFC 9110 §5.6.7).
func httpDate(value string) (time.Time, bool) {
	for _, form := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if t, err := time.Parse(form, strings.TrimSpace(value)); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
