// Package refserver makes any server of the official Go SDK resumable over
// Streamable HTTP (MCP 2025-03-26, 2025-06-18 and 2025-11-25), and holds the
// fixture that gapless runs its load against.
//
// # Adopting it
//
// Where an SDK server was given to mcp.NewStreamableHTTPHandler, give it to [New], with
// a store; [Serve] or [NewServer] do the rest. Tools stay as they are. The example of
// the package serves a tool and cuts its call; docs/library.md goes on with tokens, TLS
// and metrics.
//
// # How it works
//
// MCP semantics stay in the SDK. Sessions, streams, events and replay are here:
//
//	POST ──► Handler ──► session ──Read──► mcp.Server ──► tool handler
//	                        │                                 │
//	                        │  Write: by request id, or by    │ Stream.Send
//	                        ▼  the stream in the context      ▼
//	                      Stream ── Append ──► log (store.Store)
//	                                            │ Tail
//	GET, POST answer ◄── sink ◄── follower ◄────┘
//
// A [Stream] is an append-only log. A connection is a follower of that log: it
// takes a batch behind its cursor, writes it, moves on, and waits at the end.
// Following from an old cursor is replay, following from the end is live; nothing
// is ever handed over from one to the other.
//
//	log      1 2 3 4 5 6 7 8 9 ─ ─ ►        a tool appends here, connected client or not
//	               ▲         ▲
//	               │         └ where the stream is live
//	               └ Last-Event-ID: 3       the connection begins behind it and walks
//
// A stream has at most one follower. A newcomer takes the place of the one that is
// there: the old link is reset, its follower leaves, and only then does the newcomer
// read. No lock is held across a network write or a call to the store.
//
// Two things do not go by the log. An event that the store did not take is written to
// whoever is connected, without an id, behind all that the log holds. And a tool may
// close the connection of its stream ([Stream.CloseConnection]): the follower leaves
// cleanly, the log goes on, and the client comes back with its cursor.
//
// # What is stored, and when
//
// Every event of a request's stream, before it is written: the priming event
// (2025-11-25 only), what the handler sends, and the response. Events of the session's
// GET stream, from when the client has opened it once; before, it has no cursor there.
// The answer to initialize is no stream and is not stored. What a session has in the
// store goes when the session ends: by DELETE, by [Limits].Idle, or with the server.
//
// A store promises that an event it took has a place behind all others of its stream,
// and is found there until it is evicted; see package store. A cursor whose successors
// were evicted, that is unknown, or that is of another session is answered 400: nothing
// is replayed, nothing is left out, and the value is not repeated. The answer to a resume
// says in a header of ours, Gapless-Missed, how many events lay behind the cursor.
//
// # What handlers know
//
// The session's id by req.Session.ID(), and whose token came by req.Extra.TokenInfo,
// as with the SDK's own handler; their stream by [StreamFrom], the session's GET
// stream by [StandaloneFrom].
//
// # Security
//
// Sessions prove nothing. With [Config].Verifier, or auth.RequireBearerToken of the SDK
// around the handler, a session belongs to the principal that opened it, and to
// everybody else it is as unknown as one that never was. A token is looked at when a
// request comes, not while its stream is open. Pages of foreign origins are refused, and
// so is a foreign Host on a loopback address (DNS rebinding). Headers, bodies, the time
// both take, sessions, calls and connections are bounded: see [Limits], [NewServer] and
// [Bounded]. Ids of sessions and events, and tokens, are in no log, error or metric. What
// [Admin] serves belongs on a loopback listener of its own.
//
// # What it does not do
//
// Sessions live in one process: a client of several replicas has to be led to its own.
// It sends no CORS headers, limits no rates, and counts connections, not clients by
// address; a proxy in front does that better. Calls in flight keep their headers and
// arguments: where large ones come from strangers, lower [Limits].Calls and Body.
package refserver
