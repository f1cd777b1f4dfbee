package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// framings wrap a body in each way a target may end it; "chunked n" in chunks of n.
var framings = []struct {
	name  string
	size  int
	legal bool // the body can be ended legally in the middle
}{
	{"chunk per byte", 1, true}, {"chunks of 7", 7, true}, {"one chunk", 1 << 20, true},
	{"until close", 0, true}, {"known length", -1, false},
}

func framed(body string, size int) string {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	switch size {
	case 0:
		return closeHead + body
	case -1:
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	var parts []string
	for len(body) > size {
		parts, body = append(parts, body[:size]), body[size:]
	}
	if body != "" {
		parts = append(parts, body)
	}
	return chunkedHead + chunked(parts...) + lastChunk
}

// payload returns what of the body a reader can take from what it got.
func payload(t *testing.T, got string, size int) (body string, ended bool) {
	t.Helper()
	i := strings.Index(got, "\r\n\r\n")
	if i < 0 {
		return "", false
	}
	if size <= 0 {
		return got[i+4:], false
	}
	body, ended, err := dechunk(got[i+4:])
	if err != nil {
		t.Fatalf("%v in %q", err, got)
	}
	return body, ended
}

// offsetFor is a draw that cuts an event of size bytes behind its n-th.
func offsetFor(n, size int) float64 { return (float64(n-1) + 0.5) / float64(size-1) }

func TestInsideAnEventEveryByteCanBeTheLast(t *testing.T) {
	before, event, after := priming+message(1), message(2), message(3)+response
	for _, f := range framings {
		for _, kind := range []Kind{RST, FIN, ChunkEnd} {
			if kind == ChunkEnd && !f.legal {
				continue
			}
			t.Run(fmt.Sprintf("%s in %s", kind, f.name), func(t *testing.T) {
				for n := 1; n < len(event); n++ {
					fault := Planned{Kind: kind, Place: MidEvent, After: 2, Offset: offsetFor(n, len(event))}
					o := play(framed(before+event+after, f.size), 1+n%11, 64, Exchange{Victim: victim(fault)})
					body, ended := payload(t, o.got, f.size)
					if body != before+event[:n] {
						t.Fatalf("cut behind byte %d: delivered %q", n, body)
					}
					if legal := kind == ChunkEnd && f.size > 0; ended != legal {
						t.Fatalf("body ended: %v, want %v", ended, legal)
					}
					if len(o.injections) != 1 || o.injections[0].Offset != uint32(n) || o.injections[0].Event != 3 {
						t.Fatalf("injections %+v, want one behind byte %d of event 3", o.injections, n)
					}
					checkEnd(t, o, kind)
				}
			})
		}
	}
}

func TestTheLargestDrawLeavesTheEventIncomplete(t *testing.T) {
	fault := Planned{Kind: FIN, Place: MidEvent, After: 1, Offset: 1 - 1e-16}
	o := play(framed(message(1), 0), 9, 9, Exchange{Victim: victim(fault)})
	if o.got != closeHead+message(1)[:len(message(1))-1] {
		t.Fatalf("delivered %q", o.got)
	}
}

func TestChunkEndNeedsABodyThatCanEndThere(t *testing.T) {
	raw := framed(priming+message(1)+response, -1)
	ex := Exchange{Victim: victim(Planned{Kind: ChunkEnd, Place: MidEvent, After: 1})}
	if o := play(raw, 8, 64, ex); o.got != raw || len(o.injections) != 0 || ex.Victim.Left() != 1 {
		t.Fatalf("struck a body of known length: %q, %+v", o.got, o.injections)
	}
}

// What chunk-end leaves must be a complete HTTP message to a reader that is not ours.
func TestChunkEndIsACleanEndToNetHTTP(t *testing.T) {
	for _, f := range framings[:4] {
		conn := &scripted{rest: framed(priming+message(1)+message(2)+response, f.size), piece: 13, end: io.EOF}
		l := NewLink(conn, 1)
		told := 0
		l.Begin(Exchange{
			Victim:      victim(Planned{Kind: ChunkEnd, Place: MidEvent, After: 2, Offset: 0.5}),
			OnInjection: func(*Injection) { told++ },
		})
		resp, err := http.ReadResponse(bufio.NewReader(l), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		want := priming + message(1) + message(2)[:1+(len(message(2))-1)/2]
		if err != nil || string(body) != want || told != 1 || !conn.closed {
			t.Errorf("%s: body %q, error %v, told %d, closed %v", f.name, body, err, told, conn.closed)
		}
		if l.End() {
			t.Error("the link may be used again")
		}
	}
}

// A re-framed body that no fault strikes is the same body.
func TestReframingChangesNothingElse(t *testing.T) {
	body := ": c\n\n" + priming + message(1) + "retry: 5\n\n" + message(2) + response + ": bye\n\n"
	for _, f := range framings {
		ex := Exchange{Victim: victim(Planned{Kind: ChunkEnd, Place: MidEvent, After: 9})}
		o := play(framed(body, f.size), 5, 64, ex)
		got, ended := payload(t, o.got, f.size)
		if got != body || ended != (f.size > 0) || len(o.injections) != 0 {
			t.Errorf("%s: body %q, ended %v", f.name, got, ended)
		}
	}
}

func TestReframingKeepsABrokenBodyBroken(t *testing.T) {
	ex := func() Exchange { return Exchange{Victim: victim(Planned{Kind: ChunkEnd, Place: MidEvent, After: 9})} }
	truncated := strings.TrimSuffix(framed(priming+message(1), 7), lastChunk)
	longer := chunkedHead + "5\r\ndata:33\r\nabc\r\n" + lastChunk // the chunk has no end, and a legal one follows
	for name, raw := range map[string]string{"truncated": truncated, "too long": longer} {
		o := play(raw, 3, 64, ex())
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(o.got)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: healed to %q", name, body)
		}
	}
}

func TestAnEventTooLongToHoldIsCutInItsBeginning(t *testing.T) {
	text := strings.Repeat("x", 2*maxHold)
	long := `data: {"method":"m","params":"` + text + `"}` + "\n\n"
	answer := `data: {"id":1,"result":"` + text + `"}` + "\n\n"
	cases := []struct {
		name   string
		place  Place
		body   string
		struck int // bytes of the body delivered; all when nothing strikes
	}{
		{"a message – mid-event", MidEvent, long, 1 + (maxHold-1)/2},
		{"a response – mid-response", MidResponse, answer, 1 + (maxHold-1)/2},
		{"a response – not mid-event", MidEvent, answer, len(answer)},
		{"a message, then the response – mid-response", MidResponse, long + response, len(long) + 1 + (len(response)-1)/2},
		{"a response – before it", BeforeResponse, answer, 0},
	}
	for _, c := range cases {
		for _, f := range []int{0, 1000} {
			for _, piece := range []int{999, 1 << 20} {
				ex := Exchange{Victim: victim(Planned{Kind: FIN, Place: c.place, Offset: 0.5})}
				o := play(framed(c.body, f), piece, 4096, ex)
				if body, _ := payload(t, o.got, f); body != c.body[:c.struck] {
					t.Errorf("%s: delivered %d bytes, want %d", c.name, len(body), c.struck)
				}
			}
		}
	}
}

func TestHeldBytesAreDeliveredWhenTheTargetEndsFirst(t *testing.T) {
	raw := framed(priming+message(1)[:30], 0)
	for _, piece := range []int{1, 1000} {
		ex := Exchange{Victim: victim(Planned{Kind: RST, Place: MidEvent, After: 1})}
		if o := play(raw, piece, 16, ex); o.got != raw || !errors.Is(o.err, io.EOF) || len(o.injections) != 0 {
			t.Errorf("pieces of %d: delivered %q, %v, %+v", piece, o.got, o.err, o.injections)
		}
	}
}

// Random streams under random faults: what is delivered is always a prefix of what
// the target sent, complete where nothing struck, and told where something did.
func TestDeliveredIsAlwaysAPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	struck := 0
	for range 4000 {
		body, f := randomBody(r), framings[r.IntN(len(framings))]
		ex := Exchange{Resume: r.IntN(2) == 0, Delivered: r.IntN(3), Expected: r.IntN(6)}
		var faults []Planned
		for range 1 + r.IntN(3) {
			k, p := Kind(1+r.IntN(3)), drawnPlaces()[r.IntN(int(AtLive)+1)]
			if misfit(k, p) != "" {
				k = RST
			}
			faults = append(faults, Planned{Kind: k, Place: p, After: r.IntN(5), K: r.Float64(), Offset: r.Float64()})
		}
		ex.Victim = victim(faults...)
		raw := framed(body, f.size)
		raw = strings.Replace(raw, "\r\n", fmt.Sprintf("\r\nGapless-Missed: %d\r\n", r.IntN(5)), 1)
		o := play(raw, 1+r.IntN(40), 1+r.IntN(40), ex)
		got, _ := payload(t, o.got, f.size)
		if !strings.HasPrefix(body, got) || len(o.injections) > 1 {
			t.Fatalf("faults %+v in %q: delivered %q, told %+v", faults, raw, o.got, o.injections)
		}
		if len(o.injections) == 0 && got != body {
			t.Fatalf("faults %+v: nothing struck, and %q is missing", faults, body[len(got):])
		}
		struck += len(o.injections)
	}
	if struck < 1500 {
		t.Errorf("only %d of 4000 streams were struck", struck)
	}
}

func randomBody(r *rand.Rand) string {
	blocks := []string{priming, message(1), message(22), ": keep\n\n", "retry: 1\n\n", "id: x\r\ndata: y\r\n\r\n", "data: z\r\r", "event: ping\ndata: p\n\n"}
	var b strings.Builder
	for range r.IntN(8) {
		b.WriteString(blocks[r.IntN(len(blocks))])
	}
	if r.IntN(2) == 0 {
		b.WriteString(response)
	}
	return b.String()
}
