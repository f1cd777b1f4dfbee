package scan

import (
	"fmt"
	"strings"
	"testing"
)

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

// seen is what a scanner said about a response: the marks with their raw offsets, and
// the payload.
type seen struct {
	marks   []spot // at is the raw offset
	inBody  []spot // at is the payload offset; event marks only
	payload string
	head    Head
	done    bool
}

// follow scans a response that arrives in pieces.
func follow(t testing.TB, raw string, piece int) seen {
	t.Helper()
	var s Scanner
	var got seen
	var body strings.Builder
	at, idle := 0, 0
	for at < len(raw) {
		end := min(len(raw), (at/piece+1)*piece)
		n, payload, m := s.Next([]byte(raw[at:end]))
		if n == 0 {
			if idle++; idle > 1 || m == None {
				t.Fatalf("no progress at byte %d of %q", at, raw)
			}
		} else {
			idle = 0
		}
		if payload {
			body.WriteString(raw[at : at+n])
		}
		at += n
		switch m {
		case None:
			continue
		case EventStart:
			got.inBody = append(got.inBody, spot{body.Len(), m, Event{}})
		case EventEnd, BlockEnd:
			got.inBody = append(got.inBody, spot{body.Len(), m, s.Event()})
		}
		got.marks = append(got.marks, spot{at, m, s.Event()})
	}
	got.payload, got.head, got.done = body.String(), s.Head(), s.Done()
	return got
}

// frame wraps a body in one of the three framings, chunks being of a given size.
func frame(body string, framing Framing, size int) string {
	switch framing {
	case FramingLength:
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", sseHead, len(body), body)
	case FramingClose:
		return sseHead + "\r\n" + body
	}
	var b strings.Builder
	b.WriteString(sseHead + "Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%X;x=y\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	b.WriteString("0\r\nDigest: none\r\n\r\n")
	return b.String()
}

// bodies are event streams with something to get wrong, by what that is.
var bodies = map[string]string{
	"plain":         "id: 1\ndata: {\"id\":1,\"result\":{}}\n\ndata: {\"method\":\"x\",\"id\":3}\n\n",
	"crlf":          "id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n",
	"cr":            "id: 1\rdata: a\r\rdata: b\r\r",
	"crlf, then lf": "data: a\r\n\ndata: b\r\n\n\ndata: c\n\n",
	"mixed":         "data: a\r\n\rdata: b\n\r\ndata: c\r\r\n\n\n",
	"priming":       "id: a-0\nretry: 100\ndata:\n\nid: a-1\ndata\n\nid: x\n\n",
	"comments":      ": hello\n\n:\n: x\nid: 1\n: inside\ndata: a\n\n:end\n\n",
	"no event":      "retry: 5\n\nevent: ping\n\nnonsense\n\ndata: x\n\n",
	"bom":           "\xef\xbb\xbfdata: a\n\ndata: b\n\n",
	"bom comment":   "\xef\xbb\xbf: c\ndata: a\n\n",
	"bom blank":     "\xef\xbb\xbf\n\ndata: a\n\n",
	"half a bom":    "\xef\xbbdata: a\n\ndata: b\n\n",
	"late bom":      "data: a\n\n\xef\xbb\xbfdata: b\n\n",
	"nul in id":     "id: a\x00b\ndata: x\n\nid: a\x00\nid: c\ndata: x\n\n",
	"id taken back": "id: 1\nid\ndata: x\n\nid:\ndata: x\n\n",
	"types":         "event: message\ndata: 1\n\nevent: ping\ndata: {\"id\":1,\"result\":1}\n\nevent: ping\nevent:\ndata: {\"id\":1,\"result\":1}\n\nevent: messages\ndata: 1\n\n",
	"data lines":    "data: {\"id\":\ndata: 7,\ndata: \"error\": {}\ndata: }\n\ndata\ndata\n\ndata:\ndata: x\n\n",
	"spaces":        "data:{\"id\":1,\"result\":0}\n\ndata:  {\"id\":1,\"result\":0}\n\nid: \n\ndata: \n\ndata:  \n\n",
	"nested keys":   "data: {\"id\":1,\"params\":{\"result\":1}}\n\ndata: {\"params\":[{\"method\":1}],\"error\":{},\"id\":null}\n\n",
	"strings":       "data: {\"a\":\"result\",\"id\":\"}{][,:\",\"result\":\"method\"}\n\n",
	"escapes":       `data: {"a":"x\",\"method\":\"","id":1,"result":"\\"}` + "\n\n" + `data: {"a":"\"","id":1,"result":2}` + "\n\n" + `data: {"a":"\\","method":1,"id":2,"error":{}}` + "\n\n",
	"arrays":        "data: [\"id\",\"result\"]\n\ndata: [{\"id\":1,\"result\":1}]\n\ndata: {\"a\":[\"id\",\"result\"]}\n\n",
	"framing": "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/stream/create\",\"params\":{}}\n\n" +
		"data: {\"method\" : \"notifications/stream/end\",\"jsonrpc\":\"2.0\"}\n\n" + "data: {\"method\":\"notifications/strea\",\"a\":1}\n\n" +
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/stream.end and more of it\"}\n\n" + "event: x\ndata: {\"method\":\"notifications/stream/end\"}\n\n",
	"late method":      "data: {\"id\":1,\"result\":{},\"method\":\"m\"}\n\n",
	"unfinished":       "data: a\n\nid: 2\ndata: b\n",
	"starts only":      "data: a\n\ni",
	"long names":       "datadata: a\n\ndat: a\n\nid2: 1\n\ndataé: b\n\n",
	"over the window":  "data: " + strings.Repeat("x", 3*window) + "\n\nid: " + strings.Repeat("7", window) + "\r\ndata: {\"id\":1,\"result\":\"" + strings.Repeat("y", 2*textWindow) + "\"}\r\n\r\n",
	"empty":            "",
	"blank lines only": "\n\r\n\r\r\n",
}

func TestMarksAgreeWithASecondReading(t *testing.T) {
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) { agree(t, body, true) })
	}
}

