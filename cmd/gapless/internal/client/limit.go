package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// How often a server that limits the rate is asked, and how long it is left alone at least
// where it does not say.
const (
	mostTries  = 6
	firstPause = 250 * time.Millisecond
	farthest   = 24 * time.Hour // what is later is no different
)

// A LimitedError says that the server answered 429 or 503 to every try: it has not looked
// at the request.
type LimitedError struct {
	Status, Tries int
	After         time.Duration // when it asks to come back; 0: it does not say
}

func (e *LimitedError) Error() string {
	text := fmt.Sprintf("the server limits the rate: %d", e.Status)
	if e.Tries > 1 {
		text += fmt.Sprintf(" to %d tries", e.Tries)
	} else if e.After > 0 {
		text += fmt.Sprintf(", come back after %v", e.After)
	}
	return text
}

// Open dials, sends the request and waits for the head of the answer. The Timeout bounds
// all of it, and then the body until [Answer.Until] says otherwise; the end of ctx closes
// the link. With Patience a server that limits the rate is asked again. Errors:
// *[UnreachableError] when no link was had, *[LimitedError], else those of
// [wire.Conn.RoundTrip].
func (c *Client) Open(ctx context.Context, req Request) (*Answer, error) {
	began := time.Now()
	for tries := 1; ; tries++ {
		a, err := c.once(ctx, req)
		if err != nil {
			return nil, err
		}
		if c.c.Patience <= 0 || a.Status != 429 && a.Status != 503 {
			a.Waited = a.Sent.Sub(began)
			if tries == 1 {
				a.Waited = 0
			}
			return a, nil
		}
		limited := &LimitedError{a.Status, tries, retryAfter(a.Get("Retry-After"), a.Get("Date"))}
		a.Close()
		wait := max(limited.After, firstPause<<(tries-1))
		wait += rand.N(wait / 4) // so that those who were refused together do not come back together
		if tries == mostTries || time.Since(began)+wait > c.c.Patience || tooLate(ctx, wait) {
			return nil, limited
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// tooLate tells that ctx is over before a wait is.
func tooLate(ctx context.Context, wait time.Duration) bool {
	until, bounded := ctx.Deadline()
	return bounded && time.Until(until) <= wait
}

// retryAfter reads a Retry-After field, in seconds or as a date (RFC 9110 §10.2.3); 0 where
// there is none. A date counts from the server's own, as far as it gives one.
func retryAfter(value, date string) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return min(time.Duration(max(n, 0))*time.Second, farthest)
	}
	then, ok := httpDate(value)
	if !ok {
		return 0
	}
	now, ok := httpDate(date)
	if !ok {
		now = time.Now()
	}
	return min(max(then.Sub(now), 0), farthest)
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
