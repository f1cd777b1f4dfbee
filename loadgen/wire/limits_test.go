package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// endless repeats a text for ever and counts what it gave out.
type endless struct {
	head, text string
	given      int
}

func (e *endless) Read(dst []byte) (int, error) {
	if e.head != "" {
		n := copy(dst, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	for n := 0; n < len(dst); {
		k := copy(dst[n:], e.text[e.given%len(e.text):])
		n, e.given = n+k, e.given+k
	}
	return len(dst), nil
}

// TestHostileStreamsAreBounded feeds what never ends and wants an error before much memory
// is used.
func TestHostileStreamsAreBounded(t *testing.T) {
	limits := Limits{Line: 1 << 16, Head: 1 << 12, Event: 1 << 17}
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	tests := []struct{ name, head, text, what string }{
		{"line without end – over the line bound", ok + "\r\n", "data: aaaa", "line"},
		{"comment without end – over the line bound", ok + "\r\n: ", "aaaaaaaaaaaa", "line"},
		{"data lines without blank line – over the event bound", ok + "\r\n", "data: 0123456789\n", "event"},
		{"data lines with CR – over the event bound", ok + "\r\n", "data: 0123456789\r", "event"},
		{"empty data lines – over the event bound", ok + "\r\n", "data\n", "event"},
		{"id without end – over the line bound", ok + "\r\nid: ", "1", "line"},
		{"head without end – over the head bound", "HTTP/1.1 200 OK\r\n", "X-Filler: abc\r\n", "head"},
		{"status line without end – over the head bound", "", "HTTP/1.1 200 OK ", "head"},
		{"interim responses – over their bound", "", "HTTP/1.1 100 Continue\r\n\r\n", "interim"},
		{"chunk extension without end – over its bound", chunked + "5;", "abc", "chunk header"},
		{"chunk size without end – refused", chunked, "0", "chunk"},
		{"trailer without end – over the head bound", chunked + "0\r\n", "X: y\r\n", "trailer"},
		{"event in one-byte chunks – over the line bound", chunked, "1\r\na\r\n", "line"},
		{"data lines in tiny chunks – over the event bound", chunked, "5\r\ndata\n\r\n", "event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &endless{head: tt.head, text: tt.text}
			c := NewConn(&script{}, limits)
			c.win.src = in
			resp, err := c.RoundTrip(get())
			if err == nil {
				var r Reader
				r.Reset(resp, nil)
				err = r.Next(new(Event))
				if again := r.Next(new(Event)); again != err {
					t.Errorf("then %v", again)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.what) || IllegalOf(err)&(IllegalSize|IllegalHTTP) == 0 {
				t.Errorf("got %v, want something about %q", err, tt.what)
			}
			if in.given > 1<<21 || len(c.win.buf) > 1<<19 {
				t.Errorf("after %d bytes with a buffer of %d", in.given, len(c.win.buf))
			}
		})
	}
}

func TestDroppedLinesNeedNoMemory(t *testing.T) {
	for name, text := range map[string]string{
		"comments before an event": strings.Repeat(": keep-alive\n", 1<<17) + "data: a\n\n",
		"comments inside an event": "data: a\n" + strings.Repeat(": keep-alive\n\r", 1<<17) + "\n",
		"unknown fields":           "id: 1\ndata: a\n" + strings.Repeat("x: y\r\n", 1<<17) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			text = strings.ReplaceAll(text, "\n\r", "\n")
			var r Reader
			got := drain(&r, &pieces{parts: split(text, 5)}, "")
			if len(got.events) != 1 || got.err != io.EOF {
				t.Errorf("got %v", got)
			}
			if n := len(r.own.win.buf); n > burstBuffer {
				t.Errorf("buffer grew to %d", n)
			}
		})
	}
}

func TestLimitsDoNotDependOnChunking(t *testing.T) {
	limits := Limits{Line: 20, Event: 30, Head: 8}
	for _, tt := range []struct {
		in, what string
		events   int
	}{
		{"data: a\n\ndata: 0123456789abcd\n\n", "", 2},
		{"data: a\n\ndata: 0123456789abcde\n\n", "line", 1},
		{"data: a\n\n: 0123456789abcdefghijk\n\n", "line", 1},
		{"data:0123456789abcde\ndata:0123456789abc\ndata\n\n", "", 1},
		{"data:0123456789abcde\ndata:0123456789abcde\n\n", "event", 0},
		{"id: 12345678\ndata: a\n\n", "", 1},
		{"id: 123456789\ndata: a\n\n", "id", 0},
		{"event: 123456789\ndata: a\n\n", "type", 0},
	} {
		chunkings(tt.in, func(parts ...string) {
			got := drain(&Reader{Limits: limits}, &pieces{parts: append([]string(nil), parts...)}, "")
			var limit *LimitError
			if errors.As(got.err, &limit); limit == nil != (tt.what == "") || limit != nil && limit.What != tt.what || len(got.events) != tt.events {
				t.Fatalf("as %q: %v", parts, got)
			}
		})
	}
}

func TestHeadThatCameInOnePiece(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for _, tt := range []struct {
		in    string
		limit int
		ok    bool
	}{
		{head, len(head), true},
		{head, len(head) - 1, false},
		{"HTTP/1.1 100 C\r\n\r\n" + head, len(head) + 18, true},
		{"HTTP/1.1 100 C\r\n\r\n" + head, len(head) + 17, false},
	} {
		chunkings(tt.in, func(parts ...string) {
			c := NewConn(&script{pieces: pieces{parts: append([]string(nil), parts...)}}, Limits{Head: tt.limit})
			if _, err := c.RoundTrip(get()); err == nil != tt.ok || err != nil && !isLimit(err, "head") {
				t.Fatalf("%q within %d: %v", parts, tt.limit, err)
			}
		})
	}
}

func TestBufferGrowsForOneEventAndShrinks(t *testing.T) {
	large := "id: 1\ndata: " + strings.Repeat("x", 300_000) + "\n\n"
	parts := append(split(large, 1), "id: 2\ndata: y\n\n", "id: 3\ndata: z\n\n")
	var r Reader
	r.Reset(&pieces{parts: parts}, nil)
	var ev Event
	if err := r.Next(&ev); err != nil || len(ev.Data) != 300_000 || len(r.own.win.buf) < 300_000 {
		t.Fatalf("%d bytes, %v", len(ev.Data), err)
	}
	for range 2 {
		if err := r.Next(&ev); err != nil || len(ev.Data) != 1 {
			t.Fatalf("%q, %v", ev.Data, err)
		}
		if n := len(r.own.win.buf); n != smallBuffer {
			t.Errorf("an idle link holds %d bytes", n)
		}
	}
}
