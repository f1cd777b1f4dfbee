package chaos

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/chaos/scan"
)

// Exchange is what a link has to know about the HTTP exchange that begins on it.
type Exchange struct {
	// Attempt counts the exchanges of the stream, from 0; Resume tells a GET with
	// Last-Event-ID from the POST.
	Attempt int
	Resume  bool
	// Others is how many responses to other requests of a batch come before the call's
	// own; nothing strikes at them.
	Others int
	// Get marks the exchanges of a standalone GET stream, Session those of a handshake.
	Get, Session bool
	// Delivered is how many messages of the stream were delivered before; Expected how
	// many the call will send, 0 when unknown.
	Delivered, Expected int
	// Victim holds the stream's faults; nil: none.
	Victim *Victim
	// OnInjection is told of every cut, in the goroutine that reads and before it sees
	// the end. The Injection is valid only during the call. It may be nil.
	OnInjection func(*Injection)
}

// Values of [Injection.Planned] of faults that no stream's plan has: those of the plan of
// the whole run, and those that somebody asked for while it went on.
const (
	RunWide   = -1
	Unplanned = -2
)

// Injection is a fault that fired.
type Injection struct {
	Kind    Kind
	Place   Place
	Link    uint32
	Attempt int
	// Planned is the index of the fault in the stream's plan, from 0, or [RunWide] or
	// [Unplanned].
	Planned int
	// Event is the ordinal on this link of the event the fault struck at or in, from 1;
	// 0 before the first. Offset is how many of its bytes were delivered; at request and
	// headers, how many of those.
	Event, Offset uint32
	// Opening marks a cut that was planned only to make a resume place reachable.
	Opening bool
	// InReplay: it struck before the caught-up point that the target named.
	InReplay bool
	// AfterID: a committed id of this stream had been delivered before.
	AfterID bool
	// For is how long it acts; 0 for what takes an instant, and for a black hole that ends
	// when the run heals.
	For time.Duration
	// Ends: the link is gone. A link that only suffers lives on.
	Ends bool
	// Approximate: bytes were still on their way to a proxy's client at a reset. A link
	// itself is always exact.
	Approximate bool
	// RunWide: it struck many links at one instant.
	RunWide bool
}

// A Link is the client's end of one TCP connection, with the faults of the stream
// that uses it. Reading, writing, Begin and End belong to one goroutine; Close, Heal
// and the deadlines may come from any.
//
//	conn ─► scan ─┬─► in place ───────────────► Read
//	              └─► held (one event) ─► out ─► Read
//
// Bytes are delivered in place as long as no event is held back and the body is not
// re-framed, so a link without faults costs one comparison per Read.
type Link struct {
	conn    net.Conn
	id      uint32
	life    life
	nemesis *Nemesis // nil: no clock, no storms

	ex Exchange
	// watching: a fault may still strike in this exchange, or the body is re-framed.
	watching bool
	// begun: a byte of the response has arrived.
	begun bool
	// headed: the head has passed.
	headed bool
	// asking: a fault may strike while the request is written.
	asking bool
	// following: the position has to be known at any time, for a storm.
	following bool
	holding   bool // an event
	heading   bool // the head
	reframe   bool
	// messages counts those delivered in this exchange.
	messages int
	others   int // of Exchange.Others, those still to come

	scan scan.Scanner
	// held are the bytes of the event being held back, and heldFrom the scanner as it
	// was before the first of them.
	held     []byte
	heldFrom scan.Scanner
	// out waits to be read; outAt is how far it has been.
	out   []byte
	outAt int
	// pauses lie among them; suffers while one of them acts.
	pauses  []pause
	suffers bool
	pain    suffering
	// err is how the real link ended, kept until out is empty.
	err error
	cut *cut
	// now is what the faults are asked about; a field, so that asking allocates nothing.
	now view
}

