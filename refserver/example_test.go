package refserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An ordinary server of the SDK: one tool, which reports its progress.
func steps() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "steps", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "steps"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		for k := 1.0; k <= 3; k++ {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: k})
			if err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	return server
}

// A server of the SDK becomes resumable: a call whose connection drops after the first
// message goes on where it was.
func Example() {
	events, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := refserver.New(steps(), refserver.Config{Store: events, Retry: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- refserver.Serve(ctx, ln, handler, handler) }()

	client := newSmallClient("http://" + ln.Addr().String())
	stream := client.call("steps")
	cursor := client.next(stream) // the priming event
	cursor = client.next(stream)
	stream.Close() // the connection drops
	stream = client.resume(cursor)
	for client.next(stream) != "" {
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// (priming)
	// notifications/progress 1
	// notifications/progress 2
	// notifications/progress 3
	// done
	// <nil>
}

// A tool that takes long lets go of its connection: the client comes back after retry
// and gets what it missed.
func ExampleStream_CloseConnection() {
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "slow"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		closed := refserver.StreamFrom(ctx).CloseConnection(10 * time.Millisecond)
		text := fmt.Sprintf("done, closed %t", closed)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	events, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := refserver.New(server, refserver.Config{Store: events})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	web := refserver.NewServer(handler)
	defer web.Close()
	go web.Serve(ln) // ends by Close

	client := newSmallClient("http://" + ln.Addr().String())
	stream := client.call("slow")
	cursor := client.next(stream)
	for id := cursor; id != ""; id = client.next(stream) {
		cursor = id
	}
	stream = client.resume(cursor)
	client.next(stream)
	// Output:
	// (priming)
	// done, closed true
}

// smallClient is just enough of a client for the examples.
type smallClient struct {
	url, session string
	lines        map[io.Closer]*bufio.Scanner
}

func newSmallClient(url string) *smallClient {
	c := &smallClient{url: url, lines: map[io.Closer]*bufio.Scanner{}}
	answer := c.send("POST", initBody(latest), "")
	c.session = answer.Header.Get("Mcp-Session-Id")
	answer.Body.Close()
	c.send("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "").Body.Close()
	return c
}

func (c *smallClient) send(method, body, cursor string) *http.Response {
	req, err := http.NewRequest(method, c.url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Session-Id": c.session, "Last-Event-ID": cursor,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	c.lines[resp.Body] = bufio.NewScanner(resp.Body)
	return resp
}

func (c *smallClient) call(tool string) io.Closer {
	return c.send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{},"_meta":{"progressToken":1}}}`, "").Body
}

func (c *smallClient) resume(cursor string) io.Closer { return c.send("GET", "", cursor).Body }

// next prints the next event and returns its id, "" at the end.
func (c *smallClient) next(stream io.Closer) (id string) {
	for lines := c.lines[stream]; lines.Scan(); {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch {
		case string(field) == "id":
			id = string(value)
		case string(field) == "data" && len(value) == 0:
			fmt.Println("(priming)")
		case string(field) == "data":
			_, text, _ := bytes.Cut(value, []byte(`"text":"`))
			if text, _, found := bytes.Cut(text, []byte(`"`)); found {
				fmt.Println(string(text))
			} else if _, n, found := bytes.Cut(value, []byte(`"progress":`)); found {
				fmt.Println("notifications/progress", string(n[:1]))
			}
		case len(field) == 0 && id != "":
			return id
		}
	}
	return ""
}
