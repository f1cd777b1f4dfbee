package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
)

// A source is a file of a history that is read from its start to its end.
type source struct {
	path  string // for errors
	f     fs.File
	r     *bufio.Reader
	size  int64
	off   int64 // of the next block
	chain uint32

	role   byte
	number int
	header []byte
}

// A block as it is in the file, and where.
type block struct {
	kind    byte
	payload []byte // valid until the next call
	at      int64
}

// openSource opens a file whose first block follows a block with checksum chain. The
// path is for errors, name is the file's in fsys.
func openSource(fsys fs.FS, dir, name string, chain uint32) (*source, error) {
	s := &source{path: filepath.Join(dir, name), chain: chain}
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.corrupt(0, "the file is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	s.f = f
	if err := s.begin(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// begin reads the magic and the header.
func (s *source) begin() error {
	info, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if !info.Mode().IsRegular() {
		return s.corrupt(0, "not a regular file")
	}
	s.size, s.r = info.Size(), bufio.NewReaderSize(s.f, int(min(64<<10, info.Size())))
	var start [len(magic)]byte
	if err := s.fill(start[:], 0); err != nil {
		return err
	}
	if string(start[:]) != magic {
		return s.corrupt(0, "not a history, or one of another version of the format")
	}
	s.off = int64(len(magic))
	var b block
	switch err := s.next(&b); {
	case err == io.EOF:
		return s.corrupt(s.off, "cut short: no header")
	case err != nil:
		return err
	}
	var ok bool
	if s.role, s.number, s.header, ok = cutHeader(b.payload); !ok || b.kind != blockHeader {
		return s.corrupt(b.at, "no header at the start")
	}
	s.header = slices.Clone(s.header)
	return nil
}

// next reads the next block into b, whose payload is used again. The error is io.EOF
// at the end of the file.
func (s *source) next(b *block) error {
	b.at = s.off
	if s.off == s.size {
		return io.EOF
	}
	var head [5]byte
	if err := s.fill(head[:], s.off); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(head[1:]))
	switch {
	case length > maxBlock:
		return s.corrupt(s.off, fmt.Sprintf("a block of %d bytes, at most %d are allowed", length, maxBlock))
	case length > s.size-s.off-frame:
		return s.corrupt(s.off, fmt.Sprintf("cut short: a block of %d bytes, %d are left", length, max(0, s.size-s.off-frame)))
	}
	b.kind = head[0]
	b.payload = slices.Grow(b.payload[:0], int(length))[:length]
	if err := s.fill(b.payload, s.off); err != nil {
		return err
	}
	var sum [4]byte
	if err := s.fill(sum[:], s.off); err != nil {
		return err
	}
	chain := link(s.chain, head, b.payload)
	if binary.LittleEndian.Uint32(sum[:]) != chain {
		return s.corrupt(s.off, "the checksum is wrong: the block is damaged, or does not belong here")
	}
	s.chain = chain
	s.off += frame + length
	return nil
}

// fill reads all of p; at is where the block begins.
func (s *source) fill(p []byte, at int64) error {
	switch _, err := io.ReadFull(s.r, p); {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return s.corrupt(at, "cut short")
	default:
		return fmt.Errorf("history %s: %w", s.path, err)
	}
}

func (s *source) corrupt(at int64, what string) error {
	return &CorruptError{File: s.path, Offset: at, What: what}
}

func (s *source) close() error { return s.f.Close() }
