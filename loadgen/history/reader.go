package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Reader reads a history. Whatever is not as a Writer left it is a [*CorruptError].
// The first error is final. It is used by one goroutine.
type Reader struct {
	fsys   fs.FS
	dir    string
	header Header
	raw    []byte // header as JSON, the same in all files
	base   baseFacts
	start  []byte // snapshot of the base

	rest            []int // numbers of the segments that are not opened yet
	kept, now       *source
	keptBlocks      int64
	blocks, records int64 // read so far, dropped segments included
	block           block
	coder           coder
	names           nameTable
	trailer         Trailer
	err             error
}

// A Block is one stream of a history.
type Block struct {
	Kind            StreamKind
	Session, Stream uint32
	// Damaged says that the judge had found something in this stream.
	Damaged bool
	// Kept marks a stream out of a segment that was dropped. The snapshot of
	// [Reader.Base] has it already: to judge it again would count it twice.
	Kept bool
	// Len is the number of records. Dropped counts those that are missing at the end.
	Len     int
	Dropped int64

	reader  *Reader
	records []byte
}

// Open opens the history in dir. It reads the header; see Next for the rest.
func Open(dir string) (*Reader, error) { return open(os.DirFS(dir), dir) }

func open(fsys fs.FS, dir string) (*Reader, error) {
	r := &Reader{fsys: fsys, dir: dir}
	if err := r.begin(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) begin() error {
	hasBase, hasKept, err := r.list()
	if err != nil {
		return err
	}
	if hasBase {
		if err := r.readBase(); err != nil {
			return err
		}
	}
	if len(r.rest) == 0 || r.rest[0] != r.base.Segments+1 {
		return r.order(r.base.Segments + 1)
	}
	for i, n := range r.rest {
		if n != r.rest[0]+i {
			return r.order(r.rest[0] + i)
		}
	}
	if err := r.nextSegment(r.base.Chain); err != nil {
		return err
	}
	if !hasKept && !r.base.HasKept {
		return nil
	}
	r.kept, err = r.source(keptName, roleKept, 0, 0)
	return err
}

// list finds the files.
func (r *Reader) list() (base, kept bool, err error) {
	entries, err := fs.ReadDir(r.fsys, ".")
	if err != nil {
		return false, false, fmt.Errorf("history: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch n := segmentNumber(name); {
		case n > 0:
			r.rest = append(r.rest, n)
		case name == baseName:
			base = true
		case name == keptName:
			kept = true
		case strings.HasPrefix(name, segmentPrefix):
			return false, false, &CorruptError{File: filepath.Join(r.dir, name), What: "not a file of a history"}
		}
	}
	if !base && !kept && len(r.rest) == 0 {
		return false, false, fmt.Errorf("history: none in %s: %w", r.dir, fs.ErrNotExist)
	}
	slices.Sort(r.rest)
	return base, kept, nil
}

// order says that segment want is not there, or that a dropped one is there still.
func (r *Reader) order(want int) error {
	e := &CorruptError{File: filepath.Join(r.dir, segmentName(want)), What: "the segment is missing"}
	if len(r.rest) > 0 && r.rest[0] <= r.base.Segments {
		e.File, e.What = filepath.Join(r.dir, segmentName(r.rest[0])), "the segment was dropped, according to "+baseName
	}
	return e
}

// source opens a file that has to have this role and number.
func (r *Reader) source(name string, role byte, number int, chain uint32) (*source, error) {
	s, err := openSource(r.fsys, r.dir, name, chain)
	if err != nil {
		return nil, err
	}
	if err := r.check(s, role, number); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// check compares the header of a file with what it has to be. The first file that is
// opened says what run it is.
func (r *Reader) check(s *source, role byte, number int) error {
	at := int64(len(magic))
	switch {
	case s.role != role || s.number != number:
		return s.corrupt(at, "this is another file of a history under a wrong name")
	case r.raw != nil && !bytes.Equal(s.header, r.raw):
		return s.corrupt(at, "the header is that of another run")
	case r.raw != nil:
		return nil
	}
	r.raw = s.header
	if err := json.Unmarshal(s.header, &r.header); err != nil {
		return s.corrupt(at, fmt.Sprintf("header: %v", err))
	}
	if r.header.Format != formatVersion {
		return s.corrupt(at, fmt.Sprintf("format %d is not known", r.header.Format))
	}
	return nil
}

func (r *Reader) readBase() error {
	s, err := openSource(r.fsys, r.dir, baseName, 0)
	if err != nil {
		return err
	}
	defer s.close()
	if err := r.check(s, roleBase, s.number); err != nil {
		return err
	}
	var b block
	if err := s.next(&b); err != nil {
		if err == io.EOF {
			err = s.corrupt(s.off, "cut short: no snapshot")
		}
		return err
	}
	size, n := binary.Uvarint(b.payload)
	if b.kind != blockBase || n <= 0 || size > uint64(len(b.payload)-n) {
		return s.corrupt(b.at, "no snapshot")
	}
	if err := json.Unmarshal(b.payload[n:n+int(size)], &r.base); err != nil {
		return s.corrupt(b.at, err.Error())
	}
	if r.base.Segments != s.number || s.number < 1 {
		return s.corrupt(b.at, "header and snapshot are about different segments")
	}
	if s.off != s.size {
		return s.corrupt(s.off, "there is something after the end")
	}
	r.start = b.payload[n+int(size):]
	r.blocks, r.records = r.base.Blocks, r.base.Records
	return nil
}

// nextSegment opens the next segment.
func (r *Reader) nextSegment(chain uint32) error {
	if r.now != nil {
		r.now.close()
		r.now = nil
	}
	s, err := r.source(segmentName(r.rest[0]), roleSegment, r.rest[0], chain)
	if err != nil {
		return err
	}
	r.now, r.rest = s, r.rest[1:]
	return nil
}

// Header says what run it is.
func (r *Reader) Header() Header { return r.header }

// Base returns the snapshot from which judging goes on, nil when the history is whole
// and judging begins with its first stream.
func (r *Reader) Base() []byte { return r.start }

// Forgotten counts what the snapshot of Base stands for.
func (r *Reader) Forgotten() Forgotten { return r.base.Forgotten }

// Trailer is the end of the history; zero before Next has returned io.EOF.
func (r *Reader) Trailer() Trailer { return r.trailer }

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, s := range []*source{r.kept, r.now} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	r.kept, r.now = nil, nil
	if r.err == nil {
		r.err = errors.New("history: read after Close")
	}
	return errors.Join(errs...)
}

// Next returns the next stream to be judged; see [Reader.NextAny] for kept ones. The
// Block is valid until the next call. The error is io.EOF only after a valid
// trailer: then every byte of the history has been read and is as it was written.
func (r *Reader) Next() (Block, error) {
	for {
		b, err := r.NextAny()
		if err != nil || !b.Kept {
			return b, err
		}
	}
}

// NextAny is Next, with the streams kept of dropped segments before all others.
func (r *Reader) NextAny() (Block, error) {
	if r.err != nil {
		return Block{}, r.err
	}
	b, err := r.next()
	if err != nil {
		r.err = err
		r.Close()
		return Block{}, err
	}
	return b, nil
}

func (r *Reader) next() (Block, error) {
	if r.kept != nil {
		switch b, err := r.nextKept(); {
		case err != io.EOF:
			return b, err
		case r.keptBlocks != r.base.Kept || r.kept.chain != r.base.KeptChain:
			return Block{}, r.kept.corrupt(r.kept.off, fmt.Sprintf("%d streams, %s wants %d and what it saw of them", r.keptBlocks, baseName, r.base.Kept))
		}
		r.kept.close()
		r.kept = nil
	}
	for {
		switch err := r.now.next(&r.block); {
		case err == io.EOF:
			return Block{}, r.now.corrupt(r.now.off, "cut short: no trailer")
		case err != nil:
			return Block{}, err
		}
		switch r.block.kind {
		case blockStream, blockDamaged:
			b, err := r.stream(r.now)
			r.blocks++
			r.records += int64(b.Len)
			return b, err
		case blockSnapshot:
			if err := r.endSegment(); err != nil {
				return Block{}, err
			}
		case blockTrailer:
			return Block{}, r.end()
		default:
			return Block{}, r.now.corrupt(r.block.at, "a block of a kind that does not belong here")
		}
	}
}

func (r *Reader) nextKept() (Block, error) {
	if err := r.kept.next(&r.block); err != nil {
		return Block{}, err
	}
	if r.block.kind != blockDamaged {
		return Block{}, r.kept.corrupt(r.block.at, "a block of a kind that does not belong here")
	}
	b, err := r.stream(r.kept)
	b.Kept = true
	r.keptBlocks++
	return b, err
}

// endSegment goes on with the next segment.
func (r *Reader) endSegment() error {
	if r.now.off != r.now.size {
		return r.now.corrupt(r.now.off, "there is something after the end of the segment")
	}
	if len(r.rest) == 0 {
		return r.now.corrupt(r.now.off, "cut short: the next segment is missing")
	}
	return r.nextSegment(r.now.chain)
}

// end compares the trailer with what was read. Its error is io.EOF if they agree.
func (r *Reader) end() error {
	s, at := r.now, r.block.at
	var t Trailer
	if err := json.Unmarshal(r.block.payload, &t); err != nil {
		return s.corrupt(at, fmt.Sprintf("trailer: %v", err))
	}
	switch {
	case s.off != s.size:
		return s.corrupt(s.off, "there is something after the trailer")
	case len(r.rest) > 0:
		return &CorruptError{File: filepath.Join(r.dir, segmentName(r.rest[0])), What: "a segment after the one with the trailer"}
	case t.Segments != s.number:
		return s.corrupt(at, fmt.Sprintf("the trailer is that of segment %d", t.Segments))
	case t.Blocks != r.blocks || t.Records != r.records:
		return s.corrupt(at, fmt.Sprintf("%d streams with %d records, the trailer says %d and %d", r.blocks, r.records, t.Blocks, t.Records))
	case t.Forgotten != r.base.Forgotten:
		return s.corrupt(at, "trailer and "+baseName+" do not agree")
	}
	r.trailer = t
	return io.EOF
}

// stream takes the block apart and makes sure that all its records can be read.
func (r *Reader) stream(s *source) (Block, error) {
	b, ok := parseBlock(r.block.payload)
	b.reader, b.Damaged = r, r.block.kind == blockDamaged
	if ok {
		for range b.all(&ok) {
		}
	}
	if !ok {
		return Block{}, s.corrupt(r.block.at, errShape.Error())
	}
	return b, nil
}

func parseBlock(payload []byte) (b Block, ok bool) {
	var v [5]uint64
	for i, most := range [...]uint64{math.MaxUint8, math.MaxUint32, math.MaxUint32, math.MaxInt64, uint64(len(payload))} {
		n := 0
		if v[i], n = binary.Uvarint(payload); n <= 0 || v[i] > most {
			return Block{}, false
		}
		payload = payload[n:]
	}
	return Block{Kind: StreamKind(v[0]), Session: uint32(v[1]), Stream: uint32(v[2]), Dropped: int64(v[3]), Len: int(v[4]), records: payload}, true
}

// Records goes through the records. The Record is valid until the next one.
func (b Block) Records() iter.Seq[*Record] {
	return b.all(new(bool))
}

// all sets ok to whether the records are what a Recorder wrote.
func (b Block) all(ok *bool) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		c := &b.reader.coder
		c.reset(true, b.records, b.Session, b.Stream)
		c.known = &b.reader.names
		var r Record
		*ok = true
		for range b.Len {
			if *ok = c.read(&r); !*ok || !yield(&r) {
				return
			}
		}
		*ok = c.pos == len(c.data)
	}
}
