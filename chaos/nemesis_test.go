package chaos

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is a load of links that each carry an endless stream.
type fleet struct {
	nemesis *Nemesis
	links   []*Link
	mu      sync.Mutex
	told    map[uint32][]Injection // by link
	readers sync.WaitGroup
}

// sail opens links, all in the middle of a stream, and a reader for each.
func sail(t *testing.T, p *Plan, links int) *fleet {
	start := time.Now()
	f := &fleet{told: map[uint32][]Injection{}}
	f.nemesis = NewNemesis(p, func() time.Duration { return time.Since(start) })
	for i := range links {
		l, server := pair(t)
		l.id = uint32(i + 1)
		f.nemesis.Add(l)
		f.links = append(f.links, l)
		l.Begin(Exchange{Victim: p.Victim(l.id), OnInjection: func(in *Injection) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.told[l.id] = append(f.told[l.id], *in)
		}})
		io.WriteString(server, closeHead+priming+message(1)+message(2)[:20])
		f.readers.Go(func() {
			_, err := readAll(l)
			if l.id%2 == 0 && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("link %d: %v", l.id, err)
			}
			if l.End() {
				t.Errorf("link %d may be used again", l.id)
			}
			l.Close()
		})
	}
	synctest.Wait()
	return f
}

func stormy(share float64, more ...Fault) PlanConfig {
	return PlanConfig{Seed: 3, Streams: 100, Messages: 5, IDs: true, Priming: true, Head: true,
		Mix: append(more, Fault{Kind: Storm, Every: time.Second, Share: share})}
}

func TestAStormStrikesAllAtOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sail(t, mustPlan(t, stormy(0)), 30)
		go f.nemesis.Run(t.Context())
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if c := f.nemesis.Counts(); c != (Counts{Links: 30}) {
			t.Fatalf("before the storm: %+v", c)
		}
		time.Sleep(time.Nanosecond)
		f.readers.Wait()
		if c := f.nemesis.Counts(); c != (Counts{Storms: 1, Struck: 30}) {
			t.Fatalf("after it: %+v", c)
		}
		want := Injection{Kind: Storm, Place: MidEvent, Planned: -1, Event: 3, Offset: 20, AfterID: true, Ends: true, RunWide: true}
		for id := range uint32(30) {
			want.Link = id + 1
			if told := f.told[id+1]; len(told) != 1 || told[0] != want {
				t.Fatalf("link %d told %+v, want %+v", id+1, told, want)
			}
		}
		time.Sleep(5 * time.Second)
		if c := f.nemesis.Counts(); c.Storms != 1 {
			t.Errorf("storms over nothing are counted: %+v", c)
		}
	})
}

func TestAShareOfTheLinksIsStruck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sail(t, mustPlan(t, stormy(0.2)), 30)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		f.nemesis.Run(ctx)
		// A fifth of 30, then a fifth of the 24 that are left.
		if c := f.nemesis.Counts(); c.Storms != 2 || c.Struck != 6+5 {
			t.Fatalf("%+v", c)
		}
		f.nemesis.Heal()
		for _, l := range f.links {
			l.Close()
		}
		f.readers.Wait()
	})
}

func TestStormsKeepToTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := stormy(0.01)
		cfg.Start, cfg.Stop = 3*time.Second, 6*time.Second
		f := sail(t, mustPlan(t, cfg), 30)
		start := time.Now()
		f.nemesis.Run(t.Context())
		if c := f.nemesis.Counts(); c.Storms != 2 || time.Since(start) != 5*time.Second {
			t.Errorf("%+v after %v, want storms at 4 s and 5 s", c, time.Since(start))
		}
		for _, l := range f.links {
			l.Close()
		}
		f.readers.Wait()
	})
}

