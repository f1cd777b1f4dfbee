package streams

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Methods of the draft, and one of MCP.
const (
	methodCreate     = "notifications/stream/create"
	methodEnd        = "notifications/stream/end"
	methodResume     = "stream/resume"
	methodPoll       = "stream/poll"
	methodInitialize = "initialize"
	methodCancelled  = "notifications/cancelled"
)

// Reasons in the data of errors.
const (
	reasonUnknown    = "unknown_stream"
	reasonAbandoned  = "stream_abandoned"
	reasonGone       = "messages_gone"
	reasonCursor     = "bad_last_event_id"
	reasonParams     = "invalid_params"
	reasonSuperseded = "superseded"
)

// texts of the errors. None says which of two things is wrong that a stranger might try.
func texts() map[string]string {
	return map[string]string{
		reasonUnknown:   "there is no such stream, or the resume token is not its own",
		reasonAbandoned: "the stream was abandoned and is no more",
		reasonGone:      "messages that you may lack had to be discarded: the stream cannot be resumed without a gap",
		reasonCursor:    "the Last-Event-ID is of no event of this stream",
		reasonParams:    "streamId and resumeToken are needed, as strings",
	}
}

func streamError(reason string) *jsonrpc.Error {
	return rpcError(jsonrpc.CodeInvalidParams, texts()[reason], reason)
}

func rpcError(code int64, text, reason string) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: code, Message: text}
	if reason != "" {
		e.Data = json.RawMessage(`{"reason":"` + reason + `"}`)
	}
	return e
}

// mayBeLong tells which requests get a stream ("a request that might cause a long-running
// response"): those that code of the server's author answers.
func mayBeLong(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// streamFields are those of a stream in notifications/stream/create.
type streamFields struct {
	StreamID       string    `json:"streamId"`
	ResumeToken    string    `json:"resumeToken"`
	RequestID      any       `json:"requestId"`
	ResumeInterval *interval `json:"resumeInterval"`
}

// interval is in seconds.
type interval struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// createMessage returns notifications/stream/create ("Creation").
func (s *Server) createMessage(st *stream, token string, request jsonrpc.ID) []byte {
	fields := streamFields{st.id, token, request.Raw(), &interval{seconds(s.cfg.Min), seconds(s.cfg.Max)}}
	if s.cfg.Flat {
		return notification(methodCreate, fields)
	}
	return notification(methodCreate, map[string]any{"stream": fields})
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// endMessage returns notifications/stream/end ("Termination").
func endMessage(id string) []byte { return notification(methodEnd, map[string]string{"streamId": id}) }

func notification(method string, params any) []byte {
	return mustMarshal(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}

// resultMessage returns a response. An id that is not valid is null.
func resultMessage(id jsonrpc.ID, result any) []byte {
	return mustMarshal(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Result  any    `json:"result"`
	}{"2.0", id.Raw(), result})
}

func errorMessage(id jsonrpc.ID, e *jsonrpc.Error) []byte {
	return mustMarshal(struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", id.Raw(), e})
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and what was JSON before can always be written
	}
	return b
}

// decode reads one message of a client.
func decode(text []byte) (jsonrpc.Message, *jsonrpc.Error) {
	if !json.Valid(text) {
		return nil, rpcError(jsonrpc.CodeParseError, "the message is not JSON", "")
	}
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) {
		return nil, rpcError(jsonrpc.CodeInvalidRequest, "batches are not served", "")
	}
	m, err := refserver.DecodeMessage(text)
	if err != nil {
		return nil, rpcError(jsonrpc.CodeInvalidRequest, err.Error(), "")
	}
	return m, nil
}

// claim is what a client shows to get at a stream.
type claim struct {
	id, token string
}

// claimIn reads the parameters of stream/poll and stream/resume, flat or nested: the
// page of the draft nests them in one place and not in the other.
func claimIn(params json.RawMessage) (claim, *jsonrpc.Error) {
	type fields struct {
		StreamID    string `json:"streamId"`
		ResumeToken string `json:"resumeToken"`
	}
	var p struct {
		fields
		Stream *fields `json:"stream"`
	}
	if len(params) == 0 || json.Unmarshal(params, &p) != nil {
		return claim{}, streamError(reasonParams)
	}
	if p.Stream != nil {
		p.fields = *p.Stream
	}
	if p.StreamID == "" || p.ResumeToken == "" {
		return claim{}, streamError(reasonParams)
	}
	return claim{p.StreamID, p.ResumeToken}, nil
}

// eventID is the id of a message as an event; they increase within a stream.
func (st *stream) eventID(seq int64) string { return st.tag + "-" + strconv.FormatInt(seq, 10) }

// cursorIn reads a Last-Event-ID; -1 when there is none.
func (st *stream) cursorIn(values []string) (int64, *jsonrpc.Error) {
	if len(values) == 0 {
		return -1, nil
	}
	digits, ok := strings.CutPrefix(values[0], st.tag+"-")
	seq, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || seq < 0 || len(values) > 1 || st.eventID(seq) != values[0] {
		return 0, streamError(reasonCursor)
	}
	return seq, nil
}

// kindOf tells whether a response is an error in the sense of hasError.
func kindOf(m *jsonrpc.Response) kind {
	if m.Error != nil {
		return kindError
	}
	if bytes.Contains(m.Result, []byte(`"isError"`)) {
		var r struct {
			IsError bool `json:"isError"`
		}
		if json.Unmarshal(m.Result, &r) == nil && r.IsError {
			return kindError
		}
	}
	return kindPlain
}

// declaresStreams tells whether initialize declares the capability.
func declaresStreams(params json.RawMessage) bool {
	var p struct {
		Capabilities struct {
			Streams map[string]json.RawMessage `json:"streams"`
		} `json:"capabilities"`
	}
	return json.Unmarshal(params, &p) == nil && p.Capabilities.Streams != nil
}

// withVersion returns the parameters of initialize, asking the SDK for a version that is
// served here when the client asked for another.
func withVersion(params json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(params, &fields) != nil || fields == nil {
		return params // the SDK has the words for what is wrong
	}
	fields["protocolVersion"] = json.RawMessage(`"` + Versions()[0] + `"`)
	return mustMarshal(fields)
}
