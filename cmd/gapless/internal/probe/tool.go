package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// A tool is what the stream rows call.
type tool struct {
	name string
	args json.RawMessage
	emit bool   // it is that of the reference server: what it sends can be chosen
	why  string // there is none
}

const noTool = "name a tool that streams: --tool"

// emitArgs stream 20 messages over 2 s.
const emitArgs = `{"messages":20,"interval_ms":100}`

// listed is what is read of a page of tools/list.
type listed struct {
	Tools []struct {
		Name        string `json:"name"`
		InputSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"inputSchema"`
	} `json:"tools"`
	NextCursor string `json:"nextCursor"`
}

// pages bounds how far tools/list is followed.
const pages = 10

// discover finds the tool to call.
func (x *run) discover(ctx context.Context, s *client.Session) (tool, error) {
	t := tool{name: x.Tool, args: x.Args}
	found, cursor, why := false, "", noTool
	for range pages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := s.Call(ctx, "tools/list", params)
		var list listed
		if limited(err) {
			why = client.Words(err)
		}
		if err != nil || json.Unmarshal(raw, &list) != nil {
			break // a tool that was named is tried all the same
		}
		for _, l := range list.Tools {
			if l.Name == "emit" && (x.Tool == "" || x.Tool == "emit") {
				t.emit = has(l.InputSchema.Properties, "messages", "interval_ms", "polling_closes", "on")
			}
			found = found || x.Tool != "" && l.Name == x.Tool
		}
		if cursor = list.NextCursor; cursor == "" {
			if x.Tool != "" && !found {
				return tool{}, &NoToolError{x.Tool}
			}
			break
		}
	}
	if t.emit {
		t.name = "emit"
	}
	switch {
	case t.name == "":
		t.why = why
	case t.args == nil && t.emit:
		t.args = json.RawMessage(emitArgs)
	case t.args == nil:
		t.args = json.RawMessage(`{}`)
	}
	return t, nil
}

// A NoToolError says that the server lists no tool of the name that was given.
type NoToolError struct{ Name string }

func (e *NoToolError) Error() string {
	return fmt.Sprintf("no tool %q: the server lists none of that name", plain(e.Name))
}

func has(properties map[string]json.RawMessage, names ...string) bool {
	for _, name := range names {
		if _, ok := properties[name]; !ok {
			return false
		}
	}
	return true
}

// A call is a call of the tool and its first connection.
type call struct {
	*stream
	s     *client.Session
	id    string // JSON
	token string
}

// call calls the tool; args, if given, stand for its own.
func (x *run) call(ctx context.Context, s *client.Session, args string) (*call, error) {
	n := x.ids.Add(1) + 100
	c := &call{s: s, id: fmt.Sprint(n), token: fmt.Sprintf("gapless-%d", n)}
	own := x.tool.args
	if args != "" {
		own = json.RawMessage(args)
	}
	st, err := x.requestAs(ctx, s, c.id, "tools/call", map[string]any{
		"name": x.tool.name, "arguments": own, "_meta": map[string]any{"progressToken": c.token},
	})
	if err != nil {
		return nil, err
	}
	c.stream = st
	if err := c.complaint(); err != nil {
		st.close()
		x.account(st)
		return nil, err
	}
	return c, nil
}

// complaint is the error that the tool answers instead of sending anything; nil if it
// does not.
func (c *call) complaint() error {
	r := c.response()
	if r == nil || c.count(event.message) > 0 {
		return nil
	}
	var m struct {
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
		Result struct {
			IsError bool `json:"isError"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	_ = json.Unmarshal(r.data, &m) // then it complains of nothing
	text := ""
	switch {
	case m.Error != nil:
		text = m.Error.Message
	case !m.Result.IsError:
		return nil
	case len(m.Result.Content) > 0:
		text = m.Result.Content[0].Text
	}
	if text = c.a.Strike(text); text == "" {
		return errors.New("the tool answers with an error, without a word")
	}
	return errors.New("the tool answers with an error: " + text)
}

// Bounds of a call of a tool that nobody knows.
const (
	someMessages = 4                // to have seen before a cut
	firstWithin  = 6 * time.Second  // they come
	callWithin   = 20 * time.Second // the response comes
)

// begun calls the tool and reads until some messages have come, or for a while, and the
// cursor can be used.
func (x *run) begun(ctx context.Context, s *client.Session, args string) (*call, error) {
	c, err := x.streaming(ctx, s, args)
	if err == nil && c.cursor() == "" {
		c.close()
		x.account(c.stream)
		return nil, absentError("events have no ids, so nothing can be resumed")
	}
	return c, err
}

// streaming calls the tool and reads until some messages have come, or for a while. The
// errors say what is missing.
func (x *run) streaming(ctx context.Context, s *client.Session, args string) (*call, error) {
	c, err := x.call(ctx, s, args)
	if err != nil {
		return nil, err
	}
	seen := 0
	some := func(e event) bool {
		if e.message() {
			seen++
		}
		return seen >= someMessages || e.response()
	}
	began := c.read(c.began.Add(x.Quiet), some) || c.open() && c.cursor() != "" || c.read(c.began.Add(firstWithin), some)
	switch {
	case !c.sse && c.response() != nil:
		err = absentError("the call is answered with JSON, not with a stream")
	case !c.sse:
		err = fmt.Errorf("the call was answered %s", c.short())
	case c.complaint() != nil:
		err = c.complaint()
	case c.response() != nil:
		err = fmt.Errorf("the tool sends %s and is done; name one that streams: --tool", several(seen, "message"))
	case !began && c.open() && seen == 0:
		err = fmt.Errorf("the tool sent nothing in %s; name one that streams: --tool", firstWithin)
	case !began && !c.open():
		err = errors.New("the stream ended early: " + endWords(c.ended))
	default:
		return c, nil
	}
	c.close()
	x.account(c.stream)
	return nil, err
}

// errorCode returns the code of a JSON-RPC error.
func errorCode(data []byte) int64 {
	var m struct {
		Error struct {
			Code int64 `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &m) // then there is none
	return m.Error.Code
}

// resultOf returns the result of a response, nil if it has none.
func resultOf(e *event) json.RawMessage {
	if e == nil {
		return nil
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	_ = json.Unmarshal(e.data, &m) // then there is none
	return m.Result
}

// emptyObject tells a result without members, _meta apart.
func emptyObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return false
	}
	delete(m, "_meta")
	return len(m) == 0
}

// visible tells text of visible ASCII.
func visible(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0
}

// headerSafe tells an id that a header carries as it is.
func headerSafe(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > 0x7e }) < 0 && strings.Trim(s, " ") == s
}