// agree checks a body in every framing; exact tells that its JSON has to be classed
// alike too.
func agree(t *testing.T, body string, exact bool) {
	t.Helper()
	want := naive(body)
	for _, framing := range []Framing{FramingChunked, FramingLength, FramingClose} {
		for _, size := range []int{1, 5, 1 << 20} {
			got := follow(t, frame(body, framing, size), 1<<20)
			if got.payload != body || got.done != (framing != FramingClose) {
				t.Fatalf("framing %d: payload %q, done %v, want %q", framing, got.payload, got.done, body)
			}
			if len(got.inBody) != len(want) {
				t.Fatalf("framing %d: marks\n%+v, want\n%+v", framing, got.inBody, want)
			}
			for i, g := range got.inBody {
				if !exact {
					g.event.Response = want[i].event.Response
				}
				if g != want[i] {
					t.Fatalf("framing %d: mark %d is\n%+v, want\n%+v", framing, i, g, want[i])
				}
			}
		}
	}
}

func TestAnyChunkingGivesTheSameMarks(t *testing.T) {
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, framing := range []Framing{FramingChunked, FramingLength, FramingClose} {
				raw := "HTTP/1.1 100 Continue\r\n\r\n" + frame(body, framing, 3)
				want := follow(t, raw, len(raw))
				for piece := 1; piece < min(len(raw), 300); piece++ {
					same(t, piece, follow(t, raw, piece), want)
				}
			}
		})
	}
}

func same(t *testing.T, piece int, got, want seen) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("pieces of %d:\n%+v\nin one piece:\n%+v", piece, got, want)
	}
}

