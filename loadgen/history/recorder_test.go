package history

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRecordAllocatesNothing: recording costs no garbage once a buffer is there.
func TestRecordAllocatesNothing(t *testing.T) {
	p := NewPool(PoolConfig{})
	records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 50, time.Millisecond, true)
	r := encode(t, p, 1, 1, records)
	if n := testing.AllocsPerRun(100, func() {
		r.coder.reset(false, r.coder.data[:0], 1, 1)
		for i := range records {
			r.Record(&records[i])
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d records", n, len(records))
	}
}

// TestReadingAllocatesNothing: a reader's memory does not grow with the history.
func TestReadingAllocatesNothing(t *testing.T) {
	records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 50, time.Millisecond, true)
	b, ok := parseBlock(payloadOf(encode(t, NewPool(PoolConfig{}), 1, 1, records)))
	if b.reader = new(Reader); !ok {
		t.Fatal("not readable")
	}
	if n := testing.AllocsPerRun(100, func() {
		for r := range b.Records() {
			_ = r
		}
	}); n > 5 {
		t.Errorf("%v allocations for %d records", n, len(records))
	}
}

// TestMemoryIsBounded opens more streams than there is memory for.
func TestMemoryIsBounded(t *testing.T) {
	const total = 64 << 10
	p := NewPool(PoolConfig{TotalBytes: total})
	records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 200, 0, false)
	var open []*Recorder
	dropped := int64(0)
	for n := range uint32(40) {
		r := p.Open(StreamLoad, 1, n)
		for i := range records {
			r.Record(&records[i])
		}
		if p.used.Load() > total {
			t.Fatalf("%d bytes in use", p.used.Load())
		}
		dropped += r.Dropped()
		open = append(open, r)
	}
	if dropped == 0 || open[0].Dropped() != 0 {
		t.Errorf("%d dropped in all, %d of the first stream", dropped, open[0].Dropped())
	}
	last := open[len(open)-1]
	for _, r := range open[:len(open)-1] {
		r.Discard()
	}
	had := last.Records()
	if last.Record(&records[0]); last.Records() != had {
		t.Error("a hole in the middle: recorded again once there was memory")
	}
	last.Discard()
	if n := p.used.Load(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
	r := p.Open(StreamLoad, 1, 1)
	for i := range records {
		r.Record(&records[i])
	}
	if r.Dropped() != 0 {
		t.Errorf("%d dropped although all memory is free again", r.Dropped())
	}
}

// TestWhatIsNoRecordIsDropped, with all that follows, and leaves nothing behind.
func TestWhatIsNoRecordIsDropped(t *testing.T) {
	good := Record{Kind: KindEnd, Session: 1, Stream: 1, End: EndReset}
	many := Record{Kind: KindInjection, Session: 1, Stream: 1}
	for name, bad := range map[string]Record{
		"no kind":         {},
		"an unknown kind": {Kind: 15},
		"a large kind":    {Kind: 0x11},
		"a long name":     {Kind: KindInjection, Injection: Injection{Kind: strings.Repeat("x", maxName+1)}},
	} {
		r := encode(t, NewPool(PoolConfig{}), 1, 1, []Record{good, many})
		r.Record(&bad)
		r.Record(&good)
		got, ok := decode(payloadOf(r))
		if !ok || r.Records() != 2 || r.Dropped() != 2 {
			t.Fatalf("%s: %d records, %d dropped, readable %v", name, r.Records(), r.Dropped(), ok)
		}
		compare(t, got, []Record{good, many})
	}
	r := NewPool(PoolConfig{}).Open(StreamLoad, 1, 1)
	for i := range 2 * maxNames {
		many.Injection.Place = strings.Repeat("p", i/2)
		r.Record(&many)
	}
	if r.Dropped() == 0 && len(r.coder.names) > maxNames {
		t.Errorf("%d names", len(r.coder.names))
	}
}

func TestTwiceGivenBack(t *testing.T) {
	r := NewPool(PoolConfig{}).Open(StreamLoad, 1, 1)
	r.Discard()
	defer func() {
		if recover() == nil {
			t.Error("a recorder may be given back twice, and then be lent to two streams")
		}
	}()
	r.Discard()
}

// TestPoolIsShared by goroutines, whose streams do not mix.
func TestPoolIsShared(t *testing.T) {
	p := NewPool(PoolConfig{})
	var group sync.WaitGroup
	for g := range uint32(4) {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for n := range uint32(50) {
				want := healthy(rng, g, n, int(n), 0, n%2 == 0)
				r := p.Open(StreamLoad, g, n)
				for i := range want {
					r.Record(&want[i])
				}
				got, ok := decode(payloadOf(r))
				if !ok || len(got) != len(want) || !same(&got[len(got)/2], &want[len(got)/2]) {
					t.Errorf("stream %d of %d", n, g)
				}
				r.Discard()
			}
		})
	}
	group.Wait()
	if n := p.used.Load(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, live := range map[string]time.Duration{"burst": 0, "live": 50 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 50, live, true)
			r := NewPool(PoolConfig{}).Open(StreamLoad, 1, 1)
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(records) {
				r.coder.reset(false, r.coder.data[:0], 1, 1)
				for i := range records {
					r.Record(&records[i])
				}
			}
			b.ReportMetric(float64(len(r.coder.data))/float64(len(records)), "bytes/record")
		})
	}
}

func BenchmarkPut(b *testing.B) {
	records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 50, time.Millisecond, true)
	w, err := Create(b.TempDir(), testHeader, Options{MaxBytes: 64 << 20, Snapshot: func() ([]byte, error) { return make([]byte, 1000), nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(records) {
		if err := w.Stream(StreamLoad, 1, 1, false, records); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(nil, 0); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRead(b *testing.B) {
	records := healthy(rand.New(rand.NewPCG(1, 1)), 1, 1, 50, time.Millisecond, true)
	block, _ := parseBlock(payloadOf(encode(b, NewPool(PoolConfig{}), 1, 1, records)))
	block.reader = new(Reader)
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(records) {
		for r := range block.Records() {
			_ = r
		}
	}
}
