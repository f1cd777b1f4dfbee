package wire

import (
	"errors"
	"fmt"
)

// ErrMidEvent is what [Reader.Next] returns when the body ended as its framing
// says, but inside an event. What was pending is discarded and the cursor stays
// where it was (WHATWG HTML §9.2.6, end of file).
var ErrMidEvent = errors.New("body ended inside an event")

// ErrBusy is what [Conn.RoundTrip] returns when the previous response was not
// read to its end, or left bytes behind it: the link cannot carry a request.
var ErrBusy = errors.New("link not reusable")

// ErrRequest is matched by every refusal to write a request that could not be
// written without changing its meaning.
var ErrRequest = errors.New("request cannot be written")

// A LimitError says that the peer sent something larger than its bound.
type LimitError struct {
	What  string // "line", "event", "id", "type", "head", "chunk header", "trailer" or "body"
	Limit int    // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s longer than %d bytes", e.What, e.Limit)
}

// A FrameError says that the peer broke the HTTP/1.1 message framing (RFC 9112)
// in a way that leaves no safe reading of what follows.
type FrameError struct {
	What string // what was read, in a few words; never the peer's bytes
}

func (e *FrameError) Error() string { return "broken HTTP framing: " + e.What }

// A SendError says that a request was not written whole.
type SendError struct {
	Sent, Size int // bytes handed to the link, bytes of the request
	Err        error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("sent %d of %d bytes: %v", e.Sent, e.Size, e.Err)
}

// Unwrap gives the error of the link.
func (e *SendError) Unwrap() error { return e.Err }

// Illegal is a set of reasons why a frame breaks SSE, JSON-RPC or UTF-8.
type Illegal uint16

// Reasons for a frame to be illegal.
const (
	IllegalUTF8    Illegal = 1 << iota // not valid UTF-8
	IllegalJSON                        // not well-formed JSON (RFC 8259)
	IllegalRPC                         // JSON, but no JSON-RPC 2.0 message
	IllegalID                          // an event id that a header field does not carry as it is
	IllegalSize                        // larger or nested deeper than its bound
	IllegalHTTP                        // the HTTP framing is broken
	IllegalBatch                       // a JSON array; legal in revision 2025-03-26 only
	IllegalDupKeys                     // the same key twice where it decides the meaning
)

// IllegalOf tells which finding about the target an error stands for: IllegalSize
// for a [LimitError], IllegalHTTP for a [FrameError], 0 for any other error.
func IllegalOf(err error) Illegal {
	var limit *LimitError
	var frame *FrameError
	switch {
	case errors.As(err, &limit):
		return IllegalSize
	case errors.As(err, &frame):
		return IllegalHTTP
	}
	return 0
}
