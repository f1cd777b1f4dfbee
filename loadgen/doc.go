// Package loadgen opens streams of tool calls against an MCP server, takes each of
// them up again after a cut, and reports what it saw, fact by fact.
//
//	Plan ─► start ─► stream ── session ── link ── wire.Conn ── Link (faults) ══ TCP
//	                    │
//	                    └─► StreamObserver: one history.Record per fact, in order
//
// [Run] starts every arrival of a [Plan] in a goroutine of its own. Everything of one
// stream happens in that goroutine: it writes the requests, reads the links, waits
// between attempts and calls the [StreamObserver]; no lock is shared between streams
// while events pass.
//
// A stream makes one POST. When its exchange ends without the response and an event
// id was committed, it waits as long as the target asked for and asks for the rest with
// GET and Last-Event-ID, again and again until the response, a refusal for good or the
// deadline. The POST is never repeated, and nothing is asked once the response was
// dispatched.
//
// # What ends an attempt
//
// An attempt ends by itself, or when no message came for Config.Idle: comments and events
// without a message are not progress. Without a committed id an attempt that was given up could
// not be resumed, so then only the deadline of the call ends it. A stream that still
// is open Config.Tail after its response is left (history.EndOpen).
//
// # Outcomes
//
//	completed      its response was dispatched, whatever happened then
//	indeterminate  cut before the first committed id by a fault of ours, or a rested link
//	               turned out to be closed: nobody can tell whether the call ran
//	not sent       no session, no link, or the request was not written whole
//	refused        a status other than 2xx to the POST; on a resume any but 409, 429
//	               and 5xx. 404 also ends the session: later arrivals open another
//	undecided      stopped, or too late while the target was not silent
//	failed         cut by the target before the first committed id; too late after
//	               Config.Silence of silence; too many attempts that led nowhere
//
// # Links
//
// A session keeps a few links for its next exchanges. One that rested for a second is
// not used again: servers close such links, and a call that crosses the close can
// neither be repeated nor explained.
package loadgen
