package streams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-dev/gapless/internal/memnet"
	"github.com/gapless-dev/gapless/refserver/streams"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const fuzzHello = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"streams":{}},"clientInfo":{"name":"t","version":"1"}}}` + "\n"

// counted is an output that is bounded by what the input can ask for.
type counted struct{ n atomic.Int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// FuzzLink gives a link anything: lines, or the bytes behind the handshake of a WebSocket.
// It must come to an end, leave no session, and hold no more than it may.
func FuzzLink(f *testing.F) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`
	for _, text := range []string{
		"", "\n\n", "{", "[]", "null\n", strings.Repeat("x", 9000), call, call + "\n" + call + "\n" + call,
		`{"jsonrpc":"2.0","id":2,"method":"stream/resume","params":{"streamId":"a","resumeToken":"b"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"stream/poll","params":{"stream":{"streamId":"a","resumeToken":"b"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":"x","error":7}`, fuzzHello, "\x00\xff\xfe",
		"\x81\x85\x00\x00\x00\x00hello", "\x82\x80\x00\x00\x00\x00", "\x89\xfe\xff\xff", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x88\x82\x00\x00\x00\x00\x03\xe8",
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, input []byte, frames bool) {
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
		s, err := streams.New(server, streams.Config{Limits: streams.Limits{Message: 8000, Streams: 10, Bytes: 50_000, Calls: 5}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if frames {
			fuzzFrames(ctx, t, s, input)
		} else {
			out := new(counted)
			_ = s.ServeStdio(ctx, io.MultiReader(strings.NewReader(fuzzHello), bytes.NewReader(input)), out) // a line may be too long
			if n := out.n.Load(); n > int64(len(input))*400+10_000 {
				t.Errorf("%d bytes are answered with %d", len(input), n)
			}
		}
		if err := s.Shutdown(ctx); err != nil {
			t.Fatalf("something is left: %v", err)
		}
	})
}

// fuzzFrames sends bytes behind the handshake of a WebSocket, and leaves.
func fuzzFrames(ctx context.Context, t *testing.T, s *streams.Server, input []byte) {
	ln := memnet.Listen()
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(serving, ln, nil) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	conn, err := ln.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "GET /mcp/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	go func() { // the server may end the link before it has read all
		_, _ = io.WriteString(conn, head)
		_, _ = conn.Write(input)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	answer := make([]byte, len("HTTP/1.1 101"))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 "+http.StatusText(0)+"101" {
		t.Errorf("the handshake: %q, %v", answer, err)
	}
	_, _ = io.Copy(io.Discard, conn) // until the server ends it
}
