package wire

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Pointers of the numbers that a progress notification carries (2025-11-25 progress,
// Progress Flow).
const (
	PathProgress = "/params/progress"
	PathTotal    = "/params/total"
)

// Bounds of a JSON Pointer, far above what a notification needs.
const (
	pathTokens = 16
	pathLength = 1 << 10
)

// Paths says where in a notification its number, the number of messages, and a digest of
// its payload lie. It is made once and may be used by any number of goroutines. A nil
// *Paths is that of progress notifications: [PathProgress] and [PathTotal].
type Paths struct {
	root     place // of params
	progress bool  // the numbers lie where Scan reads them anyway
	nodes    int
}

// place is one token of the pointers, below params.
type place struct {
	key      string
	index    int    // as an index of an array, -1 when it is none
	want     wanted // what lies here
	bit      uint64 // of this place among all of the Paths
	below    uint64 // bits of the places under it
	gone     wanted // what lies here or under it
	children []place
}

// wanted is a set of things to find.
type wanted uint8

const (
	wantSequence wanted = 1 << iota
	wantTotal
	wantDigest
	wantPayload

	wantNumber = wantSequence | wantTotal
	wantText   = wantDigest | wantPayload
)

// Found is what lies at the [Paths] of one message. Texts are decoded and valid as long as
// the slices of the Message.
type Found struct {
	Sequence, Total       float64
	HasSequence, HasTotal bool // a number lies there
	Digest, Payload       []byte
	HasDigest, HasPayload bool // a string lies there
}

// ParsePaths compiles four JSON Pointers (RFC 6901), each of which may be "" for none. They
// must lead into params, where a notification carries all that is its own. A digest needs a
// payload.
//
// A token of digits is a key in an object and an index in an array. What lies at the end
// of sequence and total counts if it is a number, at the end of digest and payload if it is
// a string; else it is as good as not there.
func ParsePaths(sequence, total, digest, payload string) (*Paths, error) {
	p := &Paths{progress: sequence == PathProgress && total == PathTotal && digest == ""}
	var errs []error
	for _, one := range []struct {
		name, pointer string
		want          wanted
	}{
		{"sequence", sequence, wantSequence}, {"total", total, wantTotal},
		{"digest", digest, wantDigest}, {"payload", payload, wantPayload},
	} {
		if one.pointer == "" {
			continue
		}
		if err := p.add(one.pointer, one.want); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", one.name, clip(one.pointer), err))
		}
	}
	if digest != "" && payload == "" {
		errs = append(errs, fmt.Errorf("digest %q: there is no payload that it is taken over", clip(digest)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.root.close()
	return p, nil
}

// clip keeps a pointer short enough for an error.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// add puts one pointer into the tree.
func (p *Paths) add(pointer string, want wanted) error {
	switch {
	case pointer[0] != '/':
		return fmt.Errorf("a JSON Pointer begins with a slash, like %s", PathProgress)
	case len(pointer) > pathLength:
		return fmt.Errorf("longer than %d bytes", pathLength)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		var err error
		if tokens[i], err = unescapeToken(t); err != nil {
			return err
		}
	}
	switch {
	case tokens[0] != "params" || len(tokens) == 1:
		return errors.New("it must lead to something in /params, where a notification carries what it says")
	case len(tokens) > pathTokens:
		return fmt.Errorf("more than %d steps", pathTokens)
	}
	n := &p.root
	for _, t := range tokens[1:] {
		next := n.child(t)
		if next == nil {
			n.children = append(n.children, place{key: t, index: parseIndex(t), bit: 1 << p.nodes})
			p.nodes++
			next = &n.children[len(n.children)-1]
		}
		n = next
	}
	n.want |= want
	return nil
}

// unescapeToken resolves ~0 and ~1 (RFC 6901 §3, §4).
func unescapeToken(t string) (string, error) {
	for i := range len(t) {
		if t[i] == '~' && (i+1 == len(t) || t[i+1] != '0' && t[i+1] != '1') {
			return "", errors.New("a ~ must be followed by 0 (for ~) or 1 (for /)")
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~"), nil
}

// parseIndex reads an index of an array: digits without a zero before them (RFC 6901 §4).
func parseIndex(t string) int {
	if len(t) > 9 || t == "" || t[0] == '0' && t != "0" || strings.Trim(t, "0123456789") != "" {
		return -1
	}
	n, _ := strconv.Atoi(t) // at most nine digits
	return n
}

// child returns the place under a key.
func (n *place) child(key string) *place {
	for i := range n.children {
		if n.children[i].key == key {
			return &n.children[i]
		}
	}
	return nil
}

// childKey is child for a key as it was read, without an allocation.
func (n *place) childKey(key []byte) *place {
	for i := range n.children {
		if n.children[i].key == string(key) {
			return &n.children[i]
		}
	}
	return nil
}

// close sums up what lies under each place.
func (n *place) close() {
	n.gone = n.want
	for i := range n.children {
		c := &n.children[i]
		c.close()
		n.below |= c.bit | c.below
		n.gone |= c.gone
	}
}

// Scan reads one message as the function [Scan] does and fills f with what lies at the
// paths, in the same pass. f means nothing where m is no message.
func (p *Paths) Scan(data []byte, m *Message, f *Found) {
	if p == nil || p.progress {
		Scan(data, m)
		*f = Found{Sequence: m.Progress, Total: m.Total, HasSequence: m.HasProgress, HasTotal: m.HasTotal}
		return
	}
	*f = Found{}
	m.scan(data, &finder{paths: p, found: f})
}

// finder looks for the paths in one message.
type finder struct {
	paths *Paths
	found *Found
	seen  uint64 // places
}

// at returns the place under a key, nil when no path leads there.
func (w *finder) at(key []byte) *place {
	if w == nil {
		return nil
	}
	return w.paths.root.childKey(key)
}

// again forgets everything: params came a second time.
func (w *finder) again() {
	if w != nil {
		w.seen, *w.found = 0, Found{}
	}
}

// enter notes that a place was come to. The last of several counts, here as elsewhere.
func (w *finder) enter(m *Message, n *place) {
	if w.seen&n.bit != 0 {
		m.Illegal |= IllegalDupKeys
		w.drop(n.gone)
	}
	w.seen = w.seen&^n.below | n.bit
}

func (w *finder) drop(gone wanted) {
	f := w.found
	for ; gone != 0; gone &= gone - 1 {
		switch wanted(1) << bits.TrailingZeros8(uint8(gone)) {
		case wantSequence:
			f.Sequence, f.HasSequence = 0, false
		case wantTotal:
			f.Total, f.HasTotal = 0, false
		case wantDigest:
			f.Digest, f.HasDigest = nil, false
		case wantPayload:
			f.Payload, f.HasPayload = nil, false
		}
	}
}

// value reads the value at a place. Its depth is that of a recursion that ends with the
// longest pointer.
func (w *finder) value(m *Message, l *lexer, n *place, depth int) {
	w.enter(m, n)
	switch c := l.peek(); {
	case c == '{' && len(n.children) > 0:
		l.i++
		k, more := l.key(true)
		for ; more; k, more = l.key(false) {
			if child := n.childKey(m.resolve(l, k)); child != nil {
				w.value(m, l, child, depth+1)
			} else {
				l.skip(depth + 1)
			}
		}
	case c == '[' && len(n.children) > 0:
		w.elements(m, l, n, depth)
	case c == '"' && n.want&wantText != 0:
		w.text(m.resolve(l, l.str()), n.want)
	case (c == '-' || '0' <= c && c <= '9') && n.want&wantNumber != 0:
		w.number(l, n.want)
	default:
		l.skip(depth)
	}
}

// elements reads an array that a path leads into.
func (w *finder) elements(m *Message, l *lexer, n *place, depth int) {
	l.i++
	if l.accept(']') {
		return
	}
	for i := 0; !l.bad; i++ {
		var child *place
		for k := range n.children {
			if n.children[k].index == i {
				child = &n.children[k]
			}
		}
		if child != nil {
			w.value(m, l, child, depth+1)
		} else {
			l.skip(depth + 1)
		}
		if l.accept(']') {
			return
		}
		if !l.accept(',') {
			l.fail()
		}
	}
}

func (w *finder) text(v []byte, want wanted) {
	if want&wantDigest != 0 {
		w.found.Digest, w.found.HasDigest = v, true
	}
	if want&wantPayload != 0 {
		w.found.Payload, w.found.HasPayload = v, true
	}
}

func (w *finder) number(l *lexer, want wanted) {
	v, ok := readNumber(l)
	if want&wantSequence != 0 {
		w.found.Sequence, w.found.HasSequence = v, ok
	}
	if want&wantTotal != 0 {
		w.found.Total, w.found.HasTotal = v, ok
	}
}
