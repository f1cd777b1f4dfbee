//go:build unix

package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
)

// A waiter waits for bytes without a buffer and reads them into one once they are there.
// It belongs to whoever reads the connection.
type waiter struct {
	p   *Proxy
	raw syscall.RawConn // nil: only a Read can wait
	try func(fd uintptr) bool
	buf *buffer
	// ready lies in buf and has not been read; end is what came behind it.
	ready []byte
	end   error
	full  bool // something was found: ready and end count
}

func (w *waiter) init(conn net.Conn, p *Proxy) {
	w.p = p
	if c, ok := conn.(syscall.Conn); ok {
		w.raw, _ = c.SyscallConn() // it fails only on a closed connection
	}
	w.try = w.attempt
}

// wait returns a buffer as soon as the next Read into it will not block.
func (w *waiter) wait() *buffer {
	if w.raw == nil {
		return w.p.getBuffer()
	}
	w.buf, w.full = nil, true
	w.ready, w.end = nil, nil
	if err := w.raw.Read(w.try); err != nil {
		w.end = err
	}
	if w.buf == nil {
		w.buf = w.p.getBuffer()
	}
	return w.buf
}

func (w *waiter) attempt(fd uintptr) bool {
	w.buf = w.p.getBuffer()
	for {
		n, err := syscall.Read(int(fd), w.buf[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			w.p.putBuffer(w.buf)
			w.buf = nil
			return false
		case err != nil:
			w.end = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
		case n == 0:
			w.end = io.EOF
		default:
			w.ready = w.buf[:n]
		}
		return true
	}
}

// found reads what wait has found; false when there is nothing of it left.
func (w *waiter) found(b []byte) (n int, err error, found bool) {
	if !w.full {
		return 0, nil, false
	}
	n = copy(b, w.ready)
	w.ready = w.ready[n:]
	if n == 0 {
		err = w.end
	}
	w.full = len(w.ready) > 0
	return n, err, true
}

// parks tells whether it can.
func (w *waiter) parks() bool { return w.raw != nil }

// idle tells that nothing found is left in the buffer.
func (w *waiter) idle() bool { return !w.full }
