package chaos

import (
	"io"
	"os"
	"syscall"
)

// request lets the faults decide on a request that is about to be written; struck tells
// that n and err are what the writer gets. A request is one Write, or its first.
func (l *Link) request(p []byte) (n int, err error, struck bool) {
	l.asking = false
	v := l.view(firstByte)
	d, ok := l.ex.Victim.writing(v, len(p))
	if !ok || !l.active() {
		return 0, nil, false
	}
	if d.at > 0 {
		if n, err = l.conn.Write(p[:d.at]); err != nil {
			return n, err, true
		}
	}
	if !l.life.claim() {
		l.stormWrites()
		return n, l.cut.err, true
	}
	c := &cut{injection: l.injection(v, d)}
	c.injection.Offset = uint32(n)
	l.ex.Victim.strike(d.fault)
	l.cut, l.watching = c, false
	if answers := kinds[d.fault.Kind].answers; answers != nil {
		return l.answer(c, answers, &d.fault.Planned, len(p))
	}
	end := kinds[d.fault.Kind].end
	c.err = l.cutError(end)
	l.finish(end)
	l.announce()
	err = syscall.EPIPE
	if end.Reset {
		err = syscall.ECONNRESET
	}
	return n, l.opError("write", os.NewSyscallError("write", err)), true
}

// answer gives a request what the fault has in place of the target. The connection is
// closed unused.
func (l *Link) answer(c *cut, answers func(*Planned) (string, error), f *Planned, size int) (int, error, bool) {
	text, err := answers(f)
	l.finish(End{})
	if err != nil {
		c.err = l.opError("dial", err)
		l.announce()
		return 0, c.err, true
	}
	c.tail, c.err, c.swallows = []byte(text), io.EOF, true
	return size, nil, true
}
