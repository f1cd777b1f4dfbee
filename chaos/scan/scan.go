// Package scan follows the bytes of one HTTP/1.1 response as they pass and says
// where in it a byte lies: in the head, between events, inside which event.
//
//	status line ─► header lines ─► body ─┬─ content-length ─┐
//	   (1xx heads are skipped)           ├─ chunked ────────┼─► lines ─► events ─► JSON-RPC class
//	                                     └─ until close ────┘
//
// It looks and never changes anything, keeps a few hundred bytes whatever the
// response holds, and gives the same marks at the same bytes however the response
// is cut into reads. Its only use is to let a fault strike at an exact position.
//
// It deliberately shares no code with the client's reader and the reference
// server's encoder: a mistake in one of them must not hide in another.
package scan

// Mark is a position in a response at which something begins or ends.
type Mark uint8

// The marks. Those that end something lie after its last byte; [EventStart] lies
// before the first byte.
const (
	None       Mark = iota // nothing in particular; more bytes are needed
	HeadDone               // after the blank line that ends the response head
	EventStart             // before the first byte of a block that is not all comments
	EventEnd               // after the CR or LF that makes the block's last line empty
	BlockEnd               // the same, of a block with neither id nor data: it was no event
	BodyEnd                // after the last byte of the body, trailers included
	Broken                 // the framing is not HTTP/1.1; nothing more will be marked
)

// Framing says how the end of a body is told.
type Framing uint8

// Framings of a response body (RFC 9112, 6.3).
const (
	FramingNone    Framing = iota // there is no body
	FramingLength                 // Content-Length
	FramingChunked                // Transfer-Encoding: chunked
	FramingClose                  // the body ends with the link
)

// Head is what a scanner keeps of a response head.
type Head struct {
	Status  int
	Framing Framing
	// SSE tells that the body is a readable event stream: text/event-stream, and not
	// compressed.
	SSE bool
	// Missed is the value of Gapless-Missed, the number of events the target says it
	// will replay before it is live; -1 when it does not say.
	Missed int
}

// Event is what a scanner keeps of one block of an event stream. While the block
// is still open its fields say what has been seen so far.
type Event struct {
	// Ordinal counts the events of the response, from 1.
	Ordinal uint32
	// Bytes is the size of the block from its first field to the end of its blank
	// line, without chunk framing.
	Bytes int
	// HasID: it has an id line that counts; EmptyID: the last one has no value, so it
	// takes the cursor back.
	HasID, EmptyID bool
	// HasData: it has a data line; Empty: but its data is the empty string.
	HasData, Empty bool
	// Named: its type is not "message", so it carries no JSON-RPC.
	Named bool
	// Response: its data is a JSON-RPC response: a top-level "result" or "error" with
	// an "id" and without a "method". A batch (an array) is none.
	Response bool
	// Framing: its data is a notification that tells of a stream and is no message of it:
	// notifications/stream/create or end of the draft of resumable streams.
	Framing bool
}

// Priming tells an event that carries an id and no message: it has no data, or frames a
// stream.
func (e Event) Priming() bool {
	return e.HasID && !e.EmptyID && (!e.HasData || e.Empty || e.Framing)
}

// Message tells an event whose data is anything but a response.
func (e Event) Message() bool {
	return e.HasData && !e.Empty && !e.Named && !e.Response && !e.Framing
}

// A Scanner follows one response. It is a plain value: a copy of it is a saved
// position to scan from again. The zero value is ready for use.
type Scanner struct {
	state state
	// left is what remains of the current chunk, or of a body of known length.
	left int64
	head headParser
	body blocks
}

type state uint8

const (
	inHead state = iota
	inLength
	inClose
	inChunkSize
	inChunkExt
	inChunkData
	inChunkEnd
	inTrailer
	inTrailerLine
	isDone
	isBroken
)

// Reset makes s ready for the next response on the same link.
func (s *Scanner) Reset() { *s = Scanner{} }

// Head returns the response head; it is complete once [HeadDone] has been marked.
func (s *Scanner) Head() Head { return s.head.result() }

// Event returns the event that is open, or else the one that ended last.
func (s *Scanner) Event() Event { return s.body.event() }

// Events returns how many events have ended.
func (s *Scanner) Events() uint32 { return s.body.done }

