package wire

import "iter"

// Elements yields the elements of a JSON array as they are written, without the white
// space around them (JSON-RPC 2.0 §6, Batch). It yields nothing for data that is no
// array, and stops at the first thing that is not JSON; whether the array is whole is
// Scan's to say.
func Elements(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		l := lexer{b: data}
		if !l.accept('[') || l.accept(']') {
			return
		}
		for {
			l.peek()
			from := l.i
			l.skip(1)
			if l.bad || !yield(data[from:l.i:l.i]) || !l.accept(',') {
				return
			}
		}
	}
}
