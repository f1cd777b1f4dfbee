package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Bounds of what is learnt.
const (
	maxMessages = 100_000
	maxBytes    = 64 << 20
	maxVolatile = 256
)

// token is the pointer of the progress token, which differs from call to call by intent.
const token = "/params/progressToken"

// Learn compares the control calls, of which there must be two or more: calls[i] holds the
// messages of call i as they came. They agree if they have as many messages, and these are
// the same position by position, but for strings, numbers and words at places where they
// differ between any two calls, and but for the progress token. Such a place is volatile in
// all messages.
//
// An error says in one sentence for people why the calls do not agree, or that they are
// larger than what is compared: 100,000 messages a call, 64 MiB, 256 volatile places.
func Learn(calls [][][]byte) (*Twin, error) {
	if err := sized(calls); err != nil {
		return nil, err
	}
	l := learner{volatile: map[uint64]string{}}
	for k := range calls[0] {
		if err := l.position(calls, k); err != nil {
			return nil, err
		}
		if len(l.volatile) > maxVolatile {
			return nil, fmt.Errorf("control calls differ at more than %d places of their messages", maxVolatile)
		}
	}
	t := &Twin{n: len(calls[0])}
	for place, pointer := range l.volatile {
		t.masked = append(t.masked, place)
		t.volatile = append(t.volatile, pointer)
	}
	slices.Sort(t.masked)
	slices.Sort(t.volatile)
	t.number(calls[0])
	return t, nil
}

// sized refuses what cannot agree, and what is too much.
func sized(calls [][][]byte) error {
	if len(calls) < 2 {
		return fmt.Errorf("two control calls are needed to compare their messages, there is %d", len(calls))
	}
	size := 0
	for i, c := range calls {
		if len(c) != len(calls[0]) {
			return fmt.Errorf("control call %d showed %d messages, control call 1 showed %d", i+1, len(c), len(calls[0]))
		}
		for _, data := range c {
			size += len(data)
		}
	}
	switch n := len(calls[0]); {
	case n == 0:
		return errors.New("the control calls showed no messages")
	case n > maxMessages:
		return fmt.Errorf("control calls of %d messages are not compared: at most %d", n, maxMessages)
	case size > maxBytes:
		return fmt.Errorf("control calls of %d bytes are not compared: at most %d", size, maxBytes)
	}
	return nil
}

type learner struct {
	volatile map[uint64]string
	leaves   [2][]leaf
}

// leaf is one value of a message.
type leaf struct {
	place uint64
	value []byte
}

// position compares the k-th message of all calls with that of the first.
func (l *learner) position(calls [][][]byte, k int) error {
	for i := range calls {
		this := &l.leaves[min(i, 1)]
		var err error
		if *this, err = l.take((*this)[:0], calls[i][k]); err != nil {
			return fmt.Errorf("message %d of control call %d %w", k+1, i+1, err)
		}
		if i == 0 {
			continue
		}
		if err := l.compare(calls[0][k], calls[i][k]); err != nil {
			return fmt.Errorf("message %d of control call %d has another shape than in call 1: %w", k+1, i+1, err)
		}
	}
	return nil
}

// take lists the leaves of a message by place.
func (l *learner) take(all []leaf, data []byte) ([]leaf, error) {
	var w wire.Leaves
	w.Reset(data)
	for {
		place, value, ok := w.Next()
		if !ok {
			break
		}
		if w.Pointer() == token {
			l.volatile[place] = token
		}
		all = append(all, leaf{place, value})
	}
	if !w.Valid() {
		return all, fmt.Errorf("is no JSON, or nests deeper than %d", wire.LeafDepth)
	}
	slices.SortFunc(all, func(a, b leaf) int { return cmp.Compare(a.place, b.place) })
	for i := 1; i < len(all); i++ {
		if all[i].place == all[i-1].place {
			return all, fmt.Errorf("has a key twice at %s", pointer(data, all[i].place))
		}
	}
	return all, nil
}

// compare marks the places at which two messages differ.
func (l *learner) compare(first, other []byte) error {
	a, b := l.leaves[0], l.leaves[1]
	for i := range max(len(a), len(b)) {
		switch {
		case i == len(a) || i < len(b) && b[i].place < a[i].place:
			return fmt.Errorf("only it has %s", b[i].describe(other))
		case i == len(b) || a[i].place < b[i].place:
			return fmt.Errorf("only call 1 has %s", a[i].describe(first))
		}
		x, y := a[i].value, b[i].value
		switch {
		case hollow(x) || hollow(y):
			if x[0] != y[0] {
				return fmt.Errorf("another kind of value lies at %s", pointer(first, a[i].place))
			}
		case !bytes.Equal(x, y):
			if _, known := l.volatile[a[i].place]; !known {
				l.volatile[a[i].place] = pointer(first, a[i].place)
			}
			if len(l.volatile) > maxVolatile {
				return nil // Learn says so; naming every place would take the square of their number
			}
		}
	}
	return nil
}

// describe says where in its message a leaf lies.
func (f leaf) describe(data []byte) string {
	where := pointer(data, f.place)
	if hollow(f.value) {
		return "nothing in " + where
	}
	return where
}

// hollow tells an empty object or array from a value that can be volatile.
func hollow(value []byte) bool { return value[0] == '{' || value[0] == '[' }

// pointer returns the JSON Pointer of a place, cut where it is long.
func pointer(data []byte, place uint64) string {
	var w wire.Leaves
	w.Reset(data)
	for {
		at, _, ok := w.Next()
		if !ok {
			return "/"
		}
		if at == place {
			return clip(cmp.Or(w.Pointer(), "/"))
		}
	}
}

// clip keeps a pointer short and printable: the keys in it are the target's.
func clip(s string) string {
	const most = 120
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "…"
	}
	quoted := fmt.Sprintf("%+q", s)
	return quoted[1:len(quoted)-1] + cut
}

// number gives each message its number, and finds those that are equal.
func (t *Twin) number(messages [][]byte) {
	t.at = make(map[uint64]int32, len(messages))
	for k, data := range messages {
		rest, _ := t.rest(data) // it was taken apart before
		n := int32(k + 1)
		switch first, again := t.at[rest]; {
		case !again:
			t.at[rest] = n
		case first > 0:
			t.groups = append(t.groups, []int32{first, n})
			t.at[rest] = ^int32(len(t.groups) - 1)
		default:
			t.groups[^first] = append(t.groups[^first], n)
		}
	}
}
