package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/process"
)

const (
	// lastLines is how long the lines of a server that died are read for, and how long a
	// server that closed a pipe has to die.
	lastLines = time.Second
	// maxLost bounds how many calls that nobody waits for are remembered in a session.
	maxLost = 4096
	// maxKept bounds the buffer that is kept from one line to the next, in bytes.
	maxKept = 1 << 20
)

// A session is a server process and the POSTs that wait for it.
type session struct {
	b     *bridge
	id    string
	p     *process.Process
	lines chan []byte   // to the server
	dead  chan struct{} // closed at its end
	eof   chan struct{} // closed when stdout was read to its end
	once  sync.Once
	cause error // why it ended by itself; valid once dead is closed

	mu   sync.Mutex
	open []*call // oldest first
	// lost holds the ids and tokens of unanswered calls whose client has gone; what is
	// said of them is no fault of the server. forgot: there were too many of them, so
	// nothing that belongs to no call is held against the server any more.
	lost   map[string]bool
	forgot bool
}

func newSession(b *bridge, id string, p *process.Process) *session {
	return &session{
		b: b, id: id, p: p, lines: make(chan []byte), lost: map[string]bool{},
		dead: make(chan struct{}), eof: make(chan struct{}),
	}
}

func (s *session) start() {
	s.b.group.Go(s.write)
	s.b.group.Go(s.read)
	s.b.group.Go(s.watch)
}

// send hands a line to the server; false: the session or the client ended before.
func (s *session) send(r *http.Request, line []byte) bool {
	select {
	case s.lines <- line:
		return true
	case <-s.dead:
	case <-r.Context().Done():
	}
	return false
}

func (s *session) write() {
	for {
		select {
		case line := <-s.lines:
			if _, err := s.p.Stdin().Write(line); err != nil {
				s.fail("it closed its stdin")
				return
			}
		case <-s.dead:
			return
		}
	}
}

// watch ends the session of a server that died while its children hold its stdout open.
func (s *session) watch() {
	select {
	case <-s.p.Exited():
		select {
		case <-s.eof:
		case <-time.After(lastLines):
		}
		s.fail("it ended")
	case <-s.dead:
	}
}

func (s *session) read() {
	defer close(s.eof)
	in := bufio.NewReaderSize(s.p.Stdout(), 64<<10)
	var line []byte
	for {
		if cap(line) > maxKept {
			line = nil
		}
		var err error
		if line, err = readLine(in, line[:0]); err != nil {
			if errors.Is(err, errLong) {
				s.breach("a line of its stdout has more than 16 MiB")
			} else {
				s.fail("it closed its stdout")
			}
			return
		}
		if len(line) == 0 {
			continue
		}
		if err := s.route(line); err != nil {
			s.breach("a line of its stdout is no JSON-RPC message: " + excerpt(line) + " (what is not for the client belongs to stderr)")
			return
		}
	}
}

var errLong = errors.New("line too long")

// readLine appends a line to buf, without its end. What has no end is no line.
func readLine(in *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(buf)+len(part) > maxMessage+2 {
			return buf, errLong
		}
		buf = append(buf, part...)
		switch {
		case err == nil:
			return bytes.TrimSpace(buf), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return buf, io.EOF
		}
	}
}

// route gives the message, or each of a batch, to the POST that it belongs to.
func (s *session) route(line []byte) error {
	if line[0] == '[' { // 2025-03-26
		var batch []json.RawMessage
		if err := json.Unmarshal(line, &batch); err != nil {
			return err
		}
		for _, one := range batch {
			if len(one) == 0 || one[0] == '[' {
				return errNotObject
			}
			if err := s.route(one); err != nil {
				return err
			}
		}
		return nil
	}
	m, err := parse(line)
	if err != nil {
		return err
	}
	if bytes.IndexByte(line, '\r') >= 0 { // space in JSON, but the end of a line in an event
		var flat bytes.Buffer
		if err := json.Compact(&flat, line); err != nil {
			return err
		}
		line = flat.Bytes()
	}
	if c := s.owner(&m); c != nil {
		c.deliver(line, m.response())
		if c.first && len(m.Error) > 0 {
			s.end(nil) // no session came of it
		}
	}
	return nil
}

// owner finds the POST for a message; nil: there is none. With its response a call is over.
func (s *session) owner(m *message) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, token := "", key(m.Params.ProgressToken)
	if m.response() {
		id, token = key(m.ID), ""
	}
	i := slices.IndexFunc(s.open, func(c *call) bool {
		return id == "" && token == "" || id != "" && c.id == id || token != "" && c.token == token
	})
	switch mark := "i" + id; {
	case i >= 0 && id != "":
		c := s.open[i]
		s.open = slices.Delete(s.open, i, i+1)
		return c
	case i >= 0:
		return s.open[i]
	case id == "" && token == "": // nobody listens, as between two calls
	case id != "" && s.lost[mark]:
		delete(s.lost, mark)
	case token != "" && s.lost["t"+token]:
	case !s.forgot:
		s.b.stray()
	}
	return nil
}

// admit lets a call in, or says with which status it is refused and why.
func (s *session) admit(c *call) (status int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if within(s.dead) {
		return http.StatusNotFound, "the session ended"
	}
	for _, o := range s.open {
		if o.id == c.id {
			return http.StatusBadRequest, "a request with this id is not answered yet"
		}
		if c.token != "" && o.token == c.token {
			return http.StatusBadRequest, "a request with this progress token is not answered yet"
		}
	}
	delete(s.lost, "i"+c.id)
	delete(s.lost, "t"+c.token)
	s.open = append(s.open, c)
	return 0, ""
}

// leave takes a call out whose client waits no more.
func (s *session) leave(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.open, c)
	if i < 0 {
		return
	}
	s.open = slices.Delete(s.open, i, i+1)
	if len(s.lost) >= maxLost {
		clear(s.lost)
		s.forgot = true
	}
	s.lost["i"+c.id] = true
	if c.token != "" {
		s.lost["t"+c.token] = true
	}
}

// fail ends the session because of what the server seems to have done. Most do it by dying.
func (s *session) fail(what string) {
	select {
	case <-s.p.Exited():
	case <-s.dead:
	case <-time.After(lastLines):
	}
	if err := s.p.Died(); err != nil {
		s.end(err)
		return
	}
	s.end(fmt.Errorf("the server left the session: %s", what))
}

// breach ends the session because the server does not keep to the transport.
func (s *session) breach(what string) {
	s.end(fmt.Errorf("the server broke the stdio transport: %s", what))
}

// end ends the session and its server; cause is nil when we wanted it.
func (s *session) end(cause error) {
	s.once.Do(func() {
		s.cause = cause
		s.b.remove(s.id)
		if cause != nil {
			s.b.failed(cause)
		}
		close(s.dead)
		s.b.group.Go(func() {
			if err := s.p.Stop(leave); err != nil && cause == nil {
				s.b.failed(err)
			}
			s.b.release()
		})
	})
}

// why says why the session ended.
func (s *session) why() string {
	if !within(s.dead) || s.cause == nil {
		return "the session was ended"
	}
	return s.cause.Error()
}

// excerpt shows the beginning of a line in quotes.
func excerpt(line []byte) string {
	const most = 80
	if len(line) > most {
		return strconv.QuoteToASCII(string(line[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}
