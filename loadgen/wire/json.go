package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep JSON may nest. RFC 8259 §9 allows a bound; nothing that MCP
// defines comes near it.
const maxDepth = 512

// lexer reads JSON once from front to back. After bad is set nothing it returns means
// anything, so callers look at it at the end only.
type lexer struct {
	b       []byte
	i       int
	bad     bool // not JSON
	deep    bool // nested deeper than maxDepth; sets bad too
	loose   bool // white space outside strings
	badUTF8 bool // a string that is no UTF-8
}

// text is a string without its quotes: b[start:end], with escapes or without.
type text struct {
	start, end int
	escaped    bool
}

func (l *lexer) fail() { l.bad = true }

// peek skips white space and returns the next byte, 0 at the end.
func (l *lexer) peek() byte {
	for l.i < len(l.b) {
		switch c := l.b[l.i]; c {
		case ' ', '\t', '\n', '\r':
			l.loose = true
			l.i++
		default:
			return c
		}
	}
	return 0
}

// accept takes c if it is next.
func (l *lexer) accept(c byte) bool {
	if l.peek() != c || l.i == len(l.b) {
		return false
	}
	l.i++
	return true
}

// key reads the next key of an object and its colon. first says that the brace was just
// taken. more is false at the end of the object, whose brace is then taken.
func (l *lexer) key(first bool) (k text, more bool) {
	if l.accept('}') {
		return k, false
	}
	if !first && !l.accept(',') {
		l.fail()
		return k, false
	}
	if l.peek() != '"' {
		l.fail()
		return k, false
	}
	k = l.str()
	if !l.accept(':') {
		l.fail()
	}
	return k, !l.bad
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string at its opening quote, eight bytes at a time where nothing special
// is among them.
func (l *lexer) str() text {
	b := l.b
	i := l.i + 1
	t := text{start: i}
	high := uint64(0)
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			quote, slash := x^ones*'"', x^ones*'\\'
			// The lowest marked byte is a control byte, a quote or a backslash; marks above
			// it may be false.
			mark := ((x - ones*' ') &^ x) | ((quote - ones) &^ quote) | ((slash - ones) &^ slash)
			mark &= highs
			if mark == 0 {
				high |= x
				i += 8
				continue
			}
			n := bits.TrailingZeros64(mark) / 8
			high |= x & (1<<(8*n) - 1)
			i += n
			break
		}
		if i >= len(b) {
			l.fail()
			return t
		}
		switch c := b[i]; {
		case c == '"':
			t.end, l.i = i, i+1
			if high&highs != 0 && !utf8.Valid(b[t.start:t.end]) {
				l.badUTF8 = true
			}
			return t
		case c == '\\':
			t.escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				l.fail()
				return t
			}
			i += n
		case c < ' ':
			l.fail()
			return t
		default:
			high |= uint64(c)
			i++
		}
	}
}

// escapeLen returns the length of the escape sequence that b begins with, 0 for none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex4(b[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 returns the value of four hexadecimal digits, -1 when they are none.
func hex4(b []byte) rune {
	var n rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		n = n<<4 | rune(c)
	}
	return n
}

// number reads a number (RFC 8259 §6) and tells whether it is written as an integer.
func (l *lexer) number() (start, end int, integer bool) {
	b, i := l.b, l.i
	start = i
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	zero := i < len(b) && b[i] == '0'
	from := i
	ok := digits() && (!zero || i == from+1)
	integer = true
	if ok && i < len(b) && b[i] == '.' {
		i++
		ok, integer = digits(), false
	}
	if ok && i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		ok, integer = digits(), false
	}
	if !ok {
		l.fail()
	}
	l.i = i
	return start, i, integer
}

func (l *lexer) word(w string) {
	if len(l.b)-l.i < len(w) || string(l.b[l.i:l.i+len(w)]) != w {
		l.fail()
		return
	}
	l.i += len(w)
}

// scalar reads a value that is no object or array.
func (l *lexer) scalar(c byte) {
	switch c {
	case '"':
		l.str()
	case 't':
		l.word("true")
	case 'f':
		l.word("false")
	case 'n':
		l.word("null")
	default:
		l.number()
	}
}

// skip reads any value at the given depth.
func (l *lexer) skip(depth int) {
	if c := l.peek(); c != '{' && c != '[' {
		l.scalar(c)
		return
	}
	l.skipNested(depth)
}

// skipNested keeps one bit per open object or array instead of a call: hostile nesting
// must not grow the stack of a goroutine.
func (l *lexer) skipNested(depth int) {
	var object [maxDepth/64 + 1]uint64
	base := depth
	for !l.bad {
		c := l.peek()
		if c == '{' || c == '[' {
			l.i++
			depth++
			if depth > maxDepth {
				l.bad, l.deep = true, true
				return
			}
			bit := uint64(1) << (depth % 64)
			object[depth/64] &^= bit
			if c == '[' {
				if !l.accept(']') {
					continue
				}
				depth--
			} else {
				object[depth/64] |= bit
				if _, more := l.key(true); more {
					continue
				}
				depth--
			}
		} else {
			l.scalar(c)
		}
		// A value ended: close what ends with it, up to where another one begins.
		for !l.bad {
			if depth == base {
				return
			}
			if object[depth/64]&(1<<(depth%64)) != 0 {
				if _, more := l.key(false); more {
					break
				}
			} else if l.accept(',') {
				break
			} else if !l.accept(']') {
				l.fail()
			}
			depth--
		}
	}
}

// unescape appends the meaning of a string to dst. The string was checked before. Half a
// surrogate pair becomes U+FFFD.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(s[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(s)-i >= 6 && s[i] == '\\' && s[i+1] == 'u' {
					low = hex4(s[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
