package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
)

// pair returns a link and the target's end of it, in memory.
func pair(t *testing.T) (*Link, net.Conn) {
	t.Helper()
	ln := memnet.Listen()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	conn, err := ln.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	t.Cleanup(func() { conn.Close(); server.Close(); ln.Close() })
	return NewLink(conn, 3), server
}

// holdingExchange makes the link hold back the second event.
func holdingExchange() Exchange {
	return Exchange{Victim: victim(Planned{Kind: RST, Place: MidEvent, After: 1})}
}

func TestCloseUnblocksARead(t *testing.T) {
	for name, ex := range map[string]Exchange{"passing through": {}, "holding": holdingExchange()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, server := pair(t)
				l.Begin(ex)
				io.WriteString(server, closeHead+priming+message(1)[:20])
				done := make(chan error)
				go func() {
					_, err := readAll(l)
					done <- err
				}()
				synctest.Wait()
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if err := <-done; !errors.Is(err, net.ErrClosed) {
					t.Errorf("read ended with %v", err)
				}
				if l.End() {
					t.Error("a closed link may be used again")
				}
			})
		})
	}
}

// A deadline must end the wait for the rest of a held event, and not lose it.
func TestDeadlineWhileAnEventIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		ex := Exchange{Victim: victim(Planned{Kind: RST, Place: MidResponse})}
		l.Begin(ex)
		io.WriteString(server, closeHead+message(1)[:20])
		start := time.Now()
		if err := l.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(l)
		if got != closeHead || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("got %q, %v after %v", got, err, time.Since(start))
		}
		io.WriteString(server, message(1)[20:])
		l.SetReadDeadline(time.Time{})
		server.Close()
		if got, err = readAll(l); got != message(1) || err != io.EOF {
			t.Fatalf("after the deadline: %q, %v", got, err)
		}
	})
}

func TestALinkCarriesExchangeAfterExchange(t *testing.T) {
	response200 := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	conn := &scripted{piece: 1 << 20, end: io.EOF}
	l := NewLink(conn, 1)
	v := victim(Planned{Kind: FIN, Place: BetweenEvents, After: 1})
	for _, step := range []struct {
		raw  string
		ex   Exchange
		want string
		next bool
	}{
		{response200, Exchange{}, response200, true},
		{framed(priming+response, 1<<20), Exchange{Victim: v}, framed(priming+response, 1<<20), true},
		{framed(message(1)+message(2), 0), Exchange{Victim: v, Attempt: 1}, closeHead + message(1), false},
	} {
		conn.rest = step.raw
		l.Begin(step.ex)
		buf := make([]byte, 4096)
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != step.want {
			t.Fatalf("read %q, %v, want %q", buf[:n], err, step.want)
		}
		if l.End() != step.next {
			t.Fatalf("after %q: may be used again: %v", step.want, !step.next)
		}
	}
}

// A client that has its response may never read again: End must then tell of the cut.
func TestEndTellsOfACutThatNobodyReadInto(t *testing.T) {
	conn := &scripted{rest: framed(priming+response, 1<<20), piece: 1 << 20, end: io.EOF}
	l, told := NewLink(conn, 1), 0
	l.Begin(Exchange{Victim: victim(Planned{Kind: RST, Place: AfterResponse}), OnInjection: func(in *Injection) {
		told++
		if in.Place != AfterResponse {
			t.Errorf("told of %+v", *in)
		}
	}})
	if _, err := l.Read(make([]byte, 4096)); err != nil || told != 0 {
		t.Fatalf("told %d times, error %v before the end was seen", told, err)
	}
	if l.End() || told != 1 || !conn.closed {
		t.Fatalf("told %d times, closed %v", told, conn.closed)
	}
	if l.Begin(Exchange{}); l.End() || told != 1 {
		t.Fatal("the link lives again")
	}
}

