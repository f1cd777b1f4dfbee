package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Bounds of what is remembered of one stream.
const (
	maxEvents   = 20_000
	idBytes     = 4 << 20   // of all ids
	keptResults = 8         // whose text is kept
	keptBytes   = 256 << 10 // of each
)

// errFlood says that a stream went past them.
var errFlood = errors.New("more events than are looked at")

// bodyBytes bounds an answer that is no event stream.
const bodyBytes = 1 << 20

// An event is what is remembered of an event, or of a message of a JSON answer.
type event struct {
	id       string
	hasID    bool
	typ      string
	empty    bool // no data: it carries no message
	kind     wire.Kind
	illegal  wire.Illegal
	hash     uint64
	rpcID    string
	method   string
	token    string
	progress float64
	counts   bool          // it has progress
	data     []byte        // of a response
	at       time.Duration // since the request
}

// message tells a notification or a request.
func (e event) message() bool {
	return e.kind == wire.KindNotification || e.kind == wire.KindRequest
}
func (e event) response() bool { return e.kind == wire.KindResult || e.kind == wire.KindError }

// A stream is the answer to a request: an event stream that may go on, or one message.
type stream struct {
	a              *client.Answer
	rd             wire.Reader
	ev             wire.Event
	tap            tap
	began          time.Time
	head           time.Duration // when the head came
	all            []event
	sse            bool
	json           bool
	status         int
	code           int64 // of a JSON-RPC error in the body of a refusal, else 0
	size           int   // bytes of a body that is no event stream
	named, results int   // bytes of ids and texts of responses that are kept
	ended          error // nil while more may come; io.EOF after a clean end
	endAt          time.Duration
}

// newStream takes an answer. What is no event stream is read at once.
func newStream(a *client.Answer, began time.Time) *stream {
	st := &stream{a: a, began: began, head: time.Since(began), status: a.Status, sse: a.SSE(), json: a.JSON()}
	if st.sse && st.status == 200 {
		st.tap = tap{r: a.Response, line: true}
		st.rd.Limits = wire.Limits{Event: 4 << 20, Line: 4 << 20}
		st.rd.Reset(&st.tap, nil)
		return st
	}
	st.sse = false
	data, err := a.ReadAll(bodyBytes)
	st.size = len(data)
	st.finish(err)
	if err == nil {
		st.ended = io.EOF
	}
	if st.json {
		st.add(event{typ: "message"}, data)
	}
	for _, e := range st.all {
		if e.kind == wire.KindError {
			st.code = errorCode(e.data)
		}
	}
	return st
}

// next waits for one more event and tells whether it came before the instant.
func (st *stream) next(until time.Time) bool {
	if st.ended != nil || !st.sse {
		return false
	}
	if len(st.all) >= maxEvents || st.named >= idBytes {
		st.finish(errFlood)
		return false
	}
	if err := st.a.Until(until); err != nil {
		st.finish(err)
		return false
	}
	if err := st.rd.Next(&st.ev); err != nil {
		if !timedOut(err) {
			st.finish(err)
		}
		return false
	}
	st.add(event{
		id: string(st.ev.ID), hasID: st.ev.HasID, typ: string(st.ev.Type), empty: len(st.ev.Data) == 0,
		illegal: st.ev.Illegal, at: time.Since(st.began),
	}, st.ev.Data)
	return true
}

// add remembers a message, or those of a batch.
func (st *stream) add(e event, data []byte) {
	var m wire.Message
	if !e.empty && e.typ == "message" {
		wire.Scan(data, &m)
		if m.Kind == wire.KindBatch {
			for one := range wire.Elements(data) {
				if len(st.all) < maxEvents {
					st.add(e, one)
				}
			}
			return
		}
		e.kind, e.illegal, e.hash = m.Kind, e.illegal|m.Illegal, wire.Hash(data, &m)
		e.rpcID, e.method, e.token = string(m.ID), string(m.Method), string(m.Token)
		e.progress, e.counts = m.Progress, m.IsProgress() && m.HasProgress
		if e.response() && len(data) <= keptBytes && st.results < keptResults {
			st.results++
			e.data = append([]byte(nil), data...)
		}
	}
	st.named += len(e.id)
	st.all = append(st.all, e)
}

