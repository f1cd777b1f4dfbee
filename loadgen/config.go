package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// A Link is a TCP connection that can be hurt. Whatever it does to the bytes, it
// does inside Read and Write, and reports each fault to Exchange.Observer before the
// call returns that shows it.
//
// A link that plays a refused dial returns an error that matches syscall.ECONNREFUSED
// from the first Write after Begin. One that makes up an answer (502, 503 or 429, with
// Retry-After if it likes) takes the request without passing it on and gives the answer
// out in Read. Both report an injection that ends the link (history.Injection.Ends) and
// return false from End. Either is treated like the real thing, except that it is not
// held against the target.
type Link interface {
	net.Conn
	// Begin is called before the first byte of each exchange.
	Begin(Exchange)
	// End is called after the last byte of each exchange. False means that the link
	// must not carry another one.
	End() bool
}

// An Exchange tells a [Link] what its next bytes are about.
type Exchange struct {
	Session, Stream uint32
	// Attempt counts the exchanges of the stream; 0 is the POST, or the first GET of a
	// standalone GET stream.
	Attempt int
	// Link numbers the link within the run, from 1.
	Link uint32
	// Resume tells a GET with a cursor from the exchange that began the stream.
	Resume bool
	// Get marks the exchanges of a standalone GET stream, resumed or not.
	Get bool
	// Observer takes the injections of this exchange: a KindInjection record with
	// nothing but Injection filled in. It must be called inside Read or Write. It is nil
	// for exchanges in which nothing must be hurt: those of a session (initialize,
	// initialized, answers, cancellations, DELETE), probes, and the POST of a GET stream.
	Observer StreamObserver
	// Opened is what [Observer.Open] returned for the stream, so that a link finds what
	// its owner keeps for the stream; nil with Observer.
	Opened StreamObserver
	// Handshake takes the injections of an initialize, where Observer is nil: a fault that
	// ends it leaves the stream that opens the session without one, not sent. HandshakeOf is
	// what [Observer.Open] returned for that stream. Both are nil for all other exchanges,
	// and for the first session, which no stream opens.
	Handshake, HandshakeOf StreamObserver
	// Others is how many responses to other requests of the call's batch are still to
	// come.
	Others int
	// Delivered is how many of the call's messages have been delivered so far, Expected
	// how many there will be, 0 if unknown. Neither counts the response.
	Delivered, Expected int
}

// An Observer sees the history of every stream.
type Observer interface {
	// Open is called once for each arrival, before its first record. Several
	// goroutines may call it at once.
	Open(Arrival) StreamObserver
}

// A StreamObserver sees the history of one stream.
type StreamObserver interface {
	// Observe is called from one goroutine at a time, in the order of the facts. The
	// record is only valid during the call.
	Observe(*history.Record)
}

// ResumePolicy says how a cut stream is taken up again.
type ResumePolicy struct {
	// Jitter is the largest share of the wait that is added to it; 0 means 0.1, negative
	// none. A wait is never shorter than the target asked for.
	Jitter float64
	// Backoff is the wait where the target announced none, and the step that doubles
	// with every failure in a row; 0 means 100 ms.
	Backoff time.Duration
	// BackoffMax bounds the doubling; 0 means 5 s. It never shortens what the target
	// asked for.
	BackoffMax time.Duration
	// Attempts bounds the attempts in a row that lead nowhere; 0 means 20. Those that
	// our own faults cut and those answered 409 do not count.
	Attempts int
	// Conflict bounds for how long a 409 is retried after a cut; 0 means 60 s.
	Conflict time.Duration
}

// Config says what [Run] does. URL, Dial, Plan and Calls are required.
type Config struct {
	// URL is the MCP endpoint; it gives the request target and the Host header. Dial
	// decides where the bytes go, and does TLS.
	URL  string
	Dial func(context.Context) (Link, error)
	Plan Plan

	// Revision is offered in initialize; "" means 2025-11-25. What the target answers
	// decides.
	Revision string
	// Modern speaks revision 2026-07-28: there is no initialize and no session, every
	// request says for itself what it needs, and a cut call cannot be resumed: it is made
	// again once, under a new id.
	Modern bool
	// UMCP speaks the contract of uMCP: each stream has a session to itself, whose event
	// stream carries the messages of its call while the response comes on the POST. Nothing
	// is resumed: after a cut the event stream is asked for again.
	UMCP bool
	// Draft speaks the draft of resumable streams (modelcontextprotocol pull request 899):
	// the capability streams is declared, a call's first event creates its stream, a cut one
	// is taken up by stream/resume, sometimes polled before, and it is complete with its
	// response and its end.
	Draft bool
	// Calls are what arrivals call, by Arrival.Call: at least as many as the plan draws from.
	Calls []Call
	// Raw, if set, is given each message of a stream as it came, from the stream's goroutine;
	// the bytes are only valid during the call.
	Raw func(a Arrival, message []byte)
	// Cancel is the share of the streams of the load that cancel their call after half of
	// the expected messages (after the first where nobody knows how many there will be).
	Cancel float64
	// Probes is how many streams of the load are sampled, drawn evenly over the plan, to be
	// asked once they are complete what the load leaves open: see history.Probe. The first of
	// them asks for the sessions as well. 0 samples none.
	Probes int
	// Reissue is how many calls of the load that were cut, had no response and cannot be
	// resumed are made again once, under a new id, drawn evenly over the plan: see
	// history.ProbeReissue. With Modern it is every such call.
	Reissue int
	// Batches sends each call in one array with a ping, to targets of revision 2025-03-26,
	// the only one that has batches. The answer to the ping is reported as
	// history.ClassOther: it belongs to no call.
	Batches bool
	// Header is added to every request.
	Header []wire.Field
	// Credential, if set, gives the value of the Authorization field; it is asked before each
	// exchange and has to remember what it got. An error keeps the exchange from being sent.
	Credential func(context.Context) (string, error)
	// MaxRate bounds the streams that start per second, in all models; 0 does not.
	MaxRate float64
	// Limits bounds lines, heads and events of a response.
	Limits wire.Limits

	Resume ResumePolicy
	// Idle ends an attempt to which no message came for so long, if there is a cursor to
	// resume from; 0 means 30 s. Without a cursor only Deadline ends it.
	Idle time.Duration
	// Drain is how long open streams may take after Halt was closed; 0 means 30 s. Without
	// a halt each may take the deadline of its call.
	Drain time.Duration
	// Silence is how long the target must have sent no message before a call that is too
	// late counts as failed and not as undecided; 0 means 10 s.
	Silence time.Duration
	// Tail is how long a stream may stay open after its response; 0 means 2 s.
	Tail time.Duration
	// DialTimeout bounds the opening of a link (0 means 3 s), Handshake every exchange of
	// a session (0 means 10 s).
	DialTimeout, Handshake time.Duration
	// Dials is how many links may be in the making at once; 0 means 128. A listener's
	// queue that overflows costs seconds and would be blamed on the target.
	Dials int

	// Seed keys the draws of this run, Name (eight hexadecimal digits; "" means
	// 00000000) and Secret its marks.
	Seed   uint64
	Name   string
	Secret []byte

	// Start is the instant that At of all records counts from; zero means when Run is
	// called.
	Start time.Time
	// Halt, once closed, keeps further arrivals from starting; what is open drains. nil
	// never does.
	Halt <-chan struct{}
	// Observer sees all records; nil for none.
	Observer Observer
	// Live is moved while the run goes on; nil for none.
	Live *Live
}

