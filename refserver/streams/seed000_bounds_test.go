package streams_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/gapless-dev/gapless/refserver/streams"
)

// "maintain a buffer": it is bounded. What it cannot hold is an error, never a gap, and
// the call goes on.
func TestSeed000_AnOverrunIsAnErrorAndNoGap(t *testing.T) {
	each(t, streams.Config{Limits: streams.Limits{StreamMessages: 5}}, func(r *rig) {
		p, st := cutOff(r, "a", 1, 2, 3, 4, 5)
		if have := p.poll(st); !have.PendingMessages {
			t.Errorf("%+v", have)
		}
		r.progress("a", 6)
		p.ask("stream/poll", st).expect("error -32602 messages_gone")
		p.ask("stream/resume", st).expect("error -32602 messages_gone")
		if n := r.value("buffer_bytes"); n != 0 {
			t.Errorf("%v bytes are kept of a stream that is lost", n)
		}
		r.progress("a", 7)
		r.finish("a")
		if err, ended := r.handler("a"); !ended || err != nil {
			t.Errorf("the handler: %v, ended %t", err, ended)
		}
		p.ask("stream/resume", st).expect("error -32602 messages_gone")
	})
}

// Messages that were sent give way first. Who can show that it has them goes on, who
// cannot gets the error.
func TestSeed000_SentMessagesGiveWayFirst(t *testing.T) {
	each(t, streams.Config{Limits: streams.Limits{StreamMessages: 5}}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1, 2, 3)
		for range 3 {
			f.next()
		}
		p.cut()
		r.progress("a", 4, 5, 6)
		p.resume(st).expect("error -32602 messages_gone")
		p.resume(st, "Last-Event-ID: "+f.lastID).expect("4, 5, 6")
	}, "http")
}

// A stream's bytes are bounded, and those of all together: completed ones give way, and
// who comes back for one of them is told.
func TestSeed000_AllBuffersTogetherAreBounded(t *testing.T) {
	const limit = 200_000
	each(t, streams.Config{Limits: streams.Limits{Bytes: limit, StreamBytes: 100_000}}, func(r *rig) {
		var all []stream
		p := r.open()
		for range 20 {
			f := p.call("emit", `{"messages":30,"bytes":1000}`)
			pass(time.Millisecond)
			texts, _ := f.drain()
			all = append(all, created(t, texts[0]))
			if n := r.value("buffer_bytes"); n > limit {
				t.Errorf("the buffers hold %v bytes", n)
			}
		}
		p.ask("stream/resume", all[0]).expect("error -32602 messages_gone")
		p.lastID = 100
		texts, _ := p.resume(all[19]).drain()
		if have := brief(texts); !strings.HasPrefix(have, "1, 2, ") || !strings.HasSuffix(have, ", 30, result of 20, end, {} of 101") {
			t.Errorf("the last one: %s", have)
		}
		if n := r.value("streams_evicted_total"); n < 10 {
			t.Errorf("%v streams were evicted", n)
		}
		f := p.call("emit", `{"messages":120,"interval_ms":1,"bytes":1000}`)
		big := created(t, f.next())
		p.cut()
		pass(time.Second)
		p = p.again()
		p.ask("stream/resume", big).expect("error -32602 messages_gone")
	})
}

// "the server MAY create a stream": when there is no place for one more, none of those
// that live gives way, and the call is served without.
func TestSeed000_WithoutAPlaceACallIsServedPlainly(t *testing.T) {
	each(t, streams.Config{Limits: streams.Limits{Streams: 2}}, func(r *rig) {
		p := r.open()
		_, a := p.steps("a")
		f := p.call("emit", `{"messages":1}`)
		f.expect("create, 1, result of 2, end")
		p.call("steps", `{"key":"b"}`).expect("create") // in the place of the completed one
		f = p.call("steps", `{"key":"c"}`)
		f.expect("")
		r.progress("c", 1)
		r.finish("c")
		f.expect("1, result of 4")
		if n := r.value("streams_refused_total"); n != 1 {
			t.Errorf("%v calls were refused a stream", n)
		}
		p.cut()
		r.progress("a", 5)
		p.again().resume(a).expect("5")
	})
}

// What is left of streams that are no more is bounded as well.
func TestSeed000_TheMemoryOfTheDeadIsBounded(t *testing.T) {
	each(t, streams.Config{Max: time.Minute, Limits: streams.Limits{Streams: 3}}, func(r *rig) {
		var all []stream
		for i := range 5 {
			p := r.open()
			_, st := p.steps(fmt.Sprint("k", i))
			all = append(all, st)
			p.cut()
			pass(2 * time.Minute)
		}
		p := r.open()
		p.ask("stream/poll", all[0]).expect("error -32602 unknown_stream")
		p.ask("stream/poll", all[4]).expect("error -32602 stream_abandoned")
	})
}

func TestConfig_SaysWhatIsWrong(t *testing.T) {
	err := streams.Config{Min: time.Hour, Max: time.Minute, Window: -1, AllowedOrigins: []string{"app"}, Limits: streams.Limits{Calls: -1}}.Validate()
	for _, want := range []string{"a time limit is negative", "a limit is negative", "clients are to wait 1h0m0s and may wait no longer than 1m0s", `origin "app" is not`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := streams.New(nil, streams.Config{Min: -1}); err == nil {
		t.Error("New takes it")
	}
}

// What was sent long ago, on a link that died, does not age while it waits to be sent
// again.
func TestSeed000_WhatIsToBeSentAgainDoesNotAge(t *testing.T) {
	each(t, streams.Config{Window: 10 * time.Second, WriteTimeout: time.Hour, Ping: 3 * time.Hour}, func(r *rig) {
		p := r.open()
		f := p.call("emit", `{"messages":20,"interval_ms":60000,"burst":19,"bytes":20000}`)
		st := created(t, f.next())
		for range 19 {
			f.next()
		}
		p.cut()
		pass(30 * time.Second)
		conn, _, err := r.tryWS("", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		ask := func(text string) {
			if err := conn.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"streams":{}},"clientInfo":{"name":"t","version":"1"}}}`)
		ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":100,"method":"stream/resume","params":{"streamId":%q,"resumeToken":%q}}`, st.ID, st.Token))
		pass(time.Minute) // it reads nothing, and the last message comes
		var texts []string
		for len(texts) == 0 || !strings.Contains(texts[len(texts)-1], `"id":100`) {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		want := "result of 0"
		for n := range 20 {
			want += fmt.Sprintf(", %d", n+1)
		}
		if have := brief(texts); have != want+", result of 1, end, {} of 100" {
			t.Errorf("arrived: %s", have)
		}
	}, "http")
}
