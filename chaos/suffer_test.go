package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// setting is a response and the exchange in which a place of it can be met.
type setting struct {
	raw string
	ex  Exchange
}

func settingOf(place Place) setting {
	body := chunked(priming, message(1), message(2), message(3), message(4), response) + lastChunk
	switch {
	case places[place].resumed:
		return setting{missedHead(3) + body, Exchange{Attempt: 1, Resume: true, Expected: 4}}
	case place == GetStream:
		return setting{chunkedHead + body, Exchange{Get: true}}
	}
	return setting{chunkedHead + body, Exchange{Expected: 4}}
}

func faultAt(kind Kind, place Place) Planned {
	f := Planned{Kind: kind, Place: place, Offset: 0.5, K: 0.7, For: time.Second}
	if place == BetweenEvents || place == MidEvent || place == GetStream {
		f.After = 2
	}
	switch kind {
	case Delay:
		f.By = 100 * time.Millisecond
	case Throttle:
		f.Rate = 100
	}
	return f
}

// position is how many bytes a reset at the same place would let through.
func position(place Place) int {
	s := settingOf(place)
	f := faultAt(RST, place)
	s.ex.Victim = victim(f)
	return len(play(s.raw, 50, 64, s.ex).got)
}

// What only slows a link down changes no byte, begins at its position, and is over in
// time.
func TestLastingFaultsChangeNoByte(t *testing.T) {
	for _, kind := range AllKinds() {
		for _, place := range AllPlaces() {
			if kind.Lasts() && misfit(kind, place) == "" {
				t.Run(kind.String()+"@"+place.String(), func(t *testing.T) {
					for _, piece := range []int{1, 50, 4096} {
						synctest.Test(t, func(t *testing.T) { checkLasting(t, kind, place, piece) })
					}
				})
			}
		}
	}
}

func checkLasting(t *testing.T, kind Kind, place Place, piece int) {
	s := settingOf(place)
	s.ex.Victim = victim(faultAt(kind, place))
	start := time.Now()
	o := play(s.raw, piece, 512, s.ex)
	took := time.Since(start)
	if o.got != s.raw || o.err != io.EOF {
		t.Fatalf("delivered %q, %v, want all as it was", o.got, o.err)
	}
	want := Injection{
		Kind: kind, Place: place, Link: 7, Attempt: s.ex.Attempt, For: time.Second,
		Event: o.injections[0].Event, Offset: o.injections[0].Offset, InReplay: o.injections[0].InReplay,
		AfterID: place != Headers,
	}
	if len(o.injections) != 1 || o.injections[0] != want {
		t.Fatalf("told %+v, want %+v", o.injections, want)
	}
	if o.atInjection != position(place) {
		t.Fatalf("began after %d bytes, want %d", o.atInjection, position(place))
	}
	if o.conn.closed || s.ex.Victim.Left() != 0 {
		t.Fatal("the link was closed, or the fault is still to come")
	}
	// The link delivers nothing for a while, or everything later, or crawls.
	left := len(s.raw) - position(place)
	least, most := time.Second, time.Second
	switch kind {
	case Slice:
		least, most = 0, 0
	case Delay:
		least, most = 100*time.Millisecond, 1100*time.Millisecond
	case Throttle:
		least = min(time.Second, time.Duration(left-5)*10*time.Millisecond)
		most = least + time.Second
	}
	if took < least || took > most {
		t.Fatalf("took %v, want %v to %v", took, least, most)
	}
}

func TestAThrottledLinkKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultAt(Throttle, BetweenEvents)
		f.Rate, f.For = 200, time.Minute
		s := settingOf(BetweenEvents)
		o := NewLink(&scripted{rest: s.raw, piece: 4096, end: io.EOF}, 1)
		o.Begin(Exchange{Victim: victim(f)})
		var from time.Time
		after := 0
		buf := make([]byte, 4096)
		for got := 0; ; {
			n, err := o.Read(buf)
			if err != nil {
				break
			}
			if got += n; got == position(BetweenEvents) {
				from = time.Now()
				continue
			}
			after += n
			if n > 10 {
				t.Fatalf("%d bytes at once at 200 bytes per second", n)
			}
			if most := 11 + int(200*time.Since(from).Seconds()); after > most {
				t.Fatalf("%d bytes in %v", after, time.Since(from))
			}
		}
		if took := time.Since(from); took < time.Duration(after-10)*5*time.Millisecond || took > time.Duration(after)*5*time.Millisecond {
			t.Fatalf("%d bytes took %v", after, took)
		}
	})
}

func TestASlicedLinkGivesOneToSevenBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settingOf(MidEvent)
		l := NewLink(&scripted{rest: s.raw, piece: 4096, end: io.EOF}, 1)
		l.Begin(Exchange{Victim: victim(faultAt(Slice, MidEvent))})
		var sizes [8]int
		buf := make([]byte, 4096)
		for got := 0; ; {
			n, err := l.Read(buf)
			if err != nil {
				break
			}
			if got > position(MidEvent) {
				if n > 7 {
					t.Fatalf("%d bytes at once", n)
				}
				sizes[n]++
			}
			got += n
		}
		for n, k := range sizes[1:] {
			if k == 0 {
				t.Errorf("never %d bytes: %v", n+1, sizes)
			}
		}
	})
}

