package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveGoSDK is the official SDK behind its own handler.
func serveGoSDK(store bool) func(net.Listener) error {
	return func(ln net.Listener) error {
		server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "bench"}, nil)
		addNotifying(server)
		options := &mcp.StreamableHTTPOptions{}
		if store {
			options.EventStore = mcp.NewMemoryEventStore(nil)
		}
		return serveHTTP(ln, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
	}
}

// again is how long a tool of mcp-go waits before it tries again to send what was
// refused because the queue of its session was full.
const again = 20 * time.Microsecond

// serveMCPGo is mark3labs/mcp-go behind its own handler. Its notifications are refused
// when a queue is full: a tool that tries again loses none, one that ignores the error
// loses them.
func serveMCPGo(store, retry bool) func(net.Listener) error {
	return func(ln net.Listener) error {
		server := mcpgoserver.NewMCPServer("mcp-go", "bench", mcpgoserver.WithToolCapabilities(false))
		tool := mcpgo.NewToolWithRawSchema("emit", "", json.RawMessage(toolSchema))
		server.AddTool(tool, func(ctx context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			if err := notifyMCPGo(ctx, server, req, retry); err != nil {
				return nil, err
			}
			return mcpgo.NewToolResultText("done"), nil
		})
		options := []mcpgoserver.StreamableHTTPOption{mcpgoserver.WithStateful(true)}
		if store {
			options = append(options, mcpgoserver.WithEventStore(mcpgoserver.NewInMemoryEventStore()))
		}
		return serveHTTP(ln, mcpgoserver.NewStreamableHTTPServer(server, options...))
	}
}

func notifyMCPGo(ctx context.Context, server *mcpgoserver.MCPServer, req mcpgo.CallToolRequest, retry bool) error {
	text, err := json.Marshal(req.GetRawArguments())
	if err != nil {
		return err
	}
	args, err := parseArgs(text)
	if err != nil {
		return err
	}
	if req.Params.Meta == nil {
		return errors.New("the call has no progress token")
	}
	token, filler := req.Params.Meta.ProgressToken, args.filler()
	return args.paced(ctx, func(k int) error {
		params := map[string]any{"progressToken": token, "message": filler, "progress": k, "total": args.Messages}
		for {
			err := server.SendNotificationToClient(ctx, "notifications/progress", params)
			if !errors.Is(err, mcpgoserver.ErrNotificationChannelBlocked) {
				return err
			}
			if !retry {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(again)
		}
	})
}
