package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// client is one session of a server, seen by the same light client for all servers:
// it parses every event and checks that numbers come without a gap and in order.
type client struct {
	addr    string
	session string
	dial    func(ctx context.Context, addr string) (net.Conn, error)
	lastID  atomic.Int64
}

// conflictPause is how long a client waits before it asks again for a stream that still
// has a connection.
const conflictPause = time.Millisecond

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// open opens a session.
func open(ctx context.Context, addr string) (*client, error) {
	c := &client{addr: addr, dial: dialTCP}
	link, err := c.link(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = link.Close() }()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	resp, err := link.RoundTrip(c.post(hello))
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	answer, err := resp.ReadAll(64 << 10)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	if c.session = resp.Get("Mcp-Session-Id"); resp.Status != http.StatusOK || c.session == "" {
		return nil, fmt.Errorf("initialize: status %d, session %t: %.300s", resp.Status, c.session != "", answer)
	}
	if !resp.Reusable() {
		_ = link.Close()
		if link, err = c.link(ctx); err != nil {
			return nil, err
		}
	}
	resp, err = link.RoundTrip(c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return nil, fmt.Errorf("initialized: %w", err)
	}
	if resp.Status/100 != 2 {
		return nil, fmt.Errorf("initialized: status %d", resp.Status)
	}
	return c, nil
}

func (c *client) link(ctx context.Context) (*wire.Conn, error) {
	conn, err := c.dial(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	return wire.NewConn(conn, wire.Limits{}), nil
}

func (c *client) post(body string) *wire.Request {
	return &wire.Request{Method: "POST", Target: "/mcp", Host: c.addr, Body: []byte(body),
		Fields: append(c.fields(), wire.Field{Name: "Content-Type", Value: "application/json"})}
}

func (c *client) fields() []wire.Field {
	fields := []wire.Field{{Name: "Accept", Value: "application/json, text/event-stream"}}
	if c.session != "" {
		fields = append(fields, wire.Field{Name: "Mcp-Session-Id", Value: c.session},
			wire.Field{Name: "Mcp-Protocol-Version", Value: revision})
	}
	return fields
}

// call calls the tool emit and returns its stream, of which only the head was read.
func (c *client) call(ctx context.Context, args toolArgs) (*stream, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	id := c.lastID.Add(1)
	return c.follow(ctx, c.post(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"emit","arguments":%s,"_meta":{"progressToken":"b%d"}}}`,
		id, text, id)), args.Messages, 0)
}

// resume returns the stream behind a cursor, the event of that number.
func (c *client) resume(ctx context.Context, cursor string, number, messages int) (*stream, error) {
	return c.follow(ctx, &wire.Request{Method: "GET", Target: "/mcp", Host: c.addr,
		Fields: append(c.fields(), wire.Field{Name: "Last-Event-ID", Value: cursor})}, messages, number)
}

func (c *client) follow(ctx context.Context, req *wire.Request, messages, after int) (*stream, error) {
	link, err := c.link(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := link.RoundTrip(req)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", req.Method, err), link.Close())
	}
	if resp.Status == http.StatusConflict && ctx.Err() == nil {
		// go-sdk has not seen yet that the connection before was left.
		_ = link.Close()
		time.Sleep(conflictPause)
		return c.follow(ctx, req, messages, after)
	}
	if resp.Status != http.StatusOK {
		text, _ := resp.ReadAll(64 << 10) // what there is of it
		return nil, errors.Join(fmt.Errorf("%s: status %d: %.300s", req.Method, resp.Status, text), link.Close())
	}
	s := &stream{link: link, want: messages - after, last: after}
	resp.DropHead()
	s.reader.Reset(resp, nil)
	return s, nil
}

// stream is one connection that follows an event stream.
type stream struct {
	link   *wire.Conn
	reader wire.Reader
	event  wire.Event
	parsed wire.Message

	want, events int // progress notifications wanted and seen
	last         int // number of the newest
	again        int // those whose number was not above the one before
	answered     bool
	bytes        int64
}

// next reads one event. It returns io.EOF once the response was seen.
func (s *stream) next() error {
	if s.answered {
		return io.EOF
	}
	if err := s.reader.Next(&s.event); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // there was no response
		}
		return err
	}
	if len(s.event.Data) == 0 {
		return nil // priming
	}
	wire.Scan(s.event.Data, &s.parsed)
	s.bytes += int64(len(s.event.Data))
	switch {
	case s.parsed.IsProgress():
		s.events++
		if number := int(s.parsed.Progress); number > s.last {
			s.last = number
		} else {
			s.again++
		}
	case s.parsed.Kind == wire.KindError:
		return fmt.Errorf("the call was answered with an error: %.300s", s.event.Data)
	case s.parsed.Kind == wire.KindResult:
		s.answered = true
	}
	return nil
}

// drain reads to the end and tells each whenever a notification has come.
func (s *stream) drain(each func()) error {
	defer s.link.Close()
	for {
		before := s.events
		err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d of %d events: %w", s.events, s.want, err)
		}
		if s.events > before {
			each()
		}
	}
}

// missing returns how many notifications have not come.
func (s *stream) missing() int { return s.want - (s.events - s.again) }

// cursor returns the id of the newest event, as text of its own.
func (s *stream) cursor() string { return string(s.reader.Cursor()) }
