//go:build unix

package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
)

// play is the variable that makes the test binary play a stdio server.
const play = "GAPLESS_STDIO_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(play) {
	case "":
		os.Exit(m.Run())
	case "ours":
		serve()
	case "dead":
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(4)
	case "sdk":
		sdkServer()
	}
}

// server starts one of the servers above.
func server(role string) func() (*process.Process, error) {
	return func() (*process.Process, error) {
		return process.Start(process.Config{
			Command: "'" + strings.ReplaceAll(os.Args[0], "'", `'\''`) + "'",
			Env:     append(os.Environ(), play+"="+role), Stdin: true, Stdout: true,
		})
	}
}

type request struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Params struct {
		Name      string
		Arguments struct{ N int }
		Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
}

// serve is a server that does to its client what the name of the tool says.
func serve() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 32<<20)
	var held []request
	for in.Scan() {
		var r request
		_ = json.Unmarshal(in.Bytes(), &r)
		if !json.Valid(in.Bytes()) {
			fmt.Fprintln(os.Stderr, "a line that is no JSON")
			os.Exit(5)
		}
		switch {
		case r.Method == "initialize" && strings.Contains(in.Text(), "1999-01-01"):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"what year is it?"}}`+"\n", r.ID)
		case r.Method == "initialize":
			result(r, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"ours","version":"1"}}`)
		case r.Method == "notifications/release":
			for _, h := range held {
				progress(h, 1)
				result(h, `{"held":true}`)
			}
			held = nil
		case r.Method == "" && len(r.Result) > 0:
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}`+"\n", r.Result)
		case r.Method == "tools/call" && r.Params.Name == "hold":
			progress(r, 0)
			held = append(held, r)
		case r.Method == "tools/call":
			tool(r)
		}
	}
}

func tool(r request) {
	switch r.Params.Name {
	case "count":
		for i := range r.Params.Arguments.N {
			progress(r, i+1)
		}
	case "die":
		progress(r, 1)
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "noise":
		fmt.Println("Server is running\x1b[0m")
	case "long":
		fmt.Println(`{"x":"` + strings.Repeat("x", maxMessage+10) + `"}`)
	case "wide":
		progress(r, 1)
		fmt.Println(`{"method":"x","pad":"` + strings.Repeat("x", maxMessage-100) + `"}`)
	case "ask":
		fmt.Println(`{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{}}`)
		return // the client has to release it
	case "twice":
		result(r, `{}`)
	case "batch":
		fmt.Printf("[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"},\r{\"jsonrpc\":\"2.0\",\r\"id\":%s,\"result\":{}}]\r\n\n", r.ID)
		return
	case "pid":
		result(r, fmt.Sprint(os.Getpid()))
		return
	case "deaf": // reads no more
		progress(r, 1)
		select {}
	}
	result(r, `{"ok":true}`)
}

func progress(r request, i int) {
	fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n",
		r.Params.Meta.ProgressToken, i)
}

func result(r request, text string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, text)
}

// sdkServer is a stdio server as others write them.
func sdkServer() {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(ctx context.Context, r *mcp.CallToolRequest, a struct{ N int }) (*mcp.CallToolResult, any, error) {
		for i := range a.N {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(a.N),
			})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
