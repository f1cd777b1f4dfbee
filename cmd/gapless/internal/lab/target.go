package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/endpoint"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
	"github.com/gapless-dev/gapless/loadgen/wire"
	"github.com/gapless-dev/gapless/profiles"
)

// execLeave is how long a server that was started for the run may take to end.
const execLeave = 5 * time.Second

// logLimit is how much of what a started server prints is kept for a saved run, in bytes.
const logLimit = 4 << 20

// NewEndpoint makes the endpoint of a profile that has a URL. Its errors are about the
// profile, the flags and the files that they name.
func NewEndpoint(t profiles.Target, getenv func(string) string) (*endpoint.Endpoint, error) {
	secret := func(s profiles.Secret) endpoint.Secret {
		return endpoint.Secret{Env: s.Env, File: s.File, Command: s.Command}
	}
	return endpoint.New(endpoint.Config{
		URL: t.URL, HTTP: t.HTTP, Header: t.Headers, Token: secret(t.Token), HTTPProxy: t.HTTPProxy, Getenv: getenv,
		OAuth:   endpoint.OAuth{TokenURL: t.OAuth.TokenURL, ClientID: t.OAuth.ClientID, ClientSecret: secret(t.OAuth.Secret), Scopes: t.OAuth.Scopes},
		TLS:     endpoint.TLS{CA: t.TLS.CA, Cert: t.TLS.Cert, Key: t.TLS.Key, Insecure: t.TLS.Insecure},
		Timeout: dialTimeout,
	})
}

// Target is the target of a profile that is not the reference server: what answers at its
// URL already, or the server that its command starts. What is wrong with the profile is an
// error at once, what is wrong with the server when it is started.
func Target(t profiles.Target, getenv func(string) string) (func(context.Context) (*Endpoint, error), error) {
	if t.Transport == "stdio" {
		return func(ctx context.Context) (*Endpoint, error) { return startStdio(ctx, t) }, nil
	}
	e, err := NewEndpoint(t, getenv)
	if err != nil {
		return nil, err
	}
	target := &Endpoint{
		URL: e.URL(), Shown: e.Shown(), Credential: e.Credential(), Notes: e.Notes, PID: t.PID,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.Dial(ctx) },
		Stop: func() error { return nil },
	}
	if t.Exec == "" {
		return func(context.Context) (*Endpoint, error) { return target, nil }, nil
	}
	return func(ctx context.Context) (*Endpoint, error) { return target.exec(ctx, t) }, nil
}

// fields are the headers of a profile, in one order.
func fields(headers map[string]string) []wire.Field {
	var all []wire.Field
	for name, value := range headers {
		all = append(all, wire.Field{Name: name, Value: value})
	}
	slices.SortFunc(all, func(a, b wire.Field) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// ask returns a client for single exchanges with the target.
func (e *Endpoint) ask(t profiles.Target) *client.Client {
	return client.New(client.Config{
		URL: e.URL, Header: fields(t.Headers), Credential: e.Credential,
		Dial: func(ctx context.Context) (net.Conn, error) { return e.Dial(ctx, "tcp", hostOf(e.URL)) },
	})
}

// hostOf is the address in a URL, with its port.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80")
	}
	return u.Host
}

// exec starts the server and waits until it opens a session.
func (e *Endpoint) exec(ctx context.Context, t profiles.Target) (*Endpoint, error) {
	if conn, err := e.Dial(ctx, "tcp", hostOf(e.URL)); err == nil {
		_ = conn.Close()
		return nil, &MisusedError{fmt.Sprintf("target.exec: something answers at %s before the server was started; stop it, or leave exec out to test it", e.Shown)}
	}
	log := &tail{limit: logLimit}
	p, err := process.Start(process.Config{Command: t.Exec, Log: log})
	if err != nil {
		return nil, err
	}
	started := *e
	started.PID, started.exited, started.log = p.PID(), p.Exited(), log
	started.died, started.Stop = p.Died, func() error { return p.Stop(execLeave) }
	if err := started.ready(ctx, t, p); err != nil {
		return nil, errors.Join(started.Stop(), err)
	}
	return &started, nil
}

// wrongURL is for how long a server may answer that there is nothing at the URL: some open
// their port before their routes.
const wrongURL = 3 * time.Second

// ready waits until the server answers initialize.
func (e *Endpoint) ready(ctx context.Context, t profiles.Target, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, t.ReadyTimeout.Std())
	defer cancel()
	c := e.ask(t)
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	var last error
	var refused time.Time // since when it answers that there is nothing
	for {
		s, err := c.Initialize(ctx, string(t.Protocol))
		if err == nil {
			s.Close(ctx)
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // what was seen before time was up says more
		}
		var status *client.StatusError
		switch {
		case !errors.As(err, &status) || status.Status != 404 && status.Status != 405:
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > wrongURL:
			return e.unready(p, fmt.Errorf("the server is there, but %w: is this the URL of its MCP endpoint?", last))
		}
		select {
		case <-p.Exited():
			return &UnreachableError{fmt.Errorf("no server at %s", e.Shown)} // Stop says how it died
		case <-ctx.Done():
			return e.unready(p, fmt.Errorf("the server did not answer initialize at %s within %v: %w", e.Shown, t.ReadyTimeout, last))
		case <-pause.C:
		}
	}
}

// unready adds what the server has printed: often the URL at which it does answer.
func (e *Endpoint) unready(p *process.Process, err error) error {
	if words := p.LastWords(); words != "" {
		err = fmt.Errorf("%w; its last words:\n%s", err, words)
	}
	return &UnreachableError{err}
}
