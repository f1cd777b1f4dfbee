package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// openSegment begins the next segment.
func (w *Writer) openSegment(chain uint32) error {
	number := w.base.Segments + len(w.closed) + 1
	f, err := createFile(w.dir, segmentName(number), roleSegment, number, w.header, chain)
	if err != nil {
		return err
	}
	w.now = f
	return nil
}

// rotate closes the segment and begins the next one, with room for it.
func (w *Writer) rotate() error {
	var snapshot []byte
	if w.opt.Snapshot != nil {
		var err error
		if snapshot, err = w.opt.Snapshot(); err != nil {
			return fmt.Errorf("history: snapshot: %w", err)
		}
	}
	w.snapshot = int64(len(snapshot))
	if err := w.now.block(blockSnapshot, snapshot); err != nil {
		return err
	}
	if err := w.now.close(); err != nil {
		return err
	}
	done := segment{name: w.now.name, size: w.now.size, end: w.now.chain, blocks: w.trailer.Blocks, records: w.trailer.Records}
	if n := len(w.closed); n > 0 {
		done.start = w.closed[n-1].end
	} else {
		done.start = w.base.Chain
	}
	w.closed = append(w.closed, done)
	if err := w.openSegment(done.end); err != nil {
		return err
	}
	// The new segment ends at most a block and a snapshot after its due size.
	room := w.opt.SegmentBytes + w.largest + w.snapshot
	for w.Size()+room > w.opt.MaxBytes && len(w.closed) > 0 {
		if err := w.forget(); err != nil {
			return err
		}
	}
	return nil
}

// forget drops the oldest segment. What has to survive it is safe in its place
// before it goes.
func (w *Writer) forget() error {
	if w.opt.Snapshot == nil {
		return fmt.Errorf("history: %d bytes are reached, and there is no snapshot to go on from", w.opt.MaxBytes)
	}
	s := w.closed[0]
	snapshot, err := w.rescue(s)
	if err != nil {
		return err
	}
	w.base.Segments++
	w.base.Blocks, w.base.Records, w.base.Chain = s.blocks, s.records, s.end
	if w.kept != nil {
		if err := w.kept.flush(); err != nil {
			return err
		}
		w.base.HasKept, w.base.KeptChain = true, w.kept.chain
	}
	if err := w.writeBase(snapshot); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(w.dir, s.name)); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	w.closed = append(w.closed[:0], w.closed[1:]...)
	return nil
}

// rescue copies the blocks of damaged streams and returns the snapshot.
func (w *Writer) rescue(s segment) (snapshot []byte, err error) {
	src, err := openSource(os.DirFS(w.dir), w.dir, s.name, s.start)
	if err != nil {
		return nil, err
	}
	defer src.close()
	var b block
	for {
		switch err := src.next(&b); {
		case err != nil:
			return nil, err
		case b.kind == blockSnapshot:
			return b.payload, nil
		case b.kind != blockDamaged:
			continue
		}
		if err := w.keep(b.payload); err != nil {
			return nil, err
		}
	}
}

func (w *Writer) keep(payload []byte) error {
	if w.kept == nil {
		kept, err := createFile(w.dir, keptName, roleKept, 0, w.header, 0)
		if err != nil {
			return err
		}
		w.kept = kept
	}
	if w.kept.size+int64(frame+len(payload)) > w.opt.MaxBytes/2-w.largest-2*w.snapshot {
		w.base.Unkept++
		return nil
	}
	w.base.Kept++
	return w.kept.block(blockDamaged, payload)
}

// writeBase replaces the base file in one step.
func (w *Writer) writeBase(snapshot []byte) error {
	facts, err := json.Marshal(&w.base)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	draft := filepath.Join(w.dir, baseDraft)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("history: %w", err)
	}
	f, err := createFile(w.dir, baseDraft, roleBase, w.base.Segments, w.header, 0)
	if err != nil {
		return err
	}
	size := binary.AppendUvarint(nil, uint64(len(facts)))
	if err := errors.Join(f.block(blockBase, size, facts, snapshot), f.close()); err != nil {
		return err
	}
	if err := os.Rename(draft, filepath.Join(w.dir, baseName)); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	w.baseLen = f.size
	return nil
}
