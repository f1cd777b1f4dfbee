package refserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/refserver/defect"
	"github.com/gapless-dev/gapless/refserver/lock"
	"github.com/gapless-dev/gapless/refserver/store"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/prometheus/client_golang/prometheus"
)

// Config configures [New]. The zero Config is a server without an event store.
type Config struct {
	// Store keeps the events of all sessions, see package store. Nil: nothing can be resumed, events
	// carry no ids, and what is sent while no client is connected is gone.
	Store store.Store
	// Delivery says how events get from the store to the connections. Handoff needs a
	// store.
	Delivery Delivery
	// Lock says which streams share the lock of [Handoff]; Follow has none. The store
	// has its own, see [store.MemoryConfig].
	Lock lock.Scope
	// Retry is the reconnection time announced with the priming event, in whole
	// milliseconds ("2025-11-25 transports, Sending Messages 6"). Zero: none.
	Retry time.Duration
	// Modern serves requests of 2026-07-28 too, by the SDK's own handler: without
	// sessions, without a store, nothing to resume, and a client that leaves cancels its
	// request. They run beside the sessions of the other revisions, on the same server.
	// False: they are refused with 400, which names the revisions that are served.
	Modern bool
	// Stateless serves every request of any revision that way. There are no sessions
	// then, so GET and DELETE are refused with 405, and a Store cannot be used.
	Stateless bool
	// OnConflict says what a resume meets when the stream still has a connection.
	OnConflict Conflict
	Limits     Limits
	// Verifier says whose a bearer token is, by the UserID of what it returns: the
	// principal. A session then belongs to the principal that opened it, and is unknown
	// to all others. A token without a UserID is of the principal "", one without an
	// Expiration never expires. Requests without a valid token are refused with 401.
	//
	// Nil: every request is served, on behalf of the token that [auth.RequireBearerToken]
	// around the handler has verified, else on behalf of the principal "".
	Verifier auth.TokenVerifier
	// Scopes are what each token must have besides; else the answer is 403. They are
	// named in the challenge. Without a Verifier they are an error.
	Scopes []string
	// ResourceMetadataURL is named in the challenge of a 401 or 403, so that a client
	// finds where tokens are to be had (RFC 9728). Empty: it is left out.
	ResourceMetadataURL string
	// AllowedOrigins lists further values of the Origin header that may use the
	// server, such as "https://app.example". Requests without an Origin and those
	// from loopback origins are always served, all others are refused with 403
	// ("2025-11-25 transports, Security Warning 1").
	AllowedOrigins []string
	// AllowedHosts lists further names, without a port, by which a server on a loopback
	// address may be called, such as that of a proxy before it: "mcp.example". Requests
	// that come in on a loopback address with another name than localhost or a loopback
	// address in their Host header are refused with 403, since a web page may have made
	// that name mean this machine. Other addresses and Unix sockets are not looked at.
	AllowedHosts []string
	// WriteTimeout is how long a client may leave one write unread before its
	// connection is cut. Default 30 s.
	WriteTimeout time.Duration
	// KeepConnections leaves the HTTP framing to net/http instead of taking the
	// connection over for each event stream. A link can then be used again after a
	// stream has ended, at the price of about 18 KiB per open stream.
	KeepConnections bool
	// Nonce returns a secret that was never returned before, in visible ASCII. It
	// names sessions. Default: 26 random characters.
	Nonce func() string
	// Logger gets what an operator should know. It is never given ids of sessions or
	// events, or tokens. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer is where the metrics of the handler are registered. Nil: nowhere.
	Registerer prometheus.Registerer
	// OnEvent is told what happens to sessions and streams, from any goroutine. It
	// must not block.
	OnEvent func(Event)
	// Defect plants a bug on purpose; the zero value plants none.
	Defect defect.Set
}

// Limits bounds what clients can make the handler hold. Zero fields mean the
// default.
type Limits struct {
	// Sessions open at once; one more is refused with 503. Default 10,000.
	Sessions int
	// PrincipalSessions open at once of each principal other than ""; one more is
	// refused with 429. Default: half of Sessions, so that nobody gets them all.
	PrincipalSessions int
	// Calls in flight per session; one more is refused with 429. Default 10,000.
	Calls int
	// Body is the most bytes that the body of a POST may have; a longer one is refused
	// with 413. Default 4 MiB.
	Body int64
	// Bodies is how many bytes all bodies larger than 64 KiB may come to at once, from
	// their first byte until their requests are answered, since handlers hold them so
	// long, in about twice that memory; one more is refused with 503. Default 256 MiB,
	// and Body if that is more.
	Bodies int64
	// Idle is how long a session lives without a request, a call in flight or a
	// connection. Default 30 min.
	Idle time.Duration
}

// Conflict is what a resume meets when the stream still has a connection.
type Conflict int

// Conflict policies.
const (
	// Takeover resets the old connection and gives the stream to the new one.
	Takeover Conflict = iota
	// Refuse answers the new one with 409 Conflict.
	Refuse
)

// Delivery is how events get from the store to the connections.
type Delivery int

// Deliveries.
const (
	// Follow lets a connection walk the log of its stream, from the place where the
	// client is. Replay and live delivery are the same walk.
	Follow Delivery = iota
	// Handoff replays in passes what a client missed, and then attaches its connection
	// to what is new, under a lock that whoever appends takes too. A connection that
	// does not catch up in sixteen passes is closed, and its client comes back. See
	// package handoff.
	Handoff
)

