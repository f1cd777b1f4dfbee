package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRoundTrip(t *testing.T) {
	c := newClerk(t, Options{SegmentBytes: 2000, MaxBytes: 1 << 20})
	for i := range 40 {
		c.stream(i%5 == 0, i)
	}
	c.close()
	r, err := Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := testHeader
	want.Format = formatVersion
	if got := r.Header(); !reflect.DeepEqual(got, want) {
		t.Errorf("header\n got %+v\nwant %+v", got, want)
	}
	if r.Base() != nil || !reflect.DeepEqual(r.Trailer(), Trailer{}) {
		t.Errorf("base %v, trailer %+v before the end", r.Base(), r.Trailer())
	}
	for n := uint32(1); ; n++ {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Kind != StreamLoad || b.Session != 1+n%3 || b.Stream != n || b.Damaged != (n%5 == 1) || b.Kept || b.Dropped != 0 || b.Len != len(c.all[n]) {
			t.Fatalf("stream %d: %+v", n, b)
		}
		var got []Record
		for rec := range b.Records() {
			got = append(got, *rec)
		}
		compare(t, got, c.all[n])
		for range b.Records() { // leaving early, or reading twice, hurts nobody
			break
		}
	}
	got := r.Trailer()
	if got.Blocks != 40 || got.Records != c.records || got.Dropped != 0 || got.Segments < 5 || string(got.Tail) != `{"planned":7}` || got.Forgotten != (Forgotten{}) {
		t.Errorf("trailer %+v", got)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestModes(t *testing.T) {
	all := newClerk(t, Options{SegmentBytes: 900, MaxBytes: 5000})
	for range 30 {
		all.stream(true, 3)
	}
	all.close()
	if info, _ := os.Stat(all.dir); info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v", info.Mode())
	}
	entries, _ := os.ReadDir(all.dir)
	for _, e := range entries {
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", e.Name(), info.Mode())
		}
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	c := newClerk(t, Options{})
	c.close()
	before := files(t, c.dir)
	if _, err := Create(c.dir, testHeader, Options{}); err == nil || !strings.Contains(err.Error(), "already holds a history (history.000001)") {
		t.Errorf("a second history: %v", err)
	}
	if after := files(t, c.dir); !reflect.DeepEqual(before, after) {
		t.Errorf("the first one was touched")
	}
	for name, o := range map[string]Options{
		"negative": {SegmentBytes: -1}, "three segments": {SegmentBytes: 100, MaxBytes: 300}, "large segments": {SegmentBytes: 1 << 30},
	} {
		dir := filepath.Join(t.TempDir(), "x")
		if _, err := Create(dir, testHeader, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the folder was made", name)
		}
	}
	bad := testHeader
	bad.Setup = json.RawMessage("{")
	if _, err := Create(t.TempDir(), bad, Options{}); err == nil {
		t.Error("a header that is no JSON: accepted")
	}
}

// TestRotation writes more than ten times what the folder may hold. Nothing of the judge's
// state is lost, no damaged stream, and the folder never outgrows its bound.
func TestRotation(t *testing.T) {
	const most = 20_000
	c := newClerk(t, Options{SegmentBytes: 2000, MaxBytes: most})
	damaged := map[uint32]bool{}
	for i := range 1500 {
		c.stream(i%60 == 7, 8)
		if i%60 == 7 {
			damaged[c.streams] = true
		}
		if n := diskBytes(t, c.dir); n > most || c.w.Size() > most || n > c.w.Size() {
			t.Fatalf("stream %d: %d bytes on disk, %d said", i, n, c.w.Size())
		}
	}
	c.close()
	r, err := Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	streams := binary.BigEndian.Uint32(r.Base())
	records := binary.BigEndian.Uint64(r.Base()[4:])
	if f := r.Forgotten(); f.Blocks != int64(streams) || f.Records != int64(records) || f.Segments < 10*most/2000 || f.Unkept != 0 {
		t.Fatalf("forgotten %+v, the snapshot has %d and %d", f, streams, records)
	}
	kept := 0
	for {
		b, err := r.NextAny()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []Record
		for rec := range b.Records() {
			got = append(got, *rec)
		}
		compare(t, got, c.all[b.Stream])
		if b.Damaged != damaged[b.Stream] || b.Kept && !b.Damaged {
			t.Fatalf("stream %d: %+v", b.Stream, b)
		}
		delete(damaged, b.Stream)
		if b.Kept {
			kept++
			continue
		}
		if streams++; b.Stream != streams {
			t.Fatalf("stream %d after the snapshot, want %d", b.Stream, streams)
		}
		records += uint64(len(got))
	}
	if streams != c.streams || records != uint64(c.records) || len(damaged) != 0 || kept < 5 {
		t.Errorf("%d of %d streams, %d of %d records, %d kept, damaged ones missing: %v", streams, c.streams, records, c.records, kept, damaged)
	}
	if tr := r.Trailer(); tr.Blocks != int64(c.streams) || tr.Records != c.records || tr.Forgotten.Kept != int64(kept) {
		t.Errorf("trailer %+v", tr)
	}
}

func diskBytes(t *testing.T, dir string) int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestNextSkipsKept: who only judges never sees a stream that the snapshot has.
func TestNextSkipsKept(t *testing.T) {
	all := rotated(t)
	r, err := open(all, "d")
	if err != nil {
		t.Fatal(err)
	}
	streams := binary.BigEndian.Uint32(r.Base())
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if streams++; err != nil || b.Kept || b.Stream != streams {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	if streams != 30 {
		t.Errorf("%d streams", streams)
	}
}

// TestAllDamaged: findings in every stream stay within the bound too, and what there
// was no room for is counted.
func TestAllDamaged(t *testing.T) {
	const most = 20_000
	c := newClerk(t, Options{SegmentBytes: 2000, MaxBytes: most})
	for range 400 {
		c.stream(true, 8)
		if n := diskBytes(t, c.dir); n > most {
			t.Fatalf("%d bytes", n)
		}
	}
	c.close()
	r, err := Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := int64(0)
	for _, err = r.NextAny(); err == nil; _, err = r.NextAny() {
		n++
	}
	f := r.Forgotten()
	if err != io.EOF || f.Kept == 0 || f.Unkept == 0 || f.Kept+f.Unkept != f.Blocks || n != 400-f.Unkept {
		t.Errorf("%v, %d read, %+v", err, n, f)
	}
}

func TestErrorsAreFinal(t *testing.T) {
	broken := errors.New("no state")
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"snapshot fails":           {Options{SegmentBytes: 900, MaxBytes: 9000, Snapshot: func() ([]byte, error) { return nil, broken }}, "no state"},
		"a snapshot out of bounds": {Options{SegmentBytes: 900, MaxBytes: 9000, Snapshot: func() ([]byte, error) { return make([]byte, maxBlock+1), nil }}, "at most"},
	} {
		t.Run(name, func(t *testing.T) { mustEnd(t, newClerk(t, c.options), c.want) })
	}
	t.Run("no snapshot and no room", func(t *testing.T) {
		c := newClerk(t, Options{SegmentBytes: 900, MaxBytes: 9000})
		c.w.opt.Snapshot = nil
		mustEnd(t, c, "no snapshot to go on from")
	})
	t.Run("the disk fails", func(t *testing.T) {
		c := newClerk(t, Options{SegmentBytes: 900, MaxBytes: 9000})
		c.w.now.f.Close()
		mustEnd(t, c, "file already closed")
	})
	t.Run("a segment disappears", func(t *testing.T) {
		c := newClerk(t, Options{SegmentBytes: 900, MaxBytes: 9000})
		for range 3 {
			c.stream(false, 10)
		}
		if err := os.Remove(filepath.Join(c.dir, segmentName(1))); err != nil {
			t.Fatal(err)
		}
		mustEnd(t, c, "the file is missing")
	})
	t.Run("the tail is no JSON", func(t *testing.T) {
		c := newClerk(t, Options{})
		if err := c.w.Close(json.RawMessage("{"), 0); err == nil || c.w.Close(nil, 0) != err {
			t.Errorf("%v", err)
		}
	})
	t.Run("written to after Close", func(t *testing.T) {
		c := newClerk(t, Options{})
		c.close()
		if err := c.w.Stream(StreamLoad, 1, 1, false, nil); err == nil {
			t.Error("accepted")
		}
		if err := c.w.Close(nil, 0); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// mustEnd writes until the writer fails, and wants that error from then on.
func mustEnd(t *testing.T, c *clerk, want string) {
	t.Helper()
	records := healthy(c.rng, 1, 1, 10, 0, false)
	var first error
	for range 1000 {
		if first = c.w.Stream(StreamLoad, 1, 1, false, records); first != nil {
			break
		}
	}
	if first == nil || !strings.Contains(first.Error(), want) {
		t.Fatalf("%v, want %q", first, want)
	}
	if err := c.w.Stream(StreamLoad, 1, 2, false, nil); err != first {
		t.Errorf("the next call: %v", err)
	}
	if err := c.w.Close(nil, 0); err != first {
		t.Errorf("Close: %v", err)
	}
	var corrupt *CorruptError
	if _, _, err := drain(files(t, c.dir)); !errors.As(err, &corrupt) {
		t.Errorf("what was written counts as whole: %v", err)
	}
}

// TestDropped: what did not fit is in the account of its stream and of the run.
func TestDropped(t *testing.T) {
	c := newClerk(t, Options{})
	p := NewPool(PoolConfig{StreamBytes: 2048})
	r := p.Open(StreamGet, 4, 9)
	records := healthy(c.rng, 4, 9, 500, 0, false)
	for i := range records {
		r.Record(&records[i])
	}
	fit, dropped := r.Records(), r.Dropped()
	if dropped == 0 || fit < 30 || fit+dropped != int64(len(records)) {
		t.Fatalf("%d fit, %d dropped of %d", fit, dropped, len(records))
	}
	if err := c.w.Put(r, true); err != nil {
		t.Fatal(err)
	}
	if err := c.w.Close(nil, 5); err != nil {
		t.Fatal(err)
	}
	rd, err := Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := rd.Next()
	if err != nil || b.Kind != StreamGet || int64(b.Len) != fit || b.Dropped != dropped || !b.Damaged {
		t.Fatalf("%+v, %v", b, err)
	}
	var got []Record
	for rec := range b.Records() {
		got = append(got, *rec)
	}
	compare(t, got, records[:fit])
	if _, err := rd.Next(); err != io.EOF || rd.Trailer().Dropped != dropped+5 || rd.Trailer().Records != fit {
		t.Errorf("%v, %+v", err, rd.Trailer())
	}
}

// TestGolden holds the format: what this version writes, all others have to read.
func TestGolden(t *testing.T) {
	c := newClerk(t, Options{})
	c.stream(false, 2)
	c.stream(true, 3)
	c.close()
	for name, got := range map[string]fstest.MapFS{"tiny": files(t, c.dir), "rotated": rotated(t)} {
		dir := filepath.Join("testdata", name)
		for file, f := range got {
			if *update {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), f.Data, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || !bytes.Equal(f.Data, want) {
				t.Errorf("%s/%s has changed: %d bytes, were %d (%v)", name, file, len(f.Data), len(want), err)
			}
		}
		if _, _, err := drain(os.DirFS(dir)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
