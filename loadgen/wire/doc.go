// Package wire speaks HTTP/1.1, Server-Sent Events and JSON-RPC framing for the
// client side of a stream. It holds no policy: it never retries, never waits on
// its own and never decides what a finding means.
//
//	         ┌──────────── one buffer per link ────────────┐
//	link ──► │ ···│ kept event │ gap │ raw bytes │  room   │
//	         └────▲────────────▲─────▲───────────▲─────────┘
//	              a            b     r           w
//
// [Conn.RoundTrip] writes one request and reads one response head. The body is
// decoded inside the same buffer: a chunk header between two halves of an event
// is closed up by moving the shorter half, so that [Reader] sees an event as one
// piece and hands out its data without copying it.
//
// [Scan] reads a message once; [Paths] finds in the same pass what lies at JSON Pointers,
// and [Leaves] takes a message apart. A body in a coding that requests do not accept is
// refused, never decoded.
//
// Everything that a peer can make large has a bound ([Limits]); going over it is
// a [LimitError], which is a finding about the target and no fault of ours.
package wire
