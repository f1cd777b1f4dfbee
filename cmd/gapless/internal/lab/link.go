package lab

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// A dialer opens links to the target with the faults of the client seat in them.
type dialer struct {
	addr  string
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	links atomic.Uint32
	// plan and nemesis are set before the load, for which there are faults.
	plan    *chaos.Plan
	nemesis *chaos.Nemesis
}

// Dial opens a link.
func (d *dialer) Dial(ctx context.Context) (loadgen.Link, error) {
	conn, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	l := &link{Link: chaos.NewLink(conn, d.links.Add(1)), plan: d.plan}
	if d.nemesis != nil {
		d.nemesis.Add(l.Link)
	}
	return l, nil
}

// A link is a chaos link that load generator and faults share: it hands what the
// one knows of an exchange to the other, and injections to the stream's history.
type link struct {
	*chaos.Link
	plan *chaos.Plan
	// small: its receive buffer is that of a stalling reader, too slow for anybody else.
	small bool
}

// Begin prepares the faults of the stream that this exchange belongs to.
func (l *link) Begin(x loadgen.Exchange) {
	ex, tell := exchange(x, l.plan)
	if tell != nil {
		ex.OnInjection = func(i *chaos.Injection) {
			tell.Observe(&history.Record{Kind: history.KindInjection, Link: x.Link, Injection: injection(i)})
		}
	}
	l.small = l.small || ex.Victim.Stalls()
	l.Link.Begin(ex)
}

// End tells whether the link may carry another exchange.
func (l *link) End() bool { return l.Link.End() && !l.small }

// exchange says what the faults have to know of an exchange, and who is told of those
// that fire; nil where nothing may be hurt.
func exchange(x loadgen.Exchange, plan *chaos.Plan) (chaos.Exchange, loadgen.StreamObserver) {
	ex := chaos.Exchange{
		Attempt: x.Attempt, Resume: x.Resume, Get: x.Get, Others: x.Others, Delivered: x.Delivered, Expected: x.Expected,
	}
	if t, ok := x.Opened.(*track); ok {
		ex.Victim = t.victim
		return ex, x.Observer
	}
	if _, ok := x.HandshakeOf.(*track); ok && plan != nil {
		ex.Session, ex.Victim = true, plan.Handshake(x.Session)
		return ex, x.Handshake
	}
	return ex, nil
}

func injection(i *chaos.Injection) history.Injection {
	return history.Injection{
		Kind: i.Kind.String(), Place: i.Place.String(), Planned: i.Planned,
		Event: i.Event, Offset: i.Offset, Opening: i.Opening, InReplay: i.InReplay, AfterID: i.AfterID,
		For: i.For, Ends: i.Ends, Approximate: i.Approximate, RunWide: i.RunWide,
	}
}

// arm puts the faults into the dialer, before the load. What it returns is their clock,
// which heals what lasts when the load is halted or over.
func (x *experiment) arm(plan *chaos.Plan) *chaos.Nemesis {
	if x.c.Armed != nil {
		plan.AllowStrikes()
	}
	began := time.Now()
	n := chaos.NewNemesis(plan, func() time.Duration { return time.Since(began) })
	x.dialer.plan, x.dialer.nemesis = plan, n
	return n
}
