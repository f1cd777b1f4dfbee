// Package proxy is the fault seat for clients that gapless does not hold: it relays
// their links to one upstream and cuts them at positions of the protocol.
//
//	client ══ TCP ══ relay ─ requests ──► chaos.Link ══ TCP ══ upstream
//	                   ◄──── responses ──── Link.Read
//	                   └─ how the link under it ends, the client's link ends
//
// What a fault does is decided and carried out by [chaos.Link] on the upstream
// connection, exactly as at the client seat. The proxy only relays what that link
// delivers and mirrors its end: after a reset the client is reset, after a FIN it gets a
// FIN. An upstream that ends a link by itself is mirrored in the same way.
//
// Bytes are passed on unchanged in both directions. Requests are followed to tell one
// exchange from the next; a request that comes before the response of the one before
// has ended waits until then. A request whose framing could be read in two ways gets
// 400, a client whose upstream cannot be reached 502; both are the proxy's own words.
//
// A reset discards what the kernel has not sent. So before it resets a client, the proxy
// waits until the client's system has acknowledged everything; an injection for which
// that did not come true in time, or cannot be known, is marked approximate.
//
// # Which faults a link gets
//
// Whoever knows more than the bytes say calls [Proxy.Expect] before each exchange. For
// all other clients calls are numbered in the order in which their event streams begin:
// call n meets what the plan has for stream n, and later calls on its link the faults that
// are left of that. A GET with a Last-Event-ID that the proxy has seen pass continues its
// stream, with the messages counted on, so that the places of resumed links can be met
// too; with any other it is a call of its own that counts from 0. Standalone GET streams
// and handshakes are numbered apart, and meet what the plan has for them (Config.Plan).
package proxy
