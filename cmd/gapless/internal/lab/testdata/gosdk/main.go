// Command gosdk is an MCP server on the official Go SDK and its memory store, with the
// tool of count.mjs: what the end-to-end tests run beside the servers on Node.
//
//	gosdk PORT
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type counting struct {
	N          int `json:"n"`
	IntervalMS int `json:"interval_ms,omitempty"`
	Burst      int `json:"burst,omitempty"`
}

// count sends 1..N, Burst of them in a row, then waits IntervalMS.
func count(ctx context.Context, req *mcp.CallToolRequest, in counting) (*mcp.CallToolResult, any, error) {
	for i := 1; i <= in.N; i++ {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Total: float64(in.N),
		})
		if err != nil {
			return nil, nil, err
		}
		if i%max(in.Burst, 1) != 0 {
			continue
		}
		select {
		case <-time.After(time.Duration(in.IntervalMS) * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gosdk PORT")
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "count-go", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, count)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}
