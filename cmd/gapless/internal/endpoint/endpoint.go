package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// openTimeout bounds the opening of a link, so that a target that is not there is told
// within five seconds.
const openTimeout = 4 * time.Second

// Config says how the target is reached. Files named in it are read by [New].
type Config struct {
	// URL is http://, https:// or http+unix:// (see [New]).
	URL string
	// HTTP is auto, 1.1 or 2; "" means auto: 1.1 unless the target speaks 2 alone.
	HTTP string
	// Header are the fields that the caller adds to each request. They are only checked
	// here.
	Header map[string]string
	Token  Secret
	OAuth  OAuth
	TLS    TLS
	// HTTPProxy is env, none or the URL of a proxy; "" means env.
	HTTPProxy string
	// Getenv reads the environment; nil: there is none.
	Getenv func(string) string
	// Timeout bounds the opening of one link with all its handshakes; 0: 4 s.
	Timeout time.Duration
	// Dial opens a TCP connection or a Unix socket; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Secret says where something secret is; at most one field is set.
type Secret struct {
	Env, File string
	// Command is run without a shell; the secret is the first line that it prints.
	Command []string
}

// OAuth gets tokens by client credentials (RFC 6749 §4.4).
type OAuth struct {
	TokenURL, ClientID string
	ClientSecret       Secret
	Scopes             []string
}

// TLS names PEM files. CA is added to the roots of the system, Cert and Key are shown to a
// target that asks.
type TLS struct {
	CA, Cert, Key string
	Insecure      bool
}

// An Endpoint is a target that can be reached. It may be used by many goroutines.
type Endpoint struct {
	target     target
	version    string // auto, 1.1 or 2
	proxy      *proxy // nil: none
	tls        *tls.Config
	insecure   bool // and TLS is used
	timeout    time.Duration
	open       func(ctx context.Context, network, addr string) (net.Conn, error)
	h2         *http.Transport
	credential func(context.Context) (string, error)
	notes      []string

	// onlyH2 and settled are what the first links have found under auto: the target
	// speaks HTTP/2 alone, or need not be asked again.
	onlyH2, settled atomic.Bool
	// shaken: a TLS handshake has succeeded; heard: plain HTTP was answered. A target that
	// answers neither is asked once whether it speaks the other.
	shaken, heard atomic.Bool
	asked         sync.Once
	speaksOther   bool
}

// New checks the settings and reads the files that they name. URL is one of
//
//	http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH
//	http+unix:///SOCKET            request path /mcp
//	http+unix:///SOCKET:/PATH
//	http+unix://%2FSOCKET/PATH     the path of the socket escaped
//
// Its error lists everything that is wrong, each with the name of the setting.
func New(c Config) (*Endpoint, error) {
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	e := &Endpoint{version: c.HTTP, timeout: c.Timeout, open: c.Dial}
	if e.version == "" {
		e.version = "auto"
	}
	if e.timeout <= 0 {
		e.timeout = openTimeout
	}
	if e.open == nil {
		e.open = new(net.Dialer).DialContext
	}
	var err, wrong error
	if e.target, err = parseTarget(c.URL); err != nil {
		return nil, fmt.Errorf("target.url: %w", err) // the rest depends on it
	}
	if e.version != "auto" && e.version != "1.1" && e.version != "2" {
		wrong = errors.Join(wrong, fmt.Errorf("target.http is %q; it is auto, 1.1 or 2", e.version))
	}
	if e.tls, err = c.TLS.config(); err != nil {
		wrong = errors.Join(wrong, err)
	}
	if e.proxy, err = chooseProxy(c.HTTPProxy, e.target, c.Getenv); err != nil {
		wrong = errors.Join(wrong, err)
	}
	wrong = errors.Join(wrong, checkHeader(c.Header, c.Token.given() || c.OAuth.given()))
	if e.credential, err = newCredential(c, e.tls); err != nil {
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	if e.proxy != nil {
		e.proxy.tls = withoutCertificate(e.tls)
	}
	e.insecure = c.TLS.Insecure && (e.target.secure || e.proxy != nil && e.proxy.secure || c.OAuth.secure())
	e.h2 = newTransport(e.target.secure)
	e.notes = e.remarks(c)
	return e, nil
}

// Dial opens a link for HTTP/1.1 bytes. It takes SetLinger(0) for a reset, itself or by
// what its NetConn method returns, but for a Unix socket, which knows no reset. Errors are
// for people and match what the system said, such as syscall.ECONNREFUSED.
func (e *Endpoint) Dial(ctx context.Context) (net.Conn, error) {
	timed, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	conn, err := e.dial(timed)
	var plain *handshakeError
	if err != nil && timed.Err() != nil && ctx.Err() == nil && !errors.As(err, &plain) {
		return nil, fmt.Errorf("%s: no link within %v: %w", e.target.shown, e.timeout, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.target.shown, err)
	}
	return conn, nil
}

func (e *Endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.target.secure {
		return e.dialSecure(ctx)
	}
	conn, err := e.reach(ctx)
	switch {
	case err != nil:
		return nil, err
	case e.version == "2":
		return e.carry(ctx, conn)
	case e.target.socket == "" && !e.heard.Load():
		return &plainLink{Conn: conn, e: e}, nil
	}
	return conn, nil
}

// reach opens what lies under TLS: a connection to the target, or a tunnel to it.
func (e *Endpoint) reach(ctx context.Context) (net.Conn, error) {
	if e.target.socket != "" {
		return e.open(ctx, "unix", e.target.socket)
	}
	if e.proxy != nil {
		return e.proxy.tunnel(ctx, e.open, e.target.addr())
	}
	return e.open(ctx, "tcp", e.target.addr())
}

// URL returns http://HOST/PATH, whatever lies under the link: what request target and
// Host field are made of. It may hold secrets in its query; see [Endpoint.Shown].
func (e *Endpoint) URL() string { return "http://" + e.target.authority + e.target.path }

// Shown returns the URL as a person wrote it. Values in its query that may be secret are
// left out.
func (e *Endpoint) Shown() string { return e.target.shown }

// Credential returns what gives the value of the Authorization field, to be asked before
// each exchange; nil where none is configured. Asking is cheap as long as the credential
// is fresh. Its errors name where the secret should have come from, and never hold it.
func (e *Endpoint) Credential() func(context.Context) (string, error) { return e.credential }

// Local tells that the target is on this machine: a loopback address, localhost or a name
// below it, or a Unix socket, and not reached by a proxy elsewhere. Any other name is not
// local, whatever it resolves to now: names can be made to resolve to anything.
func (e *Endpoint) Local() bool {
	return e.target.local() && (e.proxy == nil || isLoopback(e.proxy.host))
}

// Notes returns sentences that a summary must say: where cuts end, and what is not safe.
// Under auto it knows that HTTP/2 is spoken once a link was opened.
func (e *Endpoint) Notes() []string {
	notes := e.notes
	if e.version == "2" || e.onlyH2.Load() {
		notes = append(notes[:len(notes):len(notes)],
			"HTTP/2: cuts fall between HTTP/2 frames; each link is a connection of its own and carries one exchange at a time")
	}
	return notes
}

func (e *Endpoint) remarks(c Config) []string {
	var notes []string
	if e.insecure {
		notes = append(notes, "CERTIFICATES ARE NOT CHECKED (--insecure): anybody on the way can read and change everything, credentials included")
	}
	if e.proxy != nil {
		notes = append(notes, fmt.Sprintf("cuts end at the proxy %s: what lies behind it sees them as the proxy passes them on", e.proxy.addr()))
	}
	if e.target.socket != "" {
		notes = append(notes, "a Unix socket knows no reset: to the server rst looks like fin")
	}
	if e.credential != nil && !e.target.secure && !e.target.local() {
		notes = append(notes, "the credential travels unencrypted: the URL is http://")
	}
	if c.OAuth.given() && !c.OAuth.secure() && !c.OAuth.local() {
		notes = append(notes, "the client secret travels unencrypted: target.oauth.token_url is http://")
	}
	return notes
}
