package scan

import (
	"strings"
	"testing"
)

// FuzzChunking feeds whole responses, legal or not: the marks must not depend on how
// they arrive, starts and ends must alternate, and nothing may follow the end.
func FuzzChunking(f *testing.F) {
	for _, body := range bodies {
		f.Add(frame(body, FramingChunked, 4), uint16(1))
		f.Add(frame(body, FramingClose, 0), uint16(3))
	}
	f.Fuzz(func(t *testing.T, raw string, piece uint16) {
		want := follow(t, raw, len(raw)+1)
		same(t, int(piece), follow(t, raw, int(piece)+1), want)
		open, over, last := false, false, -1
		for _, m := range want.marks {
			if over || m.at < last {
				t.Fatalf("mark behind the end, or going back: %+v", want.marks)
			}
			last = m.at
			switch m.mark {
			case EventStart:
				if open {
					t.Fatalf("two starts: %+v", want.marks)
				}
				open = true
			case EventEnd, BlockEnd:
				if !open {
					t.Fatalf("an end without a start: %+v", want.marks)
				}
				open = false
			case Broken, BodyEnd:
				over = true
			}
		}
	})
}

// FuzzAgainstSecondReading feeds event streams and compares with the naive reading.
func FuzzAgainstSecondReading(f *testing.F) {
	for _, body := range bodies {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 1<<16 || strings.Contains(body, "\xef\xbb") && !strings.HasPrefix(body, "\xef\xbb\xbf") {
			return
		}
		agree(t, body, !undecided(body))
	})
}

// FuzzPrefix cuts a response: what was marked in a prefix is marked in the whole.
func FuzzPrefix(f *testing.F) {
	f.Add(frame(bodies["mixed"], FramingChunked, 2), uint16(90))
	f.Add(frame(bodies["data lines"], FramingClose, 0), uint16(120))
	f.Fuzz(func(t *testing.T, raw string, cut uint16) {
		whole := follow(t, raw, 64)
		part := follow(t, raw[:min(int(cut), len(raw))], 64)
		if len(part.marks) > len(whole.marks) || !strings.HasPrefix(whole.payload, part.payload) {
			t.Fatalf("a prefix says more than the whole: %+v and %+v", part, whole)
		}
		for i, m := range part.marks {
			if m != whole.marks[i] {
				t.Fatalf("mark %d: %+v in the prefix, %+v in the whole", i, m, whole.marks[i])
			}
		}
	})
}
