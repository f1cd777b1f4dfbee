package chaos

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// place cases: the response is head plus chunks; want is what must be delivered of
// the response as the target framed it.
type placeCase struct {
	name     string
	fault    Planned
	ex       Exchange
	head     string
	parts    []string
	want     string // the raw bytes before the position
	in       Injection
	noStrike bool
}

// upTo is the raw response up to the end of the payload of the n-th part.
func upTo(head string, parts []string, n int) string {
	return head + strings.TrimSuffix(chunked(parts[:n]...), "\r\n")
}

func size(s string) uint32 { return uint32(len(s)) }

func placeCases() []placeCase {
	all := []string{priming, message(1), message(2), message(3), response}
	replay := []string{message(3), message(4), message(5), response}
	resumed := Exchange{Attempt: 1, Resume: true, Delivered: 2, Expected: 5}
	first := Exchange{Expected: 3}
	return []placeCase{
		{name: "after-priming – the first event is primed", fault: Planned{Place: AfterPriming}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 1), in: Injection{Event: 1, Offset: size(priming), AfterID: true}},
		{name: "after-priming – not primed – not reached", fault: Planned{Place: AfterPriming}, ex: first, head: chunkedHead, parts: []string{message(1), priming, response}, noStrike: true},
		{name: "after-priming – resumed – not reached", fault: Planned{Place: AfterPriming}, ex: Exchange{Resume: true}, head: chunkedHead, parts: all, noStrike: true},
		{name: "between-events – after the second message", fault: Planned{Place: BetweenEvents, After: 2}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 3), in: Injection{Event: 3, Offset: size(message(2)), AfterID: true}},
		{name: "between-events – without ids – nothing is committed", fault: Planned{Place: BetweenEvents, After: 1}, ex: first, head: chunkedHead, parts: []string{"data: x\n\n", response},
			want: chunkedHead + chunkHead("data: x\n\n") + "data: x\n\n", in: Injection{Event: 1, Offset: 9}},
		{name: "between-events – the id was taken back – nothing is committed", fault: Planned{Place: BetweenEvents, After: 1}, ex: first, head: chunkedHead, parts: []string{priming, "id\ndata: x\n\n", response},
			want: chunkedHead + chunked(priming) + chunkHead("id\ndata: x\n\n") + "id\ndata: x\n\n", in: Injection{Event: 2, Offset: 12}},
		{name: "between-events – passed already – at the first opportunity", fault: Planned{Place: BetweenEvents, After: 1}, ex: resumed, head: missedHead(1), parts: replay,
			want: upTo(missedHead(1), replay, 1), in: Injection{Event: 1, Offset: size(message(3)), AfterID: true}},
		{name: "between-events – only the response is left – not reached", fault: Planned{Place: BetweenEvents, After: 1}, ex: resumed, head: missedHead(1), parts: []string{response}, noStrike: true},
		{name: "mid-event – at its first byte", fault: Planned{Place: MidEvent, After: 2}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 2) + "\r\n" + chunkHead(message(2)) + message(2)[:1], in: Injection{Event: 3, Offset: 1, AfterID: true}},
		{name: "mid-event – the response is no message – not reached", fault: Planned{Place: MidEvent, After: 4}, ex: first, head: chunkedHead, parts: all, noStrike: true},
		{name: "before-response – expected messages are there", fault: Planned{Place: BeforeResponse}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 4), in: Injection{Event: 4, Offset: size(message(3)), AfterID: true}},
		{name: "before-response – number unknown – before its first byte", fault: Planned{Place: BeforeResponse}, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 4) + "\r\n" + chunkHead(response), in: Injection{Event: 5, AfterID: true}},
		{name: "before-response – all delivered on an earlier link", fault: Planned{Place: BeforeResponse}, ex: Exchange{Resume: true, Delivered: 3, Expected: 3}, head: missedHead(1), parts: []string{response},
			want: missedHead(1) + chunkHead(response), in: Injection{Event: 1, AfterID: true, InReplay: true}},
		{name: "mid-response – at its first byte", fault: Planned{Place: MidResponse}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 4) + "\r\n" + chunkHead(response) + response[:1], in: Injection{Event: 5, Offset: 1, AfterID: true}},
		{name: "after-response – before the end of the body", fault: Planned{Place: AfterResponse}, ex: first, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 5), in: Injection{Event: 5, Offset: size(response), AfterID: true}},
		{name: "resume-before-headers – nothing is delivered", fault: Planned{Place: ResumeBeforeHeaders}, ex: resumed, head: missedHead(3), parts: replay,
			want: "", in: Injection{AfterID: true}},
		{name: "resume-before-headers – a refusal is cut as well", fault: Planned{Place: ResumeBeforeHeaders}, ex: resumed, head: "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
			want: "", in: Injection{AfterID: true}},
		{name: "resume-before-headers – not resumed – not reached", fault: Planned{Place: ResumeBeforeHeaders}, ex: first, head: chunkedHead, parts: all, noStrike: true},
		{name: "resume-before-headers – resumed too early – not reached", fault: Planned{Place: ResumeBeforeHeaders, After: 3}, ex: resumed, head: missedHead(3), parts: replay, noStrike: true},
		{name: "resume-before-first-event – comments pass", fault: Planned{Place: ResumeBeforeFirstEvent}, ex: resumed, head: missedHead(3), parts: append([]string{": hello\n\n"}, replay...),
			want: missedHead(3) + chunked(": hello\n\n") + chunkHead(message(3)), in: Injection{AfterID: true, InReplay: true}},
		{name: "mid-replay – before the second of three", fault: Planned{Place: MidReplay}, ex: resumed, head: missedHead(3), parts: replay,
			want: missedHead(3) + chunked(replay[0]) + chunkHead(replay[1]), in: Injection{Event: 2, AfterID: true, InReplay: true}},
		{name: "mid-replay – before the last of three", fault: Planned{Place: MidReplay, K: 0.99}, ex: resumed, head: missedHead(3), parts: replay,
			want: missedHead(3) + chunked(replay[:2]...) + chunkHead(replay[2]), in: Injection{Event: 3, AfterID: true, InReplay: true}},
		{name: "mid-replay – one event to replay – not reached", fault: Planned{Place: MidReplay}, ex: resumed, head: missedHead(1), parts: replay, noStrike: true},
		{name: "mid-replay – number not said – not reached", fault: Planned{Place: MidReplay}, ex: resumed, head: chunkedHead, parts: replay, noStrike: true},
		{name: "at-live – behind two replayed events", fault: Planned{Place: AtLive}, ex: resumed, head: missedHead(2), parts: replay,
			want: missedHead(2) + chunked(replay[:2]...) + chunkHead(replay[2]), in: Injection{Event: 3, AfterID: true}},
		{name: "at-live – nothing to replay", fault: Planned{Place: AtLive}, ex: resumed, head: missedHead(0), parts: replay,
			want: missedHead(0) + chunkHead(replay[0]), in: Injection{Event: 1, AfterID: true}},
		{name: "at-live – the replay is all there is – not reached", fault: Planned{Place: AtLive}, ex: resumed, head: missedHead(4), parts: replay, noStrike: true},
		{name: "at-live – head not named – not reached", fault: Planned{Place: AtLive}, ex: resumed, head: chunkedHead, parts: replay, noStrike: true},
	}
}

