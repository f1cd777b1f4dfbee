package judge

import "math/bits"

// maxWindow bounds the numbers that are tracked past the first hole of a stream:
// 128 KiB of bits, and only for a stream that has a hole.
const maxWindow = 1 << 20

// An account knows which numbers of a stream were delivered. Without a hole that is
// one counter; the bits exist only from the first hole on.
type account struct {
	prefix   int64 // every number from 1 to prefix was delivered
	highest  int64 // the highest delivered number
	distinct int64 // numbers delivered at least once
	base     int64 // bit i of seen stands for number base+1+i
	seen     []uint64
	lost     int64 // numbers out of the window: neither fresh nor repeated
}

// A place in the sequence: how a numbered delivery relates to those before it.
type standing uint8

const (
	untracked standing = iota
	fresh              // first delivery, above all before
	behind             // first delivery, below a higher number
	repeated           // delivered before
)

// deliver notes one delivery. jumped is the first number that a fresh delivery
// skipped, 0 when it skipped none.
func (a *account) deliver(seq int64) (st standing, jumped int64) {
	switch {
	case seq == a.prefix+1 && a.highest == a.prefix:
		a.prefix, a.highest = seq, seq
		a.distinct++
		return fresh, 0
	case a.has(seq):
		return repeated, 0
	case !a.mark(seq):
		a.lost++
		return untracked, 0
	}
	a.distinct++
	if seq < a.highest {
		st = behind
	} else {
		st = fresh
		if seq > a.highest+1 {
			jumped = a.highest + 1
		}
		a.highest = seq
	}
	for a.prefix < a.highest && a.bit(a.prefix+1) {
		a.prefix++
	}
	return st, jumped
}

// has reports whether a number was delivered.
func (a *account) has(seq int64) bool {
	return seq >= 1 && (seq <= a.prefix || seq <= a.highest && a.bit(seq))
}

func (a *account) bit(seq int64) bool {
	i := seq - a.base - 1
	return i >= 0 && i < int64(len(a.seen))*64 && a.seen[i/64]>>(i%64)&1 == 1
}

// mark sets the bit of a number, and reports false when it is out of the window.
func (a *account) mark(seq int64) bool {
	if a.highest == a.prefix { // no hole is open: the window starts here
		a.base = a.prefix
		clear(a.seen)
	}
	i := seq - a.base - 1
	if i < 0 || i >= maxWindow {
		return false
	}
	for int64(len(a.seen))*64 <= i {
		a.seen = append(a.seen, 0)
	}
	a.seen[i/64] |= 1 << (i % 64)
	return true
}

// within counts the distinct delivered numbers from 1 to n.
func (a *account) within(n int64) int64 {
	if n >= a.highest {
		return a.distinct
	}
	if n <= a.prefix {
		return n
	}
	count := a.prefix
	for seq := a.prefix + 1; seq <= n; {
		i := seq - a.base - 1
		if i%64 == 0 && seq+63 <= n {
			count += int64(bits.OnesCount64(a.seen[i/64]))
			seq += 64
			continue
		}
		if a.bit(seq) {
			count++
		}
		seq++
	}
	return count
}

// A Range is a run of message numbers, both ends included.
type Range struct{ First, Last int64 }

// maxRanges bounds the ranges kept of one finding.
const maxRanges = 16

// addRange appends a number to ranges, joining it to the last one where it follows;
// past maxRanges it is dropped, the counters still count it.
func addRange(ranges []Range, first, last int64) []Range {
	if n := len(ranges); n > 0 && first == ranges[n-1].Last+1 {
		ranges[n-1].Last = last
		return ranges
	}
	if len(ranges) >= maxRanges {
		return ranges
	}
	return append(ranges, Range{first, last})
}

// missing returns the numbers from 1 to n that were not delivered, as ranges, but for
// those that skip names. What lies above the highest number is skipped as a whole.
func (a *account) missing(n int64, skip func(int64) bool) (ranges []Range) {
	for seq := a.prefix + 1; seq <= min(n, a.highest); seq++ {
		if !a.bit(seq) && !skip(seq) {
			ranges = addRange(ranges, seq, seq)
		}
	}
	if n > a.highest && !skip(n) {
		ranges = addRange(ranges, a.highest+1, n)
	}
	return ranges
}
