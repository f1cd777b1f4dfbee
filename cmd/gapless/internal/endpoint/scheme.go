package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// plainTimeout bounds the question whether a target that is silent in TLS speaks HTTP.
const plainTimeout = time.Second

var (
	errPlainHTTP = errors.New("plain HTTP where TLS was expected")
	errTLS       = errors.New("TLS where plain HTTP was expected")
)

// as is the URL with another scheme, to be shown; the port stays what it is.
func (t target) as(scheme string) string {
	_, rest, _ := strings.Cut(t.shown, "://")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if !strings.HasSuffix(authority, ":"+t.port) {
		authority = net.JoinHostPort(t.name(), t.port)
	}
	return scheme + "://" + authority + path
}

// notTLS says of a failed handshake that the target speaks plain HTTP, if it does. Most
// servers answer a handshake with a 400; some wait for the rest of a line, or hang up: those
// are asked once, as long as no handshake has ever succeeded.
func (e *Endpoint) notTLS(ctx context.Context, err error) error {
	var record tls.RecordHeaderError
	silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
	case silent && !e.shaken.Load() && e.speaksPlain(ctx):
	default:
		return err
	}
	return &handshakeError{errPlainHTTP, "it speaks plain HTTP there: " + e.target.as("http") + "?"}
}

// speaksPlain asks the target in plain HTTP what becomes of no resource.
func (e *Endpoint) speaksPlain(ctx context.Context) bool {
	e.asked.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), plainTimeout)
		defer cancel()
		conn, err := e.reach(ctx)
		if err != nil {
			return
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(plainTimeout)); err != nil {
			return
		}
		var answer [len("HTTP/")]byte
		if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: "+e.target.authority+"\r\nConnection: close\r\n\r\n"); err != nil {
			return
		}
		_, err = io.ReadFull(conn, answer[:])
		e.speaksOther = err == nil && string(answer[:]) == "HTTP/"
	})
	return e.speaksOther
}

// speaksTLS tries a handshake, in which nothing of ours is told.
func (e *Endpoint) speaksTLS() bool {
	e.asked.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), plainTimeout)
		defer cancel()
		conn, err := e.reach(ctx)
		if err != nil {
			return
		}
		defer conn.Close()
		// Nobody is trusted: the link is closed behind the handshake.
		e.speaksOther = tls.Client(conn, &tls.Config{ServerName: e.target.name(), InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
	})
	return e.speaksOther
}

// A plainLink looks whether the first that comes is TLS, and asks when nothing comes. Links of a target that has once
// spoken HTTP are not looked at.
type plainLink struct {
	net.Conn
	e      *Endpoint
	looked bool
}

// Read reads from the connection.
func (l *plainLink) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if l.looked || n == 0 && !ended {
		return n, err
	}
	l.looked = true
	switch {
	case n == 0 && (l.e.heard.Load() || !l.e.speaksTLS()):
		return n, err
	case n == 0 || isAlert(p[:n]):
		return 0, &handshakeError{errTLS, "it speaks TLS there: " + l.e.target.as("https") + "?"}
	}
	l.e.heard.Store(true)
	return n, err
}

// NetConn returns the connection below.
func (l *plainLink) NetConn() net.Conn { return l.Conn }

// isAlert tells the record of an alert (RFC 8446 §5.1): what TLS says to plain HTTP.
func isAlert(p []byte) bool { return p[0] == 21 && (len(p) < 2 || p[1] == 3) }