// namedCases are those of the places that are drawn only when named.
func namedCases() []placeCase {
	all := []string{priming, message(1), message(2), message(3), response}
	replay := []string{message(3), message(4), message(5), response}
	resumed := Exchange{Attempt: 1, Resume: true, Delivered: 2, Expected: 5}
	first, listen := Exchange{Expected: 3}, Exchange{Get: true}
	return []placeCase{
		{name: "headers – at the first byte", fault: Planned{Place: Headers}, ex: first, head: chunkedHead, parts: all,
			want: chunkedHead[:1], in: Injection{Offset: 1}},
		{name: "headers – before the last byte, an interim response counted in", fault: Planned{Place: Headers, Offset: 0.9999}, ex: first, head: "HTTP/1.1 103 Early Hints\r\n\r\n" + chunkedHead, parts: all,
			want: "HTTP/1.1 103 Early Hints\r\n\r\n" + chunkedHead[:len(chunkedHead)-1], in: Injection{Offset: size(chunkedHead) + 27}},
		{name: "headers – resumed – not reached", fault: Planned{Place: Headers}, ex: resumed, head: missedHead(3), parts: replay, noStrike: true},
		{name: "headers – of a GET stream – not reached", fault: Planned{Place: Headers}, ex: listen, head: chunkedHead, parts: all, noStrike: true},
		{name: "before-first-id – comments pass", fault: Planned{Place: BeforeFirstID}, ex: first, head: chunkedHead, parts: append([]string{": hello\n\n"}, all...),
			want: chunkedHead + chunked(": hello\n\n") + chunkHead(priming), in: Injection{}},
		{name: "before-first-id – resumed – not reached", fault: Planned{Place: BeforeFirstID}, ex: resumed, head: missedHead(3), parts: replay, noStrike: true},
		{name: "initialize – nothing of the response is delivered", fault: Planned{Place: Initialize}, ex: Exchange{Session: true}, head: chunkedHead, parts: []string{response},
			want: "", in: Injection{}},
		{name: "initialize – a call is no handshake – not reached", fault: Planned{Place: Initialize}, ex: first, head: chunkedHead, parts: all, noStrike: true},
		{name: "between-events – a handshake is no call – not reached", fault: Planned{Place: BetweenEvents}, ex: Exchange{Session: true}, head: chunkedHead, parts: all, noStrike: true},
		{name: "get-stream – between two events", fault: Planned{Place: GetStream, After: 2}, ex: listen, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 3), in: Injection{Event: 3, Offset: size(message(2)), AfterID: true}},
		{name: "get-stream – inside an event", fault: Planned{Place: GetStream, After: 2, K: 0.5}, ex: listen, head: chunkedHead, parts: all,
			want: upTo(chunkedHead, all, 2) + "\r\n" + chunkHead(message(2)) + message(2)[:1], in: Injection{Event: 3, Offset: 1, AfterID: true}},
		{name: "get-stream – resumed – at the first opportunity", fault: Planned{Place: GetStream, After: 1}, ex: Exchange{Attempt: 1, Resume: true, Get: true, Delivered: 2}, head: missedHead(1), parts: replay,
			want: upTo(missedHead(1), replay, 1), in: Injection{Event: 1, Offset: size(message(3)), AfterID: true}},
		{name: "get-stream – a call is none – not reached", fault: Planned{Place: GetStream}, ex: first, head: chunkedHead, parts: all, noStrike: true},
		{name: "between-events – on a GET stream – not reached", fault: Planned{Place: BetweenEvents}, ex: listen, head: chunkedHead, parts: all, noStrike: true},
	}
}

