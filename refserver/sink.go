package refserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// sink is the body of one event stream response. write and finish belong to the
// follower; reset may be called from anywhere, at any time, and ends a write that
// is under way.
type sink interface {
	// write sends frames, with the head of the response before the first of them, and
	// returns when the kernel has them.
	write(frames []byte) error
	// finish ends the body as its framing says.
	finish() error
	// reset drops the link and whatever it has not delivered yet.
	reset()
}

// hijackSink writes HTTP/1.1 itself. Once net/http has let go of the connection an
// idle stream costs two small goroutines and no buffers.
type hijackSink struct {
	conn    net.Conn
	head    []byte // not yet sent
	chunked bool
	timeout time.Duration
	buffers *sync.Pool
	shut    sync.Once // a link that was ended must not be reset: bytes may be under way
}

// hijack takes the connection of a request over. The response will be 200 with an
// event stream.
func (h *Handler) hijack(w http.ResponseWriter, r *http.Request) (*hijackSink, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	k := &hijackSink{
		conn:    conn,
		chunked: r.ProtoAtLeast(1, 1),
		timeout: h.cfg.WriteTimeout,
		buffers: &h.buffers,
	}
	k.head = appendHead(make([]byte, 0, 320), w.Header(), k.chunked)
	return k, nil
}

// appendHead writes a response head. A body that is not chunked ends with the
// connection, which is what HTTP/1.0 understands.
func appendHead(b []byte, header http.Header, chunked bool) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\nDate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\nConnection: close\r\n"...)
	if chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	var rest headWriter
	rest.b = b
	_ = header.Write(&rest) // a headWriter does not fail
	return append(rest.b, "\r\n"...)
}

type headWriter struct{ b []byte }

func (w *headWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// pooledBytes is the largest buffer that is kept for other followers.
const pooledBytes = 128 << 10

func (k *hijackSink) write(frames []byte) error {
	if len(k.head) == 0 && len(frames) == 0 {
		return nil
	}
	buf, ok := k.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	b := append((*buf)[:0], k.head...)
	k.head = nil
	if len(frames) > 0 {
		if k.chunked {
			b = strconv.AppendInt(b, int64(len(frames)), 16)
			b = append(b, "\r\n"...)
		}
		b = append(b, frames...)
		if k.chunked {
			b = append(b, "\r\n"...)
		}
	}
	err := k.send(b)
	if cap(b) <= pooledBytes {
		*buf = b
		k.buffers.Put(buf)
	}
	return err
}

// pieceBytes is the most that one system call sends. A piece that fills the send
// buffer is a single segment under way, and the peer's kernel may put off its
// acknowledgement for milliseconds; with two it does not (measured: 12 against 2.5 µs
// for an event in a burst).
const pieceBytes = 12_000

func (k *hijackSink) send(b []byte) error {
	if err := k.conn.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := k.conn.Write(b[:min(len(b), pieceBytes)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (k *hijackSink) finish() error {
	if k.chunked {
		if err := k.send([]byte("0\r\n\r\n")); err != nil {
			return err
		}
	}
	var err error
	k.shut.Do(func() { err = k.conn.Close() })
	return err
}

func (k *hijackSink) reset() {
	k.shut.Do(func() { resetConn(k.conn) })
}

// resetConn closes a link so that what its send queue still holds is thrown away:
// after a takeover the old link must not deliver megabytes more.
func resetConn(conn net.Conn) {
	under := belowTLS(conn) // TLS would first try to say goodbye
	if l, ok := under.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // a link that is closed already needs no reset
	}
	_ = under.Close()
}

// belowTLS is the link that carries TLS, or the link itself.
func belowTLS(conn net.Conn) net.Conn {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return conn
}

// watch waits for the client to leave. A client of this protocol sends nothing
// after its request, so whatever arrives is dropped, within bounds.
func (k *hijackSink) watch(gone func()) {
	var scratch [64]byte
	for dropped := 0; dropped < 64<<10; {
		n, err := k.conn.Read(scratch[:])
		if err != nil {
			break
		}
		dropped += n
	}
	gone()
}

// httpSink leaves the framing to net/http, for links that cannot be taken over
// (HTTP/2) or should be used again.
type httpSink struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	conn    net.Conn // nil when unknown, or shared with other requests
	timeout time.Duration
	begun   bool
}

func (h *Handler) httpSink(w http.ResponseWriter, r *http.Request) *httpSink {
	k := &httpSink{w: w, rc: http.NewResponseController(w), timeout: h.cfg.WriteTimeout}
	if r.ProtoMajor == 1 {
		k.conn, _ = r.Context().Value(connKey{}).(net.Conn)
	}
	return k
}

func (k *httpSink) write(frames []byte) error {
	if !k.begun {
		k.begun = true
		k.w.WriteHeader(http.StatusOK)
	} else if len(frames) == 0 {
		return nil
	}
	if err := k.rc.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := k.w.Write(frames); err != nil {
		return err
	}
	return k.rc.Flush()
}

// finish leaves the end of the body to net/http, which writes it when the handler
// returns.
func (k *httpSink) finish() error { return nil }

func (k *httpSink) reset() {
	if k.conn != nil {
		resetConn(k.conn)
		return
	}
	_ = k.rc.SetWriteDeadline(time.Unix(1, 0)) // all that can be done without the link
}

type connKey struct{}

// withConn keeps the link of a request where httpSink finds it.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}
