package probe

// Sources of clauses.
const (
	transports = "2025-11-25 transports, "
	lifecycle  = "2025-11-25 lifecycle, "
	utilities  = "2025-11-25 utilities, "
	silent     = "no sentence; WIRE §2.4"
)

// catalog is the table of rows in the order in which they are shown.
func catalog() []Row {
	var all []Row
	for _, g := range []struct {
		name string
		rows []Row
	}{
		{"handshake", handshakeRows}, {"requests", requestRows}, {"security", securityRows}, {"batches", batchRows}, {"http", httpRows},
		{"streams", streamRows}, {"resume", resumeRows}, {"cursors", cursorRows}, {"links", linkRows}, {"get stream", getRows},
		{"lifetime", lifetimeRows}, {"2026-07-28", modernRows}, {"draft streams", draftRows},
		{"umcp", umcpRows},
	} {
		for _, r := range g.rows {
			r.Group = g.name
			all = append(all, r)
		}
	}
	return all
}

func row(name string, level Level, clause, asks string) Row {
	return Row{Name: name, Level: level, Clause: clause, Asks: asks}
}

var handshakeRows = []Row{
	row("revision-2024-11-05", Must, lifecycle+"Version Negotiation", "asked for 2024-11-05, the server answers a revision it speaks"),
	row("revision-2025-03-26", Must, lifecycle+"Version Negotiation", "asked for 2025-03-26"),
	row("revision-2025-06-18", Must, lifecycle+"Version Negotiation", "asked for 2025-06-18"),
	row("revision-2025-11-25", Must, lifecycle+"Version Negotiation", "asked for 2025-11-25"),
	row("revision-2026-07-28", Must, lifecycle+"Version Negotiation", "asked for 2026-07-28 by initialize, which it has not"),
	row("revision-unknown", Must, lifecycle+"Version Negotiation", "asked for a revision that does not exist"),
	row("initialize-answer", Must, transports+"Sending Messages 5", "initialize is answered with JSON or an event stream"),
	row("initialized-202", Must, transports+"Sending Messages 4", "a notification is answered 202 without a body"),
	row("session-id", May, transports+"Session Management 1", "a session id comes with the answer to initialize"),
	row("session-charset", Must, transports+"Session Management 1", "session ids are visible ASCII"),
	row("session-unique", Should, transports+"Session Management 1", "session ids are unique and cannot be guessed"),
}

var requestRows = []Row{
	row("ping", Must, utilities+"Ping", "ping is answered promptly with an empty result"),
	row("request-answer", Must, transports+"Sending Messages 5", "a request is answered with JSON or an event stream"),
	row("response-id", Must, "2025-11-25 basic, Responses", "a response carries the id of its request, a string as a string"),
	row("unknown-method", Derived, "JSON-RPC 2.0 §5.1", "an unknown method is answered with an error"),
	row("unknown-tool", Derived, "2025-11-25 tools, Error Handling", "an unknown tool is answered with an error"),
	row("response-202", Must, transports+"Sending Messages 4", "a posted response is answered 202, or refused with 4xx"),
	row("malformed-body", Derived, transports+"Sending Messages 4; JSON-RPC 2.0 §5.1", "a body that is no JSON is refused"),
	row("accept-post", Unspecified, silent, "POST whose Accept lacks text/event-stream"),
	row("accept-get", Unspecified, silent, "GET whose Accept lacks text/event-stream"),
	row("content-type", Unspecified, silent, "POST of text/plain"),
	row("session-missing", Should, transports+"Session Management 2", "a request without the session id is answered 400"),
	row("session-unknown", Must, transports+"Session Management 3", "an unknown session id is answered 404"),
	row("version-bad", Must, "2025-06-18 transports, Protocol Version Header", "an unknown MCP-Protocol-Version is answered 400"),
	row("version-absent", Should, "2025-06-18 transports, Protocol Version Header", "a request without MCP-Protocol-Version is served"),
	row("version-other", Unspecified, "no sentence; WIRE §5", "MCP-Protocol-Version names another revision than negotiated"),
	row("duplicate-id", Unspecified, silent, "a request id that is in flight is used again"),
	row("cursor-on-post", Unspecified, "no sentence; WIRE §3.3", "Last-Event-ID on a POST"),
	row("get-answer", Must, transports+"Listening for Messages 2", "GET is answered with an event stream or 405"),
	row("get-without-session", Should, transports+"Session Management 2", "GET without the session id is answered 400 (or 405)"),
}

