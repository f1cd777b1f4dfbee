package wire

import (
	"bytes"
	"io"
	"math"
	"time"
	"unicode/utf8"
)

// An Event is one dispatched event. Its slices are valid until the next [Reader.Next].
type Event struct {
	Type []byte // "message" when the block named no type
	Data []byte // the data lines joined by LF; raw bytes, also when they are no UTF-8
	ID   []byte // the last event id after this event, which is the cursor
	// HasID tells that this block carried an id line that counts: ID is its own.
	HasID bool
	// Illegal is what was wrong since the event before: IllegalUTF8 anywhere in the
	// stream's text, IllegalID for an id that a Last-Event-ID field does not carry as
	// it is: bytes outside printable ASCII, or spaces around it.
	Illegal Illegal
}

// A Reader reads Server-Sent Events as WHATWG HTML §9.2 states, over any number of
// connections of one stream. The zero value is ready for Reset. It belongs to one
// goroutine.
type Reader struct {
	// Limits bounds a body that is no *Response; a *Response brings those of its Conn.
	Limits Limits

	src   *body
	own   *source
	limit Limits
	err   error

	// Offsets into the window: the line that is being read begins at line, has no end
	// before scan, and no LF before lf. Data that belongs to the event is at ds:de.
	line, scan, lf, ds, de int

	first   bool // no line was completed on this connection: a BOM may begin the next
	skipLF  bool // the last line ended in CR; an LF that follows belongs to it
	hasData bool
	idSet   bool // the block has an id, in next
	typed   bool // the block has a type, in typ

	cursor, next []byte // the last event id string, and the buffer (§9.2.6)
	typ          []byte
	message      [7]byte
	committed    int
	illegal      Illegal

	retry    time.Duration
	hasRetry bool
}

// source makes a body of any io.Reader.
type source struct {
	win  window
	body body
}

// Reset begins to read a new body and forgets what was pending. cursor is the last
// event id of the stream, and stays it until a block with an id is complete, so an
// event without an id does not erase it. The reconnection time is kept as well: it
// belongs to the stream. A *Response is read in place; any other reader gets a buffer.
func (r *Reader) Reset(in io.Reader, cursor []byte) {
	if p, ok := in.(*Response); ok {
		r.src, r.limit = &p.body, p.limit
	} else {
		if r.own == nil {
			r.own = new(source)
		}
		r.limit = r.Limits.withDefaults()
		buf := r.own.win.buf
		*r.own = source{win: window{src: in, buf: buf, most: r.limit.buffer()}}
		r.own.body = body{win: &r.own.win, kind: framingClose, limit: r.limit}
		r.src = &r.own.body
	}
	w := r.src.win
	r.line, r.scan, r.lf, r.ds, r.de = w.a, w.a, w.a, 0, 0
	r.first, r.skipLF, r.hasData, r.idSet, r.typed = true, false, false, false, false
	r.cursor = append(r.cursor[:0], cursor...)
	copy(r.message[:], "message")
	r.err, r.illegal, r.committed = nil, 0, 0
}

// Next reads up to the next event that is dispatched. A block without data moves the
// cursor if it has an id, and Next goes on.
//
// Errors: io.EOF at the end of the body between events, ErrMidEvent inside one,
// io.ErrUnexpectedEOF when the link ended before the body, *LimitError, *FrameError, or
// the link's own. After any of them what was pending is discarded and the cursor stays;
// Next then repeats the error. Only after a timeout Next goes on where it was.
func (r *Reader) Next(ev *Event) error {
	if r.err != nil {
		return r.err
	}
	for {
		start, end, ok := r.nextLine()
		switch {
		case !ok:
			if err := r.more(); err != nil {
				return r.fail(err)
			}
		case start == end:
			if r.dispatch(ev) {
				return nil
			}
		default:
			if err := r.field(start, end); err != nil {
				return r.fail(err)
			}
		}
	}
}

// Cursor returns the last event id: what Last-Event-ID should say, empty when there is
// nothing to say. It is valid until the next Next or Reset.
func (r *Reader) Cursor() []byte { return r.cursor }

// Committed returns how many blocks with an id were completed since Reset, those that
// dispatched no event included.
func (r *Reader) Committed() int { return r.committed }

// Retry returns the reconnection time that the server asked for, if it did.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

// Buffered returns how many bytes were read from the link and not yet looked at. Next may
// still wait when it is not 0, but never returns an event without reading when it is.
func (r *Reader) Buffered() int {
	if r.src == nil {
		return 0
	}
	w := r.src.win
	return w.b - r.line + w.w - w.r
}

// Reads returns how often the link was read so far. It changes between two events only
// when the later one had to be waited for, so a clock needs to be read only then.
func (r *Reader) Reads() uint64 {
	if r.src == nil {
		return 0
	}
	return r.src.win.reads
}

// nextLine returns the bounds of the next complete line, without its end. It looks at each
// byte once per kind of line end, however the bytes come.
func (r *Reader) nextLine() (start, end int, ok bool) {
	w := r.src.win
	buf, top := w.buf, w.b
	if r.skipLF && r.line < top {
		r.skipLF = false
		if buf[r.line] == '\n' {
			r.line++
			r.scan = r.line
		}
	}
	r.lf = max(r.lf, r.scan)
	if r.lf < top && buf[r.lf] != '\n' {
		if i := bytes.IndexByte(buf[r.lf:top], '\n'); i >= 0 {
			r.lf += i
		} else {
			r.lf = top
		}
	}
	start = r.line
	if i := bytes.IndexByte(buf[r.scan:r.lf], '\r'); i >= 0 {
		end = r.scan + i
		r.line = end + 1
		switch {
		case r.line == top:
			r.skipLF = true
		case buf[r.line] == '\n':
			r.line++
		}
		r.scan = r.line
		return start, end, true
	}
	if r.lf < top {
		end = r.lf
		r.line = end + 1
		r.scan = r.line
		return start, end, true
	}
	r.scan = top
	return 0, 0, false
}