// A reader's deadline and its Close end a stall, and lose nothing.
func TestAStallEndsWithTheReadersPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		ex := Exchange{Victim: victim(faultAt(Stall, BetweenEvents))}
		l.Begin(ex)
		io.WriteString(server, closeHead+message(1)+message(2)+message(3))
		l.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		start := time.Now()
		got, err := readAll(l)
		if !errors.Is(err, os.ErrDeadlineExceeded) || got != closeHead+message(1)+message(2) || time.Since(start) != 400*time.Millisecond {
			t.Fatalf("%q, %v after %v", got, err, time.Since(start))
		}
		time.AfterFunc(100*time.Millisecond, func() { l.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) })
		l.SetReadDeadline(time.Time{})
		if _, err = readAll(l); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 800*time.Millisecond {
			t.Fatalf("a deadline set meanwhile: %v after %v", err, time.Since(start))
		}
		l.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { l.Close() })
		got, err = readAll(l)
		if got != message(3) || !errors.Is(err, net.ErrClosed) || time.Since(start) != 1800*time.Millisecond {
			t.Fatalf("%q, %v after %v", got, err, time.Since(start))
		}
	})
}

// A cut that lies behind a stall comes behind it in time as well.
func TestACutWaitsForTheStallBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		ex := Exchange{Victim: victim(faultAt(Stall, BetweenEvents), Planned{Kind: FIN, Place: BetweenEvents, After: 3})}
		var told []Kind
		ex.OnInjection = func(in *Injection) { told = append(told, in.Kind) }
		l.Begin(ex)
		io.WriteString(server, closeHead+message(1)+message(2)+message(3)+message(4))
		start := time.Now()
		var closed time.Duration
		done := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			closed = time.Since(start)
			done <- err
		}()
		got, err := readAll(l)
		if peer := <-done; got != closeHead+message(1)+message(2)+message(3) || err != io.EOF || peer != io.EOF || closed != time.Second {
			t.Fatalf("%q, %v; the target saw %v after %v", got, err, peer, closed)
		}
		if len(told) != 2 || told[0] != Stall || told[1] != FIN {
			t.Fatalf("told %v", told)
		}
	})
}

// What delays keep back is still in its order, and so is what begins among it.
func TestAStallInDelayedBytesBeginsAtItsByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		late := faultAt(Delay, BetweenEvents)
		late.After = 1
		next := faultAt(Stall, BetweenEvents)
		next.After = 3
		var got strings.Builder
		at := map[Kind]string{}
		l.Begin(Exchange{Victim: victim(late, next), OnInjection: func(in *Injection) { at[in.Kind] = got.String() }})
		go func() {
			io.WriteString(server, closeHead+message(1))
			time.Sleep(200 * time.Millisecond)
			io.WriteString(server, message(2)+message(3)+message(4))
			server.Close()
		}()
		buf := make([]byte, 4096)
		for {
			n, err := l.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				break
			}
		}
		first := closeHead + message(1)
		if at[Delay] != first || at[Stall] != first+message(2)+message(3) || got.String() != first+message(2)+message(3)+message(4) {
			t.Fatalf("began behind %q; delivered %q", at, got.String())
		}
	})
}

// What was decided and never come to has not happened.
func TestAStallThatNobodyReadsIntoIsStillToCome(t *testing.T) {
	s := settingOf(BetweenEvents)
	l := NewLink(&scripted{rest: s.raw, piece: 4096, end: io.EOF}, 1)
	v := victim(faultAt(Stall, BetweenEvents))
	l.Begin(Exchange{Victim: v, OnInjection: func(*Injection) { t.Error("told of it") }})
	if n, err := l.Read(make([]byte, 4096)); n != position(BetweenEvents) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if l.End() || v.Left() != 1 {
		t.Fatalf("%d left, and the link may be used again", v.Left())
	}
}

func TestABlackHoleLetsNothingPass(t *testing.T) {
	for _, place := range AllPlaces() {
		if misfit(Blackhole, place) != "" {
			continue
		}
		t.Run(place.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := settingOf(place)
				l, server := pair(t)
				var told []Injection
				s.ex.Victim = victim(faultAt(Blackhole, place))
				s.ex.OnInjection = func(in *Injection) { told = append(told, *in) }
				l.Begin(s.ex)
				io.WriteString(server, s.raw)
				l.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
				got, err := readAll(l)
				if len(got) != position(place) || got != s.raw[:len(got)] || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("delivered %q, %v, want %d bytes and a timeout", got, err, position(place))
				}
				if len(told) != 1 || !told[0].Ends || told[0].For != time.Second || told[0].Place != place {
					t.Fatalf("told %+v", told)
				}
				if n, err := l.Write([]byte("lost")); n != 4 || err != nil {
					t.Fatalf("write: %d, %v", n, err)
				}
				if l.End() || l.Close() != nil {
					t.Fatal("the link may be used again, or its close failed")
				}
				start := time.Now()
				if n, err := server.Read(make([]byte, 9)); n != 0 || err != io.EOF || time.Since(start) != 700*time.Millisecond {
					t.Fatalf("the target was told %d bytes, %v after %v", n, err, time.Since(start))
				}
			})
		})
	}
}

func TestAPatientReaderOfABlackHoleIsToldAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		l.Begin(Exchange{Victim: victim(faultAt(Blackhole, BetweenEvents))})
		io.WriteString(server, closeHead+message(1)+message(2)+message(3))
		start := time.Now()
		if _, err := readAll(l); !errors.Is(err, syscall.ETIMEDOUT) || time.Since(start) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	})
}

func TestABlackHoleThatNobodyHealsEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := pair(t)
		f := faultAt(Blackhole, BetweenEvents)
		f.For = 0
		l.Begin(Exchange{Victim: victim(f)})
		io.WriteString(server, closeHead+message(1)+message(2))
		time.AfterFunc(time.Minute, func() { l.Close() })
		if _, err := readAll(l); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 9)); err != io.EOF {
			t.Fatalf("the target was told %v", err)
		}
	})
}
