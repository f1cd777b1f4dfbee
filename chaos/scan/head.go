package scan

// maxHead bounds a response head; a longer one is broken.
const maxHead = 64 << 10

// headParser reads a status line and header lines byte by byte, keeping only the
// few values that matter. Names and values longer than its buffers are cut: none
// that matters is so long.
type headParser struct {
	size   int
	status int
	length int64
	missed int

	line     linePart
	word     uint8 // of the status line: 0 version, 1 code, 2 reason
	nameLen  uint8
	valueLen uint8
	name     [18]byte
	value    [48]byte

	// seen is the set of header facts so far.
	seen fact
	bad  bool
}

type linePart uint8

const (
	inStatusLine linePart = iota
	atLineStart
	inName
	inValue
	inFold // a continuation line, which no header we care for uses
)

type fact uint8

const (
	factSSE     fact = 1 << iota
	factEncoded      // Content-Encoding other than identity
	factChunked
	factCoded // a transfer coding other than chunked
	factLength
	factMissed
)

func (h *headParser) sse() bool {
	return h.status == 200 && h.seen&factSSE != 0 && h.seen&(factEncoded|factCoded) == 0
}

func (h *headParser) framing() Framing {
	switch {
	case h.status == 204 || h.status == 304:
		return FramingNone
	case h.seen&factChunked != 0:
		return FramingChunked
	case h.seen&factLength != 0 && h.seen&factCoded == 0:
		return FramingLength
	}
	return FramingClose
}

func (h *headParser) result() Head {
	r := Head{Status: h.status, Framing: h.framing(), SSE: h.sse(), Missed: -1}
	if h.seen&factMissed != 0 {
		r.Missed = h.missed
	}
	return r
}

// take consumes bytes up to the end of the head and tells whether it came.
func (h *headParser) take(p []byte) (int, bool) {
	for i, c := range p {
		h.size++
		if h.size > maxHead {
			h.bad = true
			return i + 1, false
		}
		switch h.line {
		case inStatusLine:
			h.statusByte(c)
		case atLineStart:
			switch c {
			case '\n':
				return i + 1, true
			case '\r':
			case ' ', '\t':
				h.line = inFold
			default:
				h.line, h.nameLen, h.valueLen = inName, 0, 0
				h.nameByte(c)
			}
		case inName:
			h.nameByte(c)
		case inValue:
			h.valueByte(c)
		case inFold:
			if c == '\n' {
				h.line = atLineStart
			}
		}
		if h.bad {
			return i + 1, false
		}
	}
	return len(p), false
}

// statusByte follows "HTTP/1.1 200 OK"; anything that does not begin so is broken.
func (h *headParser) statusByte(c byte) {
	const version = "HTTP/1."
	switch {
	case c == '\n':
		h.bad = h.status < 100 || h.status > 999
		h.line = atLineStart
	case h.word == 0 && c == ' ':
		h.word = 1
		h.bad = int(h.nameLen) <= len(version)
	case h.word == 0:
		i := int(h.nameLen)
		h.bad = i > len(version) || i < len(version) && c != version[i]
		h.nameLen++
	case h.word == 1 && c >= '0' && c <= '9':
		h.status = h.status*10 + int(c-'0')
		h.bad = h.status > 999
	case h.word == 1 && (c == ' ' || c == '\r'):
		h.word = 2
	case h.word == 1:
		h.bad = true
	}
}

func (h *headParser) nameByte(c byte) {
	switch {
	case c == ':':
		h.line = inValue
	case c == '\n':
		h.bad = true // a header line without a colon
	case int(h.nameLen) < len(h.name):
		h.name[h.nameLen] = lower(c)
		h.nameLen++
	}
}

func (h *headParser) valueByte(c byte) {
	switch {
	case c == '\n':
		h.field(string(h.name[:h.nameLen]), trimRight(h.value[:h.valueLen]))
		h.line = atLineStart
	case h.valueLen == 0 && (c == ' ' || c == '\t'):
	case int(h.valueLen) < len(h.value):
		h.value[h.valueLen] = lower(c)
		h.valueLen++
	}
}

// field notes one complete header. Both arguments are in lower case.
func (h *headParser) field(name string, value []byte) {
	switch name {
	case "content-type":
		const sse = "text/event-stream"
		rest, ok := cutPrefix(value, sse)
		if ok && (len(rest) == 0 || rest[0] == ';' || rest[0] == ' ' || rest[0] == '\t') {
			h.seen |= factSSE
		}
	case "content-encoding":
		if string(value) != "identity" && len(value) > 0 {
			h.seen |= factEncoded
		}
	case "transfer-encoding":
		if string(value) == "chunked" {
			h.seen |= factChunked
			return
		}
		h.seen |= factCoded
		if n := len(value) - len("chunked"); n > 0 && string(value[n:]) == "chunked" {
			h.seen |= factChunked
		}
	case "content-length":
		if n, ok := digits(value, 18); ok {
			h.length = n
			h.seen |= factLength
			return
		}
		h.bad = true
	case "gapless-missed":
		if n, ok := digits(value, 9); ok {
			h.missed = int(n)
			h.seen |= factMissed
		}
	}
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return b, false
	}
	return b[len(prefix):], true
}

// digits reads an unsigned decimal number of at most most digits.
func digits(b []byte, most int) (int64, bool) {
	if len(b) == 0 || len(b) > most {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
