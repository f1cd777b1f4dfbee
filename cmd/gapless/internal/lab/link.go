package lab

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
)

// A dialer opens links to the target with the faults of the client seat in them.
type dialer struct {
	addr  string
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	links atomic.Uint32
}

// Dial opens a link.
func (d *dialer) Dial(ctx context.Context) (loadgen.Link, error) {
	conn, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	return &link{Link: chaos.NewLink(conn, d.links.Add(1))}, nil
}

// A link is a chaos link that load generator and faults share: it hands what the
// one knows of an exchange to the other, and injections to the stream's history.
type link struct {
	*chaos.Link
}

// Begin prepares the faults of the stream that this exchange belongs to.
func (l *link) Begin(x loadgen.Exchange) {
	ex := chaos.Exchange{Attempt: x.Attempt, Resume: x.Resume, Delivered: x.Delivered, Expected: x.Expected}
	if t, ok := x.Opened.(*track); ok {
		ex.Victim = t.victim
		ex.OnInjection = func(i *chaos.Injection) {
			x.Observer.Observe(&history.Record{Kind: history.KindInjection, Link: x.Link, Injection: injection(i)})
		}
	}
	l.Link.Begin(ex)
}

func injection(i *chaos.Injection) history.Injection {
	return history.Injection{
		Kind: i.Kind.String(), Place: i.Place.String(), Planned: i.Planned,
		Event: i.Event, Offset: i.Offset, Opening: i.Opening, InReplay: i.InReplay, AfterID: i.AfterID,
	}
}
