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
	a := &asker{OAuth: o, client: o.client(c, t, through, base), secret: secret, shown: t.shown}
	return (&cached{fetch: a.fetch}).get, nil
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

// asker asks for tokens, one request at a time.
type asker struct {
	OAuth
	client *http.Client
	secret func(context.Context) (string, error)
	shown  string // the token URL for people
	inBody bool   // the server takes the client's secret there only
}

func (a *asker) fetch(ctx context.Context) (credential, error) {
	secret, err := a.secret(ctx)
	if err != nil {
		return credential{}, err
	}
	began := time.Now()
	token, err := a.ask(ctx, secret)
	if err != nil {
		return credential{}, fmt.Errorf("target.oauth: no token from %s: %w", a.shown, err)
	}
	if token.Type() != "Bearer" {
		return credential{}, fmt.Errorf("target.oauth: %s gives a token of the type %q; gapless can use Bearer only", a.shown, cut(token.Type()))
	}
	value, err := clean(token.AccessToken)
	if err != nil {
		return credential{}, fmt.Errorf("target.oauth: the token from %s %w", a.shown, err)
	}
	got := credential{value: bearer(value), renew: began.Add(tokenAge), until: began.Add(2 * tokenAge)}
	if !token.Expiry.IsZero() {
		got.until = token.Expiry
		got.renew = token.Expiry.Add(-min(tokenMargin, token.Expiry.Sub(began)/10))
	}
	return got, nil
}

// ask gives the client's secret by HTTP Basic, which every server has to take (RFC 6749
// §2.3.1), and in the body to one that does not.
func (a *asker) ask(ctx context.Context, secret string) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, a.client)
	config := func(style oauth2.AuthStyle) *clientcredentials.Config {
		return &clientcredentials.Config{ClientID: a.ClientID, ClientSecret: secret, TokenURL: a.TokenURL, Scopes: a.Scopes, AuthStyle: style}
	}
	var basic error
	if !a.inBody {
		token, err := config(oauth2.AuthStyleInHeader).Token(ctx)
		if err == nil || !refusesClient(err) {
			return token, plainOAuth(err)
		}
		basic = plainOAuth(err)
	}
	token, err := config(oauth2.AuthStyleInParams).Token(ctx)
	if err == nil {
		a.inBody = true
		return token, nil
	}
	body := plainOAuth(err)
	if basic == nil || basic.Error() == body.Error() {
		return nil, body
	}
	return nil, fmt.Errorf("%w to HTTP Basic; to credentials in the body %w", basic, body)
}

// refusesClient tells whether a server may not have understood who asks.
func refusesClient(err error) bool {
	var refused *oauth2.RetrieveError
	return errors.As(err, &refused) && refused.Response != nil &&
		(refused.Response.StatusCode == http.StatusBadRequest || refused.Response.StatusCode == http.StatusUnauthorized)
}

// errorCode is what RFC 6749 §5.2 lets an error code look like, and short.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// plainOAuth says why there is no token, without the answer: it may repeat the request.
func plainOAuth(err error) error {
	var refused *oauth2.RetrieveError
	var transport *url.Error
	switch {
	case err == nil:
		return nil
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
