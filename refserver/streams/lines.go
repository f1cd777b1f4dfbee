package streams

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// ServeStdio serves one client on a pair of pipes, one message per line, until in ends or
// ctx is done. Its streams can be resumed on any other link of this server. It does not
// close the pipes: a read that is under way when ctx ends stays behind.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	w := newLines(in, out, s.cfg.Limits.Message)
	stop := context.AfterFunc(ctx, func() { w.close("") })
	defer stop()
	s.serveLink(w, transportLines, "", nil, nil)
	return w.failure()
}

// ServeLines serves clients that speak lines on the connections of a listener, until ctx
// is done. There is no authentication but that of the listener: it should be a Unix socket
// that only its owner can open, since a web page can make a browser send lines to a port.
// It is what [Relay] talks to.
func (s *Server) ServeLines(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || !s.Healthy() {
				return nil
			}
			return fmt.Errorf("streams: serving %s: %w", ln.Addr(), err)
		}
		conns.Go(func() {
			w := newLines(conn, conn, s.cfg.Limits.Message)
			w.conn, w.timeout = conn, s.cfg.WriteTimeout
			stop := context.AfterFunc(ctx, func() { w.close("") })
			defer stop()
			s.serveLink(w, transportLines, "", nil, nil)
			_ = conn.Close() // it may be closed already
		})
	}
}

// Relay connects a pair of pipes with a server that outlives it: what comes on in goes to
// conn, what comes from conn goes to out, until one of them ends. It looks at nothing.
// Nil means that one side has ended in order.
func Relay(in io.Reader, out io.Writer, conn io.ReadWriteCloser) error {
	ended := make(chan error, 2)
	pass := func(to io.Writer, from io.Reader, what string) {
		_, err := io.Copy(to, from)
		if err != nil {
			err = fmt.Errorf("relaying %s: %w", what, err)
		}
		ended <- err
	}
	go pass(conn, in, "to the server")
	go pass(out, conn, "to the client")
	err := <-ended
	return errors.Join(err, conn.Close()) // the other direction may wait for pipes of others
}

// lines is a pair of pipes as a wire.
type lines struct {
	in      *bufio.Reader
	out     io.Writer
	conn    net.Conn // nil when the pipes are somebody else's
	timeout time.Duration
	most    int64
	next    chan line // what was read, for pipes that cannot be closed
	begun   sync.Once

	mu     sync.Mutex
	err    error
	closed chan struct{}
	once   sync.Once
}

type line struct {
	text []byte
	err  error
}

func newLines(in io.Reader, out io.Writer, most int64) *lines {
	return &lines{in: bufio.NewReader(in), out: out, most: most, next: make(chan line), closed: make(chan struct{})}
}

var errLongLine = errors.New("a line is too long")

// read returns the next line that is not blank.
func (w *lines) read() ([]byte, error) {
	w.begun.Do(func() { go w.readAll() })
	select {
	case l := <-w.next:
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			w.fail(l.err)
		}
		return l.text, l.err
	case <-w.closed:
		return nil, io.EOF
	}
}

// readAll reads in a goroutine of its own, since a pipe of the process cannot be told to
// end a read.
func (w *lines) readAll() {
	for {
		text, err := w.readLine()
		if err == nil && len(text) == 0 {
			continue
		}
		select {
		case w.next <- line{text, err}:
		case <-w.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads up to a line feed. An incomplete line at the end is none.
func (w *lines) readLine() ([]byte, error) {
	var text []byte
	for {
		piece, err := w.in.ReadSlice('\n')
		if int64(len(text)+len(piece)) > w.most+2 {
			return nil, errLongLine
		}
		text = append(text, piece...)
		if err == nil {
			return bytes.TrimSpace(text), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func (w *lines) write(text []byte) error {
	select {
	case <-w.closed:
		return net.ErrClosed
	default:
	}
	if w.conn != nil {
		if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return err
		}
	}
	_, err := w.out.Write(append(text[:len(text):len(text)], '\n'))
	return err
}

func (w *lines) close(string) {
	w.once.Do(func() {
		close(w.closed)
		if w.conn != nil {
			_ = w.conn.Close() // which ends reads and writes
		}
	})
}

func (w *lines) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *lines) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
