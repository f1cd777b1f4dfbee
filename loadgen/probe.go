package loadgen

import (
	"context"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// probing bounds each probe.
const probing = 2 * time.Second

// elsewhere is an Origin that no target serves: the name can never exist (RFC 6761 §6.4).
const elsewhere = "http://gapless.invalid"

// probe asks the questions that the load leaves open, of a stream that is complete. Each
// exchange has a link of its own on which nothing is hurt.
func (s *stream) probe(ctx context.Context) {
	p := s.sample
	offered := p.cursor != nil && p.response != 0 && !p.over
	if s.r.c.Draft { // a cursor lets the target discard what came before: nothing replays twice
		if s.created() {
			s.poll(ctx)
		}
	} else {
		s.ask(ctx, history.ProbeReplay, p.cursor, offered)
		s.ask(ctx, history.ProbeAgain, p.cursor, offered)
	}
	unknown, ok := unknownCursor(p.cursor)
	s.ask(ctx, history.ProbeUnknownCursor, unknown, ok)
	s.ask(ctx, history.ProbeMalformedCursor, []byte(malformedCursor), p.cursor != nil)
	var other []byte
	if p.cursor != nil && s.sess.hasID { // without session ids nothing tells whose a cursor is
		other = s.r.foreign.swap(s.a.Session, p.cursor)
	}
	s.ask(ctx, history.ProbeForeignCursor, other, other != nil)
	if s.r.asked.CompareAndSwap(false, true) {
		s.probeSession(ctx)
	}
}

// ask asks for what follows a cursor.
func (s *stream) ask(ctx context.Context, name history.ProbeName, cursor []byte, offered bool) {
	s.examine(ctx, name, offered, s.question(cursor))
}

// probeSession asks what a session is worth: without its id, after its end, and from a
// page of somebody else.
func (s *stream) probeSession(ctx context.Context) {
	ping := []byte(`{"jsonrpc":"2.0","id":"probe","method":"ping"}`)
	without := func(req *wire.Request, name string) *wire.Request {
		kept := req.Fields[:0]
		for _, f := range req.Fields {
			if !strings.EqualFold(f.Name, name) {
				kept = append(kept, f)
			}
		}
		req.Fields = kept
		return req
	}
	s.examine(ctx, history.ProbeMissingSession, s.sess.hasID, without(s.sess.post(ping), "Mcp-Session-Id"))
	dead, ok := s.dead(ctx)
	s.examine(ctx, history.ProbeDeadSession, ok, dead.post(ping))
	req := without(s.sess.post(ping), "Origin")
	req.Fields = append(req.Fields, wire.Field{Name: "Origin", Value: elsewhere})
	s.examine(ctx, history.ProbeOrigin, true, req)
}

// dead opens a session and deletes it. False means that the target has no sessions, or
// does not let go of them.
func (s *stream) dead(ctx context.Context) (*session, bool) {
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	t := s.r.newSession(s.a.Session)
	defer t.links.close()
	if t.open(ctx) != nil || !t.hasID {
		return t, false
	}
	ended := false
	req := wire.Request{Method: "DELETE", Target: s.r.target, Host: s.r.host, Fields: t.fields}
	err := t.exchange(ctx, &req, true, func(_ *link, resp *wire.Response) error {
		ended = resp.Status/100 == 2
		return skip(resp)
	})
	return t, ended && err == nil
}

// examine makes one probe and reports it.
func (s *stream) examine(ctx context.Context, name history.ProbeName, offered bool, req *wire.Request) {
	if ctx.Err() != nil {
		return // a stop is no answer
	}
	s.rec.Probe = history.Probe{Name: name}
	s.rec.Link = 0
	if offered = offered && s.r.authorize(ctx, req) == nil; offered {
		s.rec.Probe.Offered = true
		s.try(ctx, req)
		if ctx.Err() != nil {
			s.rec.Probe = history.Probe{}
			return
		}
		s.r.c.Live.probes.Add(1)
	}
	s.report(history.KindProbe, s.r.now())
	s.rec.Probe = history.Probe{}
}

// followed is how often a replay is taken up again that was closed before it was over.
const followed = 50

// A trial is what the exchanges of one probe have in common.
type trial struct {
	rd    wire.Reader
	next  int // the message of the sample that comes next
	from  time.Duration
	until time.Duration
}

// try carries the exchange of a probe on a link of its own. A replay that is closed on the
// way is taken up again where it ended, since any connection may be (2025-11-25
// transports, Sending Messages 6).
func (s *stream) try(ctx context.Context, req *wire.Request) {
	p := &s.rec.Probe
	t := trial{from: s.r.now()}
	t.until = t.from + probing
	if p.Name == history.ProbeReissue {
		p.Want, t.until = int32(s.of.Expected), t.from+s.of.Deadline
	}
	if s.replays() {
		p.Want = int32(len(s.sample.behind))
	}
	for n := 0; ; n++ {
		s.attemptProbe(ctx, req, &t)
		if n == followed || !s.goesOn(&t) || !s.rest(ctx, &t) {
			break
		}
		fields := append([]wire.Field{{Name: "Accept", Value: "text/event-stream"}, {Name: "Last-Event-ID", Value: string(t.rd.Cursor())}}, s.sess.fields...)
		next := wire.Request{Method: "GET", Target: req.Target, Host: req.Host, Fields: fields}
		if s.r.authorize(ctx, &next) != nil {
			break
		}
		req = &next
	}
	if p.Took == 0 {
		p.Took = s.r.now() - t.from
	}
}

// replays tells the probes that ask for what a stream has brought already.
func (s *stream) replays() bool {
	name := s.rec.Probe.Name
	return name == history.ProbeReplay || name == history.ProbeAgain
}

// goesOn tells that a replay was well under way when its link ended.
func (s *stream) goesOn(t *trial) bool {
	p := &s.rec.Probe
	if !s.replays() || p.Response || p.Foreign+p.Wrong > 0 || t.rd.Committed() == 0 {
		return false
	}
	switch p.End {
	case history.EndClean, history.EndMidEvent, history.EndTruncated, history.EndReset:
		return true
	}
	return false
}

// rest waits as long as the target asked for; false where that is too long for a probe.
func (s *stream) rest(ctx context.Context, t *trial) bool {
	wait, _ := t.rd.Retry()
	if s.r.now()+wait >= t.until {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attemptProbe carries one exchange of a probe.
func (s *stream) attemptProbe(ctx context.Context, req *wire.Request, t *trial) {
	p := &s.rec.Probe
	dialling, cancel := context.WithTimeout(ctx, probing)
	l, err := s.r.dial(dialling)
	cancel()
	if err != nil {
		p.End = history.EndUnreachable
		return
	}
	defer l.close()
	s.rec.Link = l.id
	stop := l.begin(ctx, nil, limits{until: t.until, end: history.EndDeadline})
	defer stop()
	l.Begin(Exchange{Session: s.a.Session, Link: l.id})
	defer l.End()
	resp, err := l.conn.RoundTrip(req)
	if err != nil {
		p.End = l.endOf(err)
		return
	}
	p.Status = resp.Status
	switch {
	case resp.Status/100 != 2:
		p.End = history.EndStatus
	case resp.SSE():
		p.End = s.readProbe(l, resp, t)
	default:
		p.End = history.EndClean
		data, err := resp.ReadAll(s.r.eventLimit())
		switch {
		case err != nil:
			p.End = l.endOf(err)
		case resp.JSON():
			s.weigh(data, 0)
		}
	}
}

// readProbe reads the event stream that answers a probe.
func (s *stream) readProbe(l *link, resp *wire.Response, t *trial) history.End {
	p := &s.rec.Probe
	var ev wire.Event
	t.rd.Reset(resp, t.rd.Cursor())
	for {
		if err := t.rd.Next(&ev); err != nil {
			return l.endOf(err)
		}
		p.Events++
		if string(ev.Type) == "message" && len(ev.Data) > 0 {
			t.next = s.weigh(ev.Data, t.next)
		}
		switch {
		case !p.Response || l.lim.end == history.EndOpen:
		case p.Name == history.ProbeReissue:
			p.Took = max(l.at-t.from, 1) // what comes after the response does not count
			l.limit(limits{until: min(l.lim.until, l.at+s.r.c.Tail), end: history.EndOpen})
		default:
			l.lim.end = history.EndOpen
		}
	}
}

// weigh compares a message with the one that has to come next and returns the place of
// the one after it.
func (s *stream) weigh(data []byte, next int) int {
	p := &s.rec.Probe
	replays := s.replays()
	var e history.Event
	s.scan(&e, data)
	if s.sess.batches && e.Illegal == history.IllegalBatch {
		for one := range wire.Elements(data) {
			next = s.weigh(one, next)
		}
		return next
	}
	if s.cut != nil {
		s.recount(&e)
		return next
	}
	switch foreign := e.Owner == history.OwnerOtherStream || e.Owner == history.OwnerOtherSession || e.Owner == history.OwnerNobody; {
	case e.Class == history.ClassOther: // the answer to a request of our own
	case e.Class > history.ClassJunk: // it frames a stream
	case s.r.c.Draft && e.Owner <= history.OwnerSelf: // of the stream that was named; a target need not look at the cursor
	case foreign, p.Name == history.ProbeForeignCursor:
		p.Foreign++
	case e.Class == history.ClassResponse, e.Class == history.ClassError:
		if !replays || e.Hash != s.sample.response || p.Response {
			p.Wrong++
		}
		p.Response = p.Response || replays && e.Hash == s.sample.response
	case replays && next < len(s.sample.behind) && s.sample.behind[next] == e.Hash:
		p.Messages++
		return next + 1
	case e.Class == history.ClassRequest: // a question of now, such as a ping, is no replay
	default:
		p.Wrong++
	}
	return next
}
