package history

import (
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files again")

// groups names, for each kind, the fields of Record that mean something, At and what
// says where left out.
var groups = map[Kind]struct {
	field string
	only  []string // nil: all
}{
	KindAttempt:       {"Exchange", nil},
	KindHead:          {"Head", nil},
	KindEvent:         {"Event", nil},
	KindInjection:     {"Injection", nil},
	KindEnd:           {"End", nil},
	KindSettled:       {"Outcome", nil},
	KindLedgerMessage: {"Ledger", []string{"Seq", "Hash", "Fate"}},
	KindLedgerCall:    {"Ledger", []string{"Known", "Emitted", "Executions", "Responses", "Cancelled", "Answers", "CancelSeen"}},
	KindProbe:         {"Probe", nil},
	KindPoll:          {"Poll", nil},
}

var ordinary = [...]string{"At", "Session", "Stream", "Attempt", "Link"}

// leaves returns the settable fields of r that mean something for its kind.
func leaves(r *Record) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	v := reflect.ValueOf(r).Elem()
	for _, name := range ordinary {
		out[name] = v.FieldByName(name)
	}
	g := groups[r.Kind]
	group := v.FieldByName(g.field)
	if group.Kind() != reflect.Struct {
		out[g.field] = group
		return out
	}
	for i := range group.NumField() {
		name := group.Type().Field(i).Name
		if g.only == nil {
			out[g.field+"."+name] = group.Field(i)
			continue
		}
		for _, o := range g.only {
			if o == name {
				out[g.field+"."+name] = group.Field(i)
			}
		}
	}
	return out
}

// randomise sets v to a value that is small, extreme or anything.
func randomise(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.String:
		names := [...]string{"", "rst", "fin", "storm", "mid-event", "resume-before-first-event", "ä\x00\xff"}
		v.SetString(names[rng.IntN(len(names))])
	case reflect.Float64:
		floats := [...]float64{0, 1, -1, 0.5, 1 << 60, math.Inf(1), math.Copysign(0, -1), rng.Float64()}
		v.SetFloat(floats[rng.IntN(len(floats))])
	case reflect.Int, reflect.Int32, reflect.Int64:
		least, most := int64(math.MinInt64)>>(64-v.Type().Bits()), int64(math.MaxInt64)>>(64-v.Type().Bits())
		ints := [...]int64{0, 0, 1, -1, 2, 200, least, most, least + 1, rng.Int64N(1 << 20), rng.Int64() >> (64 - v.Type().Bits())}
		v.SetInt(ints[rng.IntN(len(ints))])
	default:
		most := uint64(math.MaxUint64) >> (64 - v.Type().Bits())
		uints := [...]uint64{0, 0, 1, 2, 3, most, most - 1, most / 2, most/2 + 1, rng.Uint64() & most}
		v.SetUint(uints[rng.IntN(len(uints))])
	}
}

// randomRecords are records of all kinds in no order that makes sense.
func randomRecords(rng *rand.Rand, n int) []Record {
	out := make([]Record, n)
	for i := range out {
		r := &out[i]
		r.Kind = Kind(1 + rng.IntN(len(groups)))
		if i > 0 && rng.IntN(3) > 0 {
			r.At, r.Session, r.Stream, r.Attempt, r.Link = out[i-1].At, out[i-1].Session, out[i-1].Stream, out[i-1].Attempt, out[i-1].Link
		}
		fields := leaves(r)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if rng.IntN(3) == 0 || (i == 0 && name == "At") {
				randomise(rng, fields[name])
			}
		}
		if r.Kind == KindLedgerMessage && i > 0 && rng.IntN(2) == 0 { // about an event of before
			if e := &out[rng.IntN(i)]; e.Kind == KindEvent {
				r.Ledger.Hash = e.Event.Hash
			}
		}
	}
	return out
}

