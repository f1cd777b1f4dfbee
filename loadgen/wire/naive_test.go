package wire

import (
	"io"
	"strings"
	"testing"
	"time"
)

// naive reads a whole stream the slow way, straight from the rules of WHATWG HTML §9.2.6:
// a second reader, to compare with.
func naive(in, cursor string) seen {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	rest := lines[len(lines)-1]
	s := seen{cursor: cursor, err: io.EOF}
	var data []string
	typ, id, hasID, typed := "", "", false, false
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			shown := "-"
			if hasID {
				s.cursor, shown = id, id
				s.committed++
			}
			if data != nil {
				if typ == "" {
					typ = "message"
				}
				s.events = append(s.events, typ+"|"+strings.Join(data, "\n")+"|"+shown)
			}
			data, typ, hasID, typed = nil, "", false, false
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			typ, typed = value, true
		case "id":
			if !strings.Contains(value, "\x00") {
				id, hasID = value, true
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				s.retry, s.hasRetry = naiveRetry(value), true
			}
		}
	}
	if data != nil || hasID || typed || rest != "" && rest[0] != ':' {
		s.err = ErrMidEvent
	}
	return s
}

func naiveRetry(digits string) time.Duration {
	digits = strings.TrimLeft(digits, "0")
	const most = 9223372036854 * time.Millisecond
	if len(digits) > 13 {
		return most
	}
	n := time.Duration(0)
	for _, c := range digits {
		n = n*10 + time.Duration(c-'0')
	}
	return min(n*time.Millisecond, most)
}

// lastBlank returns the part of a stream up to and including its last blank line.
func lastBlank(in string) string {
	end := 0
	for i := range in {
		if in[i] != '\n' && in[i] != '\r' {
			continue
		}
		if in[i] == '\n' && i > 0 && in[i-1] == '\r' {
			if end == i {
				end = i + 1 // the second half of the CRLF that made the line blank
			}
			continue
		}
		// A line ends here; it is blank when nothing but a line end is before it.
		if i == 0 || in[i-1] == '\n' || in[i-1] == '\r' {
			end = i + 1
		}
	}
	return in[:end]
}

// checkReader holds the reader to the naive one under one way to cut the stream, and checks
// that a prefix of the stream never moves the cursor past its own last blank line.
func checkReader(t *testing.T, in, cursor string, parts []string, cut int) {
	t.Helper()
	want := naive(in, cursor)
	got := drain(new(Reader), &pieces{parts: parts}, cursor)
	if got.String() != want.String() || got.committed != want.committed || got.hasRetry != want.hasRetry {
		t.Fatalf("stream %q:\ngot  %v (%d ids)\nwant %v (%d ids)", in, got, got.committed, want, want.committed)
	}
	prefix := in[:cut]
	head := drain(new(Reader), &pieces{parts: []string{prefix}, err: io.ErrUnexpectedEOF}, cursor)
	if len(head.events) > len(got.events) {
		t.Fatalf("prefix %q has events that the stream has not: %v", prefix, head)
	}
	for i, ev := range head.events {
		if ev != got.events[i] {
			t.Fatalf("event %d of prefix %q is %q, of the stream %q", i, prefix, ev, got.events[i])
		}
	}
	whole := drain(new(Reader), &pieces{parts: []string{lastBlank(prefix)}}, cursor)
	if head.cursor != whole.cursor || head.committed != whole.committed || len(head.events) != len(whole.events) {
		t.Fatalf("prefix %q moved past its last blank line: %v, want %v", prefix, head, whole)
	}
	if head.err != io.ErrUnexpectedEOF {
		t.Fatalf("prefix %q ended with %v", prefix, head.err)
	}
}

// split cuts s at places drawn from seed, into pieces of 1 to 7 bytes or larger ones.
func split(s string, seed uint64) []string {
	var parts []string
	for len(s) > 0 {
		seed = seed*6364136223846793005 + 1442695040888963407
		n := int(seed>>33)%7 + 1
		if seed>>62 == 0 {
			n *= 200
		}
		n = min(n, len(s))
		parts, s = append(parts, s[:n]), s[n:]
	}
	return parts
}

func TestReaderAgreesWithNaive(t *testing.T) {
	words := []string{
		"data", "data:", "data: a", "data:b", "id", "id: 1", "id:22", "id: a\x00", "event: ping", "event:", "retry: 5",
		"retry: 99999999999999999999", "retry: -1", ": comment", ":", "x: y", "\ufeff", "\n", "\n", "\r", "\r\n", "\n\n", "\r\r", " ", "é",
	}
	seed := uint64(1)
	next := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	for range 4000 {
		var b strings.Builder
		for range next(24) {
			b.WriteString(words[next(len(words))])
		}
		in := b.String()
		checkReader(t, in, "7", split(in, uint64(next(1<<20))), next(len(in)+1))
	}
}

func TestLastBlank(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "", "a\n": "", "a\n\n": "a\n\n", "a\n\nb": "a\n\n", "a\r\n": "", "a\r\n\r\nb\r\n": "a\r\n\r\n",
		"a\r\r": "a\r\r", "\n": "\n", "\r\n": "\r\n", "a\n\r\nb": "a\n\r\n", "a\n\r": "a\n\r",
	} {
		if got := lastBlank(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
