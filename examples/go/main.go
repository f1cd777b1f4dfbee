// Command go is an MCP server on the official Go SDK whose streams can be resumed, with
// one tool to test them with. docs/test-your-own-server.md starts here.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type counting struct {
	N          int `json:"n"`
	IntervalMS int `json:"interval_ms,omitempty"`
}

func count(ctx context.Context, req *mcp.CallToolRequest, in counting) (*mcp.CallToolResult, any, error) {
	token, total := req.Params.GetProgressToken(), float64(in.N)
	for n := 1.0; n <= total; n++ {
		p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Total: total}
		if err := errors.Join(ctx.Err(), req.Session.NotifyProgress(ctx, p)); err != nil {
			return nil, nil, err
		}
		<-time.After(time.Duration(in.IntervalMS) * time.Millisecond)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
}

func main() {
	addr := "127.0.0.1:3000"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "count", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, count)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}) // without it there is nothing to resume
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe(addr, nil))
}
