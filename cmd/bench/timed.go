package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// appendKind begins the names of the servers that time their appends.
const appendKind = "appends"

// timed measures, inside the server, how long a tool waits for each of its messages to
// be appended.
type timed struct {
	mu    sync.Mutex
	calls []*timedCall
}

// timedCall has a histogram of its own, so that writers do not wait for one another.
type timedCall struct {
	mu   sync.Mutex
	took *hdrhistogram.Histogram
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 2) }

func (t *timed) begin() *timedCall {
	c := &timedCall{took: newHistogram()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, c)
	return c
}

func (c *timedCall) record(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.took.RecordValue(max(d.Nanoseconds(), 1)) // an append takes less than a minute
}

// quantiles returns what appends took since it was last called.
func (t *timed) quantiles() string {
	all := newHistogram()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		c.mu.Lock()
		all.Merge(c.took)
		c.took.Reset()
		c.mu.Unlock()
	}
	text, err := json.Marshal(quantiles{
		Count: all.TotalCount(), P50: all.ValueAtQuantile(50), P99: all.ValueAtQuantile(99),
		P999: all.ValueAtQuantile(99.9), Max: all.Max(),
	})
	if err != nil {
		return ""
	}
	return string(text)
}

// addTool adds a tool emit that appends ready-made messages to its stream.
func (t *timed) addTool(server *mcp.Server) {
	tool := &mcp.Tool{Name: "emit", InputSchema: json.RawMessage(toolSchema)}
	server.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := parseArgs(req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		stream := refserver.StreamFrom(ctx)
		if stream == nil {
			return nil, errors.New("no stream")
		}
		call, filler := t.begin(), args.filler()
		var message []byte
		return &mcp.CallToolResult{}, args.paced(ctx, func(k int) error {
			message = append(message[:0], `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"`...)
			message = append(message, filler...)
			message = append(message, `","progress":`...)
			message = strconv.AppendInt(message, int64(k), 10)
			message = append(message, `,"progressToken":"b1"}}`...)
			begun := time.Now()
			err := stream.Send(ctx, message)
			call.record(time.Since(begun))
			return err
		})
	})
}
