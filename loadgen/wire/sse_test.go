package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// seen is everything that can be told of one connection.
type seen struct {
	events    []string // type, data and id of each
	cursor    string
	committed int
	retry     time.Duration
	hasRetry  bool
	illegal   Illegal
	err       error
}

func (s seen) String() string {
	var b strings.Builder
	for _, e := range s.events {
		b.WriteString(e + "\n")
	}
	return b.String() + s.tail()
}

func (s seen) tail() string {
	text := "nil"
	if s.err != nil {
		text = s.err.Error()
	}
	return strings.Join([]string{"cursor=" + s.cursor, "retry=" + s.retry.String(), "end=" + text}, " ")
}

func drain(r *Reader, in io.Reader, cursor string) seen {
	r.Reset(in, []byte(cursor))
	var s seen
	for {
		var ev Event
		if s.err = r.Next(&ev); s.err != nil {
			break
		}
		id := "-"
		if ev.HasID {
			id = string(ev.ID)
		}
		s.illegal |= ev.Illegal
		s.events = append(s.events, string(ev.Type)+"|"+string(ev.Data)+"|"+id)
	}
	s.cursor, s.committed = string(r.Cursor()), r.Committed()
	s.retry, s.hasRetry = r.Retry()
	return s
}

// pieces returns its parts one read at a time, then the error.
type pieces struct {
	parts []string
	err   error
}

