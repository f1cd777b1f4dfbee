package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Modern is the first revision without a handshake: each request says of itself what
// initialize said before ("2026-07-28 basic/versioning").
const Modern = "2026-07-28"

// metaPrefix begins the names of the fields that do so.
const metaPrefix = "io.modelcontextprotocol/"

// Version is how the client names itself to servers, beside the name gapless.
const Version = "1"

// A Session is a conversation with the server. Calls may be made by several goroutines.
type Session struct {
	c        *Client
	id       string
	revision string
	result   json.RawMessage
	front    string
	last     atomic.Int64 // request id
}

// Initialize opens a session with the revision asked for: the server may have chosen
// another, which Revision tells. From [Modern] on there is no handshake; server/discover
// is asked instead. Errors: *UnreachableError, *StatusError, *RPCError, or what was wrong
// with the answer.
func (c *Client) Initialize(ctx context.Context, revision string) (*Session, error) {
	s := &Session{c: c, revision: revision}
	method, params := "server/discover", map[string]any{}
	if revision < Modern {
		method = "initialize"
		params = map[string]any{
			"protocolVersion": revision, "capabilities": map[string]any{},
			"clientInfo": map[string]any{"name": "gapless", "version": Version},
		}
	}
	a, raw, err := s.exchange(ctx, method, params)
	if err != nil {
		return nil, err
	}
	s.result, s.front = raw, front(a)
	if revision >= Modern {
		return s, nil
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(raw, &result) != nil || result.ProtocolVersion == "" {
		return nil, errors.New("initialize: the result names no protocolVersion")
	}
	s.id, s.revision = a.Get("Mcp-Session-Id"), result.ProtocolVersion
	if err := s.Notify(ctx, "notifications/initialized", nil); err != nil {
		s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// Unasked returns a session of a revision from [Modern] on without a word to the server.
func (c *Client) Unasked(revision string) *Session { return &Session{c: c, revision: revision} }

// ID returns the session id, "" if the server gave none.
func (s *Session) ID() string { return s.id }

// Revision returns the revision that is spoken.
func (s *Session) Revision() string { return s.revision }

// Result returns the result of initialize, or of server/discover.
func (s *Session) Result() json.RawMessage { return s.result }

// Front returns the Server and Via header of the first answer: visible ASCII, at most 80
// bytes.
func (s *Session) Front() string { return s.front }

func front(a *Answer) string {
	text := a.Get("Server")
	if via := a.Get("Via"); via != "" {
		text += " via " + via
	}
	out := make([]byte, 0, 80)
	for i := 0; i < len(text) && len(out) < 80; i++ {
		if text[i] >= ' ' && text[i] < 0x7f {
			out = append(out, text[i])
		}
	}
	return string(out)
}

// Fields returns the headers of a request of the session, over which others may be put.
func (s *Session) Fields() []wire.Field {
	fields := []wire.Field{
		{Name: "Accept", Value: "application/json, text/event-stream"}, {Name: "Content-Type", Value: "application/json"},
	}
	if s.id != "" {
		fields = append(fields, wire.Field{Name: "Mcp-Session-Id", Value: s.id})
	}
	if s.result != nil || s.revision >= Modern { // initialize itself names its revision in the body
		fields = append(fields, wire.Field{Name: "MCP-Protocol-Version", Value: s.revision})
	}
	return fields
}

// Call makes a request and returns its result. Params may be nil. What else comes on the
// stream of the answer is not looked at. Errors: *RPCError for an answer that is an error,
// *StatusError (which holds a *RPCError if the body was one), *UnreachableError, or what
// was wrong with the answer.
func (s *Session) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	_, raw, err := s.exchange(ctx, method, params)
	return raw, err
}

// exchange makes a request. The answer it returns is closed: only its head may be read.
func (s *Session) exchange(ctx context.Context, method string, params any) (*Answer, json.RawMessage, error) {
	id := s.last.Add(1)
	body, fields, err := s.Request(strconv.FormatInt(id, 10), method, params)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", method, err)
	}
	a, err := s.c.Open(ctx, Request{Fields: fields, Body: body})
	if err != nil {
		return nil, nil, named(method, err)
	}
	defer a.Close()
	raw, err := a.result(method, id)
	return a, raw, named(method, a.hide(err))
}

// Request returns the body and the headers of a request of the session, to be sent with
// [Client.Open]. The id is JSON, empty for a notification.
func (s *Session) Request(id, method string, params any) ([]byte, []wire.Field, error) {
	fields := s.Fields()
	if s.revision >= Modern {
		own, err := s.describe(params)
		if err != nil {
			return nil, nil, err
		}
		params = own
		fields = append(fields, wire.Field{Name: "Mcp-Method", Value: method})
		if name := named2026(method, own); name != "" {
			fields = append(fields, wire.Field{Name: "Mcp-Name", Value: name})
		}
	}
	body, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  any             `json:"params,omitempty"`
	}{"2.0", json.RawMessage(id), method, params})
	return body, fields, err
}

// describe adds to params what each request of a modern revision says of itself.
func (s *Session) describe(params any) (map[string]json.RawMessage, error) {
	own := map[string]json.RawMessage{}
	meta := map[string]json.RawMessage{}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &own); err != nil || own == nil {
			return nil, errors.New("params are no object")
		}
		if raw, ok := own["_meta"]; ok && (json.Unmarshal(raw, &meta) != nil || meta == nil) {
			return nil, errors.New("_meta is no object")
		}
	}
	meta[metaPrefix+"protocolVersion"] = json.RawMessage(strconv.Quote(s.revision))
	meta[metaPrefix+"clientCapabilities"] = json.RawMessage(`{}`)
	meta[metaPrefix+"clientInfo"] = json.RawMessage(`{"name":"gapless","version":"` + Version + `"}`)
	raw, err := json.Marshal(meta)
	own["_meta"] = raw
	return own, err
}

