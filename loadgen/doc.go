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
// A stream makes one of the run's calls (Config.Calls): a POST of tools/call,
// resources/read or prompts/get. When its exchange ends without the response and an event
// id was committed, it waits as long as the target asked for and asks for the rest with
// GET and Last-Event-ID, again and again until the response, a refusal for good or the
// deadline. A call that may have run is never sent twice, and nothing is asked once the
// response was dispatched.
//
// # What stands in the way
//
// 429 and 503 are no answer but a wish for patience: the request is sent again after
// Retry-After, or longer after each failure, for as long as a call may take; a call gets
// another id each time. Redirects are never followed. The credential of the run is asked
// for before each exchange; without one nothing is sent. What a person has to know of all
// this is in a [*HandshakeError], a [*CredentialError] or in Report.Complaints.
//
// # 2026-07-28
//
// With Config.Modern there is no handshake and no session: server/discover is asked once,
// every request says for itself what it needs, and a cut call is over. Before it settles it
// is made again once, as a call of its own (history.ProbeReissue), which in earlier
// revisions is done for a sample of those that cannot be resumed.
//
// # The draft of resumable streams
//
// With Config.Draft the first event of a call creates its stream; without it nothing is
// resumed. A cut call is taken up by a POST of stream/resume with the stream's id and token,
// not before resumeInterval.min, and a drawn share of the resumes is preceded by
// stream/poll. A call is complete with its response and the end of its stream.
//
// # Two models
//
// In the closed model a stream starts when another has settled. In the open model the
// plan says when each starts, whatever the target does: an arrival that finds
// PlanConfig.MaxOpen streams open is dropped and counted, never kept waiting, and all
// latencies count from the instant that was planned. Whether this side kept up with its
// plan is for Report.Shortfall to say.
//
// # uMCP
//
// With Config.UMCP each stream has a session to itself, whose event stream (GET) carries the
// messages of its call; the response comes on the POST. After a cut it asks for the event
// stream again, without a cursor and through 409, in the same session. It is complete with
// the response and the last message; without the last one when nothing came for Config.Tail
// after a link had ended, or for Config.Silence on one that lives.
//
// # GET streams
//
// A stream of kind history.StreamGet opens the session's standalone GET stream, then
// makes a call on another link whose messages come on the first, and is done when the
// response of the call and the expected messages have come. Before the call is made it may
// be refused for a while and ask again without a cursor.
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
//	completed      its response was dispatched, whatever happened then; a GET stream's
//	               expected messages as well
//	cancelled      the call was taken back halfway (Config.Cancel), with or without a
//	               response; it is not resumed
//	indeterminate  cut before the first committed id by a fault of ours, or a rested link
//	               turned out to be closed: nobody can tell whether the call ran
//	not sent       no session, no link, no credential, the request was not written whole,
//	               or the target had no time for it (429, 503) until it was too late
//	refused        a status other than 2xx to the POST; on a resume any but 409, 429
//	               and 5xx. 404 also ends the session: later arrivals open another
//	undecided      stopped, or too late while the target was not silent, or while it
//	               answered the resumes with 429 or 503
//	failed         cut by the target before the first committed id; too late after
//	               Config.Silence of silence; too many attempts that led nowhere
//
// A call that is given up open, undecided or failed, is taken back by
// notifications/cancelled as far as that can be done within a second.
//
// # Probes
//
// Once they are complete, and before they settle, sampled streams ask what the load leaves
// open: what follows a cursor from their middle, twice; what follows cursors that are
// unknown, malformed, of another session; what requests without a session, in a deleted
// one, or from a foreign Origin are answered. Every exchange of a probe has a new link on
// which nothing is hurt, and two seconds.
//
// # Links
//
// A session keeps a few links for its next exchanges. One that rested for a second is
// not used again: servers close such links, and a call that crosses the close can
// neither be repeated nor explained.
package loadgen