// Validate reports everything that is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	u, err := url.Parse(c.URL)
	complain(err != nil || u.Host == "", "url %q: must be absolute, like http://127.0.0.1:8931/mcp", c.URL)
	complain(c.Dial == nil, "dial must be set")
	complain(c.Plan.Len() == 0, "plan must be made by NewPlan")
	complain(c.Name != "" && !isRunName(c.Name), "name %q: must be eight hexadecimal digits", c.Name)
	complain(c.Resume.Attempts < 0, "resume attempts must not be negative: %d", c.Resume.Attempts)
	complain(c.Resume.Jitter > 1, "resume jitter %g: a share is at most 1", c.Resume.Jitter)
	complain(!(c.Cancel >= 0 && c.Cancel <= 1), "cancel %g: a share is from 0 to 1", c.Cancel)
	complain(c.Probes < 0, "probes must not be negative: %d", c.Probes)
	complain(c.Reissue < 0, "reissue must not be negative: %d", c.Reissue)
	for _, f := range c.Header {
		complain(c.Credential != nil && strings.EqualFold(f.Name, "Authorization"), "an Authorization header and a credential: only one can be sent")
	}
	complain(!(c.MaxRate >= 0 && c.MaxRate <= maxRate), "max rate %g: must be from 0 to %g starts per second", c.MaxRate, maxRate)
	complain(c.Dials < 0, "dials must not be negative: %d", c.Dials)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"idle", c.Idle}, {"drain", c.Drain}, {"silence", c.Silence}, {"tail", c.Tail},
		{"dial timeout", c.DialTimeout}, {"handshake", c.Handshake}, {"backoff", c.Resume.Backoff},
		{"backoff max", c.Resume.BackoffMax}, {"conflict", c.Resume.Conflict},
	} {
		complain(d.d < 0, "%s must not be negative: %v", d.name, d.d)
	}
	return errors.Join(append(errs, c.validateCalls(), c.validateModern(), c.validateUMCP(), c.validateDraft(), c.lacking())...)
}

func (c Config) withDefaults() Config {
	c.Idle = or(c.Idle, 30*time.Second)
	c.Drain = or(c.Drain, 30*time.Second)
	c.Silence = or(c.Silence, 10*time.Second)
	c.Tail = or(c.Tail, 2*time.Second)
	c.DialTimeout = or(c.DialTimeout, 3*time.Second)
	c.Handshake = or(c.Handshake, 10*time.Second)
	c.Resume.Backoff = or(c.Resume.Backoff, 100*time.Millisecond)
	c.Resume.BackoffMax = or(c.Resume.BackoffMax, 5*time.Second)
	c.Resume.Conflict = or(c.Resume.Conflict, 60*time.Second)
	if c.Resume.Jitter == 0 {
		c.Resume.Jitter = 0.1
	}
	c.Resume.Jitter = max(c.Resume.Jitter, 0)
	if c.Resume.Attempts == 0 {
		c.Resume.Attempts = 20
	}
	if c.Dials == 0 {
		c.Dials = 128
	}
	if c.Revision == "" {
		c.Revision = "2025-11-25"
	}
	if c.Name == "" {
		c.Name = "00000000"
	}
	if c.Start.IsZero() {
		c.Start = time.Now()
	}
	if c.Modern {
		c.Idle = forever // without a cursor there is nothing to do but to wait
	}
	if c.Live == nil {
		c.Live = new(Live)
	}
	return c
}

func isRunName(s string) bool {
	for _, r := range s {
		if !('0' <= r && r <= '9' || 'a' <= r && r <= 'f') {
			return false
		}
	}
	return len(s) == 8
}
