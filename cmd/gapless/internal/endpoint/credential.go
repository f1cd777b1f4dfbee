package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// failAge is how long a failure stands: many streams ask, and what gives credentials must
// not be asked by each of them.
const failAge = time.Second

// newCredential returns what gives the value of the Authorization field; nil for none.
func newCredential(c Config, base *tls.Config) (func(context.Context) (string, error), error) {
	switch {
	case c.Token.given() && c.OAuth.given():
		return nil, errors.New("target.token and target.oauth are both given; keep one")
	case c.OAuth.given():
		return c.OAuth.source(c, base)
	case !c.Token.given():
		return nil, nil
	}
	token, err := c.Token.source("target.token", c.Getenv)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		value, err := token(ctx)
		if err != nil {
			return "", err
		}
		return bearer(value), nil
	}, nil
}

// bearer puts the scheme before a token, unless whoever wrote it did.
func bearer(token string) string {
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimLeft(rest, " ")
	}
	return "Bearer " + token
}

// credential is a value with the times from which on it should be renewed, and may not be
// used any more.
type credential struct {
	value        string
	renew, until time.Time
}

// cached asks for a credential when there is none that is good, one request at a time. A
// credential that should be renewed is used by everybody but the one who renews it.
type cached struct {
	fetch func(context.Context) (credential, error)

	once    sync.Once
	turn    chan struct{} // holds an element while somebody fetches
	mu      sync.Mutex
	current credential
	err     error // of the last fetch, until failed is old
	failed  time.Time
}

func (c *cached) get(ctx context.Context) (string, error) {
	c.once.Do(func() { c.turn = make(chan struct{}, 1) })
	value, fetch, err := c.look()
	if !fetch {
		return value, err
	}
	if value != "" {
		select {
		case c.turn <- struct{}{}:
		default:
			return value, nil
		}
	} else {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for a credential: %w", ctx.Err())
		}
	}
	defer func() { <-c.turn }()
	if value, fetch, err = c.look(); !fetch {
		return value, err // somebody else was faster
	}
	got, err := c.fetch(ctx)
	return c.keep(ctx, got, err)
}

// look returns the value that may be used now, if there is one, and whether to fetch.
func (c *cached) look() (value string, fetch bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	failing := c.err != nil && now.Before(c.failed.Add(failAge))
	switch {
	case now.Before(c.current.until):
		return c.current.value, !failing && !now.Before(c.current.renew), nil
	case failing:
		return "", false, c.err
	}
	return "", true, nil
}

// keep keeps what was fetched. A failure counts only once the credential of before may not
// be used any more; that of a caller who gave up is nobody else's.
func (c *cached) keep(ctx context.Context, got credential, err error) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.current, c.err = got, nil
		return got.value, nil
	}
	if ctx.Err() == nil {
		c.err, c.failed = err, time.Now()
	}
	if time.Now().Before(c.current.until) {
		return c.current.value, nil
	}
	return "", err
}