// chunkHead is the line that announces s as one chunk.
func chunkHead(s string) string { return strings.TrimSuffix(chunked(s), s+"\r\n") }

func TestEveryPlaceCutsAtItsByte(t *testing.T) {
	for _, c := range append(placeCases(), namedCases()...) {
		for _, kind := range []Kind{RST, FIN} {
			t.Run(kind.String()+"@"+c.name, func(t *testing.T) {
				whole := c.head
				if c.parts != nil {
					whole += chunked(c.parts...) + lastChunk
				}
				for piece := 1; piece <= len(whole); piece += 1 + piece/20 {
					for _, read := range []int{1, 7, 4096} {
						checkPlace(t, c, kind, whole, piece, read)
					}
				}
			})
		}
	}
}

func checkPlace(t *testing.T, c placeCase, kind Kind, whole string, piece, read int) {
	t.Helper()
	fault := c.fault
	fault.Kind = kind
	ex := c.ex
	if c.noStrike {
		// With another fault that is still to come the link goes on looking.
		for _, v := range []*Victim{victim(fault), victim(fault, Planned{Kind: RST, Place: BetweenEvents, After: 1 << 30})} {
			ex.Victim = v
			o := play(whole, piece, read, ex)
			if o.got != whole || len(o.injections) != 0 || v.Left() != v.Planned() || o.conn.closed {
				t.Fatalf("pieces of %d: struck or changed the bytes\ngot  %q\nwant %q", piece, o.got, whole)
			}
		}
		return
	}
	ex.Victim = victim(fault)
	o := play(whole, piece, read, ex)
	if o.got != c.want {
		t.Fatalf("pieces of %d: delivered\n%q, want\n%q", piece, o.got, c.want)
	}
	want := c.in
	want.Kind, want.Place, want.Link, want.Attempt, want.Ends = kind, fault.Place, 7, c.ex.Attempt, true
	if len(o.injections) != 1 || o.injections[0] != want {
		t.Fatalf("pieces of %d: injections %+v, want %+v", piece, o.injections, want)
	}
	if o.atInjection != len(o.got) {
		t.Fatalf("told of the cut after %d bytes, want all %d", o.atInjection, len(o.got))
	}
	checkEnd(t, o, kind)
	if ex.Victim.Left() != 0 {
		t.Fatal("the fault is still to come after it struck")
	}
}

func checkEnd(t *testing.T, o *outcome, kind Kind) {
	t.Helper()
	wantErr, linger := error(io.EOF), -1
	if kind == RST {
		wantErr, linger = syscall.ECONNRESET, 0
	}
	if !errors.Is(o.err, wantErr) || o.conn.linger != linger || !o.conn.closed {
		t.Fatalf("%s: reader got %v, linger %d, closed %v", kind, o.err, o.conn.linger, o.conn.closed)
	}
	if o.reusable {
		t.Fatal("the link may be used again after a cut")
	}
	if _, err := o.link.Read(make([]byte, 1)); !errors.Is(err, wantErr) {
		t.Fatalf("second read: %v", err)
	}
	if _, err := o.link.Write([]byte("x")); err == nil {
		t.Fatal("write after a cut succeeded")
	}
}
