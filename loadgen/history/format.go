package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
)

// A saved history is a directory of files that all begin the same way:
//
//	file     = magic, block of type header, further blocks
//	block    = type (1 byte), length of the payload (4 bytes, little-endian), payload,
//	           CRC32C (4 bytes, little-endian)
//
//	history.000001 …   segments: one block per settled stream, in the order in which the
//	                   streams were judged; a snapshot of the judge ends every segment
//	                   but the last, which ends with the trailer
//	history.base       only when segments were dropped: the snapshot that ended the
//	                   newest of them, and what all of them held
//	history.kept       the blocks of damaged streams of dropped segments
//
// A checksum covers its block and, by starting from the checksum before it, all that
// came earlier; the chain runs on from one segment to the next. So a block or a
// segment that is missing, repeated or out of place breaks the chain although it is
// intact in itself.
const (
	formatVersion = 1
	magic         = "gapless history 1\n"

	segmentPrefix = "history."
	baseName      = "history.base"
	keptName      = "history.kept"
	baseDraft     = ".history.base" // until it is complete

	// maxBlock bounds what a reader takes into memory at once.
	maxBlock = 64 << 20
	// frame is what a block needs beside its payload.
	frame = 9
)

// Types of blocks.
const (
	blockHeader   = 'H' // role of the file, its number, Header as JSON
	blockStream   = 'S' // the records of one stream
	blockDamaged  = 'D' // the same, of a stream that has findings
	blockSnapshot = 'P' // opaque bytes; ends a segment
	blockBase     = 'B' // baseFacts as JSON, then the snapshot
	blockTrailer  = 'T' // Trailer as JSON; ends the history
)

// Roles of files, the first byte of their header block.
const (
	roleSegment = 's'
	roleBase    = 'b'
	roleKept    = 'k'
)

// Header says what run a history is of, so that it can be judged and repeated
// without anything else.
type Header struct {
	// Format is the version of the file format; [Create] sets it.
	Format int `json:"format"`
	// Version is that of the program, Run names the run.
	Version string `json:"version"`
	Run     string `json:"run"`
	Seed    uint64 `json:"seed"`
	// Profile is the profile of the run as YAML.
	Profile string `json:"profile"`
	// Offer is what the target offered, Setup what the judge was told before the first
	// arrival, Extra whatever else a reader needs; null when empty.
	Offer json.RawMessage `json:"offer"`
	Setup json.RawMessage `json:"setup"`
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Trailer is the end of a history. A history without one was cut short.
type Trailer struct {
	// Segments is the number of the last segment. Blocks and Records count all streams
	// and records of the run, those of dropped segments included.
	Segments int   `json:"segments"`
	Blocks   int64 `json:"blocks"`
	Records  int64 `json:"records"`
	// Dropped counts records that were not taken down. Unless it is 0 the history does
	// not show all that happened, and no verdict can rest on it.
	Dropped int64 `json:"dropped"`
	// Forgotten is what was in the dropped segments.
	Forgotten Forgotten `json:"forgotten"`
	// Tail is what the writer had to add about the run as a whole.
	Tail json.RawMessage `json:"tail"`
}

// Forgotten counts what rotation dropped. The judge's snapshot stands for it.
type Forgotten struct {
	Segments int   `json:"segments"`
	Blocks   int64 `json:"blocks"`
	Records  int64 `json:"records"`
	// Kept counts the blocks of damaged streams that were saved from dropped segments,
	// Unkept those for which there was no room.
	Kept   int64 `json:"kept"`
	Unkept int64 `json:"unkept"`
}

// baseFacts says how the remaining files go on from the dropped ones.
type baseFacts struct {
	Forgotten
	Chain     uint32 `json:"chain"` // at the end of the newest dropped segment
	HasKept   bool   `json:"has_kept"`
	KeptChain uint32 `json:"kept_chain"`
}

// A CorruptError says where a history is not as it was written.
type CorruptError struct {
	File   string // path of the file
	Offset int64  // where in it, in bytes
	What   string // what is wrong there
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("history %s, byte %d: %s", e.File, e.Offset, e.What)
}

// errShape is what a payload fails with whose checksum is right: it was never
// written by a Writer of this format.
var errShape = errors.New("the records make no sense")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func segmentName(n int) string { return fmt.Sprintf("%s%06d", segmentPrefix, n) }

// segmentNumber is the opposite of segmentName; 0 for any other name.
func segmentNumber(name string) int {
	digits, ok := strings.CutPrefix(filepath.Base(name), segmentPrefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || segmentName(n) != name {
		return 0
	}
	return n
}

// blockHead returns the first bytes of a block.
func blockHead(kind byte, length int) [5]byte {
	var h [5]byte
	h[0] = kind
	binary.LittleEndian.PutUint32(h[1:], uint32(length))
	return h
}

// link returns the checksum of a block that follows one with checksum chain.
func link(chain uint32, head [5]byte, parts ...[]byte) uint32 {
	chain = crc32.Update(chain, castagnoli, head[:])
	for _, p := range parts {
		chain = crc32.Update(chain, castagnoli, p)
	}
	return chain
}

// fileHeader returns the payload of the header block.
func fileHeader(role byte, number int, header []byte) []byte {
	return append(binary.AppendUvarint([]byte{role}, uint64(number)), header...)
}

// cutHeader is the opposite of fileHeader.
func cutHeader(payload []byte) (role byte, number int, header []byte, ok bool) {
	if len(payload) == 0 {
		return 0, 0, nil, false
	}
	n, size := binary.Uvarint(payload[1:])
	if size <= 0 || n > 1<<31-1 {
		return 0, 0, nil, false
	}
	return payload[0], int(n), payload[1+size:], true
}
