// Package umcp serves a go-sdk server by the Streamable HTTP contract of uMCP
// (STREAMABLE_HTTP.md, which the tests call seed 002): HTTP connections and MCP sessions
// are two layers that know nothing of each other.
//
//	net.Listener ──► connection ──► request reader ──► POST ───► session ──► mcp.Server
//	                 one goroutine,                    answered     │
//	                 requests in order                 with JSON    │ notifications
//	                                                                ▼
//	                 another connection ◄───────────── GET ◄── event stream, at most one
//
// A response goes back on the POST of its request. All else that the server has to say
// goes on the session's event stream if one is attached, and is gone if none is: nothing
// is kept, no event has an id, and a Last-Event-ID is ignored. Between the two
// connections there is no order.
//
// It has an HTTP reader of its own, since net/http repairs what this contract has to
// refuse: it folds equal Content-Length lines into one, among other things. After a
// request whose end is in doubt there is one error response that says
// "Connection: close", and no byte behind it is ever taken for another request.
//
// Where the contract leaves a choice:
//
//   - The 1,025th session is refused with 503. None is evicted for it: a client may come
//     back as long as its session lives.
//   - Calls in flight and an attached event stream count as activity of a session.
//   - An idle connection is closed without a word, since there is no response to put
//     one in. Each response that leaves its connection open says when that will be, by
//     "Keep-Alive: timeout=30, max=999".
//   - A request that does not come to its end in time is answered with 408, one that is
//     cut short by the end of the connection with 400, one without a length with 411.
//   - A refusal that the head of a request is enough for (401, 403, 405, 406, 415) leaves
//     the connection open; its body is read and thrown away.
//   - An event stream takes its connection with it: the head says "Connection: close".
//   - Parse errors, batches and what is no JSON-RPC message are answered with 200 and an
//     error; so is every error of the server behind.
//   - Messages of calls without a session, and those of a session without an event
//     stream, are accepted and dropped.
//   - A client that reads so slowly that [Config.WriteTimeout] passes, or that 1 MiB
//     waits for it, loses its event stream. Handlers wait for a slow reader before that.
package umcp