// Started tells whether any byte of a response has been seen.
func (s *Scanner) Started() bool { return s.state != inHead || s.head.size > 0 }

// Next takes bytes from the front of p up to the next mark, or all of them, and
// returns how many it took and the mark that lies behind them. Bytes taken in one
// call are either all payload of the body or all head and framing. It may take
// none, but only with a mark, and never twice in a row.
func (s *Scanner) Next(p []byte) (n int, payload bool, m Mark) {
	if len(p) == 0 {
		return 0, false, None
	}
	switch s.state {
	case inLength, inChunkData:
		if int64(len(p)) > s.left {
			p = p[:s.left]
		}
		n, m = s.payload(p)
		s.left -= int64(n)
		if s.left == 0 {
			m = s.pieceDone(m)
		}
		return n, true, m
	case inClose:
		n, m = s.payload(p)
		return n, true, m
	case inHead:
		n, m = s.takeHead(p)
		return n, false, m
	case isDone, isBroken:
		return len(p), false, None
	}
	n, m = s.framing(p)
	return n, false, m
}

// payload hands body bytes to the event layer, if the body is an event stream.
func (s *Scanner) payload(p []byte) (int, Mark) {
	if !s.head.sse() {
		return len(p), None
	}
	return s.body.next(p)
}

// pieceDone is called when a chunk or a body of known length is used up. An event
// mark on its last byte wins over the end of the body, which nobody misses: the
// state says it.
func (s *Scanner) pieceDone(m Mark) Mark {
	if s.state == inChunkData {
		s.state = inChunkEnd
		return m
	}
	s.state = isDone
	if m == None {
		return BodyEnd
	}
	return m
}

// Done tells whether the whole body has passed.
func (s *Scanner) Done() bool { return s.state == isDone }

func (s *Scanner) takeHead(p []byte) (int, Mark) {
	n, ok := s.head.take(p)
	if s.head.bad {
		s.state = isBroken
		return n, Broken
	}
	if !ok {
		return n, None
	}
	h := &s.head
	if h.status >= 100 && h.status < 200 {
		s.head = headParser{size: h.size}
		return n, None
	}
	switch h.framing() {
	case FramingChunked:
		s.state = inChunkSize
		s.left = -1
	case FramingLength:
		s.state, s.left = inLength, h.length
		if s.left == 0 {
			s.state = isDone
		}
	case FramingClose:
		s.state = inClose
	default:
		s.state = isDone
	}
	return n, HeadDone
}

// framing follows chunk lines and trailers; left is -1 until a chunk size has a
// digit.
func (s *Scanner) framing(p []byte) (int, Mark) {
	for i, c := range p {
		switch s.state {
		case inChunkSize:
			s.chunkSize(c)
		case inChunkExt:
			if c == '\n' {
				s.sizeDone()
			}
		case inChunkEnd:
			if c == '\n' {
				s.state, s.left = inChunkSize, -1
			} else if c != '\r' {
				s.state = isBroken
			}
		case inTrailer:
			if c == '\n' {
				s.state = isDone
			} else if c != '\r' {
				s.state = inTrailerLine
			}
		case inTrailerLine:
			if c == '\n' {
				s.state = inTrailer
			}
		}
		switch s.state {
		case inChunkData:
			return i + 1, None
		case isDone:
			return i + 1, BodyEnd
		case isBroken:
			return i + 1, Broken
		}
	}
	return len(p), None
}

func (s *Scanner) chunkSize(c byte) {
	d := int64(-1)
	switch {
	case c >= '0' && c <= '9':
		d = int64(c - '0')
	case c >= 'a' && c <= 'f':
		d = int64(c-'a') + 10
	case c >= 'A' && c <= 'F':
		d = int64(c-'A') + 10
	case s.left >= 0 && c == '\n':
		s.sizeDone()
		return
	case s.left >= 0 && (c == ';' || c == '\r' || c == ' ' || c == '\t'):
		s.state = inChunkExt
		return
	}
	if d < 0 || s.left >= 1<<58 {
		s.state = isBroken
		return
	}
	s.left = max(s.left, 0)<<4 | d
}

func (s *Scanner) sizeDone() {
	s.state = inChunkData
	if s.left == 0 {
		s.state = inTrailer
	}
}
