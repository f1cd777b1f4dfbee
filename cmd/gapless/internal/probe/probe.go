package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
	"github.com/gapless-dev/gapless/internal/guard"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// Revisions of MCP with a handshake and with resumable streams.
const (
	revision2024 = "2024-11-05"
	oldest       = "2025-03-26"
	middle       = "2025-06-18"
	newest       = "2025-11-25"
	never        = "1999-01-01"
	farOff       = "2099-01-01" // as unknown, and no server takes it for one with a handshake
)

// Bounds of a probe.
const (
	defaultBudget = 55 * time.Second
	defaultWatch  = 16 * time.Second // a server that sends a comment every 15 s shows it
	defaultQuiet  = 1500 * time.Millisecond
	cleaning      = 4 * time.Second
	dials         = 8  // at the same time
	asking        = 10 // experiments at the same time
)

// A Config says what is asked and how.
type Config struct {
	Client client.Config // how the endpoint is reached
	Shown  string        // its URL as a person wrote it, without secrets
	Tool   string        // a tool that streams; "": emit of the reference server, if it is there
	Args   json.RawMessage
	Budget time.Duration // for all of it but the cleaning up; 0: 55 s
	Watch  time.Duration // how long an idle GET stream is watched; 0: 16 s
	Quiet  time.Duration // how long nothing may come until a stream is called silent; 0: 1.5 s
}

// run is one probe.
type run struct {
	Config
	c     *client.Client
	sheet *sheet
	began time.Time
	links chan struct{}
	ids   atomic.Int64

	revision string // the newest with resumable streams that is spoken
	sessions bool   // the server gives session ids
	tool     tool
	idle     *client.Session // not used until the end

	// control is what the control call has shown, uncontrolled why it has shown nothing;
	// both once learned is closed.
	control      *control
	uncontrolled error

	learned chan struct{} // closed when the control call is over
	asked   chan struct{} // closed when all experiments are over but the watching ones
	replays chan struct{} // held by who resumes the control call: two would replace each other

	only func(experiment) bool // nil: all

	mu      sync.Mutex
	opened  []*client.Session
	left    []string // what could not be taken away
	running int      // calls whose response was not seen
	stored  int      // events with an id that were seen
}

// Run asks all there is to ask. Errors: *client.UnreachableError, *NoToolError, or what
// initialize and server/discover were answered when there is nothing to probe. The end of
// ctx ends it early; the report then says what was not asked.
func Run(ctx context.Context, c Config) (*Report, error) { return newRun(c).all(ctx) }

func (x *run) all(ctx context.Context) (*Report, error) {
	asking, cancel := context.WithTimeout(ctx, x.Budget)
	defer cancel()
	x.sheet.over = func() bool { return asking.Err() != nil }
	front, err := x.scout(asking)
	if err != nil {
		x.clean(ctx)
		return nil, err
	}
	panicked := x.ask(asking, cancel)
	x.clean(ctx)
	if panicked != nil {
		return nil, panicked
	}
	return x.report(front), nil
}

func newRun(c Config) *run {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Budget, defaultBudget}, {&c.Watch, defaultWatch}, {&c.Quiet, defaultQuiet}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.Client.Timeout <= 0 {
		c.Client.Timeout = 5 * time.Second
	}
	if c.Client.Patience <= 0 {
		c.Client.Patience = c.Budget
	}
	return &run{
		Config: c, c: client.New(c.Client), sheet: newSheet(), began: time.Now(), links: make(chan struct{}, dials),
		learned: make(chan struct{}), asked: make(chan struct{}), replays: make(chan struct{}, 1),
	}
}

// scout learns what kind of server this is: the revision, whether it has sessions, and the
// tool that the stream rows need.
func (x *run) scout(ctx context.Context) (front, error) {
	s, err := x.session(ctx, newest)
	var far *client.UnreachableError
	if errors.As(err, &far) || timedOut(err) || limited(err) {
		return front{}, err
	}
	if err != nil {
		modern, discover := x.c.Initialize(ctx, client.Modern)
		if discover != nil {
			modern = x.c.Unasked(client.Modern)
			if speaks, _ := x.speaksModern(ctx); !speaks {
				return front{}, err
			}
		}
		_, err = x.discover(ctx, modern)
		return readFront(modern), err // there are rows of that revision alone
	}
	x.revision, x.sessions, x.idle = s.Revision(), s.ID() != "", s
	second, err := x.session(ctx, newest) // the first is left alone from now on
	if err != nil {
		return front{}, err
	}
	x.tool, err = x.discover(ctx, second)
	return readFront(s), err
}

// ask runs the experiments.
func (x *run) ask(ctx context.Context, stop func()) error {
	var all, most guard.Group
	all.OnPanic, most.OnPanic = stop, stop
	lanes := make(chan struct{}, asking)
	for _, e := range experiments() {
		if x.only != nil && !x.only(e) {
			continue
		}
		if e.watches {
			all.Go(func() { x.conduct(ctx, e) })
			continue
		}
		lanes <- struct{}{}
		most.Go(func() {
			defer func() { <-lanes }()
			x.conduct(ctx, e)
		})
	}
	err := most.Wait()
	close(x.asked)
	return errors.Join(err, all.Wait())
}