var securityRows = []Row{
	row("origin-foreign", Must, transports+"Security Warning 1", "an Origin of another site is answered 403"),
	row("origin-rebound", Must, transports+"Security Warning 1", "Host and Origin of another site together are refused"),
	row("origin-own", Unspecified, "no sentence; conformance dns-rebinding-protection", "an Origin that is the server's own"),
	row("host-foreign", Unspecified, "no sentence; conformance dns-rebinding-protection", "a Host of another site without an Origin"),
}

var batchRows = []Row{
	row("batch-2025-03-26", Must, "2025-03-26 basic, Batching", "a batch of requests is answered once each"),
	row("batch-notifications", Must, "2025-03-26 transports, Sending Messages 4", "a batch of notifications is answered 202"),
	row("batch-initialize", Derived, "2025-03-26 lifecycle, Initialization", "initialize inside a batch is refused"),
	row("batch-2025-06-18", Unspecified, silent, "a batch at 2025-06-18, which has none"),
	row("batch-2025-11-25", Unspecified, silent, "a batch at 2025-11-25, which has none"),
}

var httpRows = []Row{
	row("close-announced", Must, "RFC 9112 §9.6; WIRE §5", "a link that the server closes after an answer was announced so"),
	row("chunked-request", Unspecified, "RFC 9112 §6.3 allows 411; WIRE §5", "a request body in chunks"),
	row("duplicate-host", Must, "RFC 9112 §3.2; WIRE §5", "two Host fields are answered 400"),
	row("duplicate-length", Must, "RFC 9112 §6.3; WIRE §5", "two different Content-Length are answered 400"),
	row("duplicate-session", Unspecified, "no sentence; WIRE §5", "two Mcp-Session-Id fields"),
	row("stream-type", Must, transports+"Sending Messages 5", "an event stream is text/event-stream"),
	row("stream-cache", Unspecified, "no sentence; WIRE §1.4", "Cache-Control of an event stream"),
	row("stream-buffering", Unspecified, "2026-07-28 transports (SHOULD there)", "X-Accel-Buffering of an event stream"),
	row("stream-connection", Unspecified, "RFC 9112 §9", "what becomes of the link after an event stream"),
	row("stream-encoding", Derived, "RFC 9110 §12.5.3", "no compression that nobody asked for"),
}

