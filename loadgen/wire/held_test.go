package wire

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// weighed gives out a text for ever and notes how much memory is held, all garbage aside,
// each time that another part of it was given.
type weighed struct {
	endless
	base, most, next int
}

const weighEvery = 2 << 20

func (w *weighed) Read(dst []byte) (int, error) {
	n, err := w.endless.Read(dst)
	if w.given >= w.next {
		w.most = max(w.most, heap()-w.base)
		w.next = w.given + weighEvery
	}
	return n, err
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestWhatIsTooLargeIsNotHeld feeds more than the default limits allow and measures what is
// held on the way and afterwards.
func TestWhatIsTooLargeIsNotHeld(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	line := strings.Repeat("0123456789abcdef", 1<<12)
	chunk := "10000\r\n" + line + "\r\n"
	for _, tt := range []struct {
		name, head, text string
		json             bool
		bad              Illegal
		limit            int
	}{
		{"one line of data", ok + "\r\nid: 1\ndata: ", line, false, IllegalSize, defaultEvent},
		{"many lines of data", ok + "\r\nid: 1\n", "data: " + line + "\n", false, IllegalSize, defaultEvent},
		{"long data, then a long comment", ok + "\r\ndata: " + strings.Repeat(line, 200) + "\n:", line, false, IllegalSize, defaultEvent},
		{"data, then comments that are dropped", ok + "\r\ndata: " + strings.Repeat(line, 200) + "\n", ":" + line + "\ndata: " + line + "\n", false, IllegalSize, defaultEvent},
		{"chunks", ok + "Transfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n", chunk, false, IllegalSize, defaultEvent},
		{"body of one message", "HTTP/1.1 200 OK\r\n\r\n", line, true, IllegalSize, defaultEvent},
		{"announced body of one message", "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n", line, true, IllegalSize, 1 << 16},
		{"what a bomb unpacks to", ok + "Content-Encoding: gzip\r\n\r\n", line, false, IllegalHTTP, 1 << 16},
		{"bomb that is one message", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1000\r\n\r\n", line, true, IllegalHTTP, 1 << 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &weighed{endless: endless{head: tt.head, text: tt.text}}
			c := NewConn(&script{}, Limits{})
			c.win.src = in
			in.base = heap()
			resp, err := c.RoundTrip(get())
			if err != nil {
				t.Fatal(err)
			}
			var r Reader
			if tt.json {
				_, err = resp.ReadAll(defaultEvent)
			} else {
				r.Reset(resp, nil)
				err = r.Next(new(Event))
			}
			if IllegalOf(err) != tt.bad || resp.Reusable() {
				t.Errorf("got %v, reusable %v", err, resp.Reusable())
			}
			const slack = 512 << 10 // lines, framing, and what the test needs itself
			if in.given > tt.limit+tt.limit/8+slack || in.most > tt.limit+slack {
				t.Errorf("held %d of %d bytes", in.most, in.given)
			}
			if !tt.json {
				if after := heap() - in.base; after > 64<<10 {
					t.Errorf("%d bytes are held after the end", after)
				}
				if again := r.Next(new(Event)); again != err || r.Buffered() != 0 {
					t.Errorf("then %v, %d bytes left", again, r.Buffered())
				}
			}
			if _, err := c.RoundTrip(get()); !errors.Is(err, ErrBusy) {
				t.Errorf("next exchange: %v", err)
			}
			runtime.KeepAlive(&r)
		})
	}
}

// TestLargeGarbageIsCollected reads one event after the other that is too large, while nothing
// but what is tested here collects garbage.
func TestLargeGarbageIsCollected(t *testing.T) {
	const event, rounds = 4 << 20, 40
	line := strings.Repeat("0123456789abcdef", 1<<12)
	base := heap()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	most := 0
	for range rounds {
		r := Reader{Limits: Limits{Line: event, Event: event}}
		r.Reset(&endless{head: "data: ", text: line}, nil)
		if err := r.Next(new(Event)); IllegalOf(err) != IllegalSize {
			t.Fatal(err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, int(m.HeapAlloc)-base)
	}
	if most > wasteMax+rounds<<20+3*event {
		t.Errorf("%d MiB", most>>20)
	}
}

func TestLargeEventUpToTheLimit(t *testing.T) {
	data := strings.Repeat("x", defaultEvent-len("data: "))
	var r Reader
	var ev Event
	r.Reset(strings.NewReader("data: "+data+"\n\ndata: y\n\n"), nil)
	if err := r.Next(&ev); err != nil || string(ev.Data) != data {
		t.Fatalf("%d bytes, %v", len(ev.Data), err)
	}
	if err := r.Next(&ev); err != nil || string(ev.Data) != "y" {
		t.Fatalf("%q, %v", ev.Data, err)
	}
	if err := r.Next(&ev); err != io.EOF {
		t.Fatal(err)
	}
}

func TestIdentityIsRead(t *testing.T) {
	for _, field := range []string{"Content-Encoding: identity", "Content-Encoding:", "content-encoding: Identity, identity"} {
		_, resp, err := answer("HTTP/1.1 200 OK\r\n" + field + "\r\nContent-Length: 2\r\n\r\nhi")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := resp.ReadAll(9); string(body) != "hi" || err != nil {
			t.Errorf("%s: %q, %v", field, body, err)
		}
	}
	_, resp, err := answer("HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")
	if err != nil || resp.Drain(0) != nil || !resp.Reusable() {
		t.Errorf("an empty body cannot be compressed: %v", err)
	}
}
