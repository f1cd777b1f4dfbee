package loadgen

import (
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/twin"
	"github.com/gapless-dev/gapless/loadgen/wire"
)

// methodProgress is the method of the messages where a Numbering names none.
const methodProgress = "notifications/progress"

// numbering is a [Numbering] made ready: shared by all streams of a call.
type numbering struct {
	method string
	paths  *wire.Paths
	twin   *twin.Twin
	digest bool
}

// compile makes the numbering ready, or says what is wrong with it.
func (n Numbering) compile() (numbering, error) {
	c := numbering{method: n.Method, twin: n.Twin, digest: n.Digest != ""}
	sequence, total := n.Sequence, n.Total
	if c.method == "" || c.method == methodProgress {
		c.method = methodProgress
		sequence, total = or(sequence, wire.PathProgress), or(total, wire.PathTotal)
	}
	if c.twin != nil {
		sequence, total = "", ""
	}
	var err error
	c.paths, err = wire.ParsePaths(sequence, total, n.Digest, n.Payload)
	return c, err
}

// numbers is what a stream keeps to number its messages.
type numbers struct {
	*numbering
	counter twin.Counter
	found   wire.Found
	own     bool // the message at hand is one of the call
}

// begin forgets an earlier stream.
func (n *numbers) begin(of *numbering) {
	*n = numbers{numbering: of}
	n.counter.Twin = of.twin
}

var _ = history.DigestNone
