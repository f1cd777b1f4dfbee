package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/api"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// httpFlags say where and how a run can be steered.
type httpFlags struct {
	addr, tokenEnv string
	paused         bool
}

func addHTTPFlags(cmd *cobra.Command, f *httpFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "http", "", "serve the HTTP API and /debug/pprof on `HOST:PORT` or unix:PATH, behind a token; port 0 picks one")
	flags.StringVar(&f.tokenEnv, "http-token-env", "", "the environment variable `NAME` holds that token (default: a new one, printed)")
	flags.BoolVar(&f.paused, "paused", false, "with --http: begin when POST /api/start says so")
}

// A remote is the HTTP API of a run; without --http it does nothing.
type remote struct {
	api   *api.Server // nil: nobody asked for it
	halt  chan struct{}
	once  sync.Once
	group guard.Group
	stop  context.CancelFunc
	err   error // of Serve; valid once the group has been waited for
}

// openRemote listens and says where. Whoever called it closes what it returns.
func openRemote(cmd *cobra.Command, f *runFlags) (*remote, error) {
	r := &remote{halt: make(chan struct{}), stop: func() {}}
	token, err := f.http.token(os.Getenv)
	if err != nil {
		return nil, err
	}
	if f.http.addr != "" {
		ln, err := f.http.listen(f.yes)
		if err != nil {
			return nil, err
		}
		if err := r.serve(cmd, f, ln, token); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	serving := r.stop
	r.stop = func() { cancel(); serving() }
	r.group.Go(func() {
		select {
		case <-f.halt:
			r.end()
			if r.api != nil {
				r.api.Halted()
			}
		case <-ctx.Done():
		}
	})
	return r, nil
}

// end ends arrivals and faults; what is open drains.
func (r *remote) end() { r.once.Do(func() { close(r.halt) }) }

func (r *remote) serve(cmd *cobra.Command, f *runFlags, ln net.Listener, token string) error {
	host, _, _ := net.SplitHostPort(f.http.addr)
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	var err error
	if r.api, err = api.New(api.Config{Token: token, Host: host, Paused: f.http.paused, Stop: r.end}); err != nil {
		return fmt.Errorf("--http-token-env: %w", err)
	}
	where := "http://" + ln.Addr().String()
	if ln.Addr().Network() == "unix" {
		where = f.http.addr
	}
	known := "token " + token
	if f.http.tokenEnv != "" {
		known = "token in " + f.http.tokenEnv
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "gapless: API at %s/api, %s\n", where, known)
	ctx, cancel := context.WithCancel(context.Background()) // the last result is still fetched after an interrupt
	r.stop = cancel
	r.group.Go(func() { r.err = r.api.Serve(ctx, ln) })
	r.group.Go(func() {
		select {
		case <-r.api.Left():
			r.end()
		case <-ctx.Done():
		}
	})
	return nil
}

// token is what requests have to carry: drawn, unless a variable holds it.
func (f httpFlags) token(getenv func(string) string) (string, error) {
	switch {
	case f.addr == "" && f.paused:
		return "", errors.New("--paused: nothing could start the run; give --http too")
	case f.addr == "" && f.tokenEnv != "":
		return "", errors.New("--http-token-env: there is no API without --http")
	case f.addr == "" || f.tokenEnv == "":
		return rand.Text(), nil
	}
	token := getenv(f.tokenEnv)
	if token == "" {
		return "", fmt.Errorf("--http-token-env: %s is not set", f.tokenEnv)
	}
	return token, nil
}

// listen keeps to this machine unless somebody says yes.
func (f httpFlags) listen(yes bool) (net.Listener, error) {
	ln, err := lab.Listen(f.addr)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	if at, ok := ln.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !yes {
		return nil, errors.Join(fmt.Errorf("--http: %s can be reached from other machines, without TLS: --yes says that it may", f.addr), ln.Close())
	}
	return ln, nil
}

// arm gives the API the load of the run, and the run what ends it.
func (r *remote) arm(c *lab.Config) {
	c.Halt = r.halt
	if r.api != nil {
		c.Armed = func(i *lab.Injector) { r.api.Armed(steered{i}) }
	}
}

// wait waits for the start; false if the run is to end before.
func (r *remote) wait(ctx context.Context) bool {
	if r.api == nil {
		return true
	}
	select {
	case <-r.api.Started():
		return true
	case <-r.halt:
	case <-ctx.Done():
	}
	return false
}

// done hands over the result.
func (r *remote) done(res *result.Result) error {
	if r.api == nil {
		return nil
	}
	return r.api.Done(res)
}

// linger keeps the API until the time is over, an interrupt, or a stop.
func (r *remote) linger(cmd *cobra.Command, f *runFlags, since time.Time) {
	if r.api == nil || f.linger <= 0 {
		return
	}
	timer := time.NewTimer(time.Until(since.Add(f.linger)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.api.Left():
	case <-f.halt:
	case <-cmd.Context().Done():
	}
}

// close ends the API.
func (r *remote) close() error {
	r.stop()
	return errors.Join(r.group.Wait(), r.err)
}

// steered is a load as the API sees it.
type steered struct{ *lab.Injector }

// Figures implements api.Load.
func (s steered) Figures() api.Figures { return api.Figures(s.Status()) }
