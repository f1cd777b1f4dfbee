package wire

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// LeafDepth bounds how deep [Leaves] goes: far deeper than a notification nests, and small
// enough for a stack.
const LeafDepth = 32

// Leaves walks over the leaves of a JSON text from front to back: its strings, numbers and
// words, and the objects and arrays that are empty. It allocates nothing unless a key is
// escaped. The zero value is ready for Reset.
type Leaves struct {
	l       lexer
	steps   [LeafDepth]step
	depth   int
	started bool
}

// step is an object or array that is open, and the member of it that is being read.
type step struct {
	place uint64 // of the member
	key   text   // of an object
	index int    // of an array; -1 in an object
}

// rootPlace is the place of the whole text.
const rootPlace = 0x243f6a8885a308d3

// Reset begins with a new text.
func (w *Leaves) Reset(data []byte) { w.l, w.depth, w.started = lexer{b: data}, 0, false }

// Next returns the next leaf as it is written, and a hash of the place where it lies: of its
// JSON Pointer, with keys of objects told from indexes of arrays. ok is false at the end and
// where the text is no JSON or too deep, which Valid tells apart.
func (w *Leaves) Next() (place uint64, value []byte, ok bool) {
	l := &w.l
	switch {
	case l.bad:
		return 0, nil, false
	case w.started:
		if !w.advance() {
			return 0, nil, false
		}
	}
	w.started = true
	for {
		c := l.peek()
		from := l.i
		switch {
		case c == '{' && w.push(-1):
			k, more := l.key(true)
			if more {
				w.member(k)
				continue
			}
			w.depth--
		case c == '[' && w.push(0):
			if !l.accept(']') {
				w.member(text{})
				continue
			}
			w.depth--
		case c != '{' && c != '[':
			l.scalar(c)
		}
		if l.bad {
			return 0, nil, false
		}
		return w.place(), l.b[from:l.i:l.i], true
	}
}

// Valid tells, at the end, whether the text was one JSON text and not too deep.
func (w *Leaves) Valid() bool {
	w.l.peek()
	return w.started && !w.l.bad && w.depth == 0 && w.l.i == len(w.l.b)
}

// push opens an object or array.
func (w *Leaves) push(index int) bool {
	if w.depth == LeafDepth {
		w.l.bad, w.l.deep = true, true
		return false
	}
	w.l.i++
	w.steps[w.depth].index = index
	w.depth++
	return true
}

// place is the hash of the place that is being read.
func (w *Leaves) place() uint64 {
	if w.depth == 0 {
		return rootPlace
	}
	return w.steps[w.depth-1].place
}

// member makes the place of the next member of what is open.
func (w *Leaves) member(key text) {
	up := uint64(rootPlace)
	if w.depth > 1 {
		up = w.steps[w.depth-2].place
	}
	s := &w.steps[w.depth-1]
	s.key = key
	if s.index >= 0 {
		s.place = Mix(up, ^uint64(s.index))
		return
	}
	name := w.l.b[key.start:key.end]
	if key.escaped && !w.l.bad {
		name = unescape(nil, name)
	}
	s.place = Mix(up, xxhash.Sum64(name))
}

// advance goes behind a leaf to the next value, or to the end.
func (w *Leaves) advance() bool {
	l := &w.l
	for w.depth > 0 && !l.bad {
		s := &w.steps[w.depth-1]
		if s.index < 0 {
			if k, more := l.key(false); more {
				w.member(k)
				return true
			}
		} else if l.accept(',') {
			s.index++
			w.member(text{})
			return true
		} else if !l.accept(']') {
			l.fail()
		}
		if !l.bad {
			w.depth--
		}
	}
	return false
}

// Pointer returns the JSON Pointer (RFC 6901) of the leaf that Next returned.
func (w *Leaves) Pointer() string {
	var b strings.Builder
	for i := range w.steps[:w.depth] {
		s := &w.steps[i]
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		name := w.l.b[s.key.start:s.key.end]
		if s.key.escaped {
			name = unescape(nil, name)
		}
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(string(name), "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// Mix makes one hash of two, so that their order counts.
func Mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return high ^ low ^ bits.RotateLeft64(a, 23)
}
