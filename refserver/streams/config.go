package streams

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/prometheus/client_golang/prometheus"
)

// Paths of the endpoint and of its WebSocket.
const (
	Path          = "/mcp"
	WebSocketPath = "/mcp/ws"
)

// Versions of MCP that are negotiated: the one that the draft was written for.
func Versions() []string { return []string{"2025-06-18"} }

// Config configures [New]. Its zero value has the values of the draft.
type Config struct {
	// Min is resumeInterval.min: how long a client should wait before it polls or resumes.
	// Default 5 s ("Creation"). It is told, not enforced.
	Min time.Duration
	// Max is resumeInterval.max: how long after a disconnect or the last poll a stream is
	// kept for its client. Then it is abandoned: its memory is reclaimed and the context of
	// its handler is done ("Abandonment"). Default 1 h.
	Max time.Duration
	// Window is how long after a message was written it is taken for possibly undelivered,
	// while its link lives ("Disconnection and Resumption": "a two minute window"). Default
	// 2 min.
	Window time.Duration
	// Flat puts the fields of notifications/stream/create into params, as the schema of the
	// draft has them, instead of into params.stream, as its page has them.
	Flat   bool
	Limits Limits
	// WriteTimeout is how long a client may leave one write unread before its link is cut.
	// The stream goes on. Default 10 s.
	WriteTimeout time.Duration
	// Ping is the time between two pings on a WebSocket; one that is not answered in that
	// time ends the link. Default 30 s.
	Ping time.Duration
	// AllowedOrigins lists further values of the Origin header that may use the server,
	// such as "https://app.example"; those of loopback may in any case. Others are refused
	// with 403, on POST, DELETE and WebSocket.
	AllowedOrigins []string
	// AllowedHosts lists further names of the server for requests that come in on a loopback
	// address; others are refused with 403, against DNS rebinding.
	AllowedHosts []string
	// Verifier says whose a bearer token is, by the UserID of what it returns: the principal
	// of sessions and streams ("Security Considerations": "validate that clients have
	// appropriate permissions"). Requests without a valid token are refused with 401. Nil:
	// nobody is asked, and all are the principal "".
	Verifier auth.TokenVerifier
	// Nonce returns a secret that was never returned before, 1 to 128 characters of visible
	// ASCII. It makes session ids, stream ids, resume tokens and ids of requests of the
	// server. Default: 26 random characters.
	Nonce func() string
	// Logger gets what an operator should know. It is never given ids of sessions or
	// streams, or tokens. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer is where the metrics of the server are registered. Nil: nowhere.
	Registerer prometheus.Registerer
}

// Limits bounds what clients can make the server hold. Zero fields mean the default.
type Limits struct {
	// Streams that are kept at once, live or completed. For one more the completed one
	// whose end was written longest ago has to go; if there is none the call is served
	// without a stream. Default 10,000.
	Streams int
	// Bytes of all buffers, and StreamBytes and StreamMessages of one. Beyond them
	// completed streams go, then messages that were written, then all messages of the
	// stream that grows: who resumes it gets an error. Defaults 256 MiB, 16 MiB, 100,000.
	Bytes, StreamBytes int64
	StreamMessages     int
	// Sessions that live at once, of all transports; one more is refused with 503, or its
	// link is closed. Default 10,000.
	Sessions int
	// SessionIdle is how long a session over HTTP lives without a request or a call in
	// flight. Default 30 min.
	SessionIdle time.Duration
	// Calls in flight of a session. One more is refused. Default 1,000.
	Calls int
	// Message is the most bytes that a message of a client may have. Default 4 MiB.
	Message int64
}

// Validate reports all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	l := c.Limits
	if c.Min < 0 || c.Max < 0 || c.Window < 0 || c.WriteTimeout < 0 || c.Ping < 0 || l.SessionIdle < 0 {
		errs = append(errs, errors.New("a time limit is negative"))
	}
	if l.Streams < 0 || l.Bytes < 0 || l.StreamBytes < 0 || l.StreamMessages < 0 || l.Sessions < 0 || l.Calls < 0 || l.Message < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if d := c.withDefaults(); d.Min > d.Max {
		errs = append(errs, fmt.Errorf("clients are to wait %v and may wait no longer than %v", d.Min, d.Max))
	}
	for _, o := range c.AllowedOrigins {
		if !refserver.ValidOrigin(o) {
			errs = append(errs, fmt.Errorf("origin %q is not http://host[:port] or https://host[:port]", o))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	or(&c.Min, 5*time.Second)
	or(&c.Max, time.Hour)
	or(&c.Window, 2*time.Minute)
	or(&c.WriteTimeout, 10*time.Second)
	or(&c.Ping, 30*time.Second)
	or(&c.Limits.Streams, 10_000)
	or(&c.Limits.Bytes, 256<<20)
	or(&c.Limits.StreamBytes, 16<<20)
	or(&c.Limits.StreamMessages, 100_000)
	or(&c.Limits.Sessions, 10_000)
	or(&c.Limits.SessionIdle, 30*time.Minute)
	or(&c.Limits.Calls, 1000)
	or(&c.Limits.Message, 4<<20)
	if c.Nonce == nil {
		c.Nonce = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Header names, and one that leads from a request to its call inside the SDK. It is never
// on the wire: a client's own value is dropped.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerCursor  = "Last-Event-Id"
	headerCall    = "Gapless-Call"
)

var _ http.Handler = (*Server)(nil)
