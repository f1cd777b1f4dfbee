package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

var testHeader = Header{Version: "v0.0.0-test", Run: "0badcafe", Seed: 1<<64 - 1, Profile: "name: tiny\n",
	Offer: json.RawMessage(`{"ids":true}`), Setup: json.RawMessage(`{"oracle":"ledger"}`)}

// A clerk writes streams and stands for a judge, whose whole state is the number of
// streams and records it has seen.
type clerk struct {
	t       *testing.T
	dir     string
	w       *Writer
	rng     *rand.Rand
	streams uint32
	records int64
	all     map[uint32][]Record
}

func newClerk(t *testing.T, o Options) *clerk {
	t.Helper()
	c := &clerk{t: t, dir: filepath.Join(t.TempDir(), "h"), rng: rand.New(rand.NewPCG(3, 4)), all: map[uint32][]Record{}}
	if o.Snapshot == nil {
		o.Snapshot = c.snapshot
	}
	w, err := Create(c.dir, testHeader, o)
	if err != nil {
		t.Fatal(err)
	}
	c.w = w
	return c
}

func (c *clerk) snapshot() ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, c.streams), uint64(c.records)), nil
}

// stream writes one more stream.
func (c *clerk) stream(damaged bool, messages int) {
	c.t.Helper()
	c.streams++
	records := healthy(c.rng, 1+c.streams%3, c.streams, messages, time.Millisecond, damaged)
	c.records += int64(len(records))
	c.all[c.streams] = records
	if err := c.w.Stream(StreamLoad, 1+c.streams%3, c.streams, damaged, records); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clerk) close() {
	c.t.Helper()
	if err := c.w.Close(json.RawMessage(`{"planned":7}`), 0); err != nil {
		c.t.Fatal(err)
	}
}

// files takes the history into memory.
func files(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = &fstest.MapFile{Data: data, Mode: 0o600}
	}
	return out
}

func without(all fstest.MapFS, names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, f := range all {
		out[name] = f
	}
	for _, name := range names {
		delete(out, name)
	}
	return out
}

func with(all fstest.MapFS, name string, data []byte) fstest.MapFS {
	out := without(all)
	out[name] = &fstest.MapFile{Data: data, Mode: 0o600}
	return out
}

// drain reads all of a history; the error is nil if it is whole.
func drain(fsys fs.FS) (blocks []Block, records int64, err error) {
	r, err := open(fsys, "d")
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	for {
		b, err := r.NextAny()
		if err == io.EOF {
			return blocks, records, nil
		}
		if err != nil {
			return blocks, records, err
		}
		for range b.Records() {
			records++
		}
		blocks = append(blocks, b)
	}
}

// mustBeCorrupt wants a CorruptError about one of the files, at or before the byte.
func mustBeCorrupt(t *testing.T, what string, fsys fs.FS, file string, offset int64) {
	t.Helper()
	_, _, err := drain(fsys)
	var corrupt *CorruptError
	switch {
	case err == nil:
		t.Fatalf("%s: not noticed", what)
	case !errors.As(err, &corrupt):
		t.Fatalf("%s: %v names no place", what, err)
	case filepath.Base(corrupt.File) != file || corrupt.Offset > offset || corrupt.Offset < 0:
		t.Fatalf("%s: %v, want %s and at most byte %d", what, err, file, offset)
	}
}

// rotated is a small history with everything in it: a base, kept streams and more
// than one segment.
func rotated(t *testing.T) fstest.MapFS {
	t.Helper()
	c := newClerk(t, Options{SegmentBytes: 900, MaxBytes: 5000})
	for i := range 30 {
		c.stream(i%4 == 0, 3)
	}
	c.close()
	all := files(t, c.dir)
	segments := 0
	for name := range all {
		if segmentNumber(name) > 0 {
			segments++
		}
	}
	if all[baseName] == nil || all[keptName] == nil || segments < 2 {
		t.Fatalf("not what the tests need: %d segments of %d files", segments, len(all))
	}
	if blocks, _, err := drain(all); err != nil || len(blocks) < 4 {
		t.Fatalf("%d streams, %v", len(blocks), err)
	}
	return all
}
