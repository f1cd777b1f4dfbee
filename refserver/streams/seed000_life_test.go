package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// "streams: Support for resumable streams", a capability of the client.
func TestSeed000_OnlyClientsThatDeclareStreamsGetThem(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.openAs(`{"roots":{},"experimental":{"streams":{}}}`, "")
		f := p.call("steps", `{"key":"a"}`)
		r.progress("a", 1, 2)
		r.finish("a")
		f.expect("1, 2, result of 1")
		p.send(`{"jsonrpc":"2.0","id":9,"method":"stream/poll","params":{"streamId":"x","resumeToken":"y"}}`).expect("error -32601 ")
		if n := r.value("streams"); n != 0 {
			t.Errorf("%v streams are kept", n)
		}
		_, _ = r.open().steps("b")
	})
}

// "The server sends a notifications/stream/create notification immediately after
// receiving the tool call request."
func TestSeed000_CreateComesAtOnceAndBeforeAllElse(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		before := time.Now()
		f := p.call("steps", `{"key":"a"}`)
		f.expect("create") // the handler has not said a word
		if took := time.Since(before); took != 0 {
			t.Errorf("it came after %v", took)
		}
		p.call("emit", `{"messages":3}`)
		if r.transport != "http" {
			f.expect("create, 1, 2, 3, result of 2, end")
		}
	})
}

// "Creation": the example, with its nested form.
func TestSeed000_CreateHasTheShapeOfTheSeed(t *testing.T) {
	each(t, streams.Config{Min: 1500 * time.Millisecond, Max: time.Hour}, func(r *rig) {
		p := r.open()
		text := p.send(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"steps","arguments":{"key":"a"}}}`).next()
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		st := m["params"].(map[string]any)["stream"].(map[string]any)
		if id, ok := st["streamId"].(string); !ok || len(id) < 16 {
			t.Errorf("streamId %v", st["streamId"])
		}
		if token, ok := st["resumeToken"].(string); !ok || len(token) < 16 {
			t.Errorf("resumeToken %v", st["resumeToken"])
		}
		st["streamId"], st["resumeToken"] = "ID", "TOKEN"
		want := `{"jsonrpc":"2.0","method":"notifications/stream/create","params":{"stream":{"requestId":"1","resumeInterval":{"max":3600,"min":1.5},"resumeToken":"TOKEN","streamId":"ID"}}}`
		if have, _ := json.Marshal(m); string(have) != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	})
}

// The schema of the draft has the fields flat in params.
func TestSeed000_FlatFormIsAnOption(t *testing.T) {
	each(t, streams.Config{Flat: true}, func(r *rig) {
		text := r.open().call("steps", `{"key":"a"}`).next()
		var m struct{ Params stream }
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.Params.ID == "" || m.Params.Token == "" || m.Params.RequestID != 1.0 || strings.Contains(text, `"stream":`) {
			t.Errorf("%s, %v", text, err)
		}
	}, "http")
}

// "Clients can check a stream's status by sending a stream/poll request with the stream
// ID and resume token": both forms of parameters are understood.
func TestSeed000_BothFormsOfParametersAreTaken(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		_, st := p.steps("a")
		r.finish("a")
		flat := fmt.Sprintf(`{"streamId":%q,"resumeToken":%q}`, st.ID, st.Token)
		for i, params := range []string{flat, `{"stream":` + flat + `}`} {
			q := p.again()
			q.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"stream/poll","params":%s}`, i, params))
			f := q.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"stream/resume","params":%s}`, i, params))
			texts, _ := f.drain()
			if have, want := brief(texts), fmt.Sprintf("result of 1, end, {} of r%d", i); !strings.HasSuffix(have, want) {
				t.Errorf("params %s: %s, want %s", params, have, want)
			}
		}
		for _, params := range []string{`{}`, `[]`, `null`, `{"streamId":7,"resumeToken":"x"}`, `{"stream":{}}`, `{"streamId":"x"}`} {
			f := p.again().send(`{"jsonrpc":"2.0","id":"x","method":"stream/resume","params":` + params + `}`)
			texts, _ := f.drain()
			if have := brief(texts); !strings.HasSuffix(have, "error -32602 invalid_params") {
				t.Errorf("params %s: %s", params, have)
			}
		}
	})
}

// "Using Streams with Tool Calls", 1 to 4.
func TestSeed000_ALifeHasItsOrder(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, _ := p.steps("a")
		r.progress("a", 1, 2)
		go func() {
			r.stepsOf("a") <- func(ctx context.Context, req *mcp.CallToolRequest) { _ = req.Session.Ping(ctx, nil) }
		}()
		p.reply(f, "1, 2, ping")
		r.progress("a", 3)
		r.finish("a")
		f.expect("3, result of 1, end")
		if _, ended := f.drain(); r.transport == "http" && !ended {
			t.Error("the exchange goes on after the end")
		}
		pass(time.Minute)
		f.expect("")
	})
}

// reply expects messages of which the last is a request of the server, and answers it.
func (p *peer) reply(f *feed, want string) {
	p.rig.t.Helper()
	synctest.Wait()
	texts, _ := f.drain()
	if have := brief(texts); have != want {
		p.rig.t.Fatalf("arrived: %s\nwant:    %s", have, want)
	}
	p.answer(texts[len(texts)-1])
}

// answer answers a request of the server.
func (p *peer) answer(text string) {
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		p.rig.t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
	synctest.Wait()
}

// "When a stream completes, the server MUST send a notifications/stream/end": exactly
// once, last, however the call ends.
func TestSeed000_EveryStreamEndsOnceAndLast(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		p.call("unhappy", `{}`).expect("create, result of 1, end")
		p.call("broken", `{}`).expect("create, error 0 , end")
		p.call("nowhere", `{}`).expect("create, error -32602 , end")
		p.send(`{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":"file:///none"}}`).expect("create, error -32602 , end")
		f, _ := p.steps("a")
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		texts, _ := f.drain()
		if have := brief(texts); !strings.HasPrefix(have, "error ") || !strings.HasSuffix(have, ", end") || strings.Count(have, "end") != 1 {
			t.Errorf("a cancelled call: %s", have)
		}
	})
}

