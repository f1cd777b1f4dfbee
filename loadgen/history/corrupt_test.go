package history

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEveryFlippedByteIsNoticed changes every byte of every file, in three ways.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	all := rotated(t)
	flips := 0
	for name, f := range all {
		for i := range f.Data {
			for _, bits := range []byte{0x01, 0x80, 0xff} {
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
	first, last := names[0], names[len(names)-1]
	for name := range all {
		t.Run(name+" missing", func(t *testing.T) {
			_, _, err := drain(without(all, name))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("%v", err)
			}
			t.Log(err)
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
func forge(number int, header string, blocks ...[]byte) []byte {
	data, chain := []byte(magic), uint32(0)
	add := func(kind byte, payload []byte) {
		head := blockHead(kind, len(payload))
		chain = link(chain, head, payload)
		data = append(append(data, head[:]...), payload...)
		data = append(data, byte(chain), byte(chain>>8), byte(chain>>16), byte(chain>>24))
	}
	add(blockHeader, fileHeader(roleSegment, number, []byte(header)))
	for _, b := range blocks {
		add(b[0], b[1:])
	}
	return data
}

// TestNonsenseWithRightChecksums: a checksum is no proof of sense.
func TestNonsenseWithRightChecksums(t *testing.T) {
	const header, trailer = `{"format":1}`, `T{"segments":1}`
	many := strings.Repeat("\x07", 10) // ten records of a kind
	for _, c := range []struct{ name, header, block, trailer string }{
		{"header is no JSON", `{"format":`, "", trailer},
		{"another format", `{"format":2}`, "", trailer},
		{"a type nobody knows", header, "Zabc", trailer},
		{"a second header", header, "Hs\x01{}", trailer},
		{"a base in a segment", header, "B\x02{}", trailer},
		{"stream without anything", header, "S", trailer},
		{"more records than bytes", header, "S\x00\x01\x01\x00\x7f" + many, trailer},
		{"fewer records than bytes", header, "S\x00\x01\x01\x00\x09" + many, trailer},
		{"a record of no kind", header, "S\x00\x01\x01\x00\x01\x0f", trailer},
		{"a bit that no field has", header, "S\x00\x01\x01\x00\x01\x85\x80\x80\x80\x80\x01", trailer},
		{"a name that was not given", header, "S\x00\x01\x01\x00\x01\x04\x02\x02", trailer},
		{"a name over its bound", header, "S\x00\x01\x01\x00\x01\x04\x00\xff" + strings.Repeat("x", 255), trailer},
		{"a session beyond 32 bits", header, "S\x00\xff\xff\xff\xff\xff\x01\x01\x00\x00", trailer},
		{"an event that is not there", header, "S\x00\x01\x01\x00\x01\x07", trailer},
		{"trailer is no JSON", header, "S\x00\x01\x01\x00\x00", "T{"},
		{"trailer of another segment", header, "S\x00\x01\x01\x00\x00", `T{"segments":2,"blocks":1}`},
		{"wrong number of streams", header, "S\x00\x01\x01\x00\x00", trailer},
		{"wrong number of records", header, "S\x00\x01\x01\x00\x01\x05", `T{"segments":1,"blocks":1}`},
		{"says that segments were dropped", header, "S\x00\x01\x01\x00\x00", `T{"segments":1,"blocks":1,"forgotten":{"segments":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var blocks [][]byte
			for _, b := range []string{c.block, c.trailer} {
				if b != "" {
					blocks = append(blocks, []byte(b))
				}
			}
			data := forge(1, c.header, blocks...)
			mustBeCorrupt(t, c.name, fstest.MapFS{"history.000001": {Data: data}}, "history.000001", int64(len(data)))
		})
	}
	data := forge(1, header, []byte("S\x00\x01\x01\x00\x01\x05"), []byte(`T{"segments":1,"blocks":1,"records":1}`))
	if blocks, n, err := drain(fstest.MapFS{"history.000001": {Data: data}}); err != nil || len(blocks) != 1 || n != 1 {
		t.Errorf("the sound one: %d streams, %d records, %v", len(blocks), n, err)
	}
}

// TestAClaimedLengthCostsNothing: the memory for a block is what the file has, not what
// it says it has.
func TestAClaimedLengthCostsNothing(t *testing.T) {
	for _, length := range []string{"\xff\xff\xff\xff", "\xff\xff\xff\x03"} {
		data := append(forge(1, `{"format":1}`), "S"+length...)
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
