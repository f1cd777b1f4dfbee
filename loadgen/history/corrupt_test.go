package history

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEveryFlippedByteIsNoticed changes every byte of every file: one bit, and all.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	all := rotated(t)
	flips := 0
	for name, f := range all {
		for i := range f.Data {
			for _, bits := range []byte{1 << (i % 8), 0xff} {
				damaged := slices.Clone(f.Data)
				damaged[i] ^= bits
				mustBeCorrupt(t, fmt.Sprintf("%s, byte %d ^ %#x", name, i, bits), with(all, name, damaged), name, int64(i))
				flips++
			}
		}
	}
	t.Logf("%d flips", flips)
}

// TestEveryTruncationIsNoticed cuts every file at every length.
func TestEveryTruncationIsNoticed(t *testing.T) {
	all := rotated(t)
	for name, f := range all {
		for n := range f.Data {
			mustBeCorrupt(t, fmt.Sprintf("%s cut to %d bytes", name, n), with(all, name, f.Data[:n]), name, int64(n))
		}
		mustBeCorrupt(t, name+" with a byte more", with(all, name, append(slices.Clone(f.Data), 0)), name, int64(len(f.Data)))
		mustBeCorrupt(t, name+" twice over", with(all, name, append(slices.Clone(f.Data), f.Data...)), name, int64(len(f.Data)))
	}
}

// segments of all, in order.
func segments(all fstest.MapFS) []string {
	var names []string
	for name := range all {
		if segmentNumber(name) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestFilesOutOfPlaceAreNoticed(t *testing.T) {
	all := rotated(t)
	names := segments(all)
	if len(names) < 3 {
		t.Fatal("no segment is in the middle")
	}
	first, last := names[0], names[len(names)-1]
	for name := range all {
		t.Run(name+" missing", func(t *testing.T) {
			_, _, err := drain(without(all, name))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("%v", err)
			}
			if name == names[1] && filepath.Base(corrupt.File) != name {
				t.Errorf("%v, want it to name %s", err, name)
			}
		})
		for other := range all {
			if other != name {
				mustBeCorrupt(t, name+" in place of "+other, with(all, other, all[name].Data), other, int64(len(all[other].Data)))
			}
		}
	}
	next := segmentName(segmentNumber(last) + 1)
	mustBeCorrupt(t, "last segment twice", with(all, next, all[last].Data), next, 0)
	before := segmentName(segmentNumber(first) - 1)
	mustBeCorrupt(t, "first segment twice", with(all, before, all[first].Data), before, 0)
	mustBeCorrupt(t, "a stray file", with(all, "history.000001.bak", nil), "history.000001.bak", 0)
	mustBeCorrupt(t, "a folder for a segment", withFolder(all, first), first, 0)
	swapped := with(with(all, first, all[last].Data), last, all[first].Data)
	mustBeCorrupt(t, "segments swapped", swapped, first, int64(len(magic)))
	if _, err := open(fstest.MapFS{"result.json": {}}, "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no history: %v", err)
	}
	if _, _, err := drain(with(all, "result.json", nil)); err != nil {
		t.Errorf("other files in the folder are nobody's business: %v", err)
	}
}

func withFolder(all fstest.MapFS, name string) fstest.MapFS {
	out := without(all, name)
	out[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o700}
	return out
}

// blocksOf cuts a file into magic and header, and its other blocks.
func blocksOf(t *testing.T, all fstest.MapFS, name string, chain uint32) (start []byte, blocks [][]byte) {
	t.Helper()
	s, err := openSource(all, "d", name, chain)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	start = all[name].Data[:s.off]
	for s.off < s.size {
		at := s.off
		if err := s.next(&block{}); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, all[name].Data[at:s.off])
	}
	return start, blocks
}

// TestBlocksOutOfPlaceAreNoticed takes intact blocks out, doubles and swaps them.
func TestBlocksOutOfPlaceAreNoticed(t *testing.T) {
	c := newClerk(t, Options{})
	for range 5 {
		c.stream(false, 2)
	}
	c.close()
	all := files(t, c.dir)
	const name = "history.000001"
	start, blocks := blocksOf(t, all, name, 0)
	if len(blocks) != 6 {
		t.Fatalf("%d blocks", len(blocks))
	}
	try := func(what string, blocks [][]byte) {
		t.Helper()
		data := slices.Concat(append([][]byte{start}, blocks...)...)
		mustBeCorrupt(t, what, with(all, name, data), name, int64(len(data)))
	}
	for i := range blocks {
		try(fmt.Sprint("without ", i), slices.Concat(blocks[:i], blocks[i+1:]))
		try(fmt.Sprint("twice ", i), slices.Concat(blocks[:i+1], blocks[i:]))
		for j := range i {
			swapped := slices.Clone(blocks)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			try(fmt.Sprint("swapped ", i, j), swapped)
		}
	}
}

// forge makes a file out of blocks whose checksums are right.
func forge(role byte, number int, header string, blocks ...[]byte) []byte {
	data, chain := []byte(magic), uint32(0)
	add := func(kind byte, payload []byte) {
		head := blockHead(kind, len(payload))
		chain = link(chain, head, payload)
		data = append(append(data, head[:]...), payload...)
		data = append(data, byte(chain), byte(chain>>8), byte(chain>>16), byte(chain>>24))
	}
	add(blockHeader, fileHeader(role, number, []byte(header)))
	for _, b := range blocks {
		add(b[0], b[1:])
	}
	return data
}

