package streams

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// handshakeTime is how long a link may live without an initialize.
const handshakeTime = 30 * time.Second

// wire carries whole messages, both ways, in order.
type wire interface {
	// read returns the next message; an error is the end of the link. It has one caller.
	read() ([]byte, error)
	// write returns when the message is on its way, or cannot be. It has one caller at a
	// time.
	write([]byte) error
	// close ends read and write, with a reason for the client if there is a way to tell it.
	close(reason string)
}

// link is a connection that carries the messages of many streams, told apart by their
// requestId. It has one session, which begins with initialize.
type link struct {
	s      *Server
	wire   wire
	ses    *session
	header http.Header
	info   *auth.TokenInfo
	ctx    context.Context // done when the link is
	cancel context.CancelFunc
	work   sync.WaitGroup // attachments

	mu sync.Mutex // held while writing
}

// serveLink serves a link until it ends.
func (s *Server) serveLink(w wire, transport, principal string, header http.Header, info *auth.TokenInfo) {
	l := &link{s: s, wire: w, header: header, info: info}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	defer l.cancel()
	if !s.track(l) {
		w.close("the server is shutting down")
		return
	}
	defer s.untrack(l)
	ses, err := s.newSession(principal, l)
	if err != nil {
		w.close("too many sessions")
		return
	}
	l.ses = ses
	s.metrics.links[transport].Inc()
	defer s.metrics.links[transport].Dec()
	late := time.AfterFunc(handshakeTime, func() {
		if !ses.isReady() {
			l.close("initialize did not come")
		}
	})
	defer late.Stop()
	for {
		text, err := w.read()
		if err != nil || l.ctx.Err() != nil {
			break
		}
		l.receive(text)
	}
	l.close("")
	l.work.Wait()
	ses.part()
}

func (s *Server) track(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.links[l] = struct{}{}
		s.running.Add(1)
	}
	return !s.stopped
}

func (s *Server) untrack(l *link) {
	s.mu.Lock()
	delete(s.links, l)
	s.mu.Unlock()
	s.running.Done()
}

// close ends the link. Its streams go on.
func (l *link) close(reason string) {
	l.cancel()
	l.wire.close(reason)
}

// send writes one message and reports whether it is on its way. A client that leaves it
// unread for too long loses the link.
func (l *link) send(message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	if err := l.wire.write(message); err != nil {
		l.close("")
		return false
	}
	return true
}

// linkSink gives the messages of one stream to a link. Other streams get their turn
// between any two of them.
type linkSink struct{ l *link }

func (o linkSink) send(batch []message) error {
	for _, m := range batch {
		if !o.l.send(m.data) {
			return errCut
		}
	}
	return nil
}

// cut implements [sink]: the link is others' too.
func (o linkSink) cut() {}

// receive takes one message of the client.
func (l *link) receive(text []byte) {
	m, failed := decode(text)
	if failed != nil {
		l.send(errorMessage(jsonrpc.ID{}, failed))
		return
	}
	req, isRequest := m.(*jsonrpc.Request)
	switch {
	case !isRequest:
		l.s.answer(m.(*jsonrpc.Response), l.ses.principal)
	case !req.IsCall():
		req.Extra = extra(l.header, l.info, nil)
		if req.Method == methodCancelled {
			l.ses.cancelled(req)
		} else {
			l.ses.push(req)
		}
	case req.Method == methodInitialize:
		l.initialize(req)
	case req.Method == methodPoll && l.ses.declared():
		l.send(l.s.poll(req, nil, l.ses.principal))
	case req.Method == methodResume && l.ses.declared():
		l.resume(req)
	default:
		l.call(req)
	}
}

// refused answers a request that was not taken. If another one with its id is in flight
// the answer has none: it would be taken for that one's.
func (l *link) refused(id jsonrpc.ID, failed *jsonrpc.Error) {
	if failed.Code == jsonrpc.CodeInvalidRequest {
		id = jsonrpc.ID{}
	}
	l.send(errorMessage(id, failed))
}

func (l *link) initialize(req *jsonrpc.Request) {
	declared := declaresStreams(req.Params)
	c := &call{session: l.ses, id: req.ID}
	c.reply = func(answer []byte) {
		l.ses.opened(answer, declared)
		l.send(answer)
	}
	if failed := l.ses.register(c); failed != nil {
		l.refused(req.ID, failed)
		return
	}
	req.Params = withVersion(req.Params)
	req.Extra = extra(l.header, l.info, nil)
	l.ses.push(req)
}

func (l *link) call(req *jsonrpc.Request) {
	c, a, failed := l.ses.begin(req, linkSink{l})
	if failed != nil {
		l.refused(req.ID, failed)
		return
	}
	req.Extra = extra(l.header, l.info, c)
	l.run(c, a)
	l.ses.push(req)
}

func (l *link) resume(req *jsonrpc.Request) {
	c, failed := l.ses.resume(req, nil, linkSink{l})
	if failed != nil {
		l.refused(req.ID, failed)
		return
	}
	l.run(c, c.resume)
}

// run has an attachment follow its stream on the link.
func (l *link) run(c *call, a *attachment) {
	l.work.Go(func() {
		if l.ses.run(c, a, l.ctx.Done()) == outcomeClosed && a.closedByServer() {
			l.close("the server closes the connection; its streams go on")
		}
	})
}
