package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
)

// Config says what a Proxy does. Only Upstream is required.
type Config struct {
	// Upstream is the HOST:PORT that links are relayed to.
	Upstream string
	// Dial opens a connection to Upstream; nil is a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTimeout bounds one Dial; 0 means 10 s.
	DialTimeout time.Duration
	// Plan is the faults; nil: none. Call number n gets what the plan has for stream n,
	// handshake n what it has for session n and standalone GET stream n what it has for
	// stream FirstGet+n-1 (0: nothing), unless [Proxy.Expect] says otherwise.
	Plan     *chaos.Plan
	FirstGet uint32
	// VictimOf, if set, is asked in place of Plan. It may be asked for a number again,
	// when the one before did not become a stream.
	VictimOf func(role Role, ordinal uint64, client net.Addr) *chaos.Victim
	// OnInjection, if set, is told of every injection by the goroutine of its link, before
	// the client can see it. The Injection is valid only during the call.
	OnInjection func(*Injection)
	// OnLink, if set, is given every upstream link before anything is done with it: the
	// place for [chaos.Nemesis.Add].
	OnLink func(*chaos.Link)
	// OnEnd, if set, is given the account of every link that has ended. Like the others it
	// may be called for several links at once.
	OnEnd func(*Account)
	// Host, if set, replaces the value of the header Host; else requests are passed on
	// unchanged.
	Host string
	// Settle is how long a reset waits for the client's system to have all that was
	// delivered; 0 means 100 ms. A reset that could not wait so long is approximate.
	Settle time.Duration
	// Linger is how long a link that ended with a FIN waits for the client to close its
	// side; 0 means 1 s.
	Linger time.Duration
	// Keep is how many accounts of ended links are kept; 0 means 1000.
	Keep int
	// Logger gets what goes wrong beside the relayed bytes; nil: nobody. No header, body
	// or id is ever logged.
	Logger *slog.Logger
}

// Validate returns all complaints, joined.
func (c Config) Validate() error {
	var errs []error
	if host, port, err := net.SplitHostPort(c.Upstream); err != nil || host == "" || port == "" {
		errs = append(errs, fmt.Errorf("upstream must be HOST:PORT, not %q", c.Upstream))
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"dial timeout", c.DialTimeout}, {"settle", c.Settle}, {"linger", c.Linger}} {
		if d.is < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative, not %v", d.name, d.is))
		}
	}
	if c.Keep < 0 {
		errs = append(errs, fmt.Errorf("keep must not be negative, not %d", c.Keep))
	}
	return errors.Join(errs...)
}

// planned is VictimOf for a plan.
func (c Config) planned(role Role, n uint64, _ net.Addr) *chaos.Victim {
	switch {
	case role == Handshake:
		return c.Plan.Handshake(uint32(n))
	case role == Call:
		return c.Plan.Victim(uint32(n))
	case c.FirstGet > 0:
		return c.Plan.Victim(c.FirstGet + uint32(n) - 1)
	}
	return nil
}

// A Proxy relays links to one upstream and cuts them as planned.
type Proxy struct {
	cfg      Config
	log      *slog.Logger
	seed     maphash.Seed
	counters counters
	calls    ordinals
	gets     ordinals
	sessions ordinals
	streams  streams
	ring     ring
	buffers  sync.Pool

	mu       sync.Mutex
	closed   bool
	links    map[*relay]struct{}
	expected map[netip.AddrPort]chaos.Exchange
	// silent are upstream connections that a black hole keeps open for its time.
	silent map[*port]struct{}
	last   uint64 // number of the latest link
}

// New returns a proxy that does not listen yet.
func New(cfg Config) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, 10*time.Second)
	cfg.Settle = cmp.Or(cfg.Settle, 100*time.Millisecond)
	cfg.Linger = cmp.Or(cfg.Linger, time.Second)
	cfg.Keep = cmp.Or(cfg.Keep, 1000)
	if cfg.VictimOf == nil && cfg.Plan != nil {
		cfg.VictimOf = cfg.planned
	}
	p := &Proxy{
		cfg: cfg, log: cfg.Logger, seed: maphash.MakeSeed(),
		links: map[*relay]struct{}{}, expected: map[netip.AddrPort]chaos.Exchange{}, silent: map[*port]struct{}{},
		ring: ring{keep: cfg.Keep},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.buffers.New = func() any { return new(buffer) }
	return p, nil
}

// Serve relays the links that ln accepts until ctx is done; it closes ln and every link
// and returns when no goroutine of theirs is left. Its error is that of the listener or a
// *guard.PanicError. A proxy serves once.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group := guard.Group{OnPanic: cancel}
	group.Go(func() {
		<-ctx.Done()
		_ = ln.Close() // it only makes Accept return
		p.closeLinks()
	})
	err := p.accept(ctx, ln, &group)
	cancel()
	return errors.Join(err, group.Wait())
}

func (p *Proxy) accept(ctx context.Context, ln net.Listener, group *guard.Group) error {
	pause := time.Duration(0)
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			p.log.Warn("accept", "err", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return fmt.Errorf("proxy: %w", err)
		}
		pause = 0
		if r := p.open(conn); r != nil {
			group.Go(func() { r.run(ctx, group) })
		}
	}
}

// open registers a link; nil when the proxy is closed.
func (p *Proxy) open(conn net.Conn) *relay {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil
	}
	p.last++
	r := newRelay(p, p.last, conn)
	p.links[r] = struct{}{}
	p.counters.links.Add(1)
	p.counters.open.Add(1)
	return r
}

// finished takes a link out and keeps its account.
func (p *Proxy) finished(r *relay, a *Account) {
	p.mu.Lock()
	delete(p.links, r)
	p.mu.Unlock()
	p.counters.open.Add(-1)
	p.ring.add(a)
	if p.cfg.OnEnd != nil {
		p.cfg.OnEnd(a)
	}
}

func (p *Proxy) closeLinks() {
	p.mu.Lock()
	p.closed = true
	var all []*relay
	for r := range p.links {
		all = append(all, r)
	}
	for c := range p.silent {
		_ = c.Conn.Close() // nobody is left to believe in it
	}
	clear(p.silent)
	p.mu.Unlock()
	for _, r := range all {
		r.stop()
	}
}

// silence keeps an eye on a connection that nobody else will close for a while.
func (p *Proxy) silence(c *port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent[c] = struct{}{}
}

func (p *Proxy) unsilence(c *port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.silent, c)
}

// Expect says what the next exchange of a client's link is: its place in its stream, its
// faults, whom to tell. It has to be called before the first byte of the exchange is
// sent, by someone who knows the client's address; it is used once. False: addresses of
// this network name nobody.
func (p *Proxy) Expect(client net.Addr, ex chaos.Exchange) bool {
	key, ok := addrKey(client)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected[key] = ex
	return true
}

func (p *Proxy) takeExpected(client net.Addr) (chaos.Exchange, bool) {
	key, ok := addrKey(client)
	if !ok {
		return chaos.Exchange{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ex, ok := p.expected[key]
	delete(p.expected, key)
	return ex, ok
}

func addrKey(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), true
}

// Snapshot returns the counters as they are now.
func (p *Proxy) Snapshot() Snapshot { return p.counters.snapshot() }

// Accounts returns those of the latest ended links, oldest first.
func (p *Proxy) Accounts() []*Account { return p.ring.all() }