// TestNonsenseWithRightChecksums: a checksum is no proof of sense.
func TestNonsenseWithRightChecksums(t *testing.T) {
	const header, prelude = `{"format":1}`, "S\x00\x01\x01\x00" // then the number of records
	ends := strings.Repeat("\x05", 10)
	counted := func(records int) string { return fmt.Sprintf(`T{"segments":1,"blocks":1,"records":%d}`, records) }
	for _, c := range []struct {
		name                   string
		number                 int
		header, block, trailer string
	}{
		{"header is no JSON", 1, `{"format":`, prelude + "\x00", counted(0)},
		{"another format", 1, `{"format":2}`, prelude + "\x00", counted(0)},
		{"another segment", 2, header, prelude + "\x00", `T{"segments":2,"blocks":1}`},
		{"a type nobody knows", 1, header, "Zabc", `T{"segments":1}`},
		{"a second header", 1, header, "Hs\x01{}", `T{"segments":1}`},
		{"a base in a segment", 1, header, "B\x02{}", `T{"segments":1}`},
		{"stream without anything", 1, header, "S", counted(0)},
		{"more records than there are", 1, header, prelude + "\x0b" + ends, counted(11)},
		{"more records than bytes", 1, header, prelude + "\x7f" + ends, counted(127)},
		{"fewer records than there are", 1, header, prelude + "\x09" + ends, counted(9)},
		{"a record of no kind", 1, header, prelude + "\x01\x0f", counted(1)},
		{"a bit that no field has", 1, header, prelude + "\x01\x85\x80\x80\x80\x80\x01", counted(1)},
		{"a name that was not given", 1, header, prelude + "\x01\x04\x02\x02", counted(1)},
		{"a name over its bound", 1, header, prelude + "\x01\x04\x00\x50" + strings.Repeat("x", 80) + "\x01", counted(1)},
		{"a session beyond 32 bits", 1, header, "S\x00\xff\xff\xff\xff\xff\x01\x01\x00\x00", counted(0)},
		{"an event that is not there", 1, header, prelude + "\x01\x07", counted(1)},
		{"trailer is no JSON", 1, header, prelude + "\x00", "T{"},
		{"trailer of another segment", 1, header, prelude + "\x00", `T{"segments":2,"blocks":1}`},
		{"wrong number of streams", 1, header, prelude + "\x00", `T{"segments":1}`},
		{"wrong number of records", 1, header, prelude + "\x01\x05", counted(0)},
		{"says that segments were dropped", 1, header, prelude + "\x00", `T{"segments":1,"blocks":1,"forgotten":{"segments":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := forge(roleSegment, c.number, c.header, []byte(c.block), []byte(c.trailer))
			mustBeCorrupt(t, c.name, fstest.MapFS{"history.000001": {Data: data}}, "history.000001", int64(len(data)))
		})
	}
	data := forge(roleSegment, 1, header, []byte(prelude+"\x01\x05"), []byte(counted(1)))
	if blocks, n, err := drain(fstest.MapFS{"history.000001": {Data: data}}); err != nil || len(blocks) != 1 || n != 1 {
		t.Errorf("the sound one: %d streams, %d records, %v", len(blocks), n, err)
	}
}

// TestOtherKeptStreamsAreNoticed: history.kept is intact in itself, and is not the one
// that the base speaks of.
func TestOtherKeptStreamsAreNoticed(t *testing.T) {
	all := rotated(t)
	_, blocks := blocksOf(t, all, keptName, 0)
	s, err := openSource(all, "d", keptName, 0)
	if err != nil || len(blocks) < 2 {
		t.Fatal(len(blocks), err)
	}
	var bare [][]byte // type and payload
	for _, b := range blocks {
		bare = append(bare, slices.Concat(b[:1], b[5:len(b)-4]))
	}
	if same := forge(roleKept, 0, string(s.header), bare...); !slices.Equal(same, all[keptName].Data) {
		t.Fatal("not forged as it was written")
	}
	bare[0], bare[1] = bare[1], bare[0]
	data := forge(roleKept, 0, string(s.header), bare...)
	mustBeCorrupt(t, "swapped", with(all, keptName, data), keptName, int64(len(data)))
	data = forge(roleKept, 0, string(s.header), bare[1:]...)
	mustBeCorrupt(t, "one less", with(all, keptName, data), keptName, int64(len(data)))
	mustBeCorrupt(t, "without a base", fstest.MapFS{keptName: all[keptName],
		"history.000001": {Data: forge(roleSegment, 1, string(s.header), []byte(`T{"segments":1}`))}}, keptName, int64(len(all[keptName].Data)))
}

// TestAClaimedLengthCostsNothing: the memory for a block is what the file has, not what
// it says it has.
func TestAClaimedLengthCostsNothing(t *testing.T) {
	for _, length := range []string{"\xff\xff\xff\xff", "\xff\xff\xff\x03"} {
		data := append(forge(roleSegment, 1, `{"format":1}`), "S"+length...)
		fsys := fstest.MapFS{"history.000001": {Data: data}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		drain(fsys)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%d bytes allocated", n)
		}
		mustBeCorrupt(t, "length", fsys, "history.000001", int64(len(data)))
	}
}
