package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/gapless-dev/gapless/chaos"
	"github.com/gapless-dev/gapless/chaos/scan"
)

// An exchange belongs to run until it is started, then to answer.
type exchange struct {
	r        *relay
	scan     scan.Scanner
	headOnly bool
	tell     func(*chaos.Injection) // of a client's Expect
	stream   *stream                // nil: nothing is followed
	cursors  *cursors
	// lent: the stream's ordinal goes back unless the response is an event stream.
	lent bool
	// direct: nothing can strike, so the chaos link keeps no bytes back.
	direct bool
	// opening is the beginning of the response to a request that asked for another
	// protocol.
	opening []byte
	upgrade bool
	row     Exchange
	// struck: a fault has ended the link; pending, if set, has not been told.
	struck  bool
	pending *Injection
}

// begin says to the chaos link what the exchange is.
func (r *relay) begin(req *request) *exchange {
	x := &exchange{r: r, headOnly: req.headOnly, upgrade: req.upgrade, row: Exchange{Resume: req.resume}}
	switch {
	case req.get:
		x.row.Method, x.row.Role = Get, GetStream
	case req.post && opensSession(r.in[req.head:]):
		x.row.Method, x.row.Role = Post, Handshake
	case req.post:
		x.row.Method, x.row.Role = Post, Call
	}
	r.p.counters.exchanges.Add(1)
	if req.resume {
		r.p.counters.resumes.Add(1)
	}
	ex, expected := r.p.takeExpected(r.client.RemoteAddr())
	switch {
	case expected:
		x.tell = ex.OnInjection
	case r.p.cfg.VictimOf != nil && x.row.Role != NoRole:
		ex = x.follow(req)
	}
	x.direct = ex.Victim.Left() == 0
	ex.OnInjection = x.note
	r.link.Begin(ex)
	return x
}

// follow makes the exchange part of a stream: the one its cursor continues, the calls of
// the link so far, or a new one.
func (x *exchange) follow(req *request) chaos.Exchange {
	r := x.r
	var st *stream
	if req.resume {
		if st = r.p.streams.take(req.cursor); st != nil {
			st.attempt++
		} else {
			x.row.Role = Call // as most are
		}
	} else if x.row.Role == Call && r.current != nil {
		st, r.current = r.current, nil
		st.attempt, st.delivered = 0, 0
	}
	if st == nil {
		n := r.p.numbers(x.row.Role).take()
		st = &stream{role: x.row.Role, ordinal: n, victim: r.p.cfg.VictimOf(x.row.Role, n, r.client.RemoteAddr()), held: true}
		x.lent = x.row.Role != Handshake
	}
	x.stream, x.row.Role = st, st.role
	x.cursors = &cursors{seed: r.p.seed, session: append([]byte(nil), req.session...)}
	if req.resume {
		x.cursors.last[0], x.cursors.n = req.cursor, 1
	}
	return chaos.Exchange{
		Attempt: st.attempt, Resume: req.resume, Get: st.role == GetStream, Session: st.role == Handshake,
		Delivered: st.delivered, Victim: st.victim,
	}
}

func (p *Proxy) numbers(role Role) *ordinals {
	switch role {
	case GetStream:
		return &p.gets
	case Handshake:
		return &p.sessions
	}
	return &p.calls
}

// answer relays responses until one side is gone.
func (r *relay) answer() {
	defer close(r.gone)
	for x := range r.start {
		err := r.respond(x)
		x.settle(err)
		if err == nil {
			r.over <- struct{}{}
			err = r.idle()
		}
		if err != nil {
			r.mirror(x, err)
			return
		}
		r.resting <- struct{}{}
	}
}

// respond relays one response. The error is nil after its end, else how the link ended.
func (r *relay) respond(x *exchange) error {
	in := intake{r: r, direct: x.direct}
	defer in.done()
	for {
		b, err := in.next()
		if len(b) > 0 {
			x.pass(b)
			if _, err := r.client.Write(b); err != nil {
				return &clientError{err}
			}
			r.p.counters.toClient.Add(int64(len(b)))
		}
		if err != nil {
			return err
		}
		if x.row.Complete && !x.struck && r.link.End() {
			return nil
		}
	}
}