var streamRows = []Row{
	row("priming", Should, transports+"Sending Messages 6", "an event stream begins at once with an id and empty data"),
	row("retry", May, "WHATWG HTML §9.2.6", "a reconnection time is announced"),
	row("ids", May, transports+"Resumability 1", "events have ids"),
	row("ids-all", Derived, transports+"Resumability 1", "each message of a stream with ids has one"),
	row("ids-unique", Must, transports+"Resumability 1", "ids are unique over the streams of a session"),
	row("ids-charset", Derived, "WHATWG HTML §9.2.6; RFC 9110 §5.5", "an id survives being a header value"),
	row("ids-name-stream", Should, transports+"Resumability 2", "ids say which stream they belong to"),
	row("unbuffered", Derived, "WHATWG HTML §9.2.1", "events come when they are sent, not all at the end"),
	row("frames", Derived, "JSON-RPC 2.0; WHATWG HTML §9.2.5", "each message is one JSON-RPC message in UTF-8"),
	row("progress-on-call", Should, transports+"Sending Messages 6", "what belongs to a call comes on its stream"),
	row("progress-increases", Must, utilities+"Progress", "progress increases with each notification"),
	row("progress-token", Must, utilities+"Progress", "progress names the token of an active request"),
	row("one-stream-per-message", Must, transports+"Multiple Connections 2", "no message comes on two streams"),
	row("response-not-on-get", Must, transports+"Listening for Messages 4", "no response comes on the GET stream"),
	row("one-response", Derived, "JSON-RPC 2.0 §5", "a request has one response"),
	row("response-ends-stream", Should, transports+"Sending Messages 6", "the stream ends after the response"),
	row("silent-after-response", Derived, transports+"Sending Messages 6", "nothing follows the response"),
	row("polling-close", May, transports+"Sending Messages 6", "the server ends a connection before the response"),
	row("polling-close-id", Must, transports+"Sending Messages 6", "it has sent an id before"),
	row("polling-close-retry", Should, transports+"Sending Messages 6", "it has said when to come back before"),
	row("polling-resume", Derived, transports+"Sending Messages 6", "the rest comes on the next connection"),
	row("early-close-2025-06-18", Should, "2025-06-18 transports, Sending Messages 6", "before 2025-11-25 a connection lasts until the response"),
	row("cancel", Should, utilities+"Cancellation", "a cancelled call stops and is not answered with a result"),
	row("head-of-line", Derived, "WIRE §6 I46", "a reader that stalls holds up nobody else"),
}

var resumeRows = []Row{
	row("resume", May, transports+"Resumability 3", "GET with Last-Event-ID resumes a call that runs"),
	row("resume-no-loss", Derived, transports+"Resumability 3", "what followed the cursor comes"),
	row("resume-no-repeat", Derived, transports+"Resumability 3", "nothing up to the cursor comes again"),
	row("resume-in-order", Derived, transports+"Resumability 3", "replay keeps the order"),
	row("resume-own-stream", Must, transports+"Resumability 3", "messages of another stream are not replayed"),
	row("resume-priming", Unspecified, "no sentence; WIRE §2.3", "a resumed connection begins with a priming event"),
	row("resume-thrice", Derived, transports+"Resumability 3", "a call survives three cuts, one before any event came"),
	row("resume-after-response", Derived, transports+"Resumability 3", "a finished call is replayed with its response"),
	row("resume-ends", Should, transports+"Sending Messages 6", "the connection ends after a replayed response"),
	row("resume-final", Derived, transports+"Resumability 3", "behind the last id nothing comes, and soon"),
	row("resume-idempotent", Derived, "RFC 9110 §9.2.1; WIRE §6 I38", "the same cursor gives the same again"),
	row("ids-stable", Derived, transports+"Resumability 3", "a replayed id carries the same message"),
	row("disconnect-no-cancel", Should, transports+"Sending Messages 6", "a cut link is not taken for a cancellation"),
}

var cursorRows = []Row{
	row("cursor-unknown", Unspecified, silent, "an id of the server's own shape that it never gave"),
	row("cursor-malformed", Unspecified, silent, "an id of a shape that it never gives"),
	row("cursor-future", Unspecified, silent, "an id that a known stream may reach later"),
	row("cursor-other-stream", Must, transports+"Resumability 3", "the id of another stream gives nothing of this one"),
	row("cursor-other-session", Derived, transports+"Resumability 3; security best practices", "the id of another session gives nothing"),
	row("cursor-empty", Unspecified, "no sentence; WHATWG HTML §9.2.3 sends none", "an empty Last-Event-ID"),
	row("cursor-long", Derived, "RFC 9110 §5.4", "an id of 4 KiB is refused without harm"),
}

var linkRows = []Row{
	row("attached", Unspecified, silent, "resume while the stream still has a connection"),
	row("one-consumer", Must, transports+"Multiple Connections 2", "two connections of one stream share no message"),
	row("window-fin", Unspecified, silent, "how long resumes are refused after a FIN"),
	row("window-rst", Unspecified, silent, "how long resumes are refused after an RST"),
	row("half-open", Unspecified, silent, "resume after the peer has gone silent without a FIN"),
	row("stalled-resume", Derived, "WIRE §6 I36", "a stalled connection does not keep its stream for ever"),
}

