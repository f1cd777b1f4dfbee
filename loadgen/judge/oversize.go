package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// An oversize counts what one stream brought that gapless does not read: it bounds what
// the protocol does not. A stream that met its bound is undecided as far as something is
// missing of it, and the run says so.
type oversize struct {
	large, deep uint32
	at          uint32 // cursor+1 of the last one: a resume brings it again
}

// note notes an event beyond the bounds. One that could be read was nested too deep.
func (o *oversize) note(e *history.Event) {
	switch {
	case e.Illegal&history.IllegalSize == 0 || e.Late:
	case e.Bytes > 0:
		o.deep++
	case o.at != e.Cursor+1:
		o.large++
		o.at = e.Cursor + 1
	}
}

func (o *oversize) any() bool { return o.large+o.deep > 0 }

// excuse lets what our bound kept from being read fail no call.
func (o *oversize) excuse(f fate) fate {
	if o.any() && (f == fateFailed || f == fateTooLate) {
		return fateUndecided
	}
	return f
}
