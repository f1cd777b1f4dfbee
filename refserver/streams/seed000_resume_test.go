package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// cutOff calls steps, has it send the numbers, cuts the link before they can be sent, and
// returns a peer that goes on.
func cutOff(r *rig, key string, numbers ...int) (*peer, stream) {
	p := r.open()
	_, st := p.steps(key)
	p.cut()
	if len(numbers) > 0 {
		r.progress(key, numbers...)
	}
	p = p.again()
	p.lastID = 100
	return p, st
}

// "1. Send all undelivered messages for the stream to the client." Then it goes on live.
func TestSeed000_ResumeSendsWhatWasNotDeliveredAndGoesOn(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a", 1, 2, 3)
		f := p.resume(st)
		f.expect("1, 2, 3")
		r.progress("a", 4)
		f.expect("4")
		r.finish("a")
		f.expect("result of 1, end, {} of 101")
		if n := r.value("events_total", "path=replay"); n != 3 {
			t.Errorf("%v messages were replayed, want 3", n)
		}
	})
}

// "2. If the stream has ended, send a notifications/stream/end notification after sending
// all other undelivered messages."
func TestSeed000_ResumeOfAnEndedStreamSendsTheEndLast(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a", 1, 2)
		r.finish("a")
		p.resume(st).expect("1, 2, result of 1, end, {} of 101")
		p = p.again()
		p.lastID = 200
		p.resume(st).expect("1, 2, result of 1, end, {} of 201") // nobody said that they arrived
	})
}

// The result of stream/resume is {} and the last message of its exchange.
func TestSeed000_ResumeHasAResultAndItIsLast(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a")
		f := p.resume(st)
		pass(time.Minute)
		f.expect("")
		r.finish("a")
		texts, _ := f.drain()
		if last := texts[len(texts)-1]; last != `{"jsonrpc":"2.0","id":101,"result":{}}` || brief(texts) != "result of 1, end, {} of 101" {
			t.Errorf("%q", texts)
		}
		pass(time.Minute)
		f.expect("")
	})
}

// "3. If the stream ID or resume token is invalid, respond with an error": the same one.
func TestSeed000_AnUnknownStreamAndAWrongTokenLookTheSame(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a", 1)
		bare := func(f *feed) string {
			texts, _ := f.drain()
			if len(texts) != 1 {
				t.Fatalf("%q", texts)
			}
			var m struct{ Error json.RawMessage }
			if err := json.Unmarshal([]byte(texts[0]), &m); err != nil {
				t.Fatal(err)
			}
			return string(m.Error)
		}
		const want = `{"code":-32602,"message":"there is no such stream, or the resume token is not its own","data":{"reason":"unknown_stream"}}`
		for _, method := range []string{"stream/poll", "stream/resume"} {
			for name, wrong := range map[string]stream{
				"unknown": {ID: "no" + st.ID, Token: st.Token}, "token": {ID: st.ID, Token: "no" + st.Token},
				"swapped": {ID: st.Token, Token: st.ID}, "short": {ID: st.ID, Token: st.Token[:10]}, "case": {ID: st.ID, Token: strings.ToLower(st.Token)},
			} {
				if have := bare(p.ask(method, wrong)); have != want {
					t.Errorf("%s, %s: %s", method, name, have)
				}
			}
		}
		p.lastID = 200
		p.resume(st).expect("1") // nothing was harmed
	})
}

// "Resume tokens should be treated as sensitive", "Servers should validate that clients
// have appropriate permissions": a stream is its principal's alone.
func TestSeed000_AStreamIsUnknownToAnotherPrincipal(t *testing.T) {
	each(t, streams.Config{Verifier: principals}, func(r *rig) {
		a, b := r.openAs(`{"streams":{}}`, "alice"), r.openAs(`{"streams":{}}`, "bob")
		_, st := a.steps("a")
		a.cut()
		r.progress("a", 1)
		b.ask("stream/poll", st).expect("error -32602 unknown_stream")
		b.ask("stream/resume", st).expect("error -32602 unknown_stream")
		a = a.again()
		a.lastID = 100
		a.resume(st).expect("1")
	}, "http", "ws")
}

