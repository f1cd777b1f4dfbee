package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// post takes one message of the client. A request is answered with an event stream of its
// own, anything else with 202.
func (b *bridge) post(w http.ResponseWriter, r *http.Request) {
	line, m, ok := read(w, r)
	if !ok {
		return
	}
	first := m.name() == "initialize"
	var s *session
	switch {
	case !first:
		s = b.session(w, r)
	case r.Header.Get(sessionHeader) != "":
		refuse(w, http.StatusBadRequest, "initialize opens a session of its own and comes without "+sessionHeader)
	default:
		s = b.open(w)
	}
	if s == nil {
		return
	}
	if key(m.ID) == "" || !m.request() {
		if !s.send(r, line) {
			refuse(w, http.StatusNotFound, "the session ended")
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	c := &call{
		session: s, first: first, id: key(m.ID), token: key(m.Params.Meta.ProgressToken),
		w: w, out: http.NewResponseController(w), done: make(chan struct{}),
	}
	c.serve(r, line)
}

// read reads the message of a POST as one line, or answers the request.
func read(w http.ResponseWriter, r *http.Request) ([]byte, message, bool) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "a message has at most 16 MiB")
		return nil, message{}, false
	case err != nil:
		panic(http.ErrAbortHandler) // the client left in the middle of its request
	}
	var line bytes.Buffer // without the line breaks that JSON may have between its parts
	if err := json.Compact(&line, data); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not JSON")
		return nil, message{}, false
	}
	m, err := parse(line.Bytes())
	switch {
	case line.Bytes()[0] == '[':
		refuse(w, http.StatusBadRequest, "batches do not pass here: send one message per POST")
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body is no JSON-RPC message")
	case m.name() != "" && len(m.ID) > 0 && key(m.ID) == "":
		refuse(w, http.StatusBadRequest, "the id of a request is a string or a number")
	default:
		line.WriteByte('\n')
		return line.Bytes(), m, true
	}
	return nil, message{}, false
}

// refuse answers with a JSON-RPC error that belongs to no request.
func refuse(w http.ResponseWriter, status int, why string) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": why},
	})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// A call is a request that is not answered yet, with the POST that waits for it.
type call struct {
	session   *session
	first     bool // initialize
	id, token string
	out       *http.ResponseController
	done      chan struct{} // closed when the response was written

	mu       sync.Mutex // held for every write
	w        http.ResponseWriter
	begun    bool // the head is written
	deserted bool // the client has gone, or cannot be written to; w is not used any more
}

// serve hands the request to the server and waits for its end: the response, the end of the
// session, which cuts the stream, or that of the client, after which the call runs on.
func (c *call) serve(r *http.Request, line []byte) {
	s := c.session
	if status, why := s.admit(c); why != "" {
		refuse(c.w, status, why)
		return
	}
	if !c.first {
		c.mu.Lock()
		c.begin()
		c.mu.Unlock()
	}
	if s.send(r, line) {
		select {
		case <-c.done:
		case <-s.dead:
		case <-r.Context().Done():
		}
	}
	if within(c.done) {
		return
	}
	begun := c.desert()
	s.leave(c)
	if c.first && r.Context().Err() != nil {
		s.end(nil) // nobody knows the id of this session
	}
	if begun || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	refuse(c.w, http.StatusBadGateway, s.why())
}

// desert keeps the server's messages from a POST that waits no more; it tells whether the
// head was written. A write to a client that does not read is broken off.
func (c *call) desert() (begun bool) {
	_ = c.out.SetWriteDeadline(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deserted = true
	if !c.begun {
		_ = c.out.SetWriteDeadline(time.Time{})
	}
	return c.begun
}

// begin writes the head; c.mu is held.
func (c *call) begin() {
	c.begun = true
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	if c.first {
		h.Set(sessionHeader, c.session.id)
	}
	c.w.WriteHeader(http.StatusOK)
	_ = c.out.Flush()
}

// deliver writes a message as an event, without an id: there is nothing to resume from. It
// waits for a client that does not read, and with it waits the server: one pipe is all it has.
func (c *call) deliver(line []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deserted {
		return
	}
	if !c.begun {
		c.begin()
	}
	for _, part := range [][]byte{[]byte("event: message\ndata: "), line, []byte("\n\n")} {
		if _, err := c.w.Write(part); err != nil {
			c.deserted = true
			return
		}
	}
	if c.out.Flush() != nil {
		c.deserted = true
		return
	}
	if last {
		close(c.done)
	}
}

func within(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
