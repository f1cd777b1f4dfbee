package refserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// emitSchema describes the arguments of emit.
const emitSchema = `{"type":"object","properties":{
"messages":{"type":"integer","minimum":0,"description":"progress notifications to send"},
"interval_ms":{"type":"number","minimum":0,"description":"milliseconds between bursts; 0 sends all at once"},
"burst":{"type":"integer","minimum":1,"description":"messages per burst"},
"bytes":{"type":"integer","minimum":0,"description":"size of each message; at least what its fields need"},
"result_bytes":{"type":"integer","minimum":0,"description":"size of the text in the result, at least"},
"hold":{"type":"object","properties":{"key":{"type":"string"},"streams":{"type":"integer","minimum":1}},
"description":"wait until so many calls with this key are open, at most 60 s"},
"on":{"type":"string","enum":["call","get"],"description":"the stream to send on: that of the call, or the GET stream of the session, where the sending goes on after the call was answered"},
"requests":{"type":"integer","minimum":0,"description":"pings to the client, spread over the call; each is waited for"},
"polling_closes":{"type":"integer","minimum":0,"description":"how often the connection is closed, spread over the call, while the stream goes on"}}}`

// emitArgs are the arguments of emit.
type emitArgs struct {
	Messages    int     `json:"messages"`
	IntervalMS  float64 `json:"interval_ms"`
	Burst       int     `json:"burst"`
	Bytes       int     `json:"bytes"`
	ResultBytes int     `json:"result_bytes"`
	Hold        struct {
		Key     string `json:"key"`
		Streams int    `json:"streams"`
	} `json:"hold"`
	On            string `json:"on"`
	Requests      int    `json:"requests"`
	PollingCloses int    `json:"polling_closes"`
}

// Bounds of the arguments.
const (
	maxMessages   = 10_000_000
	maxEmitBytes  = 16 << 20
	maxIntervalMS = 3_600_000
	maxSpread     = 100_000 // requests, and polling closes
)

// onCall and onGet are the streams that emit can send on; the first is the default.
const (
	onCall = "call"
	onGet  = "get"
)

func (a emitArgs) validate() error {
	var errs []error
	check := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	check(a.Messages >= 0 && a.Messages <= maxMessages, "messages is out of bounds")
	check(a.IntervalMS >= 0 && a.IntervalMS <= maxIntervalMS, "interval_ms is out of bounds")
	check(a.Burst >= 0 && a.Burst <= maxMessages, "burst is out of bounds")
	check(a.Bytes >= 0 && a.Bytes <= maxEmitBytes, "bytes is out of bounds")
	check(a.ResultBytes >= 0 && a.ResultBytes <= maxEmitBytes, "result_bytes is out of bounds")
	check(a.Hold.Streams >= 0 && len(a.Hold.Key) <= 128, "hold is out of bounds")
	check(a.On == "" || a.On == onCall || a.On == onGet, `on is neither "call" nor "get"`)
	check(a.Requests >= 0 && a.Requests <= maxSpread, "requests is out of bounds")
	check(a.PollingCloses >= 0 && a.PollingCloses <= maxSpread, "polling_closes is out of bounds")
	return errors.Join(errs...)
}

// AddEmit adds the tool emit to a server: it sends numbered progress notifications,
// at a pace, and enters them in the ledger, which may be nil. They go on the stream of
// its call, or, in the background, on the GET stream of the session. It needs a
// [Handler] in front of the server.
func AddEmit(server *mcp.Server, ledger *Ledger) {
	gate := newBarrier()
	server.AddTool(&mcp.Tool{
		Name:        "emit",
		Description: "Sends numbered progress notifications on the stream of the call, then a result.",
		InputSchema: json.RawMessage(emitSchema),
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args := emitArgs{}
		if raw := req.Params.Arguments; len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, invalid(err)
			}
		}
		if err := args.validate(); err != nil {
			return nil, invalid(err)
		}
		out, stream, answer, ok := outletFrom(ctx)
		if !ok {
			return nil, errors.New("emit needs the reference server's own handler")
		}
		token := req.Params.Meta["progressToken"]
		req.Params.Meta = mcp.Meta{"progressToken": token} // the one that was decoded takes 4.7 KB as long as we run
		e := &emission{args: args, token: token, gate: gate, stream: stream, out: out, client: req.Session}
		e.account = ledger.begin(tokenName(e.token))
		if e.account != nil && answer != nil {
			answer(e.account.answered)
		}
		if args.On == onGet {
			return e.inBackground(ctx)
		}
		sent, err := e.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("emit: %w", err)
		}
		return e.result("emitted " + strconv.Itoa(sent)), nil
	})
}

func invalid(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "emit: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// result is what a call is answered with: a text, filled up to the size asked for, and
// the name of the call.
func (e *emission) result(text string) *mcp.CallToolResult {
	if n := e.args.ResultBytes - len(text) - 1; n > 0 {
		text += " " + plainFiller(n)
	}
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	if name := tokenName(e.token); name != "" {
		result.Meta = mcp.Meta{"gapless/call": name}
	}
	return result
}

// tokenName returns a progress token as text, "" when there is none.
func tokenName(token any) string {
	switch t := token.(type) {
	case string:
		return t
	case float64:
		if t == math.Trunc(t) && math.Abs(t) < 1<<53 {
			return strconv.FormatInt(int64(t), 10)
		}
	}
	return ""
}
