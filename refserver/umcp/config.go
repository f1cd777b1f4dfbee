package umcp

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

// Path is where the MCP endpoint is.
const Path = "/mcp"

// Versions of MCP that are negotiated, newest first ("MCP sessions": "uMCP negotiates
// 2025-03-26 or 2024-11-05").
func Versions() []string { return []string{"2025-03-26", "2024-11-05"} }

// Config configures [New]. Its zero value has all the defaults of the contract.
type Config struct {
	Limits Limits
	// KeepAlive is the time between two comments on an event stream. Default 15 s
	// ("Server event stream": "The server sends SSE comments every 15 seconds").
	KeepAlive time.Duration
	// WriteTimeout is how long a client may leave one write unread before its connection
	// is cut. Default 30 s.
	WriteTimeout time.Duration
	// AllowedOrigins lists further values of the Origin header that may use the server,
	// such as "https://app.example"; those of loopback may in any case. Others are
	// refused with 403 ("Server event stream": "Authentication and Origin checks run on
	// POST, GET and DELETE").
	AllowedOrigins []string
	// Verifier says whose a bearer token is, by the UserID of what it returns: the
	// principal that a session records ("MCP sessions"). Requests without a valid token
	// are refused with 401. Nil: nobody is asked, and all are the principal "".
	Verifier auth.TokenVerifier
	// Other serves all paths but [Path], on the same connections and by the same rules of
	// framing, without Origin and authentication checks ("Browser access": "auxiliary-route
	// boundaries are unchanged"). It gets the body whole, and its response is held back
	// until it returns, so it cannot stream. Nil: they are 404.
	Other http.Handler
	// Nonce returns a secret that was never returned before, 1 to 128 characters of visible
	// ASCII. It names sessions ("MCP sessions": "a new opaque Mcp-Session-Id"). Default: 26
	// random characters.
	Nonce func() string
	// Logger gets what an operator should know. It is never given ids of sessions or
	// tokens. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer is where the metrics of the server are registered. Nil: nowhere.
	Registerer prometheus.Registerer
	// OnEvent is told what happens to sessions and event streams, from any goroutine. It
	// must not block.
	OnEvent func(refserver.Event)
}

// Limits bounds what clients can make the server hold. Zero fields mean the default.
type Limits struct {
	// RequestsPerConnection is how many requests one connection may carry; the response to
	// the last one says "Connection: close". Default 1,000 ("HTTP connections").
	RequestsPerConnection int
	// IdleRead is how long a connection may wait for the first byte of a request. From
	// there the head has to be complete within the same time again, and so has the body.
	// Default 30 s ("HTTP connections": "the 30-second idle read").
	IdleRead time.Duration
	// Sessions that live at once; one more is refused with 503. Default 1,024 ("MCP
	// sessions").
	Sessions int
	// SessionIdle is how long a session lives without a request, a call in flight or an
	// event stream. Default 30 min ("MCP sessions").
	SessionIdle time.Duration
	// Body is the most bytes that the body of a request may have; a longer one is refused
	// with 413 before it is read. Default 4 MiB ("HTTP connections": "the existing size
	// limit").
	Body int64
	// HeaderLines and HeaderBytes bound the head of a request; a larger one is refused with
	// 431. Default 100 lines and 64 KiB.
	HeaderLines, HeaderBytes int
	// Connections open at once; one more is refused with 503. Default 10,000.
	Connections int
}

// Validate reports all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	l := c.Limits
	if c.KeepAlive < 0 || c.WriteTimeout < 0 || l.IdleRead < 0 || l.SessionIdle < 0 {
		errs = append(errs, errors.New("a time limit is negative"))
	}
	if l.RequestsPerConnection < 0 || l.Sessions < 0 || l.Body < 0 || l.HeaderLines < 0 || l.HeaderBytes < 0 || l.Connections < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	for _, o := range c.AllowedOrigins {
		if !refserver.ValidOrigin(o) {
			errs = append(errs, fmt.Errorf("origin %q is not http://host[:port] or https://host[:port]", o))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	orDuration(&c.KeepAlive, 15*time.Second)
	orDuration(&c.WriteTimeout, 30*time.Second)
	orDuration(&c.Limits.IdleRead, 30*time.Second)
	orDuration(&c.Limits.SessionIdle, 30*time.Minute)
	orInt(&c.Limits.RequestsPerConnection, 1000)
	orInt(&c.Limits.Sessions, 1024)
	orInt(&c.Limits.HeaderLines, 100)
	orInt(&c.Limits.HeaderBytes, 64<<10)
	orInt(&c.Limits.Connections, 10_000)
	if c.Limits.Body == 0 {
		c.Limits.Body = 4 << 20
	}
	if c.Other == nil {
		c.Other = http.NotFoundHandler()
	}
	if c.Nonce == nil {
		c.Nonce = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(refserver.Event) {}
	}
	return c
}

func orDuration(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

func orInt(n *int, otherwise int) {
	if *n == 0 {
		*n = otherwise
	}
}
