package wire

import "testing"

// FuzzReader: any chunking gives the events of the naive reader; a prefix gives a prefix of
// the events and no cursor past its last blank line.
func FuzzReader(f *testing.F) {
	for i, v := range vectors() {
		f.Add(v.in, v.from, uint64(i), uint16(len(v.in)/2))
	}
	f.Fuzz(func(t *testing.T, in, cursor string, seed uint64, cut uint16) {
		if len(in) > 1<<14 || len(cursor) > 64 {
			t.Skip("nothing new in size")
		}
		checkReader(t, in, cursor, split(in, seed), int(cut)%(len(in)+1))
	})
}

// FuzzResponse: what net/http makes of a response, wherever the bytes are cut.
func FuzzResponse(f *testing.F) {
	for i, raw := range responses() {
		if i%9 == 0 {
			f.Add(raw, uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, raw string, seed uint64) {
		if len(raw) > 1<<14 {
			t.Skip("nothing new in size")
		}
		checkResponse(t, raw, seed)
	})
}

// FuzzScan: what encoding/json makes of a message.
func FuzzScan(f *testing.F) {
	for _, v := range messages() {
		f.Add([]byte(v.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			t.Skip("nothing new in size")
		}
		checkScan(t, data)
	})
}
