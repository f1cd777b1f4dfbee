package wire

import (
	"errors"
	"io"
	"net"
)

const (
	// smallBuffer is what an idle link holds. A single event of the usual size and
	// its chunk header fit.
	smallBuffer = 512
	// burstBuffer is the most that full reads alone make of it; only an event that
	// does not fit makes it larger.
	burstBuffer = 16 << 10
	// emptyReads bounds how often in a row a link may return neither bytes nor an error.
	emptyReads = 64
)

// window is the one buffer of a link. buf[a:b] are decoded bytes that the
// consumer still needs, buf[r:w] raw bytes that were not decoded yet;
// 0 ≤ a ≤ b ≤ r ≤ w ≤ len(buf). What lies between is dead.
type window struct {
	src        io.Reader
	most       int // the largest buffer; a consumer that keeps to its limits never needs more
	buf        []byte
	small      []byte // the small buffer, kept while a larger one is in use
	a, b, r, w int
	full       bool // the last read filled all the room it had: more is waiting
	reads      uint64
	err        error // came together with bytes; due at the next fill
}

// raw returns the bytes that were read but not decoded.
func (w *window) raw() []byte { return w.buf[w.r:w.w] }

// fill reads once from the source, after making room. Offsets move by the change
// of a (for kept bytes) and of r (for raw ones).
func (w *window) fill() error {
	if err := w.err; err != nil {
		if isTimeout(err) {
			w.err = nil
		}
		return err
	}
	w.room()
	free := w.buf[w.w:]
	for range emptyReads {
		n, err := w.src.Read(free)
		if n > 0 {
			w.w += n
			w.full = n == len(free)
			w.reads++
			w.err = err
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// room makes at least a quarter of the buffer free at its end. A burst gets a larger
// buffer, a drained link gives it back before it waits.
func (w *window) room() {
	kept, raw := w.b-w.a, w.w-w.r
	live, size := kept+raw, len(w.buf)
	switch {
	case size == 0:
		size = smallBuffer
	case live > size-size/4 && size < w.most:
		if size *= 2; size > w.most/2 { // one copy less of what is large
			size = w.most
		}
	case w.full && size < burstBuffer:
		size = min(4*size, burstBuffer)
	case !w.full && size > smallBuffer && live <= smallBuffer/2:
		size = smallBuffer
	}
	switch {
	case size != len(w.buf):
		w.resize(size)
	case live == 0:
		w.a, w.b, w.r, w.w = 0, 0, 0, 0
	case size-w.w < size/2:
		w.move(w.buf)
	}
}

func (w *window) resize(size int) {
	if max(size, len(w.buf)) >= largeBuffer {
		defer large.change(len(w.buf))()
	}
	if len(w.buf) == smallBuffer {
		w.small = w.buf
	}
	next := w.small
	if size != smallBuffer || next == nil {
		next = make([]byte, size)
	}
	w.move(next)
	w.buf = next
}

// rest gives a large buffer back when nothing is in it: no read follows soon.
func (w *window) rest() {
	if w.a == w.b && w.r == w.w && len(w.buf) > smallBuffer {
		w.resize(smallBuffer)
	}
}

// drop gives up whatever is there: nothing will be read any more.
func (w *window) drop() {
	if len(w.buf) >= largeBuffer {
		defer large.change(len(w.buf))()
	}
	w.buf, w.small, w.a, w.b, w.r, w.w = nil, nil, 0, 0, 0, 0
}

// move closes the gaps while copying to the front of dst, which may be buf itself.
func (w *window) move(dst []byte) {
	kept := w.b - w.a
	if w.a > 0 || len(dst) != len(w.buf) {
		copy(dst, w.buf[w.a:w.b])
	}
	raw := copy(dst[kept:], w.buf[w.r:w.w])
	w.a, w.b, w.r, w.w = 0, kept, kept, kept+raw
}

// take makes the next n raw bytes follow the kept ones without a gap. It moves
// whichever is shorter: a large event that arrives in tiny chunks must not be moved
// once per chunk.
func (w *window) take(n int) {
	gap := w.r - w.b
	switch {
	case gap == 0:
		w.b += n
	case w.b-w.a <= n:
		copy(w.buf[w.a+gap:], w.buf[w.a:w.b])
		w.a += gap
		w.b = w.r + n
	default:
		copy(w.buf[w.b:], w.buf[w.r:w.r+n])
		w.b += n
	}
	w.r += n
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
