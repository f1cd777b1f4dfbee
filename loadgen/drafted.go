package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Methods of the draft of resumable streams (modelcontextprotocol pull request 899).
const (
	methodCreate = "notifications/stream/create"
	methodEnd    = "notifications/stream/end"
	methodResume = "stream/resume"
	methodPoll   = "stream/poll"
)

// pollShare is how many of the resumes are preceded by a stream/poll.
const pollShare = 0.3

// drafted is what a call knows of the stream that the target has created for it.
type drafted struct {
	id, token string // streamId and resumeToken; empty before the create notification
	max       time.Duration
	final     bool   // resumeInterval.max is 0: it cannot be resumed
	resume    string // JSON-RPC id of the latest stream/resume
	ending    bool   // the event at hand is its end
	ended     bool
	refused   bool // the event at hand refuses the resume for good
}

// capabilities are those that are declared in initialize.
func (r *runner) capabilities() any {
	if r.c.Draft {
		return map[string]any{"streams": struct{}{}}
	}
	return struct{}{}
}

// validateDraft reports what the draft does not have.
func (c Config) validateDraft() error {
	switch {
	case !c.Draft:
		return nil
	case c.Modern:
		return fmt.Errorf("the draft of resumable streams is none of revision %s", modern)
	case c.Plan.Gets() > 0:
		return fmt.Errorf("%d GET streams: the draft of resumable streams has none", c.Plan.Gets())
	}
	return nil
}

// created reports whether the target has created a stream for the call.
func (s *stream) created() bool { return s.draft.id != "" }

// streamParams are those of notifications/stream/create and end.
type streamParams struct {
	StreamID       string
	ResumeToken    string
	RequestID      json.RawMessage
	ResumeInterval struct{ Min, Max *float64 }
}

// frames takes a notification that tells of a stream and is no message of it; false: it
// is another one.
func (s *stream) frames(e *history.Event, data []byte) bool {
	if !s.r.c.Draft {
		return false
	}
	create := string(s.msg.Method) == methodCreate
	if !create && string(s.msg.Method) != methodEnd {
		return false
	}
	var m struct {
		Params struct {
			streamParams
			Stream *streamParams
		}
	}
	bad := json.Unmarshal(data, &m) != nil
	p := &m.Params.streamParams // as the schema has it
	if m.Params.Stream != nil {
		p = m.Params.Stream // as the page has it
	}
	if bad || p.StreamID == "" || create && p.ResumeToken == "" {
		e.Illegal |= history.IllegalRPC
	}
	if create {
		s.create(e, p)
		return true
	}
	e.Class, e.Owner = history.ClassEnd, history.OwnerSelf
	if p.StreamID != s.draft.id {
		e.Owner = history.OwnerNobody
	}
	s.draft.ending = e.Owner == history.OwnerSelf && e.Illegal == 0
	return true
}

// create takes the stream that is the call's own. The latest counts.
func (s *stream) create(e *history.Event, p *streamParams) {
	e.Class, e.Owner = history.ClassCreate, history.OwnerSelf
	if id := bytes.Trim(p.RequestID, `"`); len(id) > 0 && string(id) != s.id && string(id) != "null" {
		e.Owner = history.OwnerOtherStream
	}
	if e.Owner != history.OwnerSelf || e.Illegal != 0 {
		return
	}
	d := &s.draft
	d.id, d.token = p.StreamID, p.ResumeToken
	if min := p.ResumeInterval.Min; min != nil {
		s.back.announced(inSeconds(*min), true)
	}
	if max := p.ResumeInterval.Max; max != nil {
		d.max = inSeconds(*max)
		d.final = d.max == 0
	}
}

// inSeconds is a number of seconds, within bounds.
func inSeconds(n float64) time.Duration {
	switch {
	case !(n > 0):
		return 0
	case n >= forever.Seconds():
		return forever
	}
	return time.Duration(n * float64(time.Second))
}

// answersResume tells a response that answers the stream's own stream/resume: no message
// of the call. One that cannot come to better is a refusal.
func (s *stream) answersResume(e *history.Event, data []byte) bool {
	if s.draft.resume == "" || string(s.msg.ID) != s.draft.resume {
		return false
	}
	e.Class, e.Owner = history.ClassOther, history.OwnerSelf
	if s.msg.Kind == wire.KindError && !passing(data) {
		e.Class = history.ClassRefusal
		s.draft.refused = true
	}
	return true
}