// conduct makes one experiment and says of the rows that it left empty why.
func (x *run) conduct(ctx context.Context, e experiment) {
	if e.after != nil {
		defer e.after(x)
	}
	err := x.usable(e)
	if err == nil {
		err = e.ask(ctx, x)
	}
	var none absentError
	switch {
	case errors.As(err, &none):
		x.sheet.rest(e.rows, NotOffered, "%s", string(none))
	case ctx.Err() != nil:
		x.sheet.rest(e.rows, Unsure, "out of time")
	case err != nil:
		x.sheet.rest(e.rows, Unsure, "%s", client.Words(err))
	default:
		x.sheet.rest(e.rows, Unsure, "nothing was seen that tells")
	}
}

// usable tells whether the server has what an experiment needs.
func (x *run) usable(e experiment) error {
	switch {
	case e.needs == needsNothing:
		return nil
	case x.revision == "":
		return absentError("the server has no initialize")
	case e.needs == needsTool && x.tool.name == "":
		return errors.New(x.tool.why)
	}
	return nil
}

// An absentError says that the server does not offer what a row is about.
type absentError string

func (e absentError) Error() string { return string(e) }

// session opens a session that is deleted at the end.
func (x *run) session(ctx context.Context, revision string) (*client.Session, error) {
	s, err := x.c.Initialize(ctx, revision)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.opened = append(x.opened, s)
	x.mu.Unlock()
	return s, nil
}

// limited tells that the server refused to look at a request for now, which no clause is
// about.
func limited(err error) bool {
	var limit *client.LimitedError
	return errors.As(err, &limit)
}

// spared says of rows that the server limits the rate, if that is what err is.
func (x *run) spared(err error, rows ...string) bool {
	if !limited(err) {
		return false
	}
	x.sheet.rest(rows, Unsure, "%s", client.Words(err))
	return true
}

// forget takes a session from those to be deleted.
func (x *run) forget(s *client.Session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opened = slices.DeleteFunc(x.opened, func(o *client.Session) bool { return o == s })
}

// clean deletes all sessions, also when ctx is over, and notes what stays.
func (x *run) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	x.mu.Lock()
	opened := x.opened
	x.mu.Unlock()
	var group guard.Group
	var kept atomic.Int64
	lanes := make(chan struct{}, dials)
	for _, s := range opened {
		if s.ID() == "" {
			continue
		}
		group.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			if status, err := s.Delete(ctx); err != nil || status/100 != 2 && status != 404 {
				kept.Add(1)
			}
		})
	}
	if err := group.Wait(); err != nil {
		kept.Add(1)
	}
	if n := kept.Load(); n > 0 {
		x.leave(fmt.Sprintf("%s that the server did not delete", several(int(n), "session")))
	}
	if x.running > 0 {
		x.leave(fmt.Sprintf("%s whose response was not waited for: they may run on to their end", several(x.running, "call")))
	}
	if x.stored > 0 {
		x.leave(fmt.Sprintf("about %s in the event store, if that outlives the sessions", several(x.stored, "event")))
	}
}

func (x *run) leave(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.left, what) {
		x.left = append(x.left, what)
	}
}

// account notes what a call leaves behind once its streams are read.
func (x *run) account(streams ...*stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	answered := false
	for _, st := range streams {
		answered = answered || st.response() != nil
		x.stored += st.count(func(e event) bool { return e.hasID })
	}
	if !answered {
		x.running++
	}
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// request makes a request of a session; edits come over its fields.
func (x *run) request(ctx context.Context, s *client.Session, method string, params any, edits ...edit) (*stream, error) {
	return x.requestAs(ctx, s, fmt.Sprint(x.ids.Add(1)+100), method, params, edits...)
}

// requestAs makes a request under an id of the caller's, in JSON.
func (x *run) requestAs(ctx context.Context, s *client.Session, id, method string, params any, edits ...edit) (*stream, error) {
	body, fields, err := s.Request(id, method, params)
	if err != nil {
		return nil, err
	}
	return x.send(ctx, client.Request{Fields: fields, Body: body}, edits...)
}

func (x *run) send(ctx context.Context, req client.Request, edits ...edit) (*stream, error) {
	for _, e := range edits {
		e(&req)
	}
	return x.open(ctx, req)
}

// reply makes a request and reads its answer to the end, or until it is silent.
func (x *run) reply(ctx context.Context, s *client.Session, method string, params any, edits ...edit) (*stream, error) {
	st, err := x.request(ctx, s, method, params, edits...)
	if err != nil {
		return nil, err
	}
	defer st.close()
	st.read(time.Now().Add(x.Quiet), event.response)
	return st, nil
}

// get asks for an event stream, behind a cursor if there is one.
func (x *run) get(ctx context.Context, s *client.Session, cursor string, edits ...edit) (*stream, error) {
	req := client.Request{Method: "GET", Fields: append(s.Fields(),
		wire.Field{Name: "Content-Type"}, wire.Field{Name: "Accept", Value: "text/event-stream"},
		wire.Field{Name: "Last-Event-ID", Value: cursor})}
	st, err := x.send(ctx, req, edits...)
	if st != nil && st.sse && cursor != "" {
		st.rd.Reset(&st.tap, []byte(cursor))
	}
	return st, err
}

// An edit changes a request before it is sent.
type edit func(*client.Request)

// field sets a header, or takes it out.
func field(name, value string) edit {
	return func(r *client.Request) { r.Fields = append(r.Fields, wire.Field{Name: name, Value: value}) }
}

func body(text string) edit { return func(r *client.Request) { r.Body = []byte(text) } }
