package judge

// Caps of what a stream keeps per event. Past them the judge still counts; it only
// knows less: a corrupt message past maxHashes is found but not named, an id past
// maxStreamIDs is not compared.
const (
	maxHashes    = 8192
	maxStreamIDs = 8192
)

// solid makes room for 0 as "not delivered".
func solid(hash uint64) uint64 {
	if hash == 0 {
		return 1
	}
	return hash
}

// blend mixes a number into the hash of its message, so that a sum over messages in
// any order changes when one message or its number does.
func blend(seq int64, hash uint64) uint64 {
	x := hash ^ uint64(seq)*0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// keepHash notes the hash of a first delivery.
func (s *Stream) keepHash(seq int64, hash uint64) {
	if seq > maxHashes {
		s.hashSum += blend(seq, hash)
		return
	}
	for int64(len(s.hashes)) < seq {
		s.hashes = append(s.hashes, 0)
	}
	s.hashes[seq-1] = solid(hash)
}

// sameHash compares a repeat with the first delivery; past the cap it believes.
func (s *Stream) sameHash(seq int64, hash uint64) bool {
	if seq > int64(len(s.hashes)) || s.hashes[seq-1] == 0 {
		return true
	}
	return s.hashes[seq-1] == solid(hash)
}
