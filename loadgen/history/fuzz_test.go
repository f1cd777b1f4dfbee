package history

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/fstest"
	"time"
)

// FuzzReader reads any bytes as the first and the second segment, and as a base. It
// ends with a CorruptError or at a trailer, and never in between.
func FuzzReader(f *testing.F) {
	tiny, err := os.ReadFile("testdata/tiny/history.000001")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tiny, []byte(nil), []byte(nil))
	f.Add(tiny[:200], tiny, tiny)
	f.Add(forge(roleSegment, 1, `{"format":1}`, []byte("S\x00\x01\x01\x00\x01\x05"), []byte(`T{"segments":1,"blocks":1,"records":1}`)), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, one, two, base []byte) {
		fsys := fstest.MapFS{"history.000001": {Data: one}}
		if len(two) > 0 {
			fsys["history.000002"] = &fstest.MapFile{Data: two}
		}
		if len(base) > 0 {
			fsys[baseName] = &fstest.MapFile{Data: base}
		}
		_, _, err := drain(fsys)
		var corrupt *CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			t.Fatalf("%v", err)
		}
		if err != nil && (corrupt.File == "" || corrupt.Offset < 0 || corrupt.What == "") {
			t.Fatalf("no place: %#v", corrupt)
		}
	})
}

// FuzzStream reads any bytes as the payload of a stream, checksum aside. What can be
// read can be written again, and is then the same.
func FuzzStream(f *testing.F) {
	p := NewPool(PoolConfig{})
	rng := rand.New(rand.NewPCG(9, 9))
	again := []Record{{Kind: KindAttempt, Exchange: Exchange{Call: 7}}, {Kind: KindEvent, Event: Event{Class: ClassNotification, Digest: DigestWrong}},
		{Kind: KindProbe, Probe: Probe{Name: ProbeReissue, Offered: true, Want: 5, Messages: 5, Foreign: 1, Response: true, Took: time.Second}}}
	for _, records := range [][]Record{nil, healthy(rng, 1, 1, 4, time.Millisecond, true), randomRecords(rng, 30), again} {
		r := p.Open(StreamLoad, 1, 1)
		for i := range records {
			r.Record(&records[i])
		}
		f.Add(payloadOf(r))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		records, ok := decode(payload)
		if !ok {
			return
		}
		r := p.Open(StreamLoad, 1, 1)
		defer r.Discard()
		for i := range records {
			r.Record(&records[i])
		}
		again, ok := decode(payloadOf(r))
		if !ok || r.Dropped() != 0 {
			t.Fatalf("%d of %d records, readable %v", r.Records(), len(records), ok)
		}
		compare(t, again, records)
	})
}

// TestReadAfterError: the first error is final.
func TestReadAfterError(t *testing.T) {
	all := rotated(t)
	name := segments(all)[1]
	r, err := open(with(all, name, all[name].Data[:300]), "d")
	if err != nil {
		t.Fatal(err)
	}
	var first error
	for _, first = r.Next(); first == nil; _, first = r.Next() {
	}
	if _, err := r.Next(); first == io.EOF || err != first {
		t.Errorf("%v, then %v", first, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = open(all, "d"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := r.Next(); err == nil {
		t.Error("read after Close")
	}
}
