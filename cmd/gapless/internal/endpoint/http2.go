package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// How much an HTTP/2 server may send before anybody reads: what it has sent beyond waits
// in its own buffers, so that a reader who stalls is noticed there.
const (
	streamWindow = 64 << 10
	frameSize    = 16 << 10
)

// dialSecure opens a link over TLS. HTTP/1.1 is offered alone as long as the target takes
// it, since only there cuts are exact to the byte.
func (e *Endpoint) dialSecure(ctx context.Context) (net.Conn, error) {
	if e.version == "2" || e.onlyH2.Load() {
		return e.dialH2(ctx)
	}
	conn, err := e.offer(ctx, "http/1.1")
	switch {
	case err == nil && (e.version == "1.1" || e.settled.Load() || conn.ConnectionState().NegotiatedProtocol != ""):
		return conn, nil
	case err != nil && (e.version == "1.1" || !refusesProtocol(err)):
		return nil, err
	}
	// The target refused, or did not say what it speaks: some of those speak HTTP/2 alone.
	link, errH2 := e.dialH2(ctx)
	switch {
	case errH2 == nil:
		e.onlyH2.Store(true)
		if conn != nil {
			_ = conn.Close() // nothing was sent over it
		}
		return link, nil
	case err != nil:
		return nil, fmt.Errorf("it takes neither HTTP/1.1 nor HTTP/2: %w", errH2)
	}
	e.settled.Store(true)
	return conn, nil
}

// offer opens TLS with one protocol.
func (e *Endpoint) offer(ctx context.Context, protocol string) (*secureLink, error) {
	conn, err := e.reach(ctx)
	if err != nil {
		return nil, err
	}
	link, err := encrypt(ctx, conn, e.tls, e.target.name(), protocol)
	if err != nil {
		return nil, e.notTLS(ctx, err)
	}
	e.shaken.Store(true)
	return link, nil
}

func (e *Endpoint) dialH2(ctx context.Context) (net.Conn, error) {
	conn, err := e.offer(ctx, "h2")
	switch {
	case err != nil && refusesProtocol(err):
		return nil, &handshakeError{err, "the server refuses HTTP/2 (ALPN h2)"}
	case err != nil:
		return nil, err
	case conn.ConnectionState().NegotiatedProtocol != "h2":
		_ = conn.Close() // nothing was sent over it
		return nil, errors.New("the server does not speak HTTP/2: it chose no protocol where h2 was offered (see target.http)")
	}
	return e.carry(ctx, conn)
}

// dialled is the key under which a context holds the connection that a transport dials.
type dialled struct{}

// newTransport returns the maker of HTTP/2 connections over connections that are there
// already.
func newTransport(secure bool) *http.Transport {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, ok := ctx.Value(dialled{}).(net.Conn)
		if !ok {
			return nil, errors.New("endpoint: a transport was asked to dial by itself")
		}
		return conn, nil
	}
	t := &http.Transport{
		DialContext: dial, DialTLSContext: dial, DisableCompression: true,
		Protocols: new(http.Protocols), MaxResponseHeaderBytes: maxHead,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: streamWindow, MaxReadFrameSize: frameSize,
		},
	}
	t.Protocols.SetHTTP2(secure)
	t.Protocols.SetUnencryptedHTTP2(!secure)
	return t
}

// bare returns what the transport knows as TLS.
func bare(conn net.Conn) net.Conn {
	if secure, is := conn.(*secureLink); is {
		return secure.Conn
	}
	return conn
}

// carry makes conn, which it owns from now on, an HTTP/2 connection.
func (e *Endpoint) carry(ctx context.Context, conn net.Conn) (net.Conn, error) {
	scheme := "http"
	if e.target.secure {
		scheme = "https"
	}
	// The address is not dialled; the transport only wants one.
	h2, err := e.h2.NewClientConn(context.WithValue(ctx, dialled{}, bare(conn)), scheme, net.JoinHostPort("localhost", "0"))
	if err != nil {
		_ = conn.Close() // nothing was sent over it
		return nil, fmt.Errorf("HTTP/2: %w", err)
	}
	return newCarrier(h2, conn, scheme), nil
}
