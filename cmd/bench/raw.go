package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// raw is what no server can beat by much: a goroutine per connection that writes bytes
// which are ready, without a session, a store or a check.
type raw struct {
	batch int // bytes per write; 0: one event per write
	drop  int // every so manieth event is left out; 0: none
}

func (s raw) serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() { // ends when the client leaves, or with the process
			defer conn.Close()
			_ = s.exchange(conn) // the client sees that its stream is cut short
		}()
	}
}

// exchange answers requests on one connection until one is answered with a stream.
func (s raw) exchange(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 2<<10)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return err
		}
		switch {
		case req.Method == http.MethodGet:
			after, total, err := parseRawID(req.Header.Get("Last-Event-ID"))
			if err != nil {
				return err
			}
			return s.stream(conn, 1, after, toolArgs{Messages: total, Bytes: messageBytes})
		case bytes.Contains(body, []byte(`"tools/call"`)):
			return s.call(conn, body)
		case bytes.Contains(body, []byte(`"initialize"`)):
			const hello = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"` + revision + `","capabilities":{},"serverInfo":{"name":"raw","version":"1"}}}`
			_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: raw\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
		default:
			_, err = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
		}
		if err != nil {
			return err
		}
	}
}

func (s raw) call(conn net.Conn, body []byte) error {
	var m struct {
		ID     int `json:"id"`
		Params struct {
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	args, err := parseArgs(m.Params.Arguments)
	if err != nil {
		return err
	}
	return s.stream(conn, m.ID, 0, args)
}

// stream sends the messages behind number after, and the response.
func (s raw) stream(conn net.Conn, id, after int, args toolArgs) error {
	w := rawWriter{conn: conn, batch: s.batch}
	w.buf = append(w.buf, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	filler := args.filler()
	rest := args
	rest.Messages -= after
	var event []byte
	err := rest.paced(context.Background(), func(k int) error {
		k += after
		if s.drop > 0 && k%s.drop == 0 {
			return nil
		}
		event = appendRawEvent(event[:0], k, args.Messages, filler)
		return w.write(event, args.IntervalMS > 0)
	})
	if err != nil {
		return err
	}
	end := fmt.Appendf(nil, "id: %d-%d\ndata: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"content\":[]}}\n\n", args.Messages+1, args.Messages, id)
	if err := w.write(end, true); err != nil {
		return err
	}
	_, err = io.WriteString(conn, "0\r\n\r\n")
	return err
}

func appendRawEvent(b []byte, k, total int, filler string) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendInt(b, int64(k), 10)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(total), 10)
	b = append(b, "\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"message\":\""...)
	b = append(b, filler...)
	b = append(b, `","progress":`...)
	b = strconv.AppendInt(b, int64(k), 10)
	b = append(b, `,"progressToken":"b1","total":`...)
	b = strconv.AppendInt(b, int64(total), 10)
	return append(b, "}}\n\n"...)
}

// parseRawID takes "number-total" apart.
func parseRawID(id string) (number, total int, err error) {
	a, b, _ := strings.Cut(id, "-")
	if number, err = strconv.Atoi(a); err != nil {
		return 0, 0, fmt.Errorf("event id: %w", err)
	}
	if total, err = strconv.Atoi(b); err != nil {
		return 0, 0, fmt.Errorf("event id: %w", err)
	}
	return number, total, nil
}

// rawWriter writes chunks, as many at once as it may.
type rawWriter struct {
	conn  net.Conn
	batch int
	buf   []byte
}

func (w *rawWriter) write(event []byte, flush bool) error {
	w.buf = strconv.AppendInt(w.buf, int64(len(event)), 16)
	w.buf = append(w.buf, "\r\n"...)
	w.buf = append(w.buf, event...)
	w.buf = append(w.buf, "\r\n"...)
	if !flush && len(w.buf) < w.batch {
		return nil
	}
	_, err := w.conn.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
