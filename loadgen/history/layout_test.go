package history

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestRecordsSurvive writes and reads random records: whatever the order and the
// values, every field that means something comes back.
func TestRecordsSurvive(t *testing.T) {
	p := NewPool(PoolConfig{})
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := randomRecords(rng, 1+rng.IntN(60))
		r := encode(t, p, rng.Uint32(), rng.Uint32(), want)
		got, ok := decode(payloadOf(r))
		if !ok {
			t.Fatalf("seed %d: not readable", seed)
		}
		compare(t, got, want)
		r.Discard()
	}
}

// TestEveryFieldIsWritten changes one field at a time, to several values, so that a
// field that is added to a Record and not to the layout is noticed.
func TestEveryFieldIsWritten(t *testing.T) {
	p := NewPool(PoolConfig{})
	rng := rand.New(rand.NewPCG(7, 7))
	for kind := range groups {
		plain := Record{Kind: kind, Session: 1, Stream: 2}
		for name := range leaves(&plain) {
			for range 40 {
				one, two := plain, plain
				randomise(rng, leaves(&two)[name])
				want := []Record{one, two, one}
				r := encode(t, p, 1, 2, want)
				got, ok := decode(payloadOf(r))
				if !ok {
					t.Fatalf("kind %d, %s: not readable", kind, name)
				}
				compare(t, got, want)
				r.Discard()
			}
		}
	}
}

// TestEveryFieldOfRecordHasAKind makes sure that the test above knows all fields.
func TestEveryFieldOfRecordHasAKind(t *testing.T) {
	known := []string{"Kind"}
	known = append(known, ordinary[:]...)
	ledger := map[string]bool{}
	for _, g := range groups {
		known = append(known, g.field)
		for _, name := range g.only {
			ledger[name] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Record]()) {
		if !slices.Contains(known, f.Name) {
			t.Errorf("Record.%s belongs to no kind", f.Name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Ledger]()) {
		if !ledger[f.Name] {
			t.Errorf("Ledger.%s belongs to no kind", f.Name)
		}
	}
}

func TestFloatsKeepTheirBits(t *testing.T) {
	p := NewPool(PoolConfig{})
	for _, f := range []float64{math.NaN(), math.Float64frombits(0x7ff8_0000_0000_1234), math.Copysign(0, -1)} {
		want := []Record{{Kind: KindEvent, Event: Event{Class: ClassProgress, Ordered: true, Progress: f}}}
		r := encode(t, p, 0, 0, want)
		got, _ := decode(payloadOf(r))
		compare(t, got, want)
		r.Discard()
	}
}

// TestForeignFieldsAreNotWritten: what a record carries beside the fields of its kind
// has no meaning, and does not come back.
func TestForeignFieldsAreNotWritten(t *testing.T) {
	p := NewPool(PoolConfig{})
	want := Record{Kind: KindEnd, At: 5, Session: 1, Stream: 2, End: EndReset}
	dirty := want
	dirty.Event, dirty.Probe, dirty.Outcome = Event{Hash: 9}, Probe{Status: 200}, OutcomeFailed
	r := encode(t, p, 1, 2, []Record{dirty})
	got, _ := decode(payloadOf(r))
	compare(t, got, []Record{want})
}

// TestSize holds the size of the history of ordinary calls: what two hashes leave over
// is at most five bytes an event, and a message that arrived costs its account one.
func TestSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := NewPool(PoolConfig{})
	for _, c := range []struct {
		name                     string
		live                     time.Duration
		perMessage, perRecordMax float64
	}{
		{"burst", 0, 21, 12},
		{"live, one each 50 ms", 50 * time.Millisecond, 22.5, 12},
	} {
		bytes, records, messages := 0, 0, 0
		for stream := range uint32(200) {
			all := healthy(rng, 1, stream+1, 50, c.live, stream%2 == 0)
			r := encode(t, p, 1, stream+1, all)
			bytes += len(payloadOf(r)) + frame
			records += len(all)
			messages += 50
			r.Discard()
		}
		perMessage, perRecord := float64(bytes)/float64(messages), float64(bytes)/float64(records)
		t.Logf("%s: %.2f bytes a record, %.2f bytes a message with its account and all else", c.name, perRecord, perMessage)
		if perRecord > c.perRecordMax || perMessage > c.perMessage+2.5 {
			t.Errorf("%s: %.2f bytes a record, %.2f a message", c.name, perRecord, perMessage)
		}
	}
}
