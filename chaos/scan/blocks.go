package scan

import "bytes"

// blocks follows the lines of an event stream (WHATWG HTML 9.2.5 and 9.2.6) and
// finds the blocks they form. A line ends at CR, LF or CRLF; the LF of a CRLF is
// taken when it comes and never waited for, so a blank line ends its block at its
// CR, as it does for a reader that dispatches without delay.
type blocks struct {
	done uint32
	cur  Event
	// open: EventStart has been marked and the block's blank line has not come.
	open bool
	// afterCR: the last byte was a CR that ended a line.
	afterCR bool
	part    part
	field   field
	name    [5]byte
	nameLen uint8
	// bom counts the bytes of a leading byte order mark; bomPast once none can follow.
	// The mark counts as part of the first block.
	bom uint8
	// typeLen is how much of "message" the event line has matched; 255: none of it.
	typeLen  uint8
	valueAny bool // the value has a byte
	nul      bool // the value has a NUL, so an id line does not count
	lines    uint8
	rpc      rpc
}

type part uint8

const (
	lineStart part = iota
	lineName
	lineSpace // just behind the colon, where one space does not count
	lineValue
	lineComment
)

type field uint8

const (
	fieldOther field = iota
	fieldData
	fieldID
	fieldEvent
)

const (
	bomWhole    = 3
	bomPast     = 4
	typeNoMatch = 255
	// window bounds how far one search for the end of a line looks, so that streams
	// which end their lines in CR do not pay for a search through the whole read.
	window = 1024
)

func (b *blocks) event() Event {
	e := b.cur
	if b.open {
		e.Ordinal = b.done + 1
		e.Response = e.HasData && !e.Named && b.rpc.response()
		e.Framing = e.HasData && !e.Named && b.rpc.frames()
	}
	return e
}

// next consumes p up to the next mark and keeps the size of the open block.
func (b *blocks) next(p []byte) (int, Mark) {
	open := b.open
	n, m := b.step(p)
	if open {
		b.cur.Bytes += n
	}
	return n, m
}

func (b *blocks) step(p []byte) (int, Mark) {
	for i := 0; i < len(p); {
		if b.part != lineStart {
			i += b.line(p[i:])
			continue
		}
		c := p[i]
		if b.afterCR {
			b.afterCR = false
			if c == '\n' {
				i++
				// The LF belongs to the line before it: to the block only if that is open.
				continue
			}
		}
		switch {
		case c == '\n' || c == '\r':
			i++
			b.afterCR = c == '\r'
			b.bom = bomPast
			if b.open {
				return i, b.end()
			}
		case c == ':':
			i++
			b.bom = bomPast
			b.part = lineComment
		case !b.open:
			b.begin()
			return i, EventStart
		default:
			n := b.wholeLine(p[i:])
			if n == 0 {
				b.part, b.nameLen, b.field = lineName, 0, fieldOther
			}
			i += n
		}
	}
	return len(p), None
}

// wholeLine is a shortcut for a data or id line that lies in p up to its LF: it
// consumes it, or nothing where the bytes have to be looked at one by one.
func (b *blocks) wholeLine(p []byte) int {
	name := 0
	switch {
	case b.bom != bomPast:
		return 0
	case len(p) > 5 && string(p[:5]) == "data:":
		name = 4
	case len(p) > 3 && string(p[:3]) == "id:":
		name = 2
	default:
		return 0
	}
	if len(p) > window {
		p = p[:window]
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 || bytes.IndexByte(p[:end], '\r') >= 0 {
		return 0
	}
	b.nameLen = uint8(copy(b.name[:], p[:name]))
	b.named()
	b.part = lineSpace
	b.value(p[name+1 : end])
	b.endLine('\n')
	return end + 1
}

func (b *blocks) begin() {
	b.open = true
	b.cur = Event{}
	b.typeLen = 0
	b.lines = 0
	b.rpc = rpc{}
}

func (b *blocks) end() Mark {
	e := b.event()
	b.open = false
	if !e.HasID && !e.HasData {
		e.Ordinal = 0
		b.cur = e
		return BlockEnd
	}
	b.done++
	b.cur = e
	return EventEnd
}

// line consumes bytes of the current line up to and including its end, or as far
// as the window reaches.
func (b *blocks) line(p []byte) int {
	if len(p) > window {
		p = p[:window]
	}
	if b.part == lineName {
		return b.nameBytes(p)
	}
	n, end := len(p), false
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		n, end = i, true
	}
	if i := bytes.IndexByte(p[:n], '\r'); i >= 0 {
		n, end = i, true
	}
	if b.part != lineComment {
		b.value(p[:n])
	}
	if !end {
		return n
	}
	b.endLine(p[n])
	return n + 1
}

