package history

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Options of a [Writer]; the zero value keeps up to 1 GiB.
type Options struct {
	// SegmentBytes is the size at which a segment is closed; 0 means 16 MiB, or a
	// quarter of MaxBytes if that is less.
	SegmentBytes int64
	// MaxBytes bounds the directory; 0 means 1 GiB. It is at least four segments, and
	// snapshots have to be small against it. Where it is reached, the oldest segments
	// are dropped. Blocks of damaged streams are kept from them, as long as all of these
	// take no more than half of MaxBytes; further ones are counted as unkept.
	MaxBytes int64
	// Snapshot returns the state of the judge after exactly those streams that were
	// written so far, in that order; it is called within Put and Stream, when a segment
	// is closed. Without it no segment can be dropped: reaching MaxBytes is an error.
	Snapshot func() ([]byte, error)
}

// Validate returns all complaints about o.
func (o Options) Validate() error {
	var errs []error
	if o.SegmentBytes < 0 || o.MaxBytes < 0 {
		errs = append(errs, errors.New("history: sizes must not be negative"))
	}
	if w := o.withDefaults(); w.MaxBytes < 4*w.SegmentBytes {
		errs = append(errs, fmt.Errorf("history: %d bytes are less than four segments of %d", w.MaxBytes, w.SegmentBytes))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = min(16<<20, o.MaxBytes/4)
	}
	return o
}

// A Writer writes a history. It is used by one goroutine. Its first error is final:
// every later call returns it, Close too, and the history then has no trailer.
type Writer struct {
	dir    string
	opt    Options
	header []byte // Header as JSON

	now     *file     // the segment that grows
	closed  []segment // oldest first
	kept    *file     // nil until something was kept
	base    baseFacts
	baseLen int64 // bytes of the base file

	trailer  Trailer // what has been counted so far
	largest  int64   // bytes of the largest block
	snapshot int64   // bytes of the last snapshot
	pool     *Pool   // of Stream
	prelude  []byte
	err      error
	done     bool
}

// A segment that is complete.
type segment struct {
	name            string
	size            int64
	start, end      uint32 // of the chain
	blocks, records int64  // before its end, from the first segment on
}

// Create begins a history in dir, which it makes if necessary. A directory that holds
// a history, or part of one, is refused.
func Create(dir string, h Header, o Options) (*Writer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	h.Format = formatVersion
	header, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("history: header: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), segmentPrefix) {
			return nil, fmt.Errorf("history: %s already holds a history (%s)", dir, e.Name())
		}
	}
	w := &Writer{dir: dir, opt: o.withDefaults(), header: header, pool: NewPool(PoolConfig{StreamBytes: maxBlock, TotalBytes: 2 * maxBlock})}
	if err := w.openSegment(0); err != nil {
		return nil, err
	}
	return w, nil
}

// Put writes the records of a settled stream, and gives the recorder's memory back.
// damaged says that the judge found something: then its block outlives its segment.
// What the recorder dropped is added to the history's account.
func (w *Writer) Put(r *Recorder, damaged bool) error {
	defer r.Discard()
	if w.err != nil {
		return w.err
	}
	if w.done {
		return errors.New("history: written to after Close")
	}
	kind := byte(blockStream)
	if damaged {
		kind = blockDamaged
	}
	w.prelude = r.appendPrelude(w.prelude[:0])
	if w.err = w.now.block(kind, w.prelude, r.coder.data); w.err != nil {
		return w.err
	}
	w.largest = max(w.largest, int64(frame+len(w.prelude)+len(r.coder.data)))
	w.trailer.Blocks++
	w.trailer.Records += r.records
	w.trailer.Dropped += r.dropped
	if w.now.size >= w.opt.SegmentBytes {
		w.err = w.rotate()
	}
	return w.err
}

// Stream writes the records of a settled stream, like Put.
func (w *Writer) Stream(kind StreamKind, session, stream uint32, damaged bool, records []Record) error {
	r := w.pool.Open(kind, session, stream)
	for i := range records {
		r.Record(&records[i])
	}
	return w.Put(r, damaged)
}

// Close ends the history with its trailer. tail is JSON for the reader, or nil;
// dropped counts records that were lost before they came here.
func (w *Writer) Close(tail json.RawMessage, dropped int64) error {
	if w.done {
		return w.err
	}
	w.done = true
	if w.err == nil {
		w.err = w.finish(tail, dropped)
	}
	for _, f := range []*file{w.now, w.kept} {
		if f == nil {
			continue
		}
		if err := f.close(); w.err == nil {
			w.err = err
		}
	}
	return w.err
}

func (w *Writer) finish(tail json.RawMessage, dropped int64) error {
	w.trailer.Segments = w.base.Segments + len(w.closed) + 1
	w.trailer.Dropped += dropped
	w.trailer.Forgotten = w.base.Forgotten
	w.trailer.Tail = tail
	text, err := json.Marshal(&w.trailer)
	if err != nil {
		return fmt.Errorf("history: trailer: %w", err)
	}
	if err := w.now.block(blockTrailer, text); err != nil {
		return err
	}
	if err := w.now.flush(); err != nil {
		return err
	}
	if err := w.now.f.Sync(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Size is the number of bytes of all files, those included that are still on their
// way to the disk.
func (w *Writer) Size() int64 {
	n := w.now.size + w.baseLen
	if w.kept != nil {
		n += w.kept.size
	}
	for i := range w.closed {
		n += w.closed[i].size
	}
	return n
}

// appendPrelude appends what comes before the records in the block of a stream.
func (r *Recorder) appendPrelude(b []byte) []byte {
	for _, v := range [...]uint64{uint64(r.kind), uint64(r.session), uint64(r.stream), uint64(r.dropped), uint64(r.records)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// A file grows by blocks.
type file struct {
	name  string
	f     *os.File
	w     *bufio.Writer
	size  int64
	chain uint32
}

// createFile makes the file name in dir, with its header.
func createFile(dir, name string, role byte, number int, header []byte, chain uint32) (*file, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	out := &file{name: name, f: f, w: bufio.NewWriterSize(f, 64<<10), size: int64(len(magic)), chain: chain}
	_, err = out.w.WriteString(magic)
	if err == nil {
		err = out.block(blockHeader, fileHeader(role, number, header))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return out, nil
}

// block appends a block whose payload is the parts, one behind the other.
func (f *file) block(kind byte, parts ...[]byte) error {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	if length > maxBlock {
		return fmt.Errorf("history: a block of %d bytes, at most %d are allowed", length, maxBlock)
	}
	head := blockHead(kind, length)
	f.chain = link(f.chain, head, parts...)
	f.w.Write(head[:]) // a bufio.Writer keeps its first error
	for _, p := range parts {
		f.w.Write(p)
	}
	var sum [4]byte
	binary.LittleEndian.PutUint32(sum[:], f.chain)
	if _, err := f.w.Write(sum[:]); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	f.size += int64(frame + length)
	return nil
}

func (f *file) flush() error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

func (f *file) close() error {
	if err := errors.Join(f.w.Flush(), f.f.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