// TestAStrike: a storm that nobody planned strikes at once, knows where its links were,
// tells that it was not planned, and is no storm of the plan.
func TestAStrike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calm := PlanConfig{Seed: 3, Streams: 100, Messages: 5, IDs: true, Priming: true, Head: true}
		if n := sail(t, mustPlan(t, stormy(0)), 3).nemesis.Strike(1); n != 0 {
			t.Errorf("a plan that allows no strikes had %d links struck", n)
		}
		p := mustPlan(t, calm)
		p.AllowStrikes()
		f := sail(t, p, 30)
		go f.nemesis.Run(t.Context())
		for _, none := range []float64{0, -1, math.NaN()} {
			if n := f.nemesis.Strike(none); n != 0 {
				t.Errorf("a share of %v struck %d", none, n)
			}
		}
		if n := f.nemesis.Strike(0.2); n != 6 {
			t.Errorf("a fifth of 30 is %d", n)
		}
		if n := f.nemesis.Strike(7); n != 24 {
			t.Errorf("all that were left are %d", n)
		}
		f.readers.Wait()
		if n := f.nemesis.Strike(1); n != 0 {
			t.Errorf("a strike over nothing struck %d", n)
		}
		if c := f.nemesis.Counts(); c != (Counts{Strikes: 2, Struck: 30}) {
			t.Errorf("%+v", c)
		}
		want := Injection{Kind: Storm, Place: MidEvent, Planned: Unplanned, Event: 3, Offset: 20, AfterID: true, Ends: true, RunWide: true}
		for id := range uint32(30) {
			want.Link = id + 1
			if told := f.told[id+1]; len(told) != 1 || told[0] != want {
				t.Fatalf("link %d told %+v, want %+v", id+1, told, want)
			}
		}
		healed := sail(t, p, 2)
		healed.nemesis.Heal()
		if n := healed.nemesis.Strike(1); n != 0 {
			t.Errorf("a healed run had %d links struck", n)
		}
		for _, l := range healed.links {
			l.Close()
		}
		healed.readers.Wait()
	})
}

// Control calls, handshakes and resting links carry nothing that may be struck.
func TestWhatCarriesNoStreamOfTheLoadIsSpared(t *testing.T) {
	p := mustPlan(t, stormy(0))
	for name, ex := range map[string]*Exchange{"resting": nil, "a control call": {Victim: p.Victim(101)}, "a handshake": {Session: true, Victim: p.Victim(1)}} {
		n := NewNemesis(p, func() time.Duration { return 0 })
		conn := &scripted{}
		l := NewLink(conn, 1)
		n.Add(l)
		if ex != nil {
			l.Begin(*ex)
		}
		n.storm(p.storms[0], 1)
		if conn.closed || n.Counts() != (Counts{Links: 1}) {
			t.Errorf("%s: %+v", name, n.Counts())
		}
	}
}

// What a storm interrupts is told in the terms of the place where the link was.
func TestAStormIsRecordedWhereTheLinkWas(t *testing.T) {
	call, resume := Exchange{Expected: 3}, Exchange{Attempt: 1, Resume: true, Expected: 3, Delivered: 1}
	cases := []struct {
		name  string
		ex    Exchange
		raw   string
		fault *Planned
		want  Injection
	}{
		{"nothing came", call, "", nil, Injection{Place: BeforeFirstID}},
		{"within the head", call, closeHead[:30], nil, Injection{Place: BeforeFirstID}},
		{"behind the head", call, closeHead, nil, Injection{Place: BeforeFirstID}},
		{"primed", call, closeHead + priming, nil, Injection{Place: AfterPriming, Event: 1, Offset: uint32(len(priming)), AfterID: true}},
		{"between events", call, closeHead + priming + message(1), nil, Injection{Place: BetweenEvents, Event: 2, Offset: uint32(len(message(1))), AfterID: true}},
		{"inside one", call, closeHead + priming + message(1)[:9], nil, Injection{Place: MidEvent, Event: 2, Offset: 9, AfterID: true}},
		{"inside one that is held back", call, closeHead + priming + message(1)[:9], &Planned{Kind: RST, Place: MidResponse},
			Injection{Place: BetweenEvents, Event: 2, AfterID: true}},
		{"all messages came", call, closeHead + priming + message(1) + message(2) + message(3), nil, Injection{Place: BeforeResponse, Event: 4, Offset: uint32(len(message(3))), AfterID: true}},
		{"inside the response", call, closeHead + response[:len(response)-1], nil, Injection{Place: MidResponse, Event: 1, Offset: uint32(len(response) - 1)}},
		{"answered", call, closeHead + response, nil, Injection{Place: AfterResponse, Event: 1, Offset: uint32(len(response)), AfterID: true}},
		{"resumed", resume, "", nil, Injection{Place: ResumeBeforeHeaders, AfterID: true}},
		{"resumed, behind the head", resume, missedHead(2), nil, Injection{Place: ResumeBeforeFirstEvent, AfterID: true, InReplay: true}},
		{"in the replay", resume, missedHead(2) + chunked(message(2)), nil, Injection{Place: MidReplay, Event: 1, Offset: uint32(len(message(2))), AfterID: true, InReplay: true}},
		{"caught up", resume, missedHead(1) + chunked(message(2)), nil, Injection{Place: BetweenEvents, Event: 1, Offset: uint32(len(message(2))), AfterID: true}},
		{"a GET stream", Exchange{Get: true}, closeHead + message(1), nil, Injection{Place: GetStream, Event: 1, Offset: uint32(len(message(1))), AfterID: true}},
	}
	p := mustPlan(t, stormy(0))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, server := pair(t)
				n := NewNemesis(p, func() time.Duration { return time.Second })
				n.Add(l)
				var told []Injection
				c.ex.Victim, c.ex.OnInjection = &Victim{}, func(in *Injection) { told = append(told, *in) }
				if c.fault != nil {
					c.ex.Victim = victim(*c.fault)
				}
				l.Begin(c.ex)
				io.WriteString(server, c.raw)
				done := make(chan error)
				go func() {
					_, err := readAll(l)
					done <- err
				}()
				synctest.Wait()
				n.storm(p.storms[0], 1)
				if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
					t.Fatal(err)
				}
				c.want.Kind, c.want.Link, c.want.Attempt, c.want.Planned, c.want.Ends, c.want.RunWide = Storm, 3, c.ex.Attempt, -1, true, true
				if len(told) != 1 || told[0] != c.want {
					t.Fatalf("told %+v, want %+v", told, c.want)
				}
				if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("the target was told %v", err)
				}
			})
		})
	}
}

