package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
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
	// Delivered is how many messages of the stream were delivered before; Expected how
	// many the call will send, 0 when unknown.
	Delivered, Expected int
	// Victim holds the stream's faults; nil: none.
	Victim *Victim
	// OnInjection is told of every cut, in the goroutine that reads and before it sees
	// the end. The Injection is valid only during the call. It may be nil.
	OnInjection func(*Injection)
}

// Injection is a fault that fired.
type Injection struct {
	Kind    Kind
	Place   Place
	Link    uint32
	Attempt int
	// Planned is the index of the fault in the stream's plan, from 0.
	Planned int
	// Event is the ordinal on this link of the event the fault struck at or in, from 1;
	// 0 before the first. Offset is how many of its bytes were delivered.
	Event, Offset uint32
	// Opening marks a cut that was planned only to make a resume place reachable.
	Opening bool
	// InReplay: it struck before the caught-up point that the target named.
	InReplay bool
	// AfterID: a committed id of this stream had been delivered before.
	AfterID bool
}

// A Link is the client's end of one TCP connection, with the faults of the stream
// that uses it. Reading, writing, Begin and End belong to one goroutine; Close and
// the deadlines may come from any.
//
//	conn ─► scan ─┬─► in place ───────────────► Read
//	              └─► held (one event) ─► out ─► Read
//
// Bytes are delivered in place as long as no event is held back and the body is not
// re-framed, so a link without faults costs one comparison per Read.
type Link struct {
	conn   net.Conn
	id     uint32
	closed atomic.Bool

	ex Exchange
	// watching: a fault may still strike in this exchange, or the body is re-framed.
	watching bool
	// begun: a byte of the response has arrived.
	begun   bool
	holding bool
	reframe bool
	// messages counts those delivered in this exchange.
	messages int

	scan scan.Scanner
	// held are the bytes of the event being held back, and heldFrom the scanner as it
	// was before the first of them.
	held     []byte
	heldFrom scan.Scanner
	// out waits to be read; outAt is how far it has been.
	out   []byte
	outAt int
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
}

var _ net.Conn = (*Link)(nil)

const (
	lastChunk = "0\r\n\r\n"
	// maxHold bounds an event that is held back; a longer one is decided on its
	// beginning.
	maxHold = 64 << 10
	// keepBuffer is the largest buffer that an idle link keeps.
	keepBuffer = 4 << 10
)

// NewLink wraps a connection; id names it in injections.
func NewLink(conn net.Conn, id uint32) *Link { return &Link{conn: conn, id: id} }

// ID returns the number the link was given.
func (l *Link) ID() uint32 { return l.id }

// NetConn returns the connection under the link.
func (l *Link) NetConn() net.Conn { return l.conn }

// Begin must be called before the first byte of each exchange is written.
func (l *Link) Begin(ex Exchange) {
	if l.cut != nil {
		return
	}
	l.ex = ex
	l.begun, l.holding, l.reframe, l.watching, l.messages = false, false, false, false, 0
	if ex.Victim.Left() == 0 {
		return
	}
	l.scan.Reset()
	l.now = view{resume: ex.Resume, missed: -1, expected: ex.Expected, base: ex.Delivered}
	l.watching = !ex.Victim.over(l.view(firstByte))
}

// End must be called after each exchange. It tells whether the link may carry
// another: not after a cut, nor with bytes that nobody has read.
func (l *Link) End() bool {
	l.announce()
	unread := len(l.held) > 0 || l.outAt < len(l.out)
	l.watching = false
	l.trim()
	l.ex = Exchange{}
	return l.cut == nil && l.err == nil && !unread && !l.closed.Load()
}

// Read reads from the target up to the position of the next fault; behind it the
// error of the fault, for ever. It matches syscall.ECONNRESET after a reset and is
// io.EOF after the other ends.
func (l *Link) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if n := l.drain(p); n > 0 {
			return n, nil
		}
		if l.cut != nil {
			return l.readCut(p)
		}
		if l.err != nil {
			return 0, l.err
		}
		if !l.watching {
			return l.conn.Read(p)
		}
		n, err := l.conn.Read(p)
		if n > 0 {
			n = l.examine(p[:n])
		}
		if err != nil && l.cut == nil {
			if isTimeout(err) {
				return n, err
			}
			l.sourceEnded(err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// drain delivers what waits.
func (l *Link) drain(p []byte) int {
	if l.outAt == len(l.out) {
		return 0
	}
	n := copy(p, l.out[l.outAt:])
	l.outAt += n
	if l.outAt == len(l.out) {
		l.out, l.outAt = l.out[:0], 0
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
	if l.holding {
		l.release()
	}
	l.watching = false
}

func (l *Link) readCut(p []byte) (int, error) {
	l.announce()
	if n := copy(p, l.cut.tail); n > 0 {
		l.cut.tail = l.cut.tail[n:]
		return n, nil
	}
	return 0, l.cut.err
}

// announce reports the cut, once, when everything before it has been delivered.
func (l *Link) announce() {
	if l.cut == nil || l.cut.announced {
		return
	}
	l.cut.announced = true
	if l.ex.OnInjection != nil {
		l.ex.OnInjection(&l.cut.injection)
	}
}

// Write writes to the target; it fails after a cut.
func (l *Link) Write(p []byte) (int, error) {
	if l.cut != nil {
		return 0, l.opError("write", net.ErrClosed)
	}
	return l.conn.Write(p)
}

// Close closes the link and unblocks a Read.
func (l *Link) Close() error {
	l.closed.Store(true)
	return l.conn.Close()
}

// LocalAddr returns the address of our end.
func (l *Link) LocalAddr() net.Addr { return l.conn.LocalAddr() }

// RemoteAddr returns the address of the target's end.
func (l *Link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// SetDeadline bounds reads and writes, held-back bytes included.
func (l *Link) SetDeadline(t time.Time) error { return l.conn.SetDeadline(t) }

// SetReadDeadline bounds reads.
func (l *Link) SetReadDeadline(t time.Time) error { return l.conn.SetReadDeadline(t) }

// SetWriteDeadline bounds writes.
func (l *Link) SetWriteDeadline(t time.Time) error { return l.conn.SetWriteDeadline(t) }

func (l *Link) opError(op string, err error) error {
	local := l.conn.LocalAddr()
	network := "tcp"
	if local != nil {
		network = local.Network()
	}
	return &net.OpError{Op: op, Net: network, Source: local, Addr: l.conn.RemoteAddr(), Err: err}
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func (l *Link) cutError(e End) error {
	if e.Reset {
		return l.opError("read", os.NewSyscallError("read", syscall.ECONNRESET))
	}
	return io.EOF
}