// "Resume tokens should be treated as sensitive information": unguessable, and in no log,
// metric or error.
func TestSeed000_TokensAreSecret(t *testing.T) {
	each(t, streams.Config{Max: time.Minute}, func(r *rig) {
		p := r.open()
		var secrets []string
		for range 20 {
			text := p.call("steps", `{"key":"a"}`)
			st := created(t, text.next())
			secrets = append(secrets, st.Token, st.ID)
			for _, wrong := range []stream{{ID: st.ID, Token: "x"}, {ID: "x", Token: st.Token}} {
				f := p.ask("stream/resume", wrong)
				texts, _ := f.drain()
				for _, text := range texts {
					if strings.Contains(text, st.ID) || strings.Contains(text, st.Token) {
						t.Errorf("an error tells a secret: %s", text)
					}
				}
			}
		}
		p.cut()
		pass(2 * time.Minute)
		families, err := r.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		told := r.log.String() + fmt.Sprint(families)
		seen := make(map[string]bool)
		for _, s := range secrets {
			if len(s) < 26 || seen[s] {
				t.Errorf("secret %q can be guessed", s)
			}
			seen[s] = true
			if strings.Contains(told, s) {
				t.Error("logs or metrics hold a secret")
			}
		}
	})
}

// "servers may use monotonic SSE event IDs": within a stream, over all its connections.
func TestSeed000_EventIDsIncreaseWithinAStream(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f := p.call("steps", `{"key":"a"}`)
		var st stream
		var ids []string
		read := func(f *feed, n int) {
			for range n {
				g := <-f.in
				if st.ID == "" {
					st = created(t, g.text)
				}
				ids = append(ids, g.id)
			}
		}
		read(f, 1)
		r.progress("a", 1, 2)
		read(f, 2)
		p.cut()
		r.progress("a", 3)
		f = p.resume(st, "Last-Event-ID: "+ids[2])
		read(f, 1)
		r.finish("a")
		read(f, 3)
		if last := ids[len(ids)-1]; last != "" {
			t.Errorf("the result of the resume, which is not of the stream, has the id %s", last)
		}
		before := -1
		for _, id := range ids[:len(ids)-1] {
			i := strings.LastIndex(id, "-")
			n, err := strconv.Atoi(id[i+1:])
			if err != nil || n <= before || id[:i] != ids[0][:strings.LastIndex(ids[0], "-")] {
				t.Errorf("ids %v", ids)
			}
			before = n
		}
	}, "http")
}

// "the Last-Event-ID header can be used to determine which messages in the buffer should
// be discarded before sending the remainder to the client."
func TestSeed000_LastEventIDDiscardsAndTheRestIsSent(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1, 2, 3)
		f.next()
		f.next()
		after2 := f.lastID
		p.cut()
		r.progress("a", 4)
		held := r.value("buffer_messages")
		f = p.resume(st, "Last-Event-ID: "+after2)
		f.expect("3, 4")
		if now := r.value("buffer_messages"); held != 4 || now != 2 {
			t.Errorf("the buffer held %v and holds %v, want 4 and 2", held, now)
		}
		p.cut()
		p.resume(st).expect("3, 4") // 1 and 2 are known to have arrived
		p.cut()
		p.resume(st, "Last-Event-ID: "+after2).expect("3, 4")
		p.cut()
		p.resume(st, "Last-Event-ID: "+strings.TrimSuffix(after2, "2")+"1").expect("error -32602 messages_gone")
		r.finish("a")
		p.lastID = 100
		f = p.resume(st, "Last-Event-ID: "+strings.TrimSuffix(after2, "2")+"5")
		f.expect("end, {} of 101")
		p.resume(st, "Last-Event-ID: "+f.lastID).expect("end, {} of 102")
	}, "http")
}

// A Last-Event-ID that is of no event of the stream is never taken for another one.
func TestSeed000_AForeignLastEventIDIsAnError(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1)
		f.next()
		other, _ := p.steps("b")
		r.progress("b", 1)
		other.next()
		p.cut()
		for _, id := range []string{other.lastID, f.lastID + "7", f.lastID + " ", "x", "7", "-1", strings.Replace(f.lastID, "-1", "-01", 1), strings.Replace(f.lastID, "-1", "--1", 1)} {
			if id = strings.TrimSpace(id); id == f.lastID {
				continue // HTTP itself trims
			}
			p.resume(st, "Last-Event-ID: "+id).expect("error -32602 bad_last_event_id")
		}
		if have := p.send(`{"jsonrpc":"2.0","id":900,"method":"tools/list"}`, "Last-Event-ID: "+f.lastID); have.status != 400 {
			t.Errorf("on another POST: %d", have.status)
		}
		p.resume(st).expect("1")
	}, "http")
}

// "a server cannot definitively know whether a message has been delivered": without
// Last-Event-ID all that the buffer holds is sent again.
func TestSeed000_WithoutLastEventIDTheBufferIsSentAgain(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1, 2)
		f.expect("1, 2")
		p.cut()
		r.progress("a", 3)
		p = p.again()
		p.resume(st).expect("1, 2, 3")
	})
}