// more gets more of the body behind the line that is incomplete.
func (r *Reader) more() error {
	w := r.src.win
	if w.b-r.line > r.limit.Line {
		return &LimitError{What: "line", Limit: r.limit.Line}
	}
	w.a = r.line
	if r.hasData {
		if r.de-r.ds+w.b-r.line > r.limit.held() {
			return &LimitError{What: "event", Limit: r.limit.Event}
		}
		// Lines that were dropped lie between the data and the line. That gap is closed when
		// it is at least as long as what moves, or takes room in a buffer that is large.
		if gap := r.line - r.de; gap > 0 && (gap >= w.b-r.line || len(w.buf) > w.most/2) {
			copy(w.buf[r.de:], w.buf[r.line:w.b])
			r.line -= gap
			r.scan -= gap
			r.lf -= gap
			w.b -= gap
		}
		w.a = r.ds
	}
	old := w.a
	err := r.src.more()
	moved := w.a - old
	r.line += moved
	r.scan += moved
	r.lf += moved
	r.ds += moved
	r.de += moved
	return err
}

// fail makes an error final, unless it is a timeout.
func (r *Reader) fail(err error) error {
	if isTimeout(err) {
		return err
	}
	if err == io.EOF && r.pending() {
		err = ErrMidEvent
	}
	r.hasData, r.idSet, r.typed = false, false, false
	r.err = err
	r.release(err)
	return err
}

// release gives back what an event took that did not come to its end: a stream may wait for
// long before it is taken up again.
func (r *Reader) release(err error) {
	w := r.src.win
	if err == io.EOF || err == ErrMidEvent { // the link may go on
		w.a = w.b
		w.rest()
	} else {
		w.drop()
	}
	r.line, r.scan, r.lf = w.b, w.b, w.b
}

// pending tells whether an end here would discard anything but a comment.
func (r *Reader) pending() bool {
	w := r.src.win
	rest := w.buf[r.line:w.b]
	if r.first {
		rest = bytes.TrimPrefix(rest, []byte("\ufeff"))
	}
	return r.hasData || r.idSet || r.typed || len(rest) > 0 && rest[0] != ':'
}

// field takes one line that is not empty (§9.2.6).
func (r *Reader) field(start, end int) error {
	switch {
	case end-start > r.limit.Line:
		return &LimitError{What: "line", Limit: r.limit.Line}
	case r.hasData && r.de-r.ds+end-start > r.limit.held():
		return &LimitError{What: "event", Limit: r.limit.Event}
	}
	line := r.src.win.buf[start:end]
	if r.first {
		r.first = false
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if !utf8.Valid(line) {
		r.illegal |= IllegalUTF8
	}
	name, value := line, line[len(line):]
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(name) {
	case "data":
		return r.appendData(end-len(value), end)
	case "id":
		return r.setID(value)
	case "event":
		if len(value) > r.limit.Head {
			return &LimitError{What: "type", Limit: r.limit.Head}
		}
		r.typ = append(r.typ[:0], value...)
		r.typed = true
	case "retry":
		r.setRetry(value)
	}
	return nil
}

// appendData joins a data line to the data before it by moving it there. The line end
// between two lines leaves room for the LF that joins them.
func (r *Reader) appendData(start, end int) error {
	if !r.hasData {
		r.hasData = true
		r.ds, r.de = start, end
	} else {
		buf := r.src.win.buf
		buf[r.de] = '\n'
		r.de += 1 + copy(buf[r.de+1:], buf[start:end])
	}
	if r.de-r.ds > r.limit.Event {
		return &LimitError{What: "event", Limit: r.limit.Event}
	}
	return nil
}

func (r *Reader) setID(value []byte) error {
	if len(value) > r.limit.Head {
		return &LimitError{What: "id", Limit: r.limit.Head}
	}
	if !isHeaderSafe(value) {
		r.illegal |= IllegalID
	}
	if bytes.IndexByte(value, 0) >= 0 {
		return nil
	}
	r.next = append(r.next[:0], value...)
	r.idSet = true
	return nil
}

// isHeaderSafe tells whether a Last-Event-ID field carries an id as it is: printable ASCII
// without spaces around it, which receivers remove.
func isHeaderSafe(id []byte) bool {
	for _, c := range id {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return len(id) == 0 || id[0] != ' ' && id[len(id)-1] != ' '
}

// setRetry takes effect at once, also when the block is never completed. A number that no
// duration holds becomes the longest duration.
func (r *Reader) setRetry(value []byte) {
	if len(value) == 0 {
		return
	}
	const most = uint64(math.MaxInt64 / time.Millisecond)
	var n uint64
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
		n = min(n*10+uint64(c-'0'), most)
	}
	r.retry, r.hasRetry = time.Duration(n)*time.Millisecond, true
}

// dispatch ends a block at its empty line and tells whether it was an event.
func (r *Reader) dispatch(ev *Event) bool {
	r.first = false
	hasID := r.idSet
	if hasID {
		r.cursor, r.next = r.next, r.cursor
		r.committed++
	}
	typ := r.message[:]
	if r.typed && len(r.typ) > 0 {
		typ = r.typ
	}
	r.idSet, r.typed = false, false
	if !r.hasData {
		return false
	}
	r.hasData = false
	*ev = Event{
		Type: typ, Data: r.src.win.buf[r.ds:r.de:r.de], ID: r.cursor,
		HasID: hasID, Illegal: r.illegal,
	}
	r.illegal = 0
	return true
}