// read collects events until stop accepts one, the stream ends or the instant comes.
func (st *stream) read(until time.Time, stop func(event) bool) bool {
	for st.next(until) {
		if stop(st.all[len(st.all)-1]) {
			return true
		}
	}
	return false
}

// drain collects until the stream ends or is quiet for a time, at most until the instant.
func (st *stream) drain(quiet time.Duration, until time.Time) {
	for {
		limit := time.Now().Add(quiet)
		if until.Before(limit) {
			limit = until
		}
		if !st.next(limit) {
			return
		}
	}
}

func (st *stream) finish(err error) { st.ended, st.endAt = err, time.Since(st.began) }

// close ends the link with a FIN.
func (st *stream) close() { st.a.Close() }

// reset ends the link with an RST, where there is one.
func (st *stream) reset() {
	type lingerer interface{ SetLinger(int) error }
	type wrapper interface{ NetConn() net.Conn }
	for link := st.a.Link(); link != nil; {
		if l, ok := link.(lingerer); ok {
			_ = l.SetLinger(0) // then it is a FIN
			break
		}
		w, ok := link.(wrapper)
		if !ok {
			break
		}
		link = w.NetConn()
	}
	st.a.Close()
}

// cursor returns the last committed id.
func (st *stream) cursor() string { return string(st.rd.Cursor()) }

// response returns the first response, nil if none came.
func (st *stream) response() *event {
	for i := range st.all {
		if st.all[i].response() {
			return &st.all[i]
		}
	}
	return nil
}

// count returns how many events there are of a kind.
func (st *stream) count(is func(event) bool) int {
	n := 0
	for _, e := range st.all {
		if is(e) {
			n++
		}
	}
	return n
}

// carried returns the events of an event stream that carry a message.
func (st *stream) carried() []event {
	if !st.sse {
		return nil
	}
	return carried(st.all)
}

// open tells that neither the end nor an error came.
func (st *stream) open() bool { return st.ended == nil }

// short says in a few words what the answer was.
func (st *stream) short() string {
	text := fmt.Sprint(st.status)
	switch {
	case st.sse:
		text += st.content()
		if st.response() != nil {
			return text // what follows it was not waited for everywhere
		}
		if st.open() {
			return text + ", stays open"
		}
		return text + ", " + endWords(st.ended)
	case st.code != 0:
		text += fmt.Sprintf(", error %d", st.code)
	case st.status/100 == 3:
		text += ", a redirect"
	case st.status == 200 && st.response() != nil:
		text += ", a result"
	}
	return text
}

// content says what an event stream has brought.
func (st *stream) content() string {
	messages, responses := st.count(event.message), st.count(event.response)
	if r := st.response(); r != nil && messages == 0 && responses == 1 {
		if r.kind == wire.KindError {
			return fmt.Sprintf(", error %d in an event", errorCode(r.data))
		}
		return ", a result in an event"
	}
	switch n := messages + responses; n {
	case 0:
		return ", no message"
	case 1:
		return ", 1 message"
	default:
		return fmt.Sprintf(", %d messages", n)
	}
}

func endWords(err error) string {
	switch {
	case err == io.EOF:
		return "ends"
	case errors.Is(err, wire.ErrMidEvent):
		return "ends inside an event"
	}
	return client.Words(err)
}

func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// A tap passes the body of an event stream on and notes the comments in it.
type tap struct {
	r        io.Reader
	line     bool // a line begins
	comments []time.Time
}

// commentsKept bounds what is remembered of them.
const commentsKept = 1000

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	for _, c := range p[:n] {
		if t.line && c == ':' && len(t.comments) < commentsKept {
			t.comments = append(t.comments, time.Now())
		}
		t.line = c == '\n' || c == '\r'
	}
	return n, err
}

// open sends a request and takes its answer.
func (x *run) open(ctx context.Context, req client.Request) (*stream, error) {
	select {
	case x.links <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a, err := x.c.Open(ctx, req)
	<-x.links
	if err != nil {
		return nil, err
	}
	return newStream(a, a.Sent), nil
}
