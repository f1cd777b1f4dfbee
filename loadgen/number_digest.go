package loadgen

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
)

// fits tells whether a digest is that of the payload: its hexadecimal digits, whose number
// tells which one it is, or its name before a colon (sha256, sha1, md5, crc32). Case does
// not count. A digest that cannot be read fits nothing.
func fits(digest, payload []byte) bool {
	name, digits, named := bytes.Cut(digest, []byte(":"))
	if !named {
		name, digits = nil, digest
	}
	var buf [sha256.Size]byte
	if len(digits) > 2*len(buf) {
		return false
	}
	n, err := hex.Decode(buf[:], digits)
	if err != nil {
		return false
	}
	want := buf[:n]
	is := func(size int, as string) bool {
		return n == size && (!named || len(name) == len(as) && bytes.EqualFold(name, []byte(as)))
	}
	switch {
	case is(sha256.Size, "sha256"):
		sum := sha256.Sum256(payload)
		return bytes.Equal(sum[:], want)
	case is(sha1.Size, "sha1"):
		sum := sha1.Sum(payload)
		return bytes.Equal(sum[:], want)
	case is(md5.Size, "md5"):
		sum := md5.Sum(payload)
		return bytes.Equal(sum[:], want)
	case is(crc32.Size, "crc32"):
		return binary.BigEndian.Uint32(want) == crc32.ChecksumIEEE(payload)
	}
	return false
}