// passing tells an error that another resume may not meet: that of a resume which another
// one took over, and one inside the target.
func passing(data []byte) bool {
	var m struct {
		Error struct {
			Code int
			Data struct{ Reason string }
		}
	}
	return json.Unmarshal(data, &m) == nil && (m.Error.Code == -32603 || m.Error.Data.Reason == "superseded")
}

// framed does what the end of a stream and the answer to a resume ask for; false: the
// event is neither.
func (s *stream) framed(c history.Class, at time.Duration) bool {
	d := &s.draft
	switch c {
	case history.ClassCreate:
		return true
	case history.ClassRefusal:
		if d.refused && !s.done() {
			s.doomed = s.sever(history.OutcomeRefused)
		}
		return true
	case history.ClassEnd:
		was := s.done()
		d.ended, d.ending = d.ended || d.ending, false
		s.heard, s.l.lim.since, s.gained = at, at, true
		if !was && s.done() {
			s.l.limit(limits{until: at + s.r.c.Tail, end: history.EndOpen})
		}
		return true
	}
	return false
}

// question asks for what follows a cursor: by GET, or by stream/resume.
func (s *stream) question(cursor []byte) *wire.Request {
	if s.r.c.Draft {
		s.draft.resume = s.sess.nextID()
		return s.claim(methodResume, s.draft.resume, cursor)
	}
	fields := make([]wire.Field, 0, len(s.sess.fields)+3)
	fields = append(fields, wire.Field{Name: "Accept", Value: "text/event-stream"})
	if len(cursor) > 0 {
		fields = append(fields, wire.Field{Name: "Last-Event-ID", Value: string(cursor)})
	}
	return &wire.Request{Method: "GET", Target: s.r.target, Host: s.r.host, Fields: append(fields, s.sess.fields...)}
}

// claim returns a request about the stream, with the cursor if there is one
// ("Disconnection and Resumption", "Polling").
func (s *stream) claim(method, id string, cursor []byte) *wire.Request {
	type fields struct {
		StreamID    string `json:"streamId"`
		ResumeToken string `json:"resumeToken"`
	}
	params, err := json.Marshal(fields{s.draft.id, s.draft.token})
	if err != nil {
		panic(err) // two strings
	}
	req := s.sess.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	if len(cursor) > 0 {
		req.Fields = append(req.Fields, wire.Field{Name: "Last-Event-ID", Value: string(cursor)})
	}
	return req
}

// pollAtTimes polls before a drawn share of the resumes.
func (s *stream) pollAtTimes(ctx context.Context) {
	if s.r.c.Draft && draw(s.r.c.Seed, s.a.Stream, s.attempt, drawPoll) < pollShare {
		s.poll(ctx)
	}
}

// poll asks how the stream stands, on a link on which nothing is hurt, for a resume from
// its cursor ("Polling"). What is wrong with the answer is for the judge to say.
func (s *stream) poll(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, s.r.instant(max(s.deadline, s.r.now()+probing)))
	defer cancel()
	id := s.sess.nextID()
	var p history.Poll
	var on uint32
	err := s.sess.exchange(ctx, s.claim(methodPoll, id, s.rd.Cursor()), true, func(l *link, resp *wire.Response) error {
		on, p.Status = l.id, resp.Status
		if resp.Status != 200 {
			return skip(resp)
		}
		data, err := s.sess.message(l, resp, id, methodPoll)
		if err == nil {
			s.polled(&p, data)
		}
		return err
	})
	if ctx.Err() != nil || p.Status == 0 && err != nil && !sent(err) {
		return // nobody was asked
	}
	s.rec.Poll, s.rec.Link = p, on
	s.report(history.KindPoll, s.r.now())
	s.rec.Poll = history.Poll{}
}

// polled reads the answer to a poll.
func (s *stream) polled(p *history.Poll, data []byte) {
	var m struct {
		Result *struct {
			StreamID        *string
			Status          *string
			PendingMessages *bool
			HasRequest      *bool
			HasError        *bool
		}
		Error *rpcError
	}
	if json.Unmarshal(data, &m) != nil || m.Error != nil || m.Result == nil {
		p.Refused = m.Error != nil
		return
	}
	r := m.Result
	if r.StreamID == nil || r.Status == nil || r.PendingMessages == nil || r.HasRequest == nil || r.HasError == nil {
		return
	}
	p.Answered = true
	p.Completed, p.Pending, p.HasRequest, p.HasError = *r.Status == "completed", *r.PendingMessages, *r.HasRequest, *r.HasError
	p.Strange = *r.StreamID != s.draft.id || !p.Completed && *r.Status != "live"
}
