package wire

import (
	"bytes"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Hash returns the xxhash64 of the canonical form of a message that Scan found to be JSON:
// no white space outside strings. A message without any is canonical as it is; where
// white space had to be removed, keys are sorted by their bytes as well. Numbers and strings
// stay as they are written. What is no JSON is hashed as it is.
func Hash(data []byte, m *Message) uint64 {
	if !m.Loose || m.Illegal&(IllegalJSON|IllegalSize) != 0 {
		return xxhash.Sum64(data)
	}
	l := lexer{b: data}
	return xxhash.Sum64(canonical(&l, make([]byte, 0, len(data))))
}

// canonical appends the canonical form of the next value. The value was checked before,
// its depth with it.
func canonical(l *lexer, dst []byte) []byte {
	switch c := l.peek(); c {
	case '{':
		l.i++
		return canonicalObject(l, dst)
	case '[':
		l.i++
		dst = append(dst, '[')
		for first := true; !l.accept(']'); first = false {
			if !first {
				l.accept(',')
				dst = append(dst, ',')
			}
			dst = canonical(l, dst)
		}
		return append(dst, ']')
	default:
		start := l.i
		l.scalar(c)
		return append(dst, l.b[start:l.i]...)
	}
}

// canonicalObject appends the members sorted by key; of equal keys the first stays first.
func canonicalObject(l *lexer, dst []byte) []byte {
	type pair struct{ key, value []byte }
	var members []pair
	k, more := l.key(true)
	for ; more; k, more = l.key(false) {
		key := l.b[k.start-1 : k.end+1]
		members = append(members, pair{key, canonical(l, nil)})
	}
	slices.SortStableFunc(members, func(a, b pair) int {
		return bytes.Compare(a.key[1:len(a.key)-1], b.key[1:len(b.key)-1])
	})
	dst = append(dst, '{')
	for i, p := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, p.key...)
		dst = append(dst, ':')
		dst = append(dst, p.value...)
	}
	return append(dst, '}')
}
