// Package client is a small MCP client for one-off exchanges: what a tool asks a server
// before, beside and after the load. It follows no redirects and pages through nothing: that is
// the caller's. It asks again only if told so, and only a server that limits the rate.
//
// [Client.Initialize] opens a [Session], whose [Session.Call] takes an answer in JSON or
// as an event stream. [Client.Open] is the layer below: one HTTP exchange on a link of its
// own, as the caller wants it.
//
// Everything is bounded: an exchange by [Config.Timeout], what is read by [Config.Limits]
// and by a number of messages. Errors name the method and what came instead of an answer;
// they hold neither session ids nor credentials nor queries.
package client