// "maintain a buffer of recently sent messages (a two minute window …)": while the link
// lives, what was sent longer ago has arrived. From a disconnect on nothing ages.
func TestSeed000_TheBufferHoldsTwoMinutesOfSentMessages(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1)
		pass(time.Minute)
		r.progress("a", 2)
		pass(61 * time.Second)
		r.progress("a", 3)
		f.expect("1, 2, 3")
		if n := r.value("buffer_messages"); n != 2 {
			t.Errorf("the buffer holds %v messages after two minutes, want 2", n)
		}
		p.cut()
		pass(30 * time.Minute)
		p = p.again()
		p.resume(st).expect("2, 3")
		p.cut()
		pass(time.Minute)
		p = p.again()
		p.resume(st).expect("2, 3") // they were sent anew, and may be lost anew
	})
}

// "The response will indicate the status of the stream as well as whether there are
// pending messages", of which poll is no delivery.
func TestSeed000_PollTellsTheStatusAndConsumesNothing(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a")
		if have := p.poll(st); have != (polled{Status: "live"}) {
			t.Errorf("nothing sent: %+v", have)
		}
		r.progress("a", 1)
		for range 3 {
			if have := p.poll(st); have != (polled{Status: "live", PendingMessages: true}) {
				t.Errorf("one pending: %+v", have)
			}
		}
		r.finish("a")
		for range 3 {
			if have := p.poll(st); have != (polled{Status: "completed", PendingMessages: true}) {
				t.Errorf("completed: %+v", have)
			}
		}
		p.lastID = 100
		p.resume(st).expect("1, result of 1, end, {} of 101")
	})
}

// With the Last-Event-ID of the resume to come, poll tells what that would send.
func TestSeed000_PollIsTruthfulAboutTheResumeToCome(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1)
		f.next()
		p.cut()
		if have := p.poll(st, "Last-Event-ID: "+f.lastID); have != (polled{Status: "live"}) {
			t.Errorf("all has arrived: %+v", have)
		}
		if have := p.poll(st); have != (polled{Status: "live", PendingMessages: true}) {
			t.Errorf("who knows what has arrived: %+v", have)
		}
		r.finish("a")
		if have := p.poll(st, "Last-Event-ID: "+f.lastID); have != (polled{Status: "completed", PendingMessages: true}) {
			t.Errorf("the response is pending: %+v", have)
		}
		p.ask("stream/poll", st, "Last-Event-ID: "+f.lastID+"9").expect("error -32602 bad_last_event_id")
		p.lastID = 100
		f = p.resume(st, "Last-Event-ID: "+f.lastID)
		f.expect("result of 1, end, {} of 101")
		if have := p.poll(st, "Last-Event-ID: "+f.lastID); have != (polled{Status: "completed"}) {
			t.Errorf("nothing is pending: %+v", have)
		}
	}, "http")
}

// "hasRequest: Whether any pending messages include a server-to-client request".
func TestSeed000_PollTellsOfRequests(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a", 1)
		ponged := make(chan error, 1)
		r.stepsOf("a") <- func(ctx context.Context, req *mcp.CallToolRequest) { ponged <- req.Session.Ping(ctx, nil) }
		synctest.Wait()
		if have := p.poll(st); have != (polled{Status: "live", PendingMessages: true, HasRequest: true}) {
			t.Errorf("a request waits: %+v", have)
		}
		f := p.resume(st)
		p.reply(f, "1, ping") // in another session than the one that asked, on a link
		if err := <-ponged; err != nil {
			t.Errorf("the handler got %v", err)
		}
		p.cut()
		p = p.again()
		if have := p.poll(st); have != (polled{Status: "live", PendingMessages: true}) {
			t.Errorf("the request was answered: %+v", have)
		}
		p.resume(st).expect("1")
	})
}

// "hasError: Whether any pending messages include an error result".
func TestSeed000_PollTellsOfErrors(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		for _, tool := range []string{"unhappy", "broken", "nowhere"} {
			p := r.open()
			f := p.call(tool, `{}`)
			st := created(t, f.next())
			synctest.Wait()
			p.cut()
			if have := p.again().poll(st); have != (polled{Status: "completed", PendingMessages: true, HasError: true}) {
				t.Errorf("%s: %+v", tool, have)
			}
		}
	})
}

