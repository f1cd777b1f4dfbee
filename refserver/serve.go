package refserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

// sendBuffer bounds what the kernel takes for a client that does not read. With the
// default of the system one link swallows megabytes.
const sendBuffer = 16 << 10

// headerBytes bounds the header of a request. Requests in flight keep it.
const headerBytes = 32 << 10

// shutdownTime is how long [Serve] waits for streams to end.
const shutdownTime = 5 * time.Second

// NewServer returns an [http.Server] set up for event streams: bounded headers,
// a bounded wait for them, small send buffers, and the link of each request at hand,
// so that a stream which is taken over can reset the old one. No limit is put on the
// time a response takes: that is [Config.WriteTimeout], for each write.
func NewServer(root http.Handler) *http.Server {
	return &http.Server{
		Handler:           root,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if c, ok := belowTLS(conn).(interface{ SetWriteBuffer(int) error }); ok {
				_ = c.SetWriteBuffer(sendBuffer) // the default works too, with more memory
			}
			return withConn(ctx, conn)
		},
	}
}

// Serve serves root on a listener until ctx is done or the listener fails, which is an
// error. Then it ends the streams of the handlers, which are part of root, waits up to 5 s
// for them, and closes all links. What net/http has to say goes to the loggers of the
// handlers.
//
// For TLS wrap the listener with [tls.NewListener]; with "h2" in NextProtos it serves
// HTTP/2 as well. [Bounded] limits the number of connections.
func Serve(ctx context.Context, ln net.Listener, root http.Handler, handlers ...*Handler) error {
	server := NewServer(root)
	if len(handlers) > 0 {
		server.ErrorLog = log.New(complaints(handlers), "", 0)
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	var failure error
	select {
	case err := <-failed:
		failure = fmt.Errorf("serving %s: %w", ln.Addr(), err)
		failed <- http.ErrServerClosed // it has ended, as it will have below
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	errs := []error{failure}
	for _, h := range handlers {
		errs = append(errs, h.Shutdown(grace))
	}
	errs = append(errs, server.Close())
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// complaints passes on what net/http logs, but for failed TLS handshakes: whoever can
// reach the port could fill the log with them.
type complaints []*Handler

// Write implements [io.Writer].
func (c complaints) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		for _, h := range c {
			h.cfg.Logger.Warn("net/http", "says", string(bytes.TrimSpace(line)))
		}
	}
	return len(line), nil
}
