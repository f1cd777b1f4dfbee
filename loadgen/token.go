package loadgen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// macDigits is how many hexadecimal digits of the MAC a mark carries: 64 bits, far
// more than a target could guess in a run.
const macDigits = 16

// Marks makes and recognises the progress tokens of a run. A mark names its session
// and stream and proves by a MAC that this run gave it out, so that a message that
// reaches the wrong stream can be attributed without a table of all calls:
//
//	g<run>.<session>.<stream>.<first 16 hex digits of HMAC-SHA256(secret, "session.stream")>
type Marks struct {
	run    string
	secret []byte
}

// NewMarks returns the marks of the run with this name (eight hexadecimal digits)
// and secret.
func NewMarks(run string, secret []byte) Marks { return Marks{run: run, secret: secret} }

// Of returns the mark of a stream: its progress token, and the key under which a
// reference server keeps its call.
func (m Marks) Of(session, stream uint32) string {
	return m.of(session, stream, "")
}

// Again returns the mark of a call that is made a second time, for a stream whose call
// was cut. It has one part more, which the MAC covers.
func (m Marks) Again(session, stream uint32) string { return m.of(session, stream, second) }

// second is that part, with its dot.
const second = ".2"

func (m Marks) of(session, stream uint32, behind string) string {
	b := make([]byte, 0, 64)
	b = append(b, 'g')
	b = append(b, m.run...)
	b = append(b, '.')
	at := len(b)
	b = strconv.AppendUint(b, uint64(session), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(stream), 10)
	b = append(b, behind...)
	h := hmac.New(sha256.New, m.secret)
	_, _ = h.Write(b[at:])
	var sum [sha256.Size]byte
	b = append(b, '.')
	return string(hex.AppendEncode(b, h.Sum(sum[:0])[:macDigits/2]))
}

// Find returns whose mark it is; ok is false for one that this run never gave out.
func (m Marks) Find(mark string) (session, stream uint32, ok bool) {
	part, behind := strings.Split(mark, "."), ""
	if len(part) == 5 && "."+part[3] == second {
		behind = second
	} else if len(part) != 4 {
		return 0, 0, false
	}
	se, err1 := strconv.ParseUint(part[1], 10, 32)
	st, err2 := strconv.ParseUint(part[2], 10, 32)
	if err1 != nil || err2 != nil {
		return 0, 0, false
	}
	want := m.of(uint32(se), uint32(st), behind)
	if !hmac.Equal([]byte(want), []byte(mark)) {
		return 0, 0, false
	}
	return uint32(se), uint32(st), true
}

// owner says whose mark it is, seen from a stream of the given session.
func (m Marks) owner(mark []byte, session uint32) (history.Owner, uint32) {
	se, st, ok := m.Find(string(mark))
	switch {
	case !ok:
		return history.OwnerNobody, 0
	case se != session:
		return history.OwnerOtherSession, st
	}
	return history.OwnerOtherStream, st
}
