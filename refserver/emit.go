package refserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
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
"polling_closes":{"type":"integer","minimum":0}}}`

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
	PollingCloses int `json:"polling_closes"`
}

// Bounds of the arguments.
const (
	maxMessages   = 10_000_000
	maxEmitBytes  = 16 << 20
	maxIntervalMS = 3_600_000
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
	return errors.Join(errs...)
}

// emitLag is how many unread bytes emit leaves before its client.
const emitLag = 256 << 10

// AddEmit adds the tool emit to a server: it sends numbered progress notifications,
// at a pace, on the stream of its call, and enters them in the ledger, which may be
// nil. It needs a [Handler] in front of the server.
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
		stream := StreamFrom(ctx)
		if stream == nil {
			return nil, errors.New("emit needs the reference server's own handler")
		}
		return emit(ctx, stream, ledger, gate, args, req.Params.Meta["progressToken"])
	})
}

func invalid(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "emit: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
}

func emit(ctx context.Context, stream *Stream, ledger *Ledger, gate *barrier, args emitArgs, token any) (*mcp.CallToolResult, error) {
	name := tokenName(token)
	account := ledger.begin(name)
	sent, err := 0, gate.wait(ctx, args.Hold.Key, args.Hold.Streams)
	if err == nil {
		sent, err = emitAll(ctx, stream, account, args, token)
	}
	gate.leave(args.Hold.Key)
	if account != nil {
		stream.onAnswer(account.answered)
	}
	account.ended(ctx.Err() != nil)
	if err != nil {
		return nil, fmt.Errorf("emit: %w", err)
	}
	text := "emitted " + strconv.Itoa(sent)
	if n := args.ResultBytes - len(text) - 1; n > 0 {
		text += " " + plainFiller(n)
	}
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	if name != "" {
		result.Meta = mcp.Meta{"gapless/call": name}
	}
	return result, nil
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

// emitAll sends the messages of a call, burst after burst, at instants counted from
// the first one, and returns how many it sent.
func emitAll(ctx context.Context, stream *Stream, account *entry, args emitArgs, token any) (int, error) {
	if token == nil || args.Messages == 0 {
		return 0, nil // without a token there is nothing to notify progress of
	}
	message := newProgress(token, args.Messages, args.Bytes)
	limit := max(emitLag/int64(max(args.Bytes, 128)), 16)
	interval := time.Duration(args.IntervalMS * float64(time.Millisecond))
	burst := max(args.Burst, 1)
	start := time.Now()
	var timer *time.Timer
	for k := 1; k <= args.Messages; k++ {
		if interval > 0 && k > 1 && (k-1)%burst == 0 {
			wait := time.Until(start.Add(interval * time.Duration((k-1)/burst)))
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			} else {
				timer.Reset(wait)
			}
			select {
			case <-timer.C:
			case <-ctx.Done():
				return k - 1, ctx.Err()
			}
		}
		if err := stream.waitRoom(ctx, limit); err != nil {
			return k - 1, err
		}
		frame, body := message.frame(k)
		account.intend(xxhash.Sum64(body))
		err := stream.append(ctx, frame, false)
		account.emitted(err)
		if err != nil {
			return k - 1, err
		}
	}
	return args.Messages, nil
}
