package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/internal/guard"
)

const (
	maxHead = 64 << 10
	// maxGather bounds a request that is sent on only when it is complete, so that it is
	// known what kind of call it is.
	maxGather = 16 << 10
)

// A relay is one client link and its upstream. Two goroutines share it: run reads the
// client and owns everything but while an exchange is answered; answer reads the
// upstream from start to over.
//
//	client ─► run ── head, body ─────────────────► chaos.Link ─► upstream
//	client ◄─ answer ◄─ scan ◄─ chaos.Link.Read ◄─────────────── upstream
//
// The chaos link changes hands with the exchange: run begins it and writes the request,
// answer reads and ends it. What of a body is still to come when answer has begun is
// written beside the chaos link.
type relay struct {
	p      *Proxy
	client *port
	in     []byte // has been read from the client and not been sent on

	server  *port // nil until the first request
	link    *chaos.Link
	start   chan *exchange // run → answer
	over    chan struct{}  // answer → run: the response is complete
	resting chan struct{}  // answer → run: nobody reads the upstream
	gone    chan struct{}  // closed when answer has returned
	running bool           // an exchange was started and over has not been received

	number uint64
	// current is the stream of the calls so far, between exchanges.
	current *stream
	// opaque: both sides have agreed on another protocol than HTTP.
	opaque atomic.Bool

	mu      sync.Mutex // guards what follows
	stopped bool
	account Account
}

func newRelay(p *Proxy, number uint64, conn net.Conn) *relay {
	r := &relay{p: p, client: newPort(conn, p, &p.counters.fromClient), number: number}
	r.account = Account{Link: number, Client: conn.RemoteAddr().String()}
	return r
}

// stop closes both ends, from any goroutine.
func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.ended(EndShutdown)
	_ = r.client.Close() // whoever reads it finds out
	if r.link != nil {
		_ = r.link.Close()
	}
}

// ended notes how the link ended; the first reason stays, but for a fault's. r.mu is
// held.
func (r *relay) ended(e End) {
	if r.account.End == EndNone || e == EndCut {
		r.account.End = e
	}
}

func (r *relay) setEnd(e End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended(e)
}

// run relays one exchange after the other until one side is gone.
func (r *relay) run(ctx context.Context, group *guard.Group) {
	defer r.finish()
	for {
		req, err := r.gather()
		if err != nil {
			r.clientEnded(err)
			return
		}
		if !r.rest() {
			r.leave()
			return
		}
		if r.link == nil {
			if err := r.connect(ctx, group); err != nil {
				if ctx.Err() != nil {
					r.setEnd(EndShutdown)
					return
				}
				r.setEnd(EndRefused)
				r.refuse("502 Bad Gateway", fmt.Sprintf("gapless proxy: the upstream %s cannot be reached: %v", r.p.cfg.Upstream, cause(err)))
				return
			}
		}
		if err := r.exchange(req); err != nil {
			r.clientEnded(err)
			return
		}
	}
}

// finish closes what is open, waits for answer and hands in the account.
func (r *relay) finish() {
	if r.link != nil {
		_ = r.link.Close()
		close(r.start)
		<-r.gone
	}
	_ = r.client.Close()
	if r.current != nil {
		r.p.streams.put(r.current, nil)
	}
	r.mu.Lock()
	a := r.account
	r.mu.Unlock()
	a.FromClient = r.client.read.Load()
	a.ToClient = r.client.written.Load()
	if r.server != nil {
		a.FromServer = r.server.read.Load()
		if a.End == EndShutdown {
			_ = r.server.Close() // a black hole may have kept it open
		}
	}
	r.p.finished(r, &a)
}

