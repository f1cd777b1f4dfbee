// Package streams serves a go-sdk server by the draft "Streams" (modelcontextprotocol
// pull request 899, which the tests call seed 000): resumable streams that do not care
// what carries them.
//
//	POST /mcp ─────► exchange ──┐                 ┌──► mcp.Server
//	/mcp/ws ──┐                 ├──► stream ◄─────┤    (a session is an mcp.Transport)
//	lines ────┴────► link ──────┘    buffer       └──► handler of the call
//
// A client that declares the capability "streams" gets one for each tools/call,
// prompts/get and resources/read: notifications/stream/create before anything else, then
// the messages of the call, its response, and notifications/stream/end. The stream
// belongs to whoever has its id, its token and the same principal, on any link and in any
// session; stream/poll looks at it, stream/resume has it follow on another link. Other
// clients are served as by 2025-06-18 without resumption.
//
// A message that was never written to a link is kept until the stream is abandoned. One
// that was written is kept for [Config.Window] while the link lives, since by then a dead
// link would have been noticed; from a disconnect on nothing ages, because what was
// written last is what most likely got lost. A Last-Event-ID or the answer to a request
// of the server discards what it proves to have arrived. What had to be discarded for
// want of memory is never skipped: whoever might lack it gets an error.
//
// Where the draft leaves a choice:
//
//   - The result of stream/resume is {}, after notifications/stream/end and as the last
//     message of its exchange; on a live stream it comes when the stream has ended.
//   - Errors about streams are -32602 with data.reason: "unknown_stream" for an unknown id,
//     for a wrong token and for another principal alike; with the right token
//     "stream_abandoned" or "messages_gone"; "bad_last_event_id" and "invalid_params" tell
//     nothing about any stream.
//   - Last-Event-ID is taken on stream/resume, and on stream/poll, which answers for such a
//     resume and discards nothing. On any other POST it is refused with 400.
//   - Without Last-Event-ID everything in the buffer is sent again. On WebSocket and lines
//     it is always so.
//   - The last resume wins. The one before is answered with -32000 and data.reason
//     "superseded".
//   - The end is sent on each resume of a stream that has ended, under the same event id.
//   - pendingMessages tells whether a resume would send a message besides the end, be it
//     one that was written before and perhaps arrived. hasError tells of a JSON-RPC error
//     as well as of a result with isError.
//   - Requests of the server have ids of their own that nobody can guess, since a client
//     may answer in another session than the one that asked.
//   - DELETE ends a session with all streams that were made in it. The end of a link ends
//     no stream.
//   - When there are more streams than may be kept, a call is served without one.
package streams
