package judge

import (
	"math/bits"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// MaxIDs bounds the event ids that a run compares across streams: 64-bit hashes in
// one table of at most 8 MiB. Past it a new id is still compared with those kept.
const MaxIDs = 1 << 18

// An idUse is one event that came with an id.
type idUse struct {
	id      uint64
	check   uint32 // of the message, 0 when there is none
	attempt uint16
}

// after says what the use of an id followed: what came on the first link followed no cut.
func (u *idUse) after() int32 {
	if u.attempt == 0 {
		return afterNone
	}
	return afterLast
}

// noteID notes the id of an event that was read from the stream's current link.
func (s *Stream) noteID(r *history.Record) {
	e := &r.Event
	s.cursor, s.cursorAt, s.hasID = e.Cursor, r.At, true
	if e.Class == history.ClassEmpty && e.IDHash == s.lastID {
		return // a link that begins with the cursor again says nothing new
	}
	s.lastID = e.IDHash
	if len(s.ids) >= maxStreamIDs {
		s.idsOver++
		return
	}
	check := uint32(0)
	if e.Class != history.ClassEmpty {
		check = uint32(e.Hash>>32) ^ uint32(e.Class)<<24 | 2 // never that of no message
	}
	s.ids = append(s.ids, idUse{id: e.IDHash, check: check, attempt: r.Attempt})
}

// compareIDs looks for ids that name two events of this stream. Twice on one link is
// an id that is not unique; another message on a later link is a replay that is not
// stable. It leaves the distinct ids, in the order in which they came.
func (s *Stream) compareIDs() {
	s.check(uniqueIDs, int64(len(s.ids)))
	set, _ := s.judge.sets.Get().(*idSet)
	if set == nil {
		set = &idSet{}
	}
	set.reset(len(s.ids))
	kept := 0
	for i := range s.ids {
		u := s.ids[i]
		at := set.place(s.ids, u.id)
		if *at == 0 {
			s.ids[kept] = u
			kept++
			*at = uint16(kept)
			continue
		}
		first := &s.ids[*at-1]
		s.check(stableIDs, 1)
		switch {
		case first.check == u.check:
		case first.attempt == u.attempt:
			s.find(uniqueIDs, finding{what: "one id names two events of this stream", after: u.after()})
		default:
			s.find(stableIDs, finding{what: "replayed under the same id it is another message"})
		}
	}
	s.ids = s.ids[:kept]
	s.judge.sets.Put(set)
}

// An idSet finds the distinct ids of one stream: open addressing over their indexes.
// maxStreamIDs keeps an index within 16 bits.
type idSet struct {
	slots []uint16 // index+1, 0 is free
	shift uint
}

// reset makes room for n ids, at most half of it taken.
func (t *idSet) reset(n int) {
	t.shift = 64 - uint(bits.Len(uint(max(n, 8)))) - 1
	size := 1 << (64 - t.shift)
	if cap(t.slots) < size {
		t.slots = make([]uint16, size)
	}
	t.slots = t.slots[:size]
	clear(t.slots)
}

// place returns the slot of an id: it holds its index+1, or 0 and is the one to fill.
func (t *idSet) place(ids []idUse, id uint64) *uint16 {
	mask := len(t.slots) - 1
	for i := int(scatter(id) >> t.shift); ; i = (i + 1) & mask {
		if slot := &t.slots[i]; *slot == 0 || ids[*slot-1].id == id {
			return slot
		}
	}
}

// scatter spreads ids whose hashes are close to one another.
func scatter(id uint64) uint64 { return id * 0x9e3779b97f4a7c15 }

// An idTable holds the ids of closed streams, keyed by session and id.
type idTable struct {
	slots []idSlot
	used  int
	over  int64 // ids that found no room
}

type idSlot struct {
	key    uint64 // 0 is free
	stream uint32
	check  uint32 // as idUse.check; the lowest bit tells a strange stream
}

// claim registers an id for a stream, and tells whether it named another event before:
// one of another stream. What a stream got that belongs to others it may have got under
// their ids: there the same message, or none, under the same id is the same event. Such
// streams are strange.
func (t *idTable) claim(session uint32, u *idUse, stream uint32, strange bool) (other bool) {
	if t.used*3 >= len(t.slots)*2 && t.used < MaxIDs {
		t.grow(4 * len(t.slots))
	}
	key := solid(blend(int64(session), u.id))
	slot, mine := t.find(key), idSlot{key, stream, u.check &^ 1}
	if strange {
		mine.check |= 1
	}
	switch {
	case slot.key == key && slot.stream == stream:
	case slot.key == key:
		same, odd := slot.check&^1 == mine.check&^1, (slot.check|mine.check)&1 == 1
		if slot.check&1 == 1 && same {
			*slot = mine // the next one is compared with the stream that it belongs to
		}
		return !same || !odd
	case t.used >= MaxIDs:
		t.over++
	default:
		*slot = mine
		t.used++
	}
	return false
}

// find returns the slot of a key: its own, or the free one that it would take.
func (t *idTable) find(key uint64) *idSlot {
	mask := uint64(len(t.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		if slot := &t.slots[i]; slot.key == key || slot.key == 0 {
			return slot
		}
	}
}

// Sizes of the table. The largest leaves MaxIDs half of the slots.
const (
	leastSlots = 1 << 6
	mostSlots  = 2 * MaxIDs
)

// grow makes room for at least want slots: a power of two, within bounds.
func (t *idTable) grow(want int) {
	want = min(max(want, leastSlots), mostSlots)
	old := t.slots
	t.slots = make([]idSlot, 1<<bits.Len(uint(want-1)))
	for _, slot := range old {
		if slot.key == 0 {
			continue
		}
		*t.find(slot.key) = slot
	}
}

// claimIDs compares the ids of s with those of the session's other streams. The
// Judge's lock is held.
func (s *Stream) claimIDs(t *idTable) {
	if t.slots == nil && len(s.ids) > 0 {
		t.grow(2 * s.judge.setup.Streams * len(s.ids)) // if all streams are like the first
	}
	for i := range s.ids {
		if s.ids[i].check == 0 && s.hears() {
			continue // the GET stream of a session may have carried other calls before
		}
		if t.claim(s.session, &s.ids[i], s.stream, s.msgs.Foreign > 0) {
			s.find(uniqueIDs, finding{what: "another event of the session has the id too", after: s.ids[i].after()})
		}
	}
	s.lines.markLast(s.now.mark)
}