// pass follows a response before it is delivered.
func (x *exchange) pass(b []byte) {
	const switching = "HTTP/1.1 101"
	if x.upgrade && len(x.opening) < len(switching) {
		x.opening = append(x.opening, b[:min(len(b), len(switching)-len(x.opening))]...)
		if string(x.opening) == switching {
			x.r.opaque.Store(true)
		}
	}
	for len(b) > 0 && !x.row.Complete {
		n, payload, mark := x.scan.Next(b)
		if payload && x.cursors != nil && x.row.Stream {
			x.cursors.feed(b[:n])
		}
		b = b[n:]
		switch mark {
		case scan.HeadDone:
			x.head()
		case scan.EventEnd:
			x.event()
		}
		if x.scan.Done() {
			x.row.Complete = true
		}
	}
}

func (x *exchange) head() {
	head := x.scan.Head()
	x.row.Status, x.row.Stream = head.Status, head.SSE && !x.headOnly
	if x.headOnly {
		x.row.Complete = true
	}
	if x.row.Stream {
		x.r.p.counters.streams.Add(1)
		x.lent = false
	}
}

func (x *exchange) event() {
	ev := x.scan.Event()
	x.row.Events++
	x.r.p.counters.events.Add(1)
	if ev.Message() {
		x.row.Messages++
	}
	x.row.Answered = x.row.Answered || ev.Response
	if x.cursors != nil && ev.HasID && !ev.EmptyID {
		x.cursors.commit()
	}
}

// settle writes the exchange into the account and gives back what it did not need.
func (x *exchange) settle(err error) {
	r := x.r
	x.lent = x.lent && !x.struck
	if st := x.stream; st != nil {
		st.delivered += x.row.Messages
		switch {
		case x.lent:
			r.p.numbers(st.role).give(st.ordinal)
		case st.role == Call && err == nil && (x.row.Answered || !x.row.Stream):
			r.current = st
		default: // the client may continue it on another link
			r.p.streams.put(st, x.cursors.kept())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.stream != nil && !x.lent {
		r.account.Ordinal = x.stream.ordinal
	}
	r.account.Count++
	if len(r.account.Exchanges) == maxExchanges {
		r.account.Exchanges = append(r.account.Exchanges[:0], r.account.Exchanges[1:]...)
	}
	r.account.Exchanges = append(r.account.Exchanges, x.row)
}

// idle watches the upstream between exchanges. It returns nil when it was interrupted,
// else how the link ended.
func (r *relay) idle() error {
	for {
		buf := r.server.wait()
		n, err := r.server.Read(buf[:])
		if n > 0 { // nobody asked for it: the client gets it as it is
			_, werr := r.client.Write(buf[:n])
			r.p.counters.toClient.Add(int64(n))
			if werr != nil {
				err = &clientError{werr}
			}
		}
		r.p.putBuffer(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			_, err = r.link.Read(make([]byte, 1)) // which says whether it was a cut
			return err
		case err != nil:
			return err
		}
	}
}

// mirror ends the client's link as the upstream's ended.
func (r *relay) mirror(x *exchange, err error) {
	var client *clientError
	if errors.As(err, &client) {
		r.setEnd(EndClient)
		r.server.reset()
		_ = r.client.Close()
		return
	}
	// A refused dial is the nearest to a reset that a connection can get which is open.
	reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED)
	exact := !reset || r.client.settled(r.p.cfg.Settle)
	if x.pending != nil {
		x.pending.Approximate = !exact
		x.report(x.pending)
	}
	if x.struck {
		r.setEnd(EndCut)
	}
	r.setEnd(EndServer)
	_ = r.link.Close()
	switch {
	case reset:
		r.client.reset()
	case errors.Is(err, io.EOF):
		r.client.finish(r.p.cfg.Linger)
	default:
		_ = r.client.Close()
	}
}

// note is told of a fault by the chaos link, in the goroutine that has the exchange. A
// reset is told on when it is known how exact it is, everything else at once: the client
// may see nothing more for a long time.
func (x *exchange) note(in *chaos.Injection) {
	told := &Injection{Injection: *in, Client: x.r.account.Client}
	x.struck = x.struck || in.Ends
	switch in.Kind {
	case chaos.RST, chaos.Storm:
		x.pending = told
		return
	case chaos.Blackhole:
		x.r.server.silent.Store(true)
		x.r.p.silence(x.r.server)
	}
	x.report(told)
}

// report tells of a fault before the client can see it.
func (x *exchange) report(in *Injection) {
	x.r.p.counters.struck(in)
	x.r.mu.Lock()
	x.r.account.Injections = append(x.r.account.Injections, *in)
	x.r.mu.Unlock()
	if x.tell != nil {
		x.tell(&in.Injection)
	}
	if tell := x.r.p.cfg.OnInjection; tell != nil {
		tell(in)
	}
}

type clientError struct{ error }