// nameBytes consumes a field name up to its colon or the end of the line.
func (b *blocks) nameBytes(p []byte) int {
	for i, c := range p {
		switch {
		case c == ':':
			if b.nameLen == 0 && b.bom == bomWhole {
				b.bom = bomPast
				b.part = lineComment // byte order mark, then a comment
				return i + 1
			}
			b.named()
			b.part = lineSpace
			return i + 1
		case c == '\r' || c == '\n':
			b.named()
			b.endLine(c)
			return i + 1
		case b.bom < bomPast && b.skipBOM(c):
		case int(b.nameLen) < len(b.name):
			b.name[b.nameLen] = c
			b.nameLen++
		default:
			b.nameLen = uint8(len(b.name)) + 1
		}
	}
	return len(p)
}

// skipBOM takes the bytes of one leading byte order mark.
func (b *blocks) skipBOM(c byte) bool {
	const mark = "\xef\xbb\xbf"
	if b.bom < bomWhole && c == mark[b.bom] {
		b.bom++
		return true
	}
	if b.bom > 0 && b.bom < bomWhole {
		b.nameLen = uint8(len(b.name)) + 1 // no mark after all: those bytes begin a name nobody knows
	}
	b.bom = bomPast
	return false
}

// named is called when the field name is complete.
func (b *blocks) named() {
	b.bom = bomPast
	b.valueAny, b.nul = false, false
	if int(b.nameLen) > len(b.name) {
		b.field = fieldOther
		return
	}
	switch string(b.name[:b.nameLen]) {
	case "data":
		b.field = fieldData // the LF between two data lines means nothing to JSON
	case "id":
		b.field = fieldID
	case "event":
		b.field = fieldEvent
		b.typeLen = 0
	default:
		b.field = fieldOther
	}
}

func (b *blocks) value(p []byte) {
	if b.part == lineSpace {
		if len(p) == 0 {
			return
		}
		b.part = lineValue
		if p[0] == ' ' {
			p = p[1:]
		}
	}
	if len(p) == 0 {
		return
	}
	b.valueAny = true
	switch b.field {
	case fieldData:
		b.cur.HasData, b.cur.Empty = true, false
		b.rpc.feed(p)
	case fieldID:
		b.nul = b.nul || bytes.IndexByte(p, 0) >= 0
	case fieldEvent:
		b.matchType(p)
	}
}

func (b *blocks) matchType(p []byte) {
	const message = "message"
	for _, c := range p {
		if int(b.typeLen) < len(message) && c == message[b.typeLen] {
			b.typeLen++
			continue
		}
		b.typeLen = typeNoMatch
		return
	}
}

// endLine applies a complete line. The event's type is the last event line's value
// and "message" if that is empty.
func (b *blocks) endLine(c byte) {
	b.afterCR = c == '\r'
	if b.part == lineComment {
		b.part = lineStart
		return
	}
	b.part = lineStart
	switch b.field {
	case fieldData:
		b.lines = min(b.lines+1, 2)
		b.cur.HasData, b.cur.Empty = true, !b.valueAny && b.lines == 1
	case fieldID:
		if !b.nul {
			b.cur.HasID, b.cur.EmptyID = true, !b.valueAny
		}
	case fieldEvent:
		b.cur.Named = b.typeLen != 0 && b.typeLen != 7
	}
}