// named2026 returns the value of Mcp-Name, "" for methods that have none or whose value
// would have to be encoded.
func named2026(method string, params map[string]json.RawMessage) string {
	key := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[method]
	var name string
	if key == "" || json.Unmarshal(params[key], &name) != nil {
		return ""
	}
	return name
}

// Notify sends a notification and checks that it was taken.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	body, fields, err := s.Request("", method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	a, err := s.c.Open(ctx, Request{Fields: fields, Body: body})
	if err != nil {
		return named(method, err)
	}
	defer a.Close()
	if a.Status/100 != 2 {
		return a.hide(a.refused(method))
	}
	return nil
}

// closing bounds the end of a session whose context is over already.
const closing = 2 * time.Second

// Close ends the session, if it has an id, also when ctx is done. Whether the server lets
// go of it is its own business; [Session.Delete] tells.
func (s *Session) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_, _ = s.Delete(ctx) // nobody waits for the answer
}

// Delete asks the server to end the session and returns the status of its answer, 0 for a
// session without an id.
func (s *Session) Delete(ctx context.Context) (status int, err error) {
	if s.id == "" || s.revision >= Modern {
		return 0, nil
	}
	a, err := s.c.Open(ctx, Request{Method: "DELETE", Fields: append(s.Fields(), wire.Field{Name: "Content-Type"})})
	if err != nil {
		return 0, named("DELETE", err)
	}
	defer a.Close()
	return a.Status, nil
}

// named says which exchange an error belongs to, in words.
func named(method string, err error) error {
	var status *StatusError
	var rpc *RPCError
	var far *UnreachableError
	switch {
	case err == nil, errors.As(err, &status), errors.As(err, &rpc), errors.As(err, &far):
		return err
	}
	return fmt.Errorf("%s: %w", method, &wordsError{err})
}

// A wordsError says what [Words] says.
type wordsError struct{ error }

func (e *wordsError) Error() string { return Words(e.error) }
func (e *wordsError) Unwrap() error { return e.error }

// result reads the answer to a request.
func (a *Answer) result(method string, id int64) (json.RawMessage, error) {
	switch {
	case a.Status != 200:
		return nil, a.refused(method)
	case a.SSE():
		return a.fromStream(method, id)
	case a.JSON():
		data, err := a.Body()
		if err != nil {
			return nil, err
		}
		raw, ok, err := Response(method, id, data)
		if err == nil && !ok {
			err = errors.New("the answer is not that of the request")
		}
		return raw, err
	}
	return nil, errors.New("the answer is neither application/json nor text/event-stream")
}

// fromStream reads the event stream of a request up to its response.
func (a *Answer) fromStream(method string, id int64) (json.RawMessage, error) {
	var rd wire.Reader
	var ev wire.Event
	rd.Reset(a.Response, nil)
	for range maxMessages {
		if err := rd.Next(&ev); err != nil {
			if err = cause(a.ctx, err); errors.Is(err, io.EOF) {
				err = errors.New("the stream ended before the response")
			}
			return nil, err
		}
		if string(ev.Type) != "message" || len(ev.Data) == 0 {
			continue
		}
		if raw, ok, err := Response(method, id, ev.Data); ok || err != nil {
			return raw, err
		}
	}
	return nil, fmt.Errorf("no response among %d messages", maxMessages)
}

// Response reads one message: ok is false when it is not the response to the request. The
// error of a response that is one is a *RPCError.
func Response(method string, id int64, data []byte) (result json.RawMessage, ok bool, err error) {
	var m wire.Message
	wire.Scan(data, &m)
	got, isInt := m.IDInt()
	if m.Kind != wire.KindResult && m.Kind != wire.KindError || !isInt || got != id {
		return nil, false, nil
	}
	var envelope struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcBody        `json:"error"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return nil, true, errors.New("the answer is no JSON-RPC message")
	}
	if envelope.Error != nil {
		return nil, true, envelope.Error.named(method)
	}
	return envelope.Result, true, nil
}

type rpcBody struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (b *rpcBody) named(method string) *RPCError {
	return &RPCError{Method: method, Code: b.Code, Message: printable(b.Message), Data: b.Data}
}

// refusalBytes bounds the body of a refusal that is looked at.
const refusalBytes = 64 << 10

// refused makes an error of a status that is no answer.
func (a *Answer) refused(method string) error {
	e := &StatusError{Method: method, Status: a.Status, Location: redirect(a.Get("Location"), a.Status)}
	var envelope struct {
		Error *rpcBody `json:"error"`
	}
	data, err := a.ReadAll(refusalBytes)
	if err == nil && json.Unmarshal(data, &envelope) == nil && envelope.Error != nil {
		e.RPC = envelope.Error.named(method)
	}
	e.WantsTLS = a.Status == 400 && wantsTLS(data)
	return e
}

// wantsTLS tells what servers answer to plain HTTP where they speak TLS.
func wantsTLS(body []byte) bool {
	for _, words := range []string{
		"HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port", "speaking plain HTTP to an SSL-enabled server port",
		"combination of host and port requires TLS",
	} {
		if bytes.Contains(body, []byte(words)) {
			return true
		}
	}
	return false
}