func TestAStormDuringARequestIsTold(t *testing.T) {
	p := mustPlan(t, stormy(0))
	for place, ex := range map[Place]Exchange{Request: {}, ResumeBeforeHeaders: {Resume: true}} {
		l := NewLink(&failing{}, 1)
		n := NewNemesis(p, func() time.Duration { return time.Second })
		n.Add(l)
		told := []Injection{}
		ex.Victim, ex.OnInjection = p.Victim(1), func(in *Injection) { told = append(told, *in) }
		l.Begin(ex)
		n.storm(p.storms[0], 1)
		if _, err := l.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) || len(told) != 1 || told[0].Place != place {
			t.Errorf("%s: %v, told %+v", place, err, told)
		}
		if l.End(); len(told) != 1 {
			t.Errorf("%s: told twice", place)
		}
	}
}

// A client that has its response does not read again: End tells of the storm.
func TestEndTellsOfAStorm(t *testing.T) {
	p := mustPlan(t, stormy(0))
	l := NewLink(&scripted{rest: chunkedHead + chunked(response) + lastChunk, piece: 4096, end: io.EOF}, 1)
	n := NewNemesis(p, func() time.Duration { return time.Second })
	n.Add(l)
	told := []Injection{}
	l.Begin(Exchange{Victim: p.Victim(1), OnInjection: func(in *Injection) { told = append(told, *in) }})
	if _, err := l.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	n.storm(p.storms[0], 1)
	if l.End() || len(told) != 1 || told[0].Place != AfterResponse {
		t.Fatalf("told %+v", told)
	}
}

// failing is a connection that takes nothing once it is closed.
type failing struct{ scripted }

func (c *failing) Write(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	return len(p), nil
}

// A storm and a planned cut may come together: one of them has ended the link.
func TestAStormAndACutAreOneInjection(t *testing.T) {
	p := mustPlan(t, stormy(0))
	for range 200 {
		client, server := tcp(t)
		l := NewLink(client, 1)
		n := NewNemesis(p, func() time.Duration { return time.Second })
		n.Add(l)
		told := 0
		v := victim(Planned{Kind: RST, Place: BetweenEvents, After: 1})
		l.Begin(Exchange{Victim: v, OnInjection: func(in *Injection) { told++ }})
		var both sync.WaitGroup
		both.Go(func() { n.storm(p.storms[0], 1) })
		both.Go(func() { io.WriteString(server, closeHead+message(1)) }) // it may come too late
		_, err := readAll(l)
		both.Wait()
		struck := n.Counts().Struck == 1
		if !errors.Is(err, syscall.ECONNRESET) || told != 1 || struck == (v.Left() == 0) {
			t.Fatalf("%v, told %d times, storm struck: %v, cut left: %d", err, told, struck, v.Left())
		}
		client.Close()
		server.Close()
	}
}

