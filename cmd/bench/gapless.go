package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func gaplessKinds() []kind {
	appends := new(timed)
	all := []kind{
		{name: ours, store: true, serve: gaplessServer{store: true}.serve},
		{name: oursHandoff, store: true, serve: gaplessServer{store: true, delivery: refserver.Handoff}.serve},
		{name: "gapless, no store", serve: gaplessServer{}.serve},
		{name: "gapless, SDK's NotifyProgress", store: true, serve: gaplessServer{store: true, tool: addNotifying}.serve},
		{name: "gapless, net/http framing", store: true, serve: gaplessServer{store: true, keep: true}.serve},
	}
	for i, delivery := range []refserver.Delivery{refserver.Follow, refserver.Handoff} {
		for _, scope := range []lock.Scope{lock.Stream, lock.Session, lock.Global} {
			all = append(all, kind{
				name:   fmt.Sprintf("%s, %s, lock %s", appendKind, [...]string{"follow", "handoff"}[i], scope),
				hidden: true, timed: appends,
				serve: gaplessServer{
					store: true, limits: roomy(), delivery: delivery, lock: scope, tool: appends.addTool,
				}.serve,
			})
		}
	}
	return all
}

// roomy has room for all events of all streams of a run of append, so that a stream
// loses its oldest events but no session pays for the others.
func roomy() store.Limits { return store.Limits{Bytes: 512 << 20} }

// gaplessServer is the reference server, with the tool emit of its fixture unless
// another is named.
type gaplessServer struct {
	store, keep bool
	limits      store.Limits
	delivery    refserver.Delivery
	lock        lock.Scope
	tool        func(*mcp.Server)
}

func (g gaplessServer) serve(ln net.Listener) error {
	cfg := refserver.Config{
		KeepConnections: g.keep, Delivery: g.delivery, Lock: g.lock,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if g.store {
		events, err := store.NewMemory(store.MemoryConfig{Limits: g.limits, Lock: g.lock})
		if err != nil {
			return err
		}
		cfg.Store = events
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gapless", Version: "bench"}, nil)
	if g.tool == nil {
		refserver.AddEmit(server, nil)
	} else {
		g.tool(server)
	}
	handler, err := refserver.New(server, cfg)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return refserver.Serve(context.Background(), ln, mux, handler)
}

// addNotifying adds an ordinary tool of an ordinary SDK server: it knows nothing of
// what carries its notifications.
func addNotifying(server *mcp.Server) {
	tool := &mcp.Tool{Name: "emit", InputSchema: json.RawMessage(toolSchema)}
	server.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := parseArgs(req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		token, filler := req.Params.GetProgressToken(), args.filler()
		err = args.paced(ctx, func(k int) error {
			return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Message: filler, Progress: float64(k), Total: float64(args.Messages),
			})
		})
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
}
