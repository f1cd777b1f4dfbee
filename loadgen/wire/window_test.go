package wire

import "testing"

// TestTakeMovesTheShorterSide: a large event in tiny chunks must not be moved once per chunk,
// and a large chunk must not be moved for the few bytes before it.
func TestTakeMovesTheShorterSide(t *testing.T) {
	for _, tt := range []struct {
		name       string
		kept, raw  string
		take       int
		wantA      int
		wantB      int
		wantResult string
	}{
		{"nothing kept – nothing moves", "", "rawraw", 6, 5, 11, "rawraw"},
		{"little kept – it moves", "ab", "rawraw", 4, 5, 11, "abrawr"},
		{"much kept – the new bytes move", "abcdefgh", "rawraw", 3, 0, 11, "abcdefghraw"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := window{buf: []byte(tt.kept + "-gap-" + tt.raw)}
			w.b, w.r, w.w = len(tt.kept), len(tt.kept)+5, len(w.buf)
			w.take(tt.take)
			if got := string(w.buf[w.a:w.b]); got != tt.wantResult || w.a != tt.wantA || w.b != tt.wantB {
				t.Errorf("%q at %d:%d", got, w.a, w.b)
			}
			if got := string(w.raw()); got != tt.raw[tt.take:] {
				t.Errorf("left %q", got)
			}
		})
	}
}