func TestNothingStrikesOutsideTheWindow(t *testing.T) {
	cfg := full(1, Fault{Kind: RST, At: []Place{BetweenEvents}, PerStream: 1})
	cfg.Start, cfg.Stop = time.Second, 2*time.Second
	p := mustPlan(t, cfg)
	for elapsed, want := range map[time.Duration]int{0: 0, time.Second - 1: 0, time.Second: 1, 2*time.Second - 1: 1, 2 * time.Second: 0} {
		for _, f := range []Planned{{Kind: RST, Place: BetweenEvents, After: 1}, {Kind: Stall, Place: BetweenEvents, After: 1}} {
			l := NewLink(&scripted{rest: closeHead + message(1), piece: 4096, end: io.EOF}, 1)
			NewNemesis(p, func() time.Duration { return elapsed }).Add(l)
			told := 0
			l.Begin(Exchange{Victim: victim(f), OnInjection: func(*Injection) { told++ }})
			readAll(l)
			if told != want {
				t.Errorf("%s at %v: told %d times", f.Kind, elapsed, told)
			}
		}
		l := NewLink(&scripted{}, 1)
		NewNemesis(p, func() time.Duration { return elapsed }).Add(l)
		l.Begin(Exchange{Victim: victim(Planned{Kind: RST, Place: Request}), OnInjection: func(*Injection) {}})
		if _, err := l.Write([]byte("x")); (err != nil) != (want == 1) {
			t.Errorf("request at %v: %v", elapsed, err)
		}
	}
}

func TestHealingEndsWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustPlan(t, stormy(0))
		start := time.Now()
		n := NewNemesis(p, func() time.Duration { return time.Since(start) })
		hole := faultAt(Blackhole, BetweenEvents)
		hole.For = 0
		long := faultAt(Stall, BetweenEvents)
		long.For = time.Hour
		slow := faultAt(Delay, BetweenEvents)
		slow.For, slow.By = time.Hour, time.Hour
		ran := make(chan struct{})
		go func() { n.Run(t.Context()); close(ran) }()
		time.Sleep(1500 * time.Millisecond) // the storm of the first second strikes nobody
		var readers sync.WaitGroup
		var abandoned net.Conn
		for _, f := range []Planned{hole, long, slow} {
			l, server := pair(t)
			n.Add(l)
			l.Begin(Exchange{Victim: victim(f)})
			io.WriteString(server, closeHead+message(1)+message(2)+message(3))
			if f.Kind == Blackhole {
				l.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				readAll(l)
				l.End()
				l.Close()
				abandoned = server
				continue
			}
			server.Close()
			readers.Go(func() {
				got, err := readAll(l)
				if err != io.EOF || len(got) != len(closeHead+message(1)+message(2)+message(3)) || time.Since(start) != 1800*time.Millisecond {
					t.Errorf("%s: %d bytes, %v after %v", f.Kind, len(got), err, time.Since(start))
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		told := make(chan error)
		go func() {
			_, err := abandoned.Read(make([]byte, 1))
			told <- err
		}()
		synctest.Wait()
		select {
		case err := <-told:
			t.Fatalf("the target of a black hole was told %v", err)
		default:
		}
		n.Heal()
		if err := <-told; err != io.EOF {
			t.Errorf("the target of a black hole was told %v", err)
		}
		readers.Wait()
		late, server := pair(t)
		n.Add(late)
		late.Begin(Exchange{Victim: victim(faultAt(RST, BetweenEvents))})
		io.WriteString(server, closeHead+message(1)+message(2)+message(3))
		server.Close()
		if _, err := readAll(late); err != io.EOF {
			t.Errorf("struck after the run had healed: %v", err)
		}
		<-ran
		if c := n.Counts(); c.Storms != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			NewNemesis(mustPlan(t, stormy(0)), func() time.Duration { return 0 }).Run(ctx)
			close(done)
		}()
		synctest.Wait()
		cancel()
		<-done
		NewNemesis(mustPlan(t, full(1)), func() time.Duration { return 0 }).Run(t.Context()) // no storms: at once
	})
}
