package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// shown bounds what is repeated of a server's own words, in bytes.
const shown = 200

// An UnreachableError says that no link to the endpoint was had.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return "not reachable: " + e.Err.Error() }

// Unwrap gives what went wrong.
func (e *UnreachableError) Unwrap() error { return e.Err }

// An RPCError is the error that answers a request (JSON-RPC 2.0 §5.1).
type RPCError struct {
	Method  string // of the request
	Code    int64
	Message string // the server's words, printable, without what was secret of the request
	Data    json.RawMessage
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("%s: error %d: %s", e.Method, e.Code, shorten(e.Message))
}

// A StatusError is an HTTP status that is no answer to a request.
type StatusError struct {
	Method   string // of the request
	Status   int
	Location string    // where a redirect leads: scheme, host and path; else empty
	RPC      *RPCError // the body, when it was a JSON-RPC error; else nil
	WantsTLS bool      // the server says that it speaks TLS there
}

func (e *StatusError) Error() string {
	switch {
	case e.Location != "":
		return fmt.Sprintf("%s: it redirects to %s; gapless follows no redirects, give that URL", e.Method, shorten(e.Location))
	case e.WantsTLS:
		return fmt.Sprintf("%s: status %d: it speaks TLS there: https:// instead of http://?", e.Method, e.Status)
	case e.RPC != nil:
		return fmt.Sprintf("%s: status %d: %s", e.Method, e.Status, shorten(e.RPC.Message))
	}
	return fmt.Sprintf("%s: status %d", e.Method, e.Status)
}

// Unwrap gives the JSON-RPC error of the body.
func (e *StatusError) Unwrap() error {
	if e.RPC == nil {
		return nil
	}
	return e.RPC
}

// redirect returns where a Location leads, without what may be secret of it.
func redirect(location string, status int) string {
	if status/100 != 3 || location == "" {
		return ""
	}
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	if u.Host == "" {
		return printable((&url.URL{Path: u.Path}).String())
	}
	return printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// printable makes a server's words fit one line of ours.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
}

func shorten(s string) string {
	if len(s) > shown {
		s = strings.ToValidUTF8(s[:shown], "") + "..."
	}
	return s
}

// secrets returns what of a request must not come back in an error: the values of the
// user's own headers, the credential and the session id.
func secrets(own, sent []wire.Field) []string {
	var all []string
	for _, f := range sent {
		if strings.EqualFold(f.Name, "Authorization") || strings.EqualFold(f.Name, "Mcp-Session-Id") ||
			slices.ContainsFunc(own, func(o wire.Field) bool { return strings.EqualFold(o.Name, f.Name) }) {
			all = append(all, f.Value)
			if _, bare, ok := strings.Cut(f.Value, " "); ok {
				all = append(all, bare)
			}
		}
	}
	return all
}

// shortestSecret is what may be a secret at all: striking "1" from a text says nothing.
const shortestSecret = 6

// hide strikes secrets from the server's words in an error.
func (a *Answer) hide(err error) error {
	var status *StatusError
	var rpc *RPCError
	led, said := errors.As(err, &status), errors.As(err, &rpc)
	for _, secret := range a.secrets {
		if len(secret) < shortestSecret {
			continue
		}
		if led {
			status.Location = strings.ReplaceAll(status.Location, secret, "***")
		}
		if said && (strings.Contains(rpc.Message, secret) || bytes.Contains(rpc.Data, []byte(secret))) {
			rpc.Message, rpc.Data = strings.ReplaceAll(rpc.Message, secret, "***"), nil
		}
	}
	return err
}

// Words says in a few words why an exchange ended; it repeats nothing of the peer's.
func Words(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the link was reset"
	case errors.As(err, &ne) && ne.Timeout():
		return "no answer in time"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the link ended inside an answer"
	case errors.Is(err, io.EOF):
		return "the link ended without an answer"
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil { // without the addresses
		return op.Err.Error()
	}
	return err.Error()
}
