// Package endpoint reaches a target as a person names it: by http, https, HTTP/2, through
// a proxy or over a Unix socket, with the credential it asks for.
//
// Whatever lies between, [Endpoint.Dial] returns a link that takes and gives HTTP/1.1
// bytes, so that load generator and faults need to know one protocol only:
//
//	http       TCP
//	https      TLS ── TCP
//	proxy      [TLS ──] CONNECT tunnel ── [TLS ──] TCP
//	http+unix  Unix socket
//	HTTP/2     HTTP/1.1 bytes ── carrier ── http.ClientConn ── [TLS ──] any of the above
//
// Nothing here reads the environment by itself, follows a redirect, or writes a secret
// into an error.
package endpoint
