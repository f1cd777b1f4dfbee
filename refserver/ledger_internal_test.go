package refserver

import "testing"

// Messages that the store did not take count against the bound like the others, and are
// given back with their call.
func TestLedger_WhatTheStoreDidNotTake_IsBounded(t *testing.T) {
	const calls, room = 3, 20
	l, err := NewLedger(LedgerConfig{Bytes: calls*(callBytes+64) + 8*room})
	if err != nil {
		t.Fatal(err)
	}
	noted := 0
	var names []string
	for i := range calls {
		e := l.begin(string(rune('a' + i)))
		names = append(names, e.token)
		for range 8 {
			e.intend(1)
			e.emitted(ErrUnstored)
		}
		e.ended(false)
		noted += len(e.unstored)
	}
	if noted != room || l.Dropped() != 8*calls-room {
		t.Errorf("%d noted, %d dropped; there is room for %d", noted, l.Dropped(), room)
	}
	if l.Take(names); l.bytes != 0 {
		t.Errorf("%d bytes are held for nobody", l.bytes)
	}
}
