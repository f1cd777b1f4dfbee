package proxy

import (
	"errors"
	"os"
)

// An intake reads a chaos link without holding a buffer while nothing arrives. The link
// alone knows whether it wants more bytes of the upstream: it may have kept some back, or
// have something of its own to say. So the upstream's port is made shy, the link is asked
// first, and only when it runs into a port that has nothing does the intake wait:
//
//	link.Read(buf) ─► port.Read ─► nothing ─► port.wait() ─► held ─► link.Read(buf)
//
// Where the link keeps nothing, the bytes are read into the buffer that they are taken
// from, and nothing is copied.
type intake struct {
	r      *relay
	direct bool
	buf    *buffer // what the link reads into
	held   *buffer // what the port has read into, until the link has all of it
}

// next returns what the link delivers next; it is valid until the next call.
func (in *intake) next() ([]byte, error) {
	port := in.r.server
	for {
		if in.direct && (in.buf == nil || port.idle()) {
			in.r.p.putBuffer(in.buf)
			in.buf = port.wait()
		}
		if in.buf == nil {
			in.buf = in.r.p.getBuffer()
		}
		port.shy = !in.direct && port.parks()
		n, err := in.r.link.Read(in.buf[:])
		if in.held != nil && port.idle() {
			in.r.p.putBuffer(in.held)
			in.held = nil
		}
		if n == 0 && port.shy && errors.Is(err, os.ErrDeadlineExceeded) {
			in.r.p.putBuffer(in.buf)
			in.buf, in.held = nil, port.wait()
			continue
		}
		return in.buf[:n], err
	}
}

// done gives the buffers back.
func (in *intake) done() {
	in.r.p.putBuffer(in.buf)
	in.r.p.putBuffer(in.held)
}