// cut is the end of a link by a fault.
type cut struct {
	injection Injection
	announced bool
	// tail is what the reader still gets after the announcement.
	tail []byte
	err  error
	// end is still to be done to the connection, behind what waits.
	end *End
	// silent: the reader is not told before the link is let go.
	silent bool
	// swallows: what is written disappears.
	swallows bool
}

var _ net.Conn = (*Link)(nil)

const (
	lastChunk = "0\r\n\r\n"
	// maxHold bounds an event that is held back; a longer one is decided on its
	// beginning.
	maxHold = 64 << 10
	// keepBuffer is the largest buffer that an idle link keeps.
	keepBuffer = 4 << 10
	// stallBuffer is our receive buffer while a stall is to come.
	stallBuffer = 4 << 10
)

// NewLink wraps a connection; id names it in injections.
func NewLink(conn net.Conn, id uint32) *Link { return &Link{conn: conn, id: id} }

// ID returns the number the link was given.
func (l *Link) ID() uint32 { return l.id }

// NetConn returns the connection under the link.
func (l *Link) NetConn() net.Conn { return l.conn }

// Begin must be called before the first byte of each exchange is written. If the stream
// has a [Stall] to come, it makes the receive buffer small, so that the target notices.
func (l *Link) Begin(ex Exchange) {
	if l.cut != nil {
		return
	}
	l.ex, l.others = ex, ex.Others
	l.begun, l.headed, l.holding, l.heading, l.reframe, l.watching, l.messages = false, false, false, false, false, false, 0
	l.following = ex.Victim != nil && l.nemesis.storms()
	l.asking = ex.Victim.Left() > 0
	l.life.carry(ex.Victim != nil && !ex.Session)
	if !l.asking && !l.following {
		return
	}
	l.scan.Reset()
	l.now = view{resume: ex.Resume, get: ex.Get, session: ex.Session, missed: -1, expected: ex.Expected, base: ex.Delivered}
	v := l.view(firstByte)
	l.heading = ex.Victim.holdsHead(v)
	l.watching = l.following || !ex.Victim.over(v)
	if ex.Victim.Stalls() {
		l.shrink()
	}
}

// shrink makes our receive buffer as small as it takes for a target to notice that
// nobody reads.
func (l *Link) shrink() {
	if c, ok := innermost(l.conn).(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = c.SetReadBuffer(stallBuffer) // it fails only on a connection that is gone already
	}
}

// End must be called after each exchange. It tells whether the link may carry
// another: not after a cut, nor with bytes that nobody has read. What the link suffered
// is over with the exchange.
func (l *Link) End() bool {
	l.life.carry(false)
	l.struckByStorm()
	l.announce()
	for _, p := range l.pauses {
		l.ex.Victim.spare(p.injection.Planned)
	}
	unread := len(l.held) > 0 || l.outAt < len(l.out)
	l.watching, l.suffers, l.pauses, l.pain = false, false, nil, suffering{}
	l.trim()
	l.ex = Exchange{}
	return l.cut == nil && l.err == nil && !unread && !l.life.isClosed()
}

// Read reads from the target up to the position of the next fault; behind it the
// error of the fault, for ever. It matches syscall.ECONNRESET after a reset, and
// syscall.ETIMEDOUT after a silence; it is io.EOF after the other ends.
func (l *Link) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if l.suffers {
			var err error
			if p, err = l.ready(p); err != nil {
				return 0, err
			}
		}
		if n := l.drain(p); n > 0 {
			return n, nil
		}
		switch {
		case len(l.pauses) > 0:
			l.suffer()
			continue
		case l.cut != nil || l.struckByStorm():
			return l.readCut(p)
		case l.err != nil:
			return 0, l.err
		case !l.watching && !l.suffers && l.nemesis == nil:
			return l.conn.Read(p)
		}
		if n, err := l.arrive(p); n > 0 || err != nil {
			return n, err
		}
	}
}

