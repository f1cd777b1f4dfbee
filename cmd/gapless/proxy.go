package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/chaos/proxy"
	"github.com/gapless-dev/gapless/cmd/gapless/internal/lab"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/profiles"
)

// proxyMessages is how many messages a call is taken to send unless a flag says.
const proxyMessages = 10

// plannedLinks is how many streams of each role a proxy's plan is drawn for: more than
// one will ever carry.
const plannedLinks = 1 << 24

type proxyFlags struct {
	upstream, addr, host string
	faults               []string
	messages             int
	seed                 uint64
	quiet                bool
	halt                 <-chan struct{}
}

func newProxyCommand(halt <-chan struct{}) *cobra.Command {
	f := proxyFlags{halt: halt}
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL",
		Short: "Cut the links of any client to any server",
		Long: `Relay the links of any client to an MCP server over plain HTTP, and cut them at
chosen places. The URL that clients use is the first line on stdout; a summary
follows when the proxy is stopped. Without --fault everything just passes.

Calls are numbered as their event streams begin; the n-th meets what the seed draws
for stream n. A resume whose cursor has passed goes on with its stream and the faults
that are left of it. Standalone GET streams and handshakes are numbered apart, and
struck only at the places get-stream and initialize. Positions are counted in the
messages that passed.`,
		Example: `  gapless proxy --upstream http://127.0.0.1:3000/mcp --fault rst@mid-event:1
  gapless proxy --upstream http://127.0.0.1:3000/mcp --fault fin:0.5 --seed 7`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runProxy(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.upstream, "upstream", "", "the server's `URL`, http://HOST:PORT[/path]")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8932", "listen on `HOST:PORT` or unix:PATH; port 0 picks one")
	flags.StringVar(&f.host, "host", "", "replace the header Host by `NAME`; empty: leave it")
	flags.StringArrayVar(&f.faults, "fault", nil, "`KIND[@PLACE[,PLACE]][:N][,key=value]`: N per stream; repeatable (gapless help faults)")
	flags.IntVar(&f.messages, "messages", proxyMessages, "cut among the first `N` messages of a call")
	flags.Uint64Var(&f.seed, "seed", 0, "key of all draws (default: a new one, printed)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	return cmd
}

func runProxy(cmd *cobra.Command, f *proxyFlags) error {
	upstream, err := upstreamURL(f.upstream)
	if err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("seed") {
		if f.seed, err = drawSeed(); err != nil {
			return err
		}
	}
	plan, err := proxyPlan(f)
	if err != nil {
		return usageError{err}
	}
	cfg := proxy.Config{
		Upstream: upstream.Host, Plan: plan, FirstGet: plannedLinks + 1, Host: f.host,
		Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
	}
	started := time.Now()
	var nemesis *chaos.Nemesis
	if plan != nil {
		nemesis = chaos.NewNemesis(plan, func() time.Duration { return time.Since(started) })
		cfg.OnLink = nemesis.Add
	}
	p, err := proxy.New(cfg)
	if err != nil {
		return usageError{err}
	}
	ln, err := lab.Listen(f.addr)
	if err != nil {
		return usageError{fmt.Errorf("--addr: %w", err)}
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), clientURL(ln.Addr(), upstream)); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := serveProxy(cmd, f, p, nemesis, ln); err != nil {
		return err
	}
	return printProxy(cmd.OutOrStdout(), p.Snapshot(), f)
}

// serveProxy serves until it is interrupted; nothing of it is left then.
func serveProxy(cmd *cobra.Command, f *proxyFlags, p *proxy.Proxy, nemesis *chaos.Nemesis, ln net.Listener) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	beside := guard.Group{OnPanic: cancel}
	beside.Go(func() { // the first interrupt is enough: nothing waits for a verdict
		select {
		case <-f.halt:
			cancel()
		case <-ctx.Done():
		}
	})
	if !f.quiet {
		beside.Go(func() { tellProgress(ctx, cmd.ErrOrStderr(), p) })
	}
	if nemesis != nil {
		beside.Go(func() { nemesis.Run(ctx) })
	}
	err := p.Serve(ctx, ln)
	cancel()
	return errors.Join(err, beside.Wait())
}

