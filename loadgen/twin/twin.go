// Package twin numbers the messages of a call that do not number themselves, by
// comparing them with those of control calls.
//
// Control calls agree if they show the same messages but for what differs from call to
// call anyway: times, random ids, durations. The places of such values are masked, in all
// messages; what is left of a message tells which one it is. Where nothing is left that
// tells two messages apart they are numbered as they come: then counts are proven and not
// positions ([Twin.Distinct]).
package twin

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// A Twin is what control calls showed of one call. It does not change after [Learn], so any
// number of streams may use it at once.
type Twin struct {
	n        int
	masked   []uint64         // places, sorted
	volatile []string         // their pointers, sorted
	at       map[uint64]int32 // what is left of a message → its number, or ^index into groups
	groups   [][]int32        // numbers of messages of which the same is left
}

// N returns the number of messages of a call.
func (t *Twin) N() int { return t.n }

// Volatile returns the JSON Pointers of the places whose values are not compared, sorted.
func (t *Twin) Volatile() []string { return slices.Clone(t.volatile) }

// Distinct tells whether every message differs from every other one where they are compared.
// If not, only the number of those that are equal is proven, and not which of them came.
func (t *Twin) Distinct() bool { return len(t.groups) == 0 }

// A Counter numbers the messages of one stream. It belongs to one goroutine. The zero value
// knows no message.
type Counter struct {
	Twin *Twin
	came []int32 // how many of each group; nil before the first
}

// Number returns which message of the call this is, from 1 to N, and whether it is one at
// all: the same but for what is volatile. A message that comes again has the same number.
// Of equal messages the first that comes has the first of their numbers, and those beyond
// the last one have the last.
//
// It allocates nothing, but where there are equal messages, once.
func (c *Counter) Number(data []byte) (seq int64, same bool) {
	t := c.Twin
	if t == nil {
		return 0, false
	}
	rest, ok := t.rest(data)
	if !ok {
		return 0, false
	}
	n, ok := t.at[rest]
	if !ok || n > 0 {
		return int64(n), ok
	}
	if c.came == nil {
		c.came = make([]int32, len(t.groups))
	}
	group := t.groups[^n]
	k := c.came[^n]
	if int(k) < len(group)-1 {
		c.came[^n]++
	}
	return int64(group[k]), true
}

// What stands in a hash for a value that is not compared, and for empty objects and arrays,
// which may hold white space.
const (
	hashMasked uint64 = iota + 1
	hashObject
	hashArray
)

// rest returns a hash of what is left of a message without its volatile values. The order
// of the members of objects does not count, nor does white space. ok is false for what is
// no JSON or nests too deep.
func (t *Twin) rest(data []byte) (sum uint64, ok bool) {
	var w wire.Leaves
	w.Reset(data)
	for {
		place, value, more := w.Next()
		if !more {
			return sum, w.Valid()
		}
		sum += wire.Mix(place, t.weigh(place, value))
	}
}

func (t *Twin) weigh(place uint64, value []byte) uint64 {
	switch value[0] {
	case '{':
		return hashObject
	case '[':
		return hashArray
	}
	if _, masked := slices.BinarySearch(t.masked, place); masked {
		return hashMasked
	}
	return xxhash.Sum64(value)
}
