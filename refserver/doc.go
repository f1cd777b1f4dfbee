// Package refserver makes any server of the official Go SDK resumable over
// Streamable HTTP (MCP 2025-03-26, 2025-06-18 and 2025-11-25), and holds the
// fixture that gapless runs its load against.
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
// A stream has at most one follower. A newcomer takes the place of the one that is
// there: the old link is reset, its follower leaves, and only then does the newcomer
// read. No lock is held across a network write or a call to the store.
//
// Two things do not go by the log. An event that the store did not take is written to
// whoever is connected, without an id, behind all that the log holds. And a tool may
// close the connection of its stream ([Stream.CloseConnection]): the follower leaves
// cleanly, the log goes on, and the client comes back with its cursor.
package refserver
