package loadgen

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// fresh bounds how long a link may have rested before it carries another exchange.
// Servers close resting links, and a request that crosses such a close leaves
// nobody able to say whether the call ran; none closes them within a second.
const fresh = time.Second

// resting is how many links a session keeps for its next exchanges.
const resting = 4

// link is a [Link] with its HTTP reader, below which it stamps the clock once per
// read and ends a read at whichever limit comes first:
//
//	wire.Conn ── link (limits, clock) ── Link (faults) ── TCP
type link struct {
	Link
	r    *runner
	id   uint32
	conn *wire.Conn

	used   bool          // it carried an exchange before the current one
	rested time.Duration // when the previous exchange ended

	// Of the current exchange:
	ctx  context.Context
	of   *stream // nil for an exchange of the session
	lim  limits
	at   time.Duration // of the last read or write
	sent bool          // the request was written; it is written in one piece
	got  bool          // a byte of the response was read
	over history.End   // the limit that ended a read, EndNone if none did
	err  error         // what ended the link, as the link itself said
}

// limits says when a read has waited long enough. All are since the start of the run.
type limits struct {
	// until ends the exchange as end.
	until time.Duration
	end   history.End
	// idle after since ends it as EndIdle; 0 never does.
	idle, since time.Duration
}

// first returns the limit that comes first.
func (l limits) first() (time.Duration, history.End) {
	if l.idle > 0 && l.since+l.idle < l.until {
		return l.since + l.idle, history.EndIdle
	}
	return l.until, l.end
}

// begin prepares the link for one exchange; the returned function must be called
// when it is over.
func (l *link) begin(ctx context.Context, of *stream, lim limits) (stop func() bool) {
	l.ctx, l.of, l.lim = ctx, of, lim
	l.sent, l.got, l.over, l.err = false, false, history.EndNone, nil
	first, _ := lim.first()
	// An error means that the link is dead, which the first write will tell.
	_ = l.SetWriteDeadline(l.r.instant(lim.until))
	_ = l.SetReadDeadline(l.r.instant(first))
	if of == nil {
		return context.AfterFunc(ctx, l.interrupt)
	}
	if of.due() {
		l.nudge()
	}
	l.r.flying.add(l)
	return l.landed
}

// landed reports whether the stop of the run left the exchange of a stream alone.
func (l *link) landed() bool { return l.r.flying.remove(l) }

// flights are the links on which streams have exchanges: they are interrupted together
// when the run is stopped. A context would keep four times as much for each.
type flights struct {
	mu   sync.Mutex
	all  map[*link]struct{}
	over bool
}

func (f *flights) add(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		l.interrupt()
		return
	}
	f.all[l] = struct{}{}
}

// remove reports whether the link was there, so that nobody is about to interrupt it.
func (f *flights) remove(l *link) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.all[l]
	delete(f.all, l)
	return ok
}

// end interrupts all, and those that are to come.
func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for l := range f.all {
		l.interrupt()
	}
	clear(f.all)
}

// interrupt ends a read or write in progress.
func (l *link) interrupt() { _ = l.SetDeadline(time.Unix(1, 0)) }

// limit replaces the limits of the exchange by earlier ones.
func (l *link) limit(lim limits) {
	l.lim = lim
	first, _ := lim.first()
	_ = l.SetReadDeadline(l.r.instant(first))
	switch {
	case l.ctx.Err() != nil:
		l.interrupt()
	case l.of != nil && l.of.due():
		l.nudge()
	}
}

// nudge makes the next read that would wait look at the limits first.
func (l *link) nudge() { _ = l.SetReadDeadline(time.Unix(1, 0)) }

// Read reads from the link until a limit is over. The limits move with every event,
// the deadline of the link only when it has passed: a read costs no timer.
func (l *link) Read(p []byte) (int, error) {
	for {
		n, err := l.Link.Read(p)
		l.at = l.r.now()
		if n > 0 {
			l.got = true
			return n, err
		}
		if err == nil {
			return 0, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || l.expired() {
			l.err = err
			return 0, err
		}
	}
}

// Write writes to the link and notes that the exchange has left.
func (l *link) Write(p []byte) (int, error) {
	n, err := l.Link.Write(p)
	l.at = l.r.now()
	if err == nil && !l.sent {
		l.sent = true
		if l.of != nil {
			l.of.leaves(l.at)
		}
	}
	if err != nil {
		l.err = err
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.expired()
		}
	}
	return n, err
}

// expired reports whether a limit is over, or else sets the deadline to the next one.
func (l *link) expired() bool {
	if l.ctx.Err() != nil {
		l.over = stopEnd(l.ctx)
		return true
	}
	if l.of != nil {
		l.of.hear(l.ctx)
	}
	first, end := l.lim.first()
	if l.r.now() >= first {
		l.over = end
		return true
	}
	l.limit(l.lim)
	return false
}

// close ends the link without another exchange.
func (l *link) close() { _ = l.Link.Close() } // nothing is left to be lost with it

// endOf says how an exchange ended, by what the reader of its response returned.
func (l *link) endOf(err error) history.End {
	switch {
	case l.over != history.EndNone:
		return l.over
	case wire.IllegalOf(err) != 0:
		return history.EndFrame
	case errors.Is(err, wire.ErrMidEvent):
		return history.EndMidEvent
	case errors.Is(l.err, syscall.ECONNRESET), errors.Is(l.err, syscall.EPIPE), errors.Is(l.err, syscall.ECONNABORTED):
		return history.EndReset
	case errors.Is(l.err, syscall.ECONNREFUSED):
		return history.EndUnreachable
	case err == io.EOF && l.got:
		return history.EndClean
	}
	return history.EndTruncated
}

// stopEnd tells a stop of the run from the end of its drain.
func stopEnd(ctx context.Context) history.End {
	if errors.Is(context.Cause(ctx), errDrained) {
		return history.EndDeadline
	}
	return history.EndStopped
}

// dial opens a link.
func (r *runner) dial(ctx context.Context) (*link, error) {
	select {
	case r.dials <- struct{}{}:
		defer func() { <-r.dials }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.DialTimeout)
	defer cancel()
	conn, err := r.c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{Link: conn, r: r, id: uint32(r.c.Live.links.Add(1))}
	l.conn = wire.NewConn(l, r.c.Limits)
	return l, nil
}

// pool keeps a few links of one session, the latest used on top.
type pool struct {
	mu   sync.Mutex
	idle []*link
	shut bool
}

// take returns a link that rested for less than [fresh] and is still there, or nil.
func (p *pool) take(now time.Duration) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		l := p.idle[n-1]
		if now-l.rested >= fresh {
			break
		}
		p.idle[n-1], p.idle = nil, p.idle[:n-1]
		if !gone(l.Link) {
			return l
		}
		l.close()
	}
	p.drop()
	return nil
}

// put gives a link back, or ends it where there are enough.
func (p *pool) put(l *link, now time.Duration) {
	l.used, l.rested, l.ctx, l.of = true, now, nil, nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || len(p.idle) == resting {
		l.close()
		return
	}
	p.idle = append(p.idle, l)
}

// close ends all resting links, and those that come to rest later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	p.drop()
}

func (p *pool) drop() {
	for _, l := range p.idle {
		l.close()
	}
	clear(p.idle)
	p.idle = p.idle[:0]
}
