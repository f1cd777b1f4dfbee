package wire

import (
	"bytes"
	"io"
)

// chunkLine bounds a chunk header with its extensions.
const chunkLine = 4 << 10

// framing says how a body ends (RFC 9112 §6.3).
type framing uint8

const (
	framingNone    framing = iota // no body
	framingLength                 // after left bytes
	framingChunked                // after a chunk of size 0
	framingClose                  // when the link ends
)

// chunkState says what comes next in a chunked body.
type chunkState uint8

const (
	chunkSize    chunkState = iota // a chunk header
	chunkData                      // left bytes of payload
	chunkEnd                       // the line end after the payload
	chunkTrailer                   // trailer fields up to an empty line
)

// body decodes one message body in place.
type body struct {
	win     *window
	kind    framing
	state   chunkState
	left    uint64 // payload bytes to come, of the body or of the chunk
	trailer int    // bytes of trailer that may still come
	limit   Limits
	err     error // set for good at the end: io.EOF, or what is wrong with the framing
}

// more decodes at least one more byte behind the kept ones, reading from the link
// at most as often as that needs. Errors: io.EOF at the end of the body,
// io.ErrUnexpectedEOF when the link ended before it, *FrameError, *LimitError, or
// the link's own. After a timeout it may be called again.
func (b *body) more() error {
	if b.err != nil {
		return b.err
	}
	err := b.decode()
	switch err.(type) {
	case nil:
		return nil
	case *FrameError, *LimitError:
		b.err = err
	default:
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			b.err = err
		}
	}
	b.win.rest()
	return err
}

func (b *body) decode() error {
	switch b.kind {
	case framingNone:
		return io.EOF
	case framingClose:
		if b.win.r == b.win.w {
			if err := b.win.fill(); err != nil {
				return err
			}
		}
		b.win.take(b.win.w - b.win.r)
		return nil
	case framingLength:
		return b.payload()
	}
	for {
		var err error
		switch b.state {
		case chunkData:
			if err = b.payload(); err == nil && b.left == 0 {
				b.state = chunkEnd
			}
			return err
		case chunkSize:
			err = b.header()
		case chunkEnd:
			err = b.lineEnd()
		case chunkTrailer:
			err = b.trailerLine()
		}
		if err != nil {
			return err
		}
	}
}

// payload takes what is there of the announced bytes, or waits for the first.
func (b *body) payload() error {
	if b.left == 0 {
		return io.EOF
	}
	w := b.win
	if w.r == w.w {
		if err := w.fill(); err != nil {
			return truncated(err)
		}
	}
	n := w.w - w.r
	if uint64(n) > b.left {
		n = int(b.left)
	}
	w.take(n)
	b.left -= uint64(n)
	return nil
}

func (b *body) header() error {
	line, err := b.line(chunkLine, "chunk header")
	if err != nil {
		return err
	}
	size, ok := parseChunkSize(line)
	if !ok {
		return &FrameError{What: "bad chunk size"}
	}
	b.left, b.state = size, chunkData
	if size == 0 {
		b.state = chunkTrailer
		b.trailer = b.limit.Head
	}
	return nil
}

func (b *body) lineEnd() error {
	w := b.win
	for w.w-w.r < 2 {
		if w.w-w.r == 1 && w.buf[w.r] != '\r' {
			break
		}
		if err := w.fill(); err != nil {
			return truncated(err)
		}
	}
	if w.buf[w.r] != '\r' || w.buf[w.r+1] != '\n' {
		return &FrameError{What: "chunk longer than announced"}
	}
	w.r += 2
	b.state = chunkSize
	return nil
}

// trailerLine reads one trailer field and forgets it: no field that we use may
// come in a trailer (RFC 9110 §6.5.1).
func (b *body) trailerLine() error {
	line, err := b.line(b.trailer, "trailer")
	if err != nil {
		return err
	}
	if len(line) == 0 {
		return io.EOF
	}
	b.trailer -= len(line) + 2
	if _, _, ok := cutField(line); !ok {
		return &FrameError{What: "malformed trailer field"}
	}
	return nil
}

// line takes a line that ends in CRLF from the raw bytes. A lone LF is refused:
// where one peer sees the end of a chunk header and another does not, bodies can
// be smuggled.
func (b *body) line(limit int, what string) ([]byte, error) {
	w := b.win
	seen := 0
	for {
		raw := w.raw()
		if i := bytes.IndexByte(raw[seen:], '\n'); i >= 0 {
			end := seen + i
			if end-1 > limit {
				return nil, &LimitError{What: what, Limit: limit}
			}
			if end == 0 || raw[end-1] != '\r' {
				return nil, &FrameError{What: what + " not ended by CRLF"}
			}
			w.r += end + 1
			return raw[:end-1], nil
		}
		if len(raw) > limit+1 {
			return nil, &LimitError{What: what, Limit: limit}
		}
		seen = len(raw)
		if err := w.fill(); err != nil {
			return nil, truncated(err)
		}
	}
}

// truncated turns the end of the link into the end of a body that was to go on.
func truncated(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseChunkSize reads the hexadecimal size of a chunk header and skips its
// extensions (RFC 9112 §7.1).
func parseChunkSize(line []byte) (uint64, bool) {
	var n uint64
	i := 0
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			c = 0xff
		}
		if c == 0xff {
			break
		}
		if i == 16 {
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	digits := i
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	if digits == 0 || i < len(line) && line[i] != ';' {
		return 0, false
	}
	for _, c := range line[i:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, false
		}
	}
	return n, true
}