func TestHead(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	cases := []struct {
		name, head string
		want       Head
	}{
		{"chunked event stream", ok + "content-TYPE:text/event-stream; charset=utf-8\r\nTransfer-Encoding: Chunked \r\n\r\n", Head{200, FramingChunked, true, -1}},
		{"lines that end in LF", "HTTP/1.1 200\nContent-Type: text/event-stream\n\n", Head{200, FramingClose, true, -1}},
		{"known length", ok + "Content-Type: text/event-stream\r\nContent-Length: 12\r\n\r\n", Head{200, FramingLength, true, -1}},
		{"chunked wins over a length", ok + "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n", Head{200, FramingChunked, false, -1}},
		{"JSON", ok + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n", Head{200, FramingLength, false, -1}},
		{"a type that only begins alike", ok + "Content-Type: text/event-streams\r\n\r\n", Head{200, FramingClose, false, -1}},
		{"a refusal", "HTTP/1.1 409 Conflict\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", Head{409, FramingLength, false, -1}},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", Head{204, FramingNone, false, -1}},
		{"the log head", ok + "Content-Type: text/event-stream\r\nGAPLESS-missed: 17\r\n\r\n", Head{200, FramingClose, true, 17}},
		{"a log head of nonsense", ok + "Gapless-Missed: many\r\n\r\n", Head{200, FramingClose, false, -1}},
		{"a log head folded away", ok + "X: y\r\n Gapless-Missed: 3\r\n\r\n", Head{200, FramingClose, false, -1}},
		{"compressed", ok + "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n", Head{200, FramingClose, false, -1}},
		{"coded in transfer, with a length", ok + "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", Head{200, FramingClose, false, -1}},
		{"compressed in transfer", ok + "Content-Type: text/event-stream\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Head{200, FramingChunked, false, -1}},
		{"behind two informational heads", "HTTP/1.1 100 Continue\r\nGapless-Missed: 9\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + ok + "\r\n", Head{200, FramingClose, false, -1}},
		{"long names and values", ok + strings.Repeat("X", 500) + ": " + strings.Repeat("y", 5000) + "\r\nContent-Length: 1\r\n\r\n", Head{200, FramingLength, false, -1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, piece := range []int{1, 3, len(c.head)} {
				got := follow(t, c.head, piece)
				if got.head != c.want || len(got.marks) == 0 || got.marks[0].mark != HeadDone || got.marks[0].at != len(c.head) {
					t.Fatalf("head %+v, marks %+v, want %+v at %d", got.head, got.marks, c.want, len(c.head))
				}
			}
		})
	}
}

func TestBrokenFramingIsMarkedOnceAndNotGuessedAt(t *testing.T) {
	chunks := sseHead + "Transfer-Encoding: chunked\r\n\r\n"
	cases := []struct {
		name, raw string
		at        int
	}{
		{"not HTTP", "SSH-2.0-x\r\n\r\n", 1},
		{"HTTP/2 preface", "HTTP/2.0 200\r\n\r\n", 6},
		{"no status", "HTTP/1.1\r\n\r\n", 9},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", 13},
		{"header without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", 27},
		{"length that is none", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 37},
		{"no chunk size", chunks + "\r\n\r\n", len(chunks) + 1},
		{"chunk size with a letter", chunks + "1g\r\n", len(chunks) + 2},
		{"chunk size of 64 bits", chunks + "1" + strings.Repeat("0", 16) + "\r\n", len(chunks) + 17},
		{"chunk longer than it said", chunks + "1\r\nab\r\n", len(chunks) + 5},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxHead/6), maxHead + 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, piece := range []int{1, 4, len(c.raw)} {
				got := follow(t, c.raw+"data: x\n\n", piece)
				last := got.marks[len(got.marks)-1]
				if last.mark != Broken || last.at != c.at {
					t.Fatalf("marks %+v, want broken at %d", got.marks, c.at)
				}
			}
		})
	}
}

func TestNothingIsMarkedBehindTheBody(t *testing.T) {
	for _, framing := range []Framing{FramingChunked, FramingLength} {
		raw := frame("data: a\n\n", framing, 9) + "data: b\n\nHTTP/1.1 200 OK\r\n\r\n"
		if got := follow(t, raw, len(raw)); got.payload != "data: a\n\n" || len(got.inBody) != 2 {
			t.Errorf("framing %d: payload %q, marks %+v", framing, got.payload, got.inBody)
		}
	}
}

func TestEventWords(t *testing.T) {
	cases := []struct {
		name             string
		ev               Event
		priming, message bool
	}{
		{"id and empty data", Event{HasID: true, HasData: true, Empty: true}, true, false},
		{"id and no data", Event{HasID: true}, true, false},
		{"empty data without id", Event{HasData: true, Empty: true}, false, false},
		{"id taken back", Event{HasID: true, EmptyID: true}, false, false},
		{"a message", Event{HasID: true, HasData: true}, false, true},
		{"a response", Event{HasData: true, Response: true}, false, false},
		{"another type", Event{HasData: true, Named: true}, false, false},
	}
	for _, c := range cases {
		if c.ev.Priming() != c.priming || c.ev.Message() != c.message {
			t.Errorf("%s: priming %v, message %v", c.name, c.ev.Priming(), c.ev.Message())
		}
	}
}