// Bytes of the body that were queued and never read would be the next response.
func TestALinkWithUnreadBytesIsNotUsedAgain(t *testing.T) {
	conn := &scripted{rest: framed(message(1)+message(2), 0), piece: 1 << 20, end: io.EOF}
	l := NewLink(conn, 1)
	l.Begin(Exchange{Victim: victim(Planned{Kind: RST, Place: MidResponse})})
	if _, err := l.Read(make([]byte, len(closeHead)+5)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if l.End() {
		t.Fatal("half an event is left and the link may be used again")
	}
}

// Whatever is missed on one attempt is still there on the next.
func TestUnreachableFaultsDoNotBlockOthers(t *testing.T) {
	v := victim(
		Planned{Kind: RST, Place: AfterPriming},
		Planned{Kind: RST, Place: MidReplay},
		Planned{Kind: FIN, Place: BetweenEvents, After: 2},
	)
	body := message(1) + message(2) + message(3) + response
	o := play(framed(body, 0), 50, 50, Exchange{Victim: v})
	if len(o.injections) != 1 || o.injections[0].Place != BetweenEvents || o.injections[0].Planned != 2 {
		t.Fatalf("first attempt: %+v", o.injections)
	}
	resumed := Exchange{Victim: v, Attempt: 1, Resume: true, Delivered: 2}
	raw := missedHead(2) + chunked(message(3)+response) + lastChunk
	o = play(raw, 50, 50, resumed)
	if len(o.injections) != 1 || o.injections[0].Place != MidReplay || v.Left() != 1 {
		t.Fatalf("second attempt: %+v, %d left", o.injections, v.Left())
	}
	resumed.Attempt, resumed.Delivered = 2, 3
	if o = play(missedHead(1)+chunked(response)+lastChunk, 50, 50, resumed); len(o.injections) != 0 {
		t.Fatalf("third attempt: %+v invented", o.injections)
	}
}

// Two faults at one event: the one that comes first in the bytes wins, whatever the
// order in the plan.
func TestTheEarliestPositionStrikesFirst(t *testing.T) {
	v := victim(Planned{Kind: RST, Place: MidResponse}, Planned{Kind: FIN, Place: BeforeResponse})
	o := play(framed(priming+response, 0), 50, 50, Exchange{Victim: v})
	if len(o.injections) != 1 || o.injections[0].Place != BeforeResponse || o.got != closeHead+priming {
		t.Fatalf("struck %+v, delivered %q", o.injections, o.got)
	}
}

// Once nothing can strike in this exchange the link has to stop looking: that is what
// makes it nearly free.
func TestALinkStopsLookingWhenNothingCanStrike(t *testing.T) {
	cases := []struct {
		name  string
		ex    Exchange
		fault Planned
		raw   string
	}{
		{"a resume place on the first attempt", Exchange{}, Planned{Kind: RST, Place: MidReplay}, closeHead},
		{"a body that is no event stream", Exchange{}, Planned{Kind: RST, Place: BetweenEvents}, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"},
		{"not primed", Exchange{}, Planned{Kind: RST, Place: AfterPriming}, closeHead + message(1)},
		{"nothing to replay", Exchange{Resume: true}, Planned{Kind: RST, Place: MidReplay}, missedHead(1)},
		{"replay is over", Exchange{Resume: true}, Planned{Kind: RST, Place: MidReplay, After: 1}, missedHead(3)},
		{"answered", Exchange{}, Planned{Kind: RST, Place: BetweenEvents, After: 9}, closeHead + message(1) + response},
	}
	for _, c := range cases {
		c.ex.Victim = victim(c.fault)
		l := NewLink(&scripted{rest: c.raw, piece: 1 << 20, end: io.EOF}, 1)
		l.Begin(c.ex)
		l.Read(make([]byte, 4096))
		if l.watching {
			t.Errorf("%s: still looking", c.name)
		}
	}
}

func TestLinksAllocateNothingPerEvent(t *testing.T) {
	body := chunked(event245(), event245(), event245(), event245())
	for _, place := range []Place{BetweenEvents, MidEvent, MidResponse} {
		l := NewLink(&endless{head: chunkedHead, body: body}, 1)
		l.Begin(Exchange{Victim: victim(Planned{Kind: ChunkEnd - Kind(place%2), Place: place, After: 1 << 30})})
		buf := make([]byte, 4096)
		for range 20 {
			l.Read(buf)
		}
		if n := testing.AllocsPerRun(100, func() { l.Read(buf) }); n > 0 {
			t.Errorf("%s: %v allocations per read", place, n)
		}
	}
}