// "resumeInterval.max specifies the maximum seconds a client may wait before the server
// considers the stream abandoned": its memory is reclaimed, its handler told, and poll and
// resume are answered with an error.
func TestSeed000_AnAbandonedStreamIsReclaimed(t *testing.T) {
	each(t, streams.Config{Max: 10 * time.Minute}, func(r *rig) {
		p, st := cutOff(r, "a", 1, 2, 3)
		if r.value("buffer_bytes") == 0 || r.value("streams") != 1 {
			t.Error("nothing is kept")
		}
		pass(10*time.Minute - time.Second)
		if _, ended := r.handler("a"); ended || r.value("streams") != 1 {
			t.Error("the stream was abandoned too soon")
		}
		pass(time.Second)
		if err, ended := r.handler("a"); !ended || err != context.Canceled {
			t.Errorf("the handler: %v, ended %t", err, ended)
		}
		for _, name := range []string{"buffer_bytes", "buffer_messages", "streams"} {
			if n := r.value(name); n != 0 {
				t.Errorf("%s is %v", name, n)
			}
		}
		p.ask("stream/poll", st).expect("error -32602 stream_abandoned")
		p.ask("stream/resume", st).expect("error -32602 stream_abandoned")
		p.ask("stream/resume", stream{ID: st.ID, Token: "x"}).expect("error -32602 unknown_stream")
	})
}

// "If a client does not resume or poll a stream within the resumeInterval.max period":
// both put it off, and a connected client is never too late.
func TestSeed000_PollAndResumePutOffAbandonment(t *testing.T) {
	each(t, streams.Config{Max: 10 * time.Minute}, func(r *rig) {
		p, st := cutOff(r, "a", 1)
		for range 5 {
			pass(9 * time.Minute)
			p.poll(st)
		}
		pass(9 * time.Minute)
		f := p.resume(st)
		pass(2 * time.Hour)
		r.progress("a", 2)
		f.expect("1, 2")
		p.cut()
		pass(9 * time.Minute)
		p = p.again()
		if have := p.poll(st); !have.PendingMessages {
			t.Errorf("%+v", have)
		}
		pass(10 * time.Minute)
		p.ask("stream/poll", st).expect("error -32602 stream_abandoned")
	})
}

// A completed stream can be resumed as long as its interval promised, and then no longer.
func TestSeed000_ACompletedStreamIsKeptForItsInterval(t *testing.T) {
	each(t, streams.Config{Max: 10 * time.Minute}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1)
		r.finish("a")
		f.expect("1, result of 1, end") // or did it not arrive?
		pass(9 * time.Minute)
		p.lastID = 100
		p.resume(st).expect("1, result of 1, end, {} of 101")
		pass(11 * time.Minute)
		p.ask("stream/resume", st).expect("error -32602 stream_abandoned")
		if n := r.value("buffer_bytes"); n != 0 {
			t.Errorf("%v bytes are kept", n)
		}
	})
}

// Of two resumes the last wins, and the exchange of the other ends.
func TestSeed000_TheLastOfTwoResumesWins(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p, st := cutOff(r, "a", 1)
		q := r.open()
		q.lastID = 200
		first := p.resume(st)
		first.expect("1")
		second := q.resume(st)
		second.expect("1")
		r.progress("a", 2)
		first.expect("error -32000 superseded")
		if _, ended := first.drain(); !ended && r.transport == "http" {
			t.Error("the first exchange goes on")
		}
		r.finish("a")
		second.expect("2, result of 1, end, {} of 201")
		first.expect("")
		if n := r.value("followers"); n != 0 {
			t.Errorf("%v follow", n)
		}
	})
}

// A resume takes a stream from the link of the call as well, if that still seems to live.
func TestSeed000_AResumeTakesOverFromTheCallItself(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, st := p.steps("a")
		r.progress("a", 1)
		q := r.open()
		g := q.resume(st)
		synctest.Wait()
		r.progress("a", 2)
		r.finish("a")
		f.expect("1")
		g.expect("1, 2, result of 1, end, {} of 1")
	})
}

// Whatever is cut, and wherever: nothing is lost, and Last-Event-ID leaves no duplicates.
func TestSeed000_NothingIsLostByAnyCut(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		const total = 300
		p := r.open()
		f := p.call("emit", fmt.Sprintf(`{"messages":%d,"interval_ms":7,"burst":3,"bytes":300}`, total))
		st := created(t, f.next())
		var all []string
		for n := 0; ; n++ {
			pass(time.Duration(11+n*5) * time.Millisecond)
			p.cut()
			texts, _ := f.drain()
			all = append(all, texts...)
			if n > 1000 || slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "stream/end") }) {
				break
			}
			p = p.again()
			if f.lastID == "" {
				f = p.resume(st)
			} else {
				last := f.lastID
				f = p.resume(st, "Last-Event-ID: "+last)
				f.lastID = last
			}
		}
		seen := make(map[string]int)
		for _, word := range strings.Split(brief(all), ", ") {
			seen[word]++
		}
		for i := 1; i <= total; i++ {
			if n := seen[strconv.Itoa(i)]; n == 0 || n > 1 && r.transport == "http" {
				t.Errorf("message %d came %d times", i, n)
			}
		}
		if seen["result of 1"] == 0 || seen["end"] == 0 {
			t.Errorf("no end: %v", seen)
		}
	})
}