var getRows = []Row{
	row("get-stream", May, transports+"Listening for Messages 1", "GET opens a stream"),
	row("get-priming", Unspecified, "no sentence; WIRE §2.3", "a GET stream begins with a priming event"),
	row("get-second", Unspecified, silent, "a second GET stream"),
	row("get-resume", May, transports+"Resumability 3", "a GET stream resumes"),
	row("get-resume-no-loss", Derived, transports+"Resumability 3", "what was missed on the GET stream comes once, in order"),
	row("get-reopen", Unspecified, "no sentence; WIRE §2.4", "what a new GET stream without a cursor begins with"),
	row("keep-alive", Unspecified, "no sentence; WIRE §5 (15 s there)", "comments keep an idle stream alive"),
}

var lifetimeRows = []Row{
	row("retention-time", Unspecified, "no sentence; WIRE §3.1", "how long a finished call is replayed"),
	row("retention-events", Unspecified, "no sentence; WIRE §3.1", "how many events of a stream are replayed"),
	row("retention-overrun", Derived, "WIRE §6 I39", "past that it says so and skips nothing in silence"),
	row("session-expiry", May, transports+"Session Management 3", "an idle session ends"),
	row("delete", May, transports+"Session Management 5", "DELETE ends the session, or is answered 405"),
	row("deleted-404", Must, transports+"Session Management 3", "a deleted session is answered 404"),
	row("delete-streams", May, transports+"Sending Messages 6", "the streams of a deleted session end"),
	row("delete-unknown", Unspecified, silent, "DELETE of a session that does not exist"),
	row("deleted-cursor", Derived, transports+"Session Management 3", "a deleted session replays nothing"),
}

var modernRows = []Row{
	row("modern-discover", Must, "2026-07-28 discovery", "server/discover is answered"),
	row("modern-result-type", Must, "2026-07-28 basic", "each result carries resultType"),
	row("modern-no-session", Should, "2026-07-28 transports", "no session id is minted or echoed"),
	row("modern-get", Should, "2026-07-28 transports", "GET is answered 405"),
	row("modern-delete", Should, "2026-07-28 transports", "DELETE is answered 405"),
	row("modern-last-event-id", Should, "2026-07-28 transports", "Last-Event-ID is ignored"),
	row("modern-unknown-method", Must, "2026-07-28 transports", "an unknown method is answered 404 and -32601"),
	row("modern-unknown-version", Must, "2026-07-28 versioning", "an unknown version is answered 400 and -32022"),
	row("modern-header-mismatch", Must, "2026-07-28 transports", "a header that contradicts the body: 400 and -32020"),
	row("modern-header-missing", Must, "2026-07-28 transports", "a request without Mcp-Method: 400 and -32020"),
	row("modern-meta-missing", Must, "2026-07-28 basic", "a request without its _meta: 400 and -32602"),
	row("modern-notification", Must, "2026-07-28 transports", "a notification is answered 202, or refused with 4xx"),
	row("modern-no-ids", Derived, "2026-07-28 transports", "events of a call have no ids"),
	row("modern-silent-after-cut", Must, "2026-07-28 cancellation", "after a cut nothing more is sent for a call"),
}

var umcpRows = []Row{
	row("umcp-stream", May, "uMCP Streamable HTTP contract, Server event stream", "the messages of a call come on the event stream of its session"),
}

var draftRows = []Row{
	row("draft-create", May, "PR #899, stream creation; WIRE §3.3", "a call announces a stream to a client with streams"),
	row("draft-unknown", Must, "PR #899, stream/resume; WIRE §3.3", "an unknown streamId is answered with an error"),
	row("draft-poll", Must, "PR #899, stream/poll; WIRE §3.3", "stream/poll of an unknown streamId: an error"),
	row("draft-end", Must, "PR #899, stream end; WIRE §3.3", "stream/end comes last, after the response"),
}