// healthy are the records of a call that nothing happened to but, if cut is set, one
// fault that it survived. They look like those of a live run: live says how long
// one message is after the other.
func healthy(rng *rand.Rand, session, stream uint32, messages int, live time.Duration, cut bool) []Record {
	var out []Record
	at := time.Duration(stream) * time.Millisecond
	base := Record{Session: session, Stream: stream, Link: 3 * stream}
	add := func(kind Kind, fill func(*Record)) {
		r := base
		r.Kind, r.At = kind, at
		if fill != nil {
			fill(&r)
		}
		out = append(out, r)
	}
	open := func(cursor uint32, missed int32) {
		add(KindAttempt, func(r *Record) {
			r.Exchange = Exchange{Resume: base.Attempt > 0, Cursor: cursor}
			if base.Attempt > 0 {
				r.Exchange.Asked, r.Exchange.Waited = 100*time.Millisecond, 101*time.Millisecond+time.Duration(rng.IntN(1e6))
			}
		})
		at += 300 * time.Microsecond
		add(KindHead, func(r *Record) { r.Head = Head{Status: 200, Body: BodySSE, Missed: missed} })
	}
	open(0, -1)
	add(KindEvent, func(r *Record) { r.Event = Event{Class: ClassEmpty, HasID: true, IDHash: rng.Uint64(), Cursor: 1} })
	hashes := make([]uint64, messages)
	for i := range messages {
		hashes[i] = rng.Uint64()
		at += live + time.Duration(rng.IntN(300_000))
		if cut && i == messages/2 {
			add(KindInjection, func(r *Record) {
				r.Injection = Injection{Kind: "rst", Place: "between-events", Event: uint32(i + 1), AfterID: true, Ends: true}
			})
			add(KindEnd, func(r *Record) { r.End = EndReset })
			base.Attempt, base.Link = 1, base.Link+1
			open(uint32(i+1), 2)
		}
		n := int64(i + 1)
		add(KindEvent, func(r *Record) {
			r.Event = Event{Class: ClassProgress, Owner: OwnerSelf, HasID: true, IDHash: rng.Uint64(), Cursor: uint32(n + 1),
				Seq: n, Total: int64(messages), Ordered: true, Progress: float64(n), Hash: hashes[i], Bytes: 256}
		})
	}
	add(KindEvent, func(r *Record) {
		r.Event = Event{Class: ClassResponse, Owner: OwnerSelf, HasID: true, IDHash: rng.Uint64(), Cursor: uint32(messages + 2), Hash: rng.Uint64(), Bytes: 120}
	})
	add(KindEnd, func(r *Record) { r.End = EndClean })
	add(KindSettled, func(r *Record) { r.Outcome = OutcomeCompleted })
	at, base.Attempt, base.Link = 0, 0, 0
	for i := range messages {
		add(KindLedgerMessage, func(r *Record) { r.Ledger = Ledger{Seq: int64(i + 1), Hash: hashes[i], Fate: FateAccepted} })
	}
	add(KindLedgerCall, func(r *Record) { r.Ledger = Ledger{Known: true, Emitted: int64(messages), Executions: 1, Responses: 1} })
	return out
}

// encode records the records; all of them have to fit.
func encode(t testing.TB, p *Pool, session, stream uint32, records []Record) *Recorder {
	t.Helper()
	r := p.Open(StreamLoad, session, stream)
	for i := range records {
		r.Record(&records[i])
	}
	if r.Dropped() != 0 || r.Records() != int64(len(records)) {
		t.Fatalf("%d of %d records, %d dropped", r.Records(), len(records), r.Dropped())
	}
	return r
}

// decode reads a payload back.
func decode(payload []byte) ([]Record, bool) {
	b, ok := parseBlock(payload)
	if !ok {
		return nil, false
	}
	b.reader = new(Reader)
	var out []Record
	for r := range b.all(&ok) {
		out = append(out, *r)
	}
	return out, ok
}

func payloadOf(r *Recorder) []byte { return append(r.appendPrelude(nil), r.coder.data...) }

// same is equality, down to the bits of floats.
func same(a, b *Record) bool {
	x, y := *a, *b
	if math.Float64bits(x.Event.Progress) != math.Float64bits(y.Event.Progress) {
		return false
	}
	x.Event.Progress, y.Event.Progress = 0, 0
	return x == y
}

func compare(t *testing.T, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !same(&got[i], &want[i]) {
			t.Fatalf("record %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}