// upstreamURL reads the server's URL and completes its port.
func upstreamURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("--upstream: the server's URL is missing, such as http://127.0.0.1:3000/mcp")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("--upstream: %q is not a URL such as http://127.0.0.1:3000/mcp", s)
	case u.Scheme == "https":
		return nil, errors.New("--upstream: the proxy has to read what passes, so it cannot stand before https")
	case u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("--upstream: want http://HOST:PORT[/path] and nothing else")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	return u, nil
}

// clientURL is where clients find the server behind the proxy. Paths pass unchanged, so
// it has the server's.
func clientURL(ln net.Addr, upstream *url.URL) string {
	if ln.Network() == "unix" {
		return "unix:" + ln.String()
	}
	return (&url.URL{Scheme: "http", Host: ln.String(), Path: upstream.Path}).String()
}

// proxyPlan draws the faults; nil when there are none.
func proxyPlan(f *proxyFlags) (*chaos.Plan, error) {
	cfg := chaos.PlanConfig{
		Seed: f.seed, Streams: plannedLinks, Messages: f.messages,
		// What a server does not do is not reached; the plan need not know.
		Priming: true, IDs: true, Head: true,
		Seat: chaos.SeatProxy, Sessions: plannedLinks, GetStreams: plannedLinks, FirstGet: plannedLinks + 1,
	}
	var bad error
	for _, text := range f.faults {
		mix, err := proxyFault(text, cfg)
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("--fault: %w", err))
			continue
		}
		cfg.Mix = append(cfg.Mix, mix...)
	}
	if bad != nil || len(cfg.Mix) == 0 {
		return nil, bad
	}
	return chaos.NewPlan(cfg)
}

// proxyFault reads one fault and refuses places that it cannot strike from here.
func proxyFault(text string, cfg chaos.PlanConfig) ([]chaos.Fault, error) {
	f, err := profiles.ParseFault(text)
	if err != nil {
		return nil, err
	}
	mix, err := lab.Mix([]profiles.Fault{f})
	for _, one := range mix {
		for _, place := range one.At {
			if why := chaos.Impossible(one.Kind, place, cfg.Seat, cfg); why != "" {
				return nil, fmt.Errorf("fault %q: %s@%s is impossible: %s", text, one.Kind, place, why)
			}
		}
	}
	return mix, err
}

// tellProgress shows the counters until ctx is done: a redrawn line on a terminal, else
// a new line when something has changed.
func tellProgress(ctx context.Context, w io.Writer, p *proxy.Proxy) {
	line := newProgressLine(w)
	tick := time.NewTicker(line.interval())
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			line.clear()
			return
		case <-tick.C:
		}
		text := proxyProgress(p.Snapshot())
		if line.terminal || text != last {
			line.show(text)
		}
		last = text
	}
}

func proxyProgress(s proxy.Snapshot) string {
	return fmt.Sprintf("%5d links open  %7d exchanges  %9d events  %5d injections  %5d resumes  %d refused",
		s.Open, s.Exchanges, s.Events, s.Injected(), s.Resumes, s.Refused)
}

// printProxy says what the proxy has done.
func printProxy(w io.Writer, s proxy.Snapshot, f *proxyFlags) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d links, %d exchanges, %d event streams, %d events, %d resumes\n",
		s.Links, s.Exchanges, s.Streams, s.Events, s.Resumes)
	fmt.Fprintf(&b, "%d bytes from clients, %d from the server, %d to clients\n", s.FromClient, s.FromServer, s.ToClient)
	if s.Refused > 0 {
		fmt.Fprintf(&b, "%d requests refused by the proxy itself\n", s.Refused)
	}
	if len(f.faults) > 0 {
		fmt.Fprintf(&b, "%d injections, %d of them approximate\n", s.Injected(), s.Approximate)
	}
	for _, c := range s.Cells {
		fmt.Fprintf(&b, "  %6d  %s@%s\n", c.Count, c.Kind, c.Place)
	}
	line := "gapless proxy --upstream " + quote(f.upstream)
	if f.host != "" {
		line += " --host " + quote(f.host)
	}
	if f.messages != proxyMessages {
		line += fmt.Sprintf(" --messages %d", f.messages)
	}
	for _, fault := range f.faults {
		line += " --fault " + quote(fault)
	}
	fmt.Fprintf(&b, "repeat  %s --seed %d\n", line, f.seed)
	_, err := io.WriteString(w, b.String())
	return err
}