// "Termination": the example.
func TestSeed000_EndNamesItsStream(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		f, st := r.open().steps("a")
		r.finish("a")
		texts, _ := f.drain()
		want := `{"jsonrpc":"2.0","method":"notifications/stream/end","params":{"streamId":"` + st.ID + `"}}`
		if len(texts) != 2 || texts[1] != want {
			t.Errorf("have %q\nwant %s", texts, want)
		}
	})
}

// "Either the client or server MAY disconnect at any time": the call goes on.
func TestSeed000_ADisconnectCancelsNothing(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		_, st := p.steps("a")
		p.cut()
		r.progress("a", 1, 2)
		if err, ended := r.handler("a"); ended {
			t.Fatalf("the handler ended: %v", err)
		}
		r.finish("a")
		if err, ended := r.handler("a"); !ended || err != nil {
			t.Errorf("the handler: %v, ended %t", err, ended)
		}
		p = p.again()
		p.resume(st).expect(fmt.Sprintf("1, 2, result of 1, end, {} of %d", p.lastID))
	})
}

// "SHOULD NOT close the SSE stream before sending either the response or a stream
// creation notification": after it, it may.
func TestSeed000_TheServerMayDisconnectAfterCreate(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f := p.call("emit", `{"messages":6,"interval_ms":1000,"polling_closes":2}`)
		var have []string
		var st stream
		links := 0
		for !strings.Contains(strings.Join(have, " "), "end") {
			if links++; links > 10 {
				t.Fatalf("no end in sight: %v", have)
			}
			if links > 1 {
				p = p.again()
				f = p.resume(st)
			}
			pass(2500 * time.Millisecond)
			texts, ended := f.drain()
			if links == 1 {
				st = created(t, texts[0])
			}
			have = append(have, brief(texts))
			if all := strings.Join(have, " "); !ended && !strings.Contains(all, "end") {
				pass(time.Second)
			}
		}
		if n := r.value("streams_closed_total", "reason=server"); n != 2 {
			t.Errorf("the server closed %v connections, want 2: %v", n, have)
		}
		took := r.ledger.Take([]string{"t1"})[0]
		if took.Emitted != 6 || took.Responses != 1 || took.Cancelled || took.Executions != 1 {
			t.Errorf("ledger: %+v", took)
		}
	})
}

// "client that cancelled": notifications/cancelled ends the call, on the link it came on
// and on one that resumed it.
func TestSeed000_CancelledEndsTheCall(t *testing.T) {
	each(t, streams.Config{}, func(r *rig) {
		p := r.open()
		f, _ := p.steps("a")
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if err, ended := r.handler("a"); !ended || err == nil {
			t.Errorf("the handler: %v, ended %t", err, ended)
		}
		f.drain()
		_, st := p.steps("b")
		p.cut()
		p = p.again()
		p.lastID = 100
		f = p.resume(st)
		synctest.Wait()
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`)
		if _, ended := r.handler("b"); ended {
			t.Error("the call ended with the resume of it")
		}
		f.drain()
		f = p.resume(st)
		synctest.Wait()
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if err, ended := r.handler("b"); !ended || err == nil {
			t.Errorf("the resumed handler: %v, ended %t", err, ended)
		}
		texts, _ := f.drain()
		if have := brief(texts); !strings.HasSuffix(have, ", end, {} of 102") {
			t.Errorf("the resume ended with %s", have)
		}
	})
}