// gather reads until a request head is complete, and a small body with it.
func (r *relay) gather() (*request, error) {
	var req *request
	for {
		if r.opaque.Load() {
			return nil, r.tunnel(nil)
		}
		if req == nil {
			if n := headEnd(r.in); n > 0 {
				var err error
				if req, err = parseRequest(r.in[:n], r.p.seed); err != nil {
					return nil, &badRequest{err}
				}
			} else if len(r.in) > maxHead {
				return nil, &badRequest{errLongish}
			}
		}
		if req != nil && (req.waits || req.length > maxGather || req.length <= int64(len(r.in)-req.head)) {
			return req, nil
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// more reads once from the client.
func (r *relay) more() error {
	buf := r.client.wait()
	n, err := r.client.Read(buf[:])
	r.in = append(r.in, buf[:n]...)
	r.p.putBuffer(buf)
	if n > 0 {
		return nil
	}
	return err
}

// rest waits until the exchange before is over and nobody reads the upstream; false when
// the link has ended.
func (r *relay) rest() bool {
	if r.link == nil {
		return true
	}
	if r.running {
		select {
		case <-r.over:
			r.running = false
		case <-r.gone:
			return false
		}
	}
	_ = r.server.SetReadDeadline(time.Unix(1, 0)) // it fails only on a closed connection
	select {
	case <-r.resting:
	case <-r.gone:
		return false
	}
	_ = r.server.SetReadDeadline(time.Time{})
	return true
}

// busy tells whether a response is under way.
func (r *relay) busy() bool {
	select {
	case <-r.over:
		r.running = false
	default:
	}
	return r.running
}

func (r *relay) connect(ctx context.Context, group *guard.Group) error {
	ctx, cancel := context.WithTimeout(ctx, r.p.cfg.DialTimeout)
	defer cancel()
	conn, err := r.p.cfg.Dial(ctx, "tcp", r.p.cfg.Upstream)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = newPort(conn, r.p, &r.p.counters.fromServer)
	r.link = chaos.NewLink(r.server, uint32(r.number))
	r.start, r.over, r.resting = make(chan *exchange, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	r.gone = make(chan struct{})
	if r.p.cfg.OnLink != nil {
		r.p.cfg.OnLink(r.link)
	}
	if r.stopped {
		_ = r.link.Close()
	}
	group.Go(r.answer)
	return nil
}

// exchange begins an exchange and sends its request. The error is the client's.
func (r *relay) exchange(req *request) error {
	x := r.begin(req)
	body := req.body.next(r.in[req.head:])
	_, failed := r.link.Write(r.outgoing(req, r.in[:req.head+body]))
	r.in = r.in[req.head+body:]
	r.running = true
	r.start <- x
	for !req.body.done() {
		if req.body.broken() {
			return r.tunnel(failed)
		}
		if len(r.in) == 0 {
			r.in = nil
			if err := r.more(); err != nil {
				return err
			}
		}
		n := req.body.next(r.in)
		if failed == nil {
			_, failed = r.server.Write(r.in[:n])
		}
		r.in = r.in[n:]
	}
	if len(r.in) == 0 {
		r.in = nil
	}
	return nil
}

// tunnel sends on whatever the client sends, framed or not.
func (r *relay) tunnel(failed error) error {
	for {
		if failed == nil {
			_, failed = r.server.Write(r.in)
		}
		r.in = nil
		if err := r.more(); err != nil {
			return err
		}
	}
}

// outgoing is the request as the upstream gets it.
func (r *relay) outgoing(req *request, b []byte) []byte {
	if r.p.cfg.Host == "" || req.host[1] == 0 {
		return b
	}
	out := append([]byte(nil), b[:req.host[0]]...)
	out = append(append(out, ' '), r.p.cfg.Host...)
	return append(out, b[req.host[1]:]...)
}

// clientEnded acts on the end of the client's side.
func (r *relay) clientEnded(err error) {
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		if r.rest() {
			r.setEnd(EndRefused)
			r.refuse("400 Bad Request", "gapless proxy: "+bad.Error())
		} else {
			r.leave()
		}
		return
	case r.link == nil || !r.busy() || r.server.silent.Load():
	case errors.Is(err, io.EOF):
		// It has only said that it will send nothing more.
		r.setEnd(EndClient)
		r.server.closeWrite()
		select {
		case <-r.over:
		case <-r.gone:
		}
	case errors.Is(err, syscall.ECONNRESET):
		r.setEnd(EndClient)
		r.server.reset() // before the link's close, which would be a FIN
		_ = r.link.Close()
	}
	r.setEnd(EndClient)
}

// refuse answers a request in the upstream's place and ends the link.
func (r *relay) refuse(status, text string) {
	r.p.counters.refused.Add(1)
	text += "\n"
	_, _ = fmt.Fprintf(r.client, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, len(text), text) // a client that is gone misses nothing
	r.client.finish(r.p.cfg.Linger)
	r.leave()
}

// leave reads on until the client has seen the end: a close with unread bytes would be
// a reset. How long that may take was set by whoever ended the link.
func (r *relay) leave() {
	r.in = nil
	for {
		buf := r.client.wait()
		_, err := r.client.Read(buf[:])
		r.p.putBuffer(buf)
		if err != nil {
			return
		}
	}
}

type badRequest struct{ error }

// cause takes the addresses out of an error of the network, which is about to be told
// to a client.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return strings.TrimSpace(err.Error())
}
