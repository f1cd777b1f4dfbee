package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// defaultTimeout bounds an exchange when [Config.Timeout] is 0.
const defaultTimeout = 10 * time.Second

// Limits for one-off answers: far above what lists of tools take, far below what hurts.
const (
	defaultEvent = 4 << 20
	maxMessages  = 10_000 // of an event stream, before the response
)

// Config says where the server is and how it is asked.
type Config struct {
	URL    string                                  // http://HOST/PATH: request target and Host; how it is reached is Dial's business
	Dial   func(context.Context) (net.Conn, error) // nil: TCP to the host of URL
	Header []wire.Field                            // of every request; names as in wire.Request
	// Credential returns the value of the Authorization header, asked before each
	// exchange; nil: none.
	Credential func(context.Context) (string, error)
	Limits     wire.Limits   // Line and Event: 0 means 4 MiB here
	Timeout    time.Duration // of one exchange with its answer; 0: 10 s
	// Patience bounds for how long a server that limits the rate is asked again, beyond
	// the Timeout of each try; 0: 429 and 503 are answers as any other.
	Patience time.Duration
}

// A Client asks one MCP endpoint. It may be used by several goroutines.
type Client struct {
	c            Config
	host, target string
}

// New returns a client of the endpoint. Whatever is wrong with the URL shows at the first
// exchange.
func New(c Config) *Client {
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Limits.Event <= 0 {
		c.Limits.Event = defaultEvent
	}
	if c.Limits.Line <= 0 {
		c.Limits.Line = defaultEvent
	}
	x := &Client{c: c}
	if u, err := url.Parse(c.URL); err == nil {
		x.host, x.target = u.Host, u.RequestURI()
	}
	if x.c.Dial == nil {
		x.c.Dial = x.tcp
	}
	return x
}

// Host returns the value of the Host header.
func (c *Client) Host() string { return c.host }

// tcp opens a link to the host of the URL.
func (c *Client) tcp(ctx context.Context) (net.Conn, error) {
	host := c.host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", host)
}

// A Request is one HTTP exchange beside Host and the framing.
type Request struct {
	Method string // "" means POST
	// Fields are put over those of the client: a field of the same name is replaced, an
	// empty value takes it out.
	Fields []wire.Field
	Host   string // "" means that of the URL
	Body   []byte
	// Forge, if set, changes the bytes of the request before they are sent: what no
	// proper client writes.
	Forge func([]byte) []byte
}

// An Answer is the answer to a [Request] whose head has come. Its link is its own: Close
// must be called.
type Answer struct {
	*wire.Response
	Sent   time.Time     // when the try began that it answers
	Waited time.Duration // for a server that limited the rate, up to Sent

	c     *Client
	ctx   context.Context
	conn  *wire.Conn
	link  net.Conn
	leave func() bool // takes the end of the context off the link

	secrets []string // values of the request that a server must not make us repeat
}

// once is [Client.Open] without patience.
func (c *Client) once(ctx context.Context, req Request) (*Answer, error) {
	if c.host == "" {
		return nil, &UnreachableError{Err: errors.New("the URL is not of the form http://HOST/PATH")}
	}
	began := time.Now()
	until := began.Add(c.c.Timeout)
	fields, err := c.fields(ctx, req)
	if err != nil {
		return nil, err
	}
	dialling, cancel := context.WithDeadline(ctx, until)
	link, err := c.c.Dial(dialling)
	cancel()
	if err != nil {
		return nil, &UnreachableError{Err: err}
	}
	if req.Forge != nil {
		link = &forger{Conn: link, forge: req.Forge}
	}
	a := &Answer{Sent: began, c: c, ctx: ctx, conn: wire.NewConn(link, c.c.Limits), link: link}
	a.leave = context.AfterFunc(ctx, func() { _ = link.Close() }) // the end of an exchange has no use for the error
	if err := a.round(req, fields, until); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Again sends another request on the link of an answer that was read to its end.
func (a *Answer) Again(req Request) error {
	fields, err := a.c.fields(a.ctx, req)
	if err != nil {
		return err
	}
	return a.round(req, fields, time.Now().Add(a.c.c.Timeout))
}

func (a *Answer) round(req Request, fields []wire.Field, until time.Time) error {
	if err := a.Until(until); err != nil {
		return err
	}
	q := wire.Request{Method: req.Method, Target: a.c.target, Host: req.Host, Fields: fields, Body: req.Body}
	if q.Method == "" {
		q.Method = "POST"
	}
	if q.Host == "" {
		q.Host = a.c.host
	}
	a.secrets = secrets(a.c.c.Header, fields)
	resp, err := a.conn.RoundTrip(&q)
	if err != nil {
		return cause(a.ctx, err)
	}
	a.Response = resp
	return nil
}

// fields puts the fields of a request over those of the client.
func (c *Client) fields(ctx context.Context, req Request) ([]wire.Field, error) {
	var all []wire.Field
	put := func(f wire.Field) {
		kept := all[:0]
		for _, old := range all {
			if !strings.EqualFold(old.Name, f.Name) {
				kept = append(kept, old)
			}
		}
		all = kept
		if f.Value != "" {
			all = append(all, f)
		}
	}
	if c.c.Credential != nil {
		value, err := c.c.Credential(ctx)
		if err != nil {
			return nil, fmt.Errorf("credential: %w", err)
		}
		put(wire.Field{Name: "Authorization", Value: value})
	}
	for _, f := range c.c.Header {
		put(f)
	}
	for _, f := range req.Fields {
		put(f)
	}
	return all, nil
}

// Until bounds what is read from now on.
func (a *Answer) Until(t time.Time) error { return a.link.SetDeadline(t) }

// Link returns the link of the exchange.
func (a *Answer) Link() net.Conn { return a.link }

// Strike makes a text of the server's printable, in one line, without what was secret of
// the request.
func (a *Answer) Strike(text string) string {
	for _, secret := range a.secrets {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return shorten(printable(text))
}

// Close closes the link; what was not read is lost.
func (a *Answer) Close() {
	a.leave()
	_ = a.link.Close() // there is nothing more to be had from it
}

// Body reads the rest of the body, which must fit the limit of an event.
func (a *Answer) Body() ([]byte, error) {
	data, err := a.ReadAll(a.c.c.Limits.Event)
	return data, cause(a.ctx, err)
}

// cause tells the end of the context from that of the link that it closed.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// A forger sends other bytes than it is given.
type forger struct {
	net.Conn
	forge func([]byte) []byte
}

func (f *forger) Write(p []byte) (int, error) {
	if _, err := f.Conn.Write(f.forge(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// NetConn returns the link below.
func (f *forger) NetConn() net.Conn { return f.Conn }
