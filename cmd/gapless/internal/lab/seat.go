package lab

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/chaos/proxy"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// A relaySeat is the proxy between load generator and target, for faults that act from
// there. Proxy and load share a process, so that the proxy can be told what each
// exchange is about, and each injection reaches the history of its stream in the
// stream's own goroutine, in the read that shows it:
//
//	stream ─► proxied ══ TCP ══► proxy (faults) ══ TCP ══► target
//	             ▲                 │
//	             └─── injections ──┘
type relaySeat struct {
	proxy *proxy.Proxy
	plan  *chaos.Plan
	addr  string
	group guard.Group
	stop  context.CancelFunc
	err   error // of Serve; valid once the group has been waited for

	mu    sync.Mutex
	links map[string]*proxied // by the client's HOST:PORT
}

// sit starts the proxy on a free loopback port.
func (x *experiment) sit(plan *chaos.Plan, n *chaos.Nemesis) (*relaySeat, error) {
	s := &relaySeat{plan: plan, links: map[string]*proxied{}}
	p, err := proxy.New(proxy.Config{
		Upstream: x.dialer.addr, Dial: x.endpoint.Dial, OnLink: n.Add, OnInjection: s.inject,
		VictimOf: func(proxy.Role, uint64, net.Addr) *chaos.Victim { return nil }, // what is not expected is not hurt
	})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.proxy, s.addr, s.stop = p, ln.Addr().String(), cancel
	s.group.Go(func() { s.err = p.Serve(ctx, ln) })
	return s, nil
}

// leave stops the proxy.
func (s *relaySeat) leave() error {
	s.stop()
	if err := s.group.Wait(); err != nil {
		return err
	}
	return s.err
}

// inject keeps an injection for the stream that will read what it did. It is called
// by the goroutine of the proxy's link, before the client can see anything of it.
func (s *relaySeat) inject(i *proxy.Injection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[i.Client]; l != nil {
		l.pending = append(l.pending, injection(&i.Injection))
	}
}

// Dial opens a link through the proxy.
func (s *relaySeat) Dial(ctx context.Context) (loadgen.Link, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	l := &proxied{Conn: conn, seat: s, key: conn.LocalAddr().String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[l.key] = l
	return l, nil
}

// A proxied link is the client's end of a link through the proxy.
type proxied struct {
	net.Conn
	seat *relaySeat
	key  string

	tell loadgen.StreamObserver // of the current exchange
	link uint32
	cut  bool

	pending []history.Injection // guarded by seat.mu
}

// Begin tells the proxy what its next exchange is about.
func (l *proxied) Begin(x loadgen.Exchange) {
	var ex chaos.Exchange
	ex, l.tell = exchange(x, l.seat.plan)
	l.link = x.Link
	l.seat.proxy.Expect(l.LocalAddr(), ex)
}

// End tells whether the link may carry another exchange.
func (l *proxied) End() bool {
	l.drain()
	l.tell = nil
	return !l.cut
}

// Read reports what the proxy did before it shows what came of it.
func (l *proxied) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.drain()
	return n, err
}

// Write fails when the proxy has refused the link, with the reason in the history.
func (l *proxied) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if err != nil {
		l.drain()
	}
	return n, err
}

// Close forgets the link.
func (l *proxied) Close() error {
	l.seat.mu.Lock()
	delete(l.seat.links, l.key)
	l.seat.mu.Unlock()
	return l.Conn.Close()
}

// drain hands what the proxy did to the stream's history.
func (l *proxied) drain() {
	l.seat.mu.Lock()
	pending := l.pending
	l.pending = nil
	l.seat.mu.Unlock()
	for i := range pending {
		l.cut = l.cut || pending[i].Ends
		if l.tell != nil {
			l.tell.Observe(&history.Record{Kind: history.KindInjection, Link: l.link, Injection: pending[i]})
		}
	}
}
