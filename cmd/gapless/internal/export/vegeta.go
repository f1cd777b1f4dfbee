package export

import (
	"io"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// vegetaSink writes one result for each call, as vegeta's attack does: its latency runs
// from the instant that was planned to the response.
type vegetaSink struct {
	run Run
	out *file
	enc vegeta.Encoder // takes one result at a time, by a lock of its own
}

func newVegeta(w io.Writer, run Run) *vegetaSink {
	out := newFile("vegeta", w)
	return &vegetaSink{run: run, out: out, enc: vegeta.NewEncoder(out)}
}

// settle writes the call. A call without its response has no status of success,
// whatever the first answer was: vegeta goes by the status alone.
func (v *vegetaSink) settle(t *track, r *history.Record) {
	res := vegeta.Result{
		Attack: v.run.Profile, Seq: uint64(t.of.Stream) - 1, Timestamp: v.run.Started.Add(t.of.Due),
		Latency: max(t.doneAt-t.of.Due, 0), BytesIn: uint64(t.bytes), Method: "POST", URL: v.run.URL,
	}
	switch {
	case t.answered && t.complained:
		res.Code, res.Error = 200, "answered with a JSON-RPC error"
	case t.answered:
		res.Code = 200
	default:
		res.Latency, res.Error = max(r.At-t.of.Due, 0), outcome(r.Outcome)+": "+ending(t.x.finished)
		if s := t.x.status; s >= 300 && s < 1000 {
			res.Code = uint16(s)
		}
	}
	_ = v.enc.Encode(&res) // the file keeps its first error
}
