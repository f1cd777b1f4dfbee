package chaos

import (
	"io"
	"net"
	"strings"
	"testing"
)

// endless is a connection that says the same events over and over, in reads of 4 KiB.
type endless struct {
	scripted
	head, body string
	at         int
}

func (c *endless) Read(p []byte) (int, error) {
	if c.head != "" {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if c.at == len(c.body) {
		c.at = 0
	}
	n := copy(p, c.body[c.at:])
	c.at += n
	return n, nil
}

// event245 is one message of the size that PERFORMANCE.md measures with.
func event245() string {
	const front = "id: 0123456789abcdef-1234\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"message\":\""
	const back = "\",\"progress\":12,\"progressToken\":\"g1\",\"total\":50}}\n\n"
	return front + strings.Repeat("x", 245-len(front)-len(back)) + back
}

// BenchmarkPassThrough is the cost of one event on the way through a link, by what
// the stream's faults make it look for.
func BenchmarkPassThrough(b *testing.B) {
	never := 1 << 40
	cases := []struct {
		name   string
		faults []Planned
		ex     Exchange
	}{
		{"none", nil, Exchange{}},
		{"only-resume-places", []Planned{{Kind: RST, Place: MidReplay}}, Exchange{}},
		{"between-events", []Planned{{Kind: RST, Place: BetweenEvents, After: never}}, Exchange{}},
		{"mid-event-later", []Planned{{Kind: RST, Place: MidEvent, After: never}}, Exchange{}},
		{"mid-response-held", []Planned{{Kind: RST, Place: MidResponse}}, Exchange{}},
		{"chunk-end-reframed", []Planned{{Kind: ChunkEnd, Place: MidResponse}}, Exchange{}},
	}
	const perChunk = 16
	body := chunked(strings.Repeat(event245(), perChunk))
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			l := NewLink(&endless{head: chunkedHead, body: body}, 1)
			if c.faults != nil {
				c.ex.Victim = victim(c.faults...)
			}
			l.Begin(c.ex)
			benchRead(b, l, int64(len(body))/perChunk)
		})
	}
}

// BenchmarkNoLink is the same read without a link, to be subtracted.
func BenchmarkNoLink(b *testing.B) {
	body := chunked(strings.Repeat(event245(), 16))
	benchRead(b, &endless{head: chunkedHead, body: body}, int64(len(body))/16)
}

func benchRead(b *testing.B, c net.Conn, perEvent int64) {
	b.SetBytes(perEvent)
	b.ReportAllocs()
	buf := make([]byte, 4096)
	for left := int64(b.N) * perEvent; left > 0; {
		n, err := c.Read(buf)
		if err != nil && err != io.EOF {
			b.Fatal(err)
		}
		left -= int64(n)
	}
}
