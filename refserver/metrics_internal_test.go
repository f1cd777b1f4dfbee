package refserver

import (
	"testing"

	"github.com/gapless-dev/gapless/refserver/store"
)

// A batch that is partly replay is divided at the end of an event, not by shares.
func TestFirstEvents(t *testing.T) {
	batch := store.Batch{Frames: []byte("id: 1\ndata: a\n\nid: 2\nretry: 9\ndata: bbbbbbbb\n\nid: 3\ndata: c\n\n"), Events: 3}
	for n, want := range []int{0, 15, 46, 61} {
		if got := firstEvents(batch, n); got != want {
			t.Errorf("the first %d events have %d bytes, want %d", n, got, want)
		}
	}
	if got := firstEvents(store.Batch{Frames: []byte("data: a"), Events: 3}, 2); got != 7 {
		t.Errorf("events that do not end: %d bytes", got)
	}
}
