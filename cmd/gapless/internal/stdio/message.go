package stdio

import (
	"encoding/json"
	"errors"
)

// A message is as much of a JSON-RPC message as says where it goes.
type message struct {
	ID     json.RawMessage
	Method json.RawMessage
	Error  json.RawMessage
	Params struct {
		ProgressToken json.RawMessage
		Meta          struct {
			ProgressToken json.RawMessage
		} `json:"_meta"`
	}
}

var errNotObject = errors.New("not a JSON object")

// parse reads a message. What is an object is a message, whatever is wrong in it: that is
// for the judge to find. The error is that of the JSON, or errNotObject.
func parse(line []byte) (message, error) {
	var m message
	err := json.Unmarshal(line, &m)
	var shape *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &shape) {
		return m, err
	}
	if len(line) == 0 || line[0] != '{' {
		return m, errNotObject
	}
	return m, nil
}

func (m *message) name() string {
	var s string
	if len(m.Method) == 0 || json.Unmarshal(m.Method, &s) != nil {
		return ""
	}
	return s
}

func (m *message) request() bool  { return len(m.Method) > 0 && len(m.ID) > 0 }
func (m *message) response() bool { return len(m.Method) == 0 && key(m.ID) != "" }

// key makes an id or a token comparable: a string as what it says, however it is escaped, a
// number as it is written. It is "" for what is neither.
func key(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return "s" + s
	case c == '-' || c >= '0' && c <= '9':
		return "n" + string(raw)
	}
	return ""
}