// arrive reads from the target once and returns what of it may be delivered at once.
func (l *Link) arrive(p []byte) (int, error) {
	n, err := l.conn.Read(p)
	if n > 0 && l.watching {
		n = l.examine(p[:n])
	}
	switch {
	case err == nil || l.cut != nil:
	case l.nemesis != nil && l.life.stormed():
		// The storm has closed the connection under us: the next round says so.
	case isTimeout(err):
		return n, err
	default:
		l.sourceEnded(err)
	}
	if l.suffers && time.Now().Before(l.pain.delayed) && n+len(l.out)-l.outAt > 0 {
		l.late(p[:n])
		return 0, nil
	}
	if l.suffers {
		l.pain.delivered(n, time.Now())
	}
	return n, nil
}

// drain delivers what waits, up to the next position at which something begins.
func (l *Link) drain(p []byte) int {
	until := len(l.out)
	if len(l.pauses) > 0 {
		until = l.pauses[0].at
	}
	if l.outAt == until {
		return 0
	}
	n := copy(p, l.out[l.outAt:until])
	l.outAt += n
	if l.suffers {
		l.pain.delivered(n, time.Now())
	}
	if l.outAt == len(l.out) {
		l.out, l.outAt = l.out[:0], 0
		for i := range l.pauses {
			l.pauses[i].at = 0 // none lies behind the last byte
		}
		l.trim()
	}
	return n
}

// trim gives back buffers that one large event made grow.
func (l *Link) trim() {
	if len(l.held) == 0 && cap(l.held) > keepBuffer {
		l.held = nil
	}
	if len(l.out) == 0 && cap(l.out) > keepBuffer {
		l.out = nil
	}
}

// sourceEnded delivers what was held back: it did arrive, and no fault struck in it.
func (l *Link) sourceEnded(err error) {
	l.err = err
	l.release()
	l.watching = false
}

func (l *Link) readCut(p []byte) (int, error) {
	l.announce()
	if n := copy(p, l.cut.tail); n > 0 {
		l.cut.tail = l.cut.tail[n:]
		return n, nil
	}
	if l.cut.silent {
		if err := l.life.sleep(time.Time{}, true); err != nil {
			return 0, l.opError("read", err)
		}
	}
	return 0, l.cut.err
}

// announce reports the cut, once, when everything before it has been delivered.
func (l *Link) announce() {
	if l.cut == nil || l.cut.announced {
		return
	}
	l.cut.announced = true
	if l.cut.end != nil {
		l.finish(*l.cut.end)
	}
	if l.ex.OnInjection != nil {
		l.ex.OnInjection(&l.cut.injection)
	}
}

// Write writes to the target; it fails after a cut, and seems to succeed where nothing
// passes any more.
func (l *Link) Write(p []byte) (int, error) {
	switch {
	case l.cut != nil && l.cut.swallows:
		return len(p), nil
	case l.cut != nil:
		return 0, l.opError("write", net.ErrClosed)
	case l.asking:
		if n, err, struck := l.request(p); struck {
			return n, err
		}
	}
	n, err := l.conn.Write(p)
	if err != nil && l.nemesis != nil && l.life.stormed() {
		l.stormWrites()
		return n, l.opError("write", l.cut.err)
	}
	return n, err
}

// LocalAddr returns the address of our end.
func (l *Link) LocalAddr() net.Addr { return l.conn.LocalAddr() }

// RemoteAddr returns the address of the target's end.
func (l *Link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *Link) opError(op string, err error) error {
	local := l.conn.LocalAddr()
	network := "tcp"
	if local != nil {
		network = local.Network()
	}
	return &net.OpError{Op: op, Net: network, Source: local, Addr: l.conn.RemoteAddr(), Err: err}
}

func (l *Link) cutError(e End) error {
	switch {
	case e.Reset:
		return l.opError("read", os.NewSyscallError("read", syscall.ECONNRESET))
	case e.Silent:
		return l.opError("read", os.NewSyscallError("read", syscall.ETIMEDOUT))
	}
	return io.EOF
}