func (p *pieces) Read(dst []byte) (int, error) {
	for len(p.parts) > 0 {
		if p.parts[0] == "" {
			p.parts = p.parts[1:]
			continue
		}
		n := copy(dst, p.parts[0])
		p.parts[0] = p.parts[0][n:]
		return n, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	return 0, io.EOF
}

// chunkings calls f with every way to cut s once, twice if it is short, and into bytes.
func chunkings(s string, f func(parts ...string)) {
	f(s)
	for i := 1; i < len(s); i++ {
		f(s[:i], s[i:])
		if len(s) > 64 {
			continue
		}
		for j := i + 1; j < len(s); j++ {
			f(s[:i], s[i:j], s[j:])
		}
	}
	f(strings.Split(s, "")...)
}

type vector struct {
	name, in, from string
	events         []string
	cursor         string
	retry          time.Duration
	err            error
	illegal        Illegal
}

func vectors() []vector {
	ms := time.Millisecond
	return []vector{
		{"cut inside a data line – discarded", "id: 1\ndata: a\n\nid: 2\ndata: b", "", []string{"message|a|1"}, "1", 0, ErrMidEvent, 0},
		{"cut before the blank line – discarded", "id: 1\ndata: a\n\nid: 2\ndata: b\n", "", []string{"message|a|1"}, "1", 0, ErrMidEvent, 0},
		{"bare id block – moves the cursor, dispatches nothing", "id: 1\n\n", "", nil, "1", 0, io.EOF, 0},
		{"id and empty data – dispatched empty", "id: 1\ndata:\n\n", "", []string{"message||1"}, "1", 0, io.EOF, 0},
		{"data without colon – dispatched empty", "data\n\n", "", []string{"message||-"}, "", 0, io.EOF, 0},
		{"two empty data lines – one LF", "data\ndata\n\n", "", []string{"message|\n|-"}, "", 0, io.EOF, 0},
		{"id without value – erases the cursor", "id: 1\ndata: a\n\nid\ndata: b\n\n", "", []string{"message|a|1", "message|b|"}, "", 0, io.EOF, 0},
		{"event without id – keeps the cursor", "id: 1\ndata: a\n\ndata: b\n\n", "", []string{"message|a|1", "message|b|-"}, "1", 0, io.EOF, 0},
		{"event without id on a new link – keeps the old cursor", "data: b\n\n", "7", []string{"message|b|-"}, "7", 0, io.EOF, 0},
		{"empty id on a new link – erases the old cursor", "id:\n\n", "7", nil, "", 0, io.EOF, 0},
		{"id of an unfinished block on a new link – old cursor", "id: 8\n", "7", nil, "7", 0, ErrMidEvent, 0},
		{"last id of a block counts", "id: 1\nid: 2\ndata: a\n\n", "", []string{"message|a|2"}, "2", 0, io.EOF, 0},
		{"id with NUL – ignored", "id: a\x00b\ndata: x\n\n", "7", []string{"message|x|-"}, "7", 0, io.EOF, IllegalID},
		{"retry with letters – ignored", "retry: 1x\ndata: x\n\n", "", []string{"message|x|-"}, "", 0, io.EOF, 0},
		{"retry with sign – ignored", "retry: +5\ndata: x\n\n", "", []string{"message|x|-"}, "", 0, io.EOF, 0},
		{"retry empty – ignored", "retry:\ndata: x\n\n", "", []string{"message|x|-"}, "", 0, io.EOF, 0},
		{"retry in an unfinished block – counts at once", "retry: 250\n", "", nil, "", 250 * ms, io.EOF, 0},
		{"only one space is removed", "data:  x\n\n", "", []string{"message| x|-"}, "", 0, io.EOF, 0},
		{"two data lines – joined by LF", "data: a\ndata: b\n\n", "", []string{"message|a\nb|-"}, "", 0, io.EOF, 0},
		{"lines between data lines – do not matter", "data: a\n: c\nid: 3\nx: y\ndata\nevent: t\ndata:b\n\n", "", []string{"t|a\n\nb|3"}, "3", 0, io.EOF, 0},
		{"CR line ends", "data: a\r\r", "", []string{"message|a|-"}, "", 0, io.EOF, 0},
		{"CRLF line ends", "data: a\r\n\r\n", "", []string{"message|a|-"}, "", 0, io.EOF, 0},
		{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n", "", []string{"message|a\nb\nc|-", "message|d|-"}, "", 0, io.EOF, 0},
		{"LF CR is two line ends", "data: a\n\rdata: b\n\r", "", []string{"message|a|-", "message|b|-"}, "", 0, io.EOF, 0},
		{"BOM – one is removed", "\ufeffdata: a\n\n", "", []string{"message|a|-"}, "", 0, io.EOF, 0},
		{"two BOMs – the second belongs to the name", "\ufeff\ufeffdata: a\n\ndata: b\n\n", "", []string{"message|b|-"}, "", 0, io.EOF, 0},
		{"BOM after a line – belongs to the name", "\n\ufeffdata: a\n\ndata: b\n\n", "", []string{"message|b|-"}, "", 0, io.EOF, 0},
		{"comment – nothing", ": ok\n\n", "", nil, "", 0, io.EOF, 0},
		{"half a comment – nothing lost", ": o", "", nil, "", 0, io.EOF, 0},
		{"half a name – something lost", "da", "", nil, "", 0, ErrMidEvent, 0},
		{"nothing", "", "", nil, "", 0, io.EOF, 0},
		{"type – given, then back to message", "event: ping\ndata: a\n\ndata: b\n\n", "", []string{"ping|a|-", "message|b|-"}, "", 0, io.EOF, 0},
		{"type without data – forgotten", "event: ping\n\ndata: b\n\n", "", []string{"message|b|-"}, "", 0, io.EOF, 0},
		{"names with case or spaces – unknown", "Data: a\n data: a\ndata : a\n\n", "", nil, "", 0, io.EOF, 0},
		{"invalid UTF-8 – kept raw, reported", "id: 1\ndata: \xff\xc3\x28\n\n", "", []string{"message|\xff\xc3\x28|1"}, "1", 0, io.EOF, IllegalUTF8},
		{"UTF-8 of all lengths – kept", "data: é€😀\n\n", "", []string{"message|é€😀|-"}, "", 0, io.EOF, 0},
		{"id that is no visible ASCII – counts, reported", "id: ä\ndata: a\n\n", "", []string{"message|a|ä"}, "ä", 0, io.EOF, IllegalID},
	}
}

func TestReaderVectors(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			want := seen{events: v.events, cursor: v.cursor, retry: v.retry, err: v.err}
			chunkings(v.in, func(parts ...string) {
				got := drain(new(Reader), &pieces{parts: append([]string(nil), parts...)}, v.from)
				if got.String() != want.String() || !errors.Is(got.err, v.err) || got.hasRetry != (v.retry > 0) {
					t.Fatalf("as %q:\ngot  %v\nwant %v", parts, got, want)
				}
				if got.illegal != v.illegal {
					t.Fatalf("as %q: illegal %b, want %b", parts, got.illegal, v.illegal)
				}
			})
		})
	}
}
