package chaos

// Draws are keyed, never taken from a shared source: what a stream meets must not
// depend on which stream came first. Each draw has a purpose, so that none of them
// is another in disguise.
type purpose uint64

const (
	drawSlot    purpose = iota + 1 // which streams get a fault, and which place
	drawPlace                      // a second choice of place
	drawAfter                      // how far into the messages
	drawK                          // which replayed event
	drawOffset                     // which byte
	drawAnchor                     // which cut a resume place follows
	drawOrder                      // which of two at the same position
	drawOnly                       // which fault a stream keeps that can have only one
	drawLead                       // which fault comes first to make a resume possible
	drawSurvive                    // a place that the stream survives
	drawStorm                      // which links a storm strikes
	drawFit                        // a place that the call of the stream has
)

// draw returns 64 bits for a purpose and the things it is about.
func draw(seed uint64, p purpose, about ...uint64) uint64 {
	h := scramble(seed ^ scramble(uint64(p)))
	for _, a := range about {
		h = scramble(h ^ scramble(a+0x9e3779b97f4a7c15))
	}
	return h
}

// scramble is a bijection that spreads every input bit over all output bits
// (the finaliser of SplitMix64).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit maps 64 bits to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// permute sends i < n to its place in a permutation of 0…n-1 that key selects. It is a
// small Feistel network over the next even number of bits, walked until it lands
// below n, so shares of n come out exact without a table of n entries.
func permute(key, i, n uint64) uint64 {
	half := uint(1)
	for uint64(1)<<(2*half) < n {
		half++
	}
	mask := uint64(1)<<half - 1
	for {
		left, right := i>>half, i&mask
		for round := range uint64(4) {
			left, right = right, left^scramble(key^round<<56^right)&mask
		}
		i = left<<half | right
		if i < n {
			return i
		}
	}
}
