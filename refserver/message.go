package refserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// DecodeMessage reads one JSON-RPC message of a client: a *[jsonrpc.Request], which may
// be a notification, or a *[jsonrpc.Response]. It is for handlers of other dialects. The
// error says what is wrong in words for the client; it does not tell JSON that cannot be
// read from JSON that is no message.
func DecodeMessage(body []byte) (jsonrpc.Message, error) { return decode(body) }

// decode reads one JSON-RPC message. It is ours because the SDK's decoder takes
// five times as long and leaves 66 KB of garbage for each message. Keys are matched
// exactly.
func decode(body []byte) (jsonrpc.Message, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, errors.New("the body is not a JSON object")
	}
	if string(fields["jsonrpc"]) != `"2.0"` {
		return nil, errors.New(`"jsonrpc" is not "2.0"`)
	}
	id, err := decodeID(fields["id"])
	if err != nil {
		return nil, err
	}
	if raw, ok := fields["method"]; ok {
		req := &jsonrpc.Request{ID: id, Params: fields["params"]}
		if err := json.Unmarshal(raw, &req.Method); err != nil || req.Method == "" {
			return nil, errors.New(`"method" is not a name`)
		}
		if _, has := fields["id"]; has && !id.IsValid() {
			return nil, errors.New(`the id of a request is never null`)
		}
		return req, nil
	}
	return decodeResponse(id, fields)
}

func decodeResponse(id jsonrpc.ID, fields map[string]json.RawMessage) (jsonrpc.Message, error) {
	if !id.IsValid() {
		return nil, errors.New("a response without an id")
	}
	result, hasResult := fields["result"]
	failure, hasFailure := fields["error"]
	if hasResult == hasFailure {
		return nil, errors.New(`neither a request nor a response: one of "method", "result" and "error" is needed`)
	}
	if hasResult {
		return &jsonrpc.Response{ID: id, Result: result}, nil
	}
	wire := new(jsonrpc.Error)
	if err := json.Unmarshal(failure, wire); err != nil {
		return nil, fmt.Errorf(`"error" is not an error object`)
	}
	return &jsonrpc.Response{ID: id, Error: wire}, nil
}

// decodeID reads a request id: a string or an integer. Integers that JSON numbers
// cannot carry exactly are refused, since the response would name another request.
func decodeID(raw json.RawMessage) (jsonrpc.ID, error) {
	if raw == nil {
		return jsonrpc.ID{}, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return jsonrpc.ID{}, errors.New("the id cannot be read")
	}
	if f, ok := v.(float64); ok && (f != math.Trunc(f) || math.Abs(f) >= 1<<53) {
		return jsonrpc.ID{}, errors.New("the id is not an integer that can be sent back exactly")
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return jsonrpc.ID{}, errors.New("the id is neither a string nor an integer")
	}
	return id, nil
}

// hasBreak reports whether a text has a line break in it.
func hasBreak(text []byte) bool {
	return bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0
}

// frame returns a message as the part of an event behind its id line.
func frame(message []byte) []byte {
	if hasBreak(message) {
		// JSON holds line breaks only between its tokens, and there they mean nothing.
		var compact bytes.Buffer
		if json.Compact(&compact, message) == nil {
			message = compact.Bytes()
		}
	}
	out := make([]byte, 0, len(dataPrefix)+len(message)+len(dataSuffix))
	out = append(out, dataPrefix...)
	out = append(out, message...)
	return append(out, dataSuffix...)
}

// frameNotification does for a notification of the SDK what jsonrpc.EncodeMessage and
// [frame] do, in one copy: its parameters are JSON that the SDK has just written, and need
// not be read again. It leaves to the others what is not plain.
func frameNotification(m *jsonrpc.Request) ([]byte, bool) {
	const head, between, end = `{"jsonrpc":"2.0","method":"`, `","params":`, `}`
	if m.IsCall() || len(m.Params) == 0 || !plainText(m.Method) || hasBreak(m.Params) {
		return nil, false
	}
	size := len(dataPrefix) + len(head) + len(m.Method) + len(between) + len(m.Params) + len(end) + len(dataSuffix)
	out := make([]byte, 0, size)
	out = append(out, dataPrefix+head...)
	out = append(out, m.Method...)
	out = append(out, between...)
	out = append(out, m.Params...)
	return append(out, end+dataSuffix...), true
}

// plainText reports whether a text stands in a JSON string as it is.
func plainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}
