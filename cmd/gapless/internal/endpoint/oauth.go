package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// tokenTimeout bounds one request for a token.
	tokenTimeout = 10 * time.Second
	// tokenAge is how long a token is used that does not say when it expires.
	tokenAge = 5 * time.Minute
	// tokenMargin is how long before its end a token is renewed, at most: a tenth of its
	// life if that is less.
	tokenMargin = time.Minute
)

func (o OAuth) given() bool {
	return o.TokenURL != "" || o.ClientID != "" || o.ClientSecret.given() || len(o.Scopes) > 0
}

// secure tells whether tokens are asked for over TLS; of settings that were checked.
func (o OAuth) secure() bool {
	t, err := parseTarget(o.TokenURL)
	return err == nil && t.secure
}

func (o OAuth) local() bool {
	t, err := parseTarget(o.TokenURL)
	return err == nil && t.local()
}

// source returns what gives the value of the Authorization field.
func (o OAuth) source(c Config, base *tls.Config) (func(context.Context) (string, error), error) {
	t, err := parseTarget(o.TokenURL)
	var wrong error
	if err != nil {
		wrong = fmt.Errorf("target.oauth.token_url: %w", err)
	} else if t.socket != "" {
		wrong = errors.New("target.oauth.token_url: is a Unix socket; give http:// or https://")
	}
	if o.ClientID == "" {
		wrong = errors.Join(wrong, errors.New("target.oauth.client_id: is empty"))
	}
	secret, err := o.ClientSecret.source("target.oauth.client_secret", c.Getenv)
	wrong = errors.Join(wrong, err)
	if wrong != nil {
		return nil, wrong
	}
	through, err := chooseProxy(c.HTTPProxy, t, c.Getenv)
	if err != nil {
		return nil, err
	}
	client := o.client(c, t, through, base)
	source := &cached{fetch: func(ctx context.Context) (credential, error) { return o.ask(ctx, client, secret, t.shown) }}
	return source.get, nil
}

// client reaches the token endpoint as the target is reached. It follows no redirects: the
// client's secret is for the URL that was given.
func (o OAuth) client(c Config, t target, through *proxy, base *tls.Config) *http.Client {
	open := c.Dial
	if open == nil {
		open = (&net.Dialer{Timeout: tokenTimeout}).DialContext
	}
	reach := open
	if through != nil {
		through.tls = withoutCertificate(base)
		reach = func(ctx context.Context, _, addr string) (net.Conn, error) { return through.tunnel(ctx, open, addr) }
	}
	return &http.Client{
		Timeout: tokenTimeout,
		Transport: &http.Transport{
			DialContext: reach, TLSHandshakeTimeout: tokenTimeout, DisableKeepAlives: true, // one request in minutes
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := reach(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return encrypt(ctx, conn, base, t.name(), "http/1.1")
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask makes one request for a token.
func (o OAuth) ask(ctx context.Context, client *http.Client, secret func(context.Context) (string, error), shown string) (credential, error) {
	word, err := secret(ctx)
	if err != nil {
		return credential{}, err
	}
	config := clientcredentials.Config{ClientID: o.ClientID, ClientSecret: word, TokenURL: o.TokenURL, Scopes: o.Scopes}
	began := time.Now()
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return credential{}, fmt.Errorf("target.oauth: no token from %s: %w", shown, plainOAuth(err))
	}
	if token.Type() != "Bearer" {
		return credential{}, fmt.Errorf("target.oauth: %s gives a token of the type %q; gapless can use Bearer only", shown, cut(token.Type()))
	}
	value, err := clean(token.AccessToken)
	if err != nil {
		return credential{}, fmt.Errorf("target.oauth: the token from %s %w", shown, err)
	}
	got := credential{value: bearer(value), renew: began.Add(tokenAge), until: began.Add(2 * tokenAge)}
	if !token.Expiry.IsZero() {
		got.until = token.Expiry
		got.renew = token.Expiry.Add(-min(tokenMargin, token.Expiry.Sub(began)/10))
	}
	return got, nil
}

// errorCode is what RFC 6749 §5.2 lets an error code look like, and short.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// plainOAuth says why there is no token, without the answer: it may repeat the request.
func plainOAuth(err error) error {
	var refused *oauth2.RetrieveError
	var transport *url.Error
	switch {
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode >= 300 && refused.Response.StatusCode < 400:
		return fmt.Errorf("it redirects (%d), which is not followed; give the URL that it redirects to", refused.Response.StatusCode)
	case errors.As(err, &refused) && errorCode.MatchString(refused.ErrorCode):
		return fmt.Errorf("it answers %s", refused.ErrorCode)
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode >= 400:
		return fmt.Errorf("it answers %d %s", refused.Response.StatusCode, http.StatusText(refused.Response.StatusCode))
	case errors.As(err, &transport):
		return transport.Err // without the URL
	}
	return errors.New("its answer is no token response (RFC 6749 §5.1)")
}

// withoutCertificate is for a proxy, which is not whom the client certificate is for.
func withoutCertificate(base *tls.Config) *tls.Config {
	c := base.Clone()
	c.Certificates = nil
	return c
}