// Validate reports all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Retry < 0 || c.Retry%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("retry %s is not a whole number of milliseconds", c.Retry))
	}
	if c.OnConflict != Takeover && c.OnConflict != Refuse {
		errs = append(errs, fmt.Errorf("unknown conflict policy %d", c.OnConflict))
	}
	if c.Delivery != Follow && c.Delivery != Handoff {
		errs = append(errs, fmt.Errorf("unknown delivery %d", c.Delivery))
	}
	if c.Delivery == Handoff && c.Store == nil {
		errs = append(errs, errors.New("delivery by hand-over needs an event store"))
	}
	if !c.Lock.Valid() {
		errs = append(errs, fmt.Errorf("unknown %s of the delivery lock", c.Lock))
	}
	if c.WriteTimeout < 0 || c.Limits.Idle < 0 {
		errs = append(errs, errors.New("a time limit is negative"))
	}
	if c.Limits.Sessions < 0 || c.Limits.PrincipalSessions < 0 || c.Limits.Calls < 0 || c.Limits.Body < 0 || c.Limits.Bodies < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	for _, o := range c.AllowedOrigins {
		if !ValidOrigin(o) {
			errs = append(errs, fmt.Errorf("origin %q is not http://host[:port] or https://host[:port]", o))
		}
	}
	errs = append(errs, c.validateAccess()...)
	if c.Store == nil && c.Defect.ID != "" {
		errs = append(errs, fmt.Errorf("defect %s needs an event store", c.Defect))
	}
	if c.Store != nil && c.Stateless {
		errs = append(errs, errors.New("an event store needs sessions, and a stateless server has none"))
	}
	return errors.Join(errs...)
}

// validateAccess reports what is wrong with the settings about who may use the server.
func (c Config) validateAccess() []error {
	var errs []error
	for _, host := range c.AllowedHosts {
		_, err := netip.ParseAddr(host)
		if err != nil && (host == "" || strings.ContainsAny(host, ":/[]*@ ")) {
			errs = append(errs, fmt.Errorf("host %q is not a name without a port", host))
		}
	}
	if c.Verifier == nil && (len(c.Scopes) > 0 || c.ResourceMetadataURL != "") {
		errs = append(errs, errors.New("scopes and a metadata URL need a verifier of tokens"))
	}
	for _, text := range append([]string{c.ResourceMetadataURL}, c.Scopes...) {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			errs = append(errs, fmt.Errorf("%q cannot be named in a challenge", text))
		}
	}
	if u, err := url.Parse(c.ResourceMetadataURL); c.ResourceMetadataURL != "" && (err != nil || u.Host == "") {
		errs = append(errs, fmt.Errorf("%q is not a URL", c.ResourceMetadataURL))
	}
	return errs
}

func (c Config) withDefaults() Config {
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	if c.Nonce == nil {
		c.Nonce = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	if c.Limits.Sessions == 0 {
		c.Limits.Sessions = 10_000
	}
	if c.Limits.PrincipalSessions == 0 {
		c.Limits.PrincipalSessions = (c.Limits.Sessions + 1) / 2
	}
	if c.Limits.Calls == 0 {
		c.Limits.Calls = 10_000
	}
	if c.Limits.Body == 0 {
		c.Limits.Body = 4 << 20
	}
	if c.Limits.Bodies == 0 {
		c.Limits.Bodies = max(256<<20, c.Limits.Body)
	}
	if c.Limits.Idle == 0 {
		c.Limits.Idle = 30 * time.Minute
	}
	return c
}

// Event tells what happened to a session or stream. It carries no ids.
type Event struct {
	Kind EventKind
	// Get tells the session's standalone stream from the stream of a request.
	Get bool
	// Missed is the number of events a resume has to replay.
	Missed int
	// Written tells that an event the store did not take was written without an id.
	Written bool
	// Outcome is how a resume was answered, Reason why a connection ended.
	Outcome Outcome
	Reason  Reason
}

// EventKind says what happened.
type EventKind int

// Kinds of events.
const (
	SessionOpened EventKind = iota
	SessionEnded
	Attached // a connection follows a stream
	Detached // it no longer does; Reason says why
	Resumed  // a GET with Last-Event-ID was answered; Outcome says how
	Answered // the response of a request was given to its stream
	Unstored // the store did not take an event; Written says whether a client got it
)

// Outcome is how a resume was answered.
type Outcome int

// Outcomes of resumes.
const (
	ResumeOK       Outcome = iota
	ResumeUnknown          // no such event, or it lies in the future
	ResumeExpired          // the events after it are no longer kept
	ResumeForeign          // it is an event of another session
	ResumeConflict         // the stream has a connection
	ResumeStoreErr         // the store failed
	outcomes
)

// String returns the name a metric uses.
func (o Outcome) String() string {
	return [...]string{"ok", "unknown_id", "expired", "foreign_session", "conflict", "store_error"}[o]
}

// Reason is why a connection ended.
type Reason int

// Reasons for the end of a connection.
const (
	ReasonServer   Reason = iota // the stream is complete, or its session ended
	ReasonClient                 // the client left
	ReasonReplaced               // another connection took its place
	ReasonTimeout                // the client did not read for too long
	ReasonError                  // events it needed were gone, or the store failed
	ReasonPolling                // the server closed it, the stream goes on
	ReasonBehind                 // so it did, since the client did not catch up
	reasons
)

// String returns the name a metric uses.
func (r Reason) String() string {
	return [...]string{"server", "client", "replaced", "timeout", "error", "polling", "behind"}[r]
}
