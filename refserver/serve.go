package refserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// sendBuffer bounds what the kernel takes for a client that does not read. With the
// default of the system one link swallows megabytes.
const sendBuffer = 16 << 10

// shutdownTime is how long [Serve] waits for streams to end.
const shutdownTime = 5 * time.Second

// NewServer returns an [http.Server] set up for event streams: bounded headers,
// a bounded wait for them, small send buffers, and the link of each request at hand,
// so that a stream which is taken over can reset the old one. No limit is put on the
// time a response takes.
func NewServer(root http.Handler) *http.Server {
	return &http.Server{
		Handler:           root,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if c, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
				_ = c.SetWriteBuffer(sendBuffer) // the default works too, with more memory
			}
			return withConn(ctx, conn)
		},
	}
}

// Serve serves root on a listener until ctx is done. Then it ends the streams of the
// handlers, which are part of root, waits up to 5 s for them, and closes all links.
func Serve(ctx context.Context, ln net.Listener, root http.Handler, handlers ...*Handler) error {
	server := NewServer(root)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	var errs []error
	for _, h := range handlers {
		errs = append(errs, h.Shutdown(grace))
	}
	errs = append(errs, server.Close())
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
