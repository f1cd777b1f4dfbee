package judge

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A strike counts the injections of one kind at one place.
type strike struct {
	kind, place string
	wide        bool // of a storm
	count       int64
	atRisk      int64 // cuts after a committed id that an accepted resume followed
}

// strikes are the faults that one stream met.
type strikes struct {
	kinds    []strike // unique kind, place and width, in order of first appearance
	injected int64
	cuts     int64
	openings int64
	// unplanned were asked for while the run went on.
	unplanned int64
	early     bool          // one ended a link at or before the first committed id
	vague     bool          // one may have: what the client got of the link is not known to the byte
	cutAfter  bool          // a cut struck after a committed id
	opened    bool          // an opening cut struck, and nothing after it
	waiting   uint16        // index+1 of the last cut that no accepted resume followed yet
	last      uint16        // index+1 of the last injection
	lastAt    time.Duration // when the last one had acted
}

// isCut tells an injection that cut a link from one that only made it suffer, or that
// made up an answer: those can lose nothing, so they excuse no loss.
func isCut(in *history.Injection) bool {
	switch in.Kind {
	case "delay", "throttle", "slice", "stall", "refuse", "status":
		return false
	}
	return in.Ends
}

func (f *strikes) add(in *history.Injection, at time.Duration) {
	i := 0
	for i < len(f.kinds) && (f.kinds[i].kind != in.Kind || f.kinds[i].place != in.Place || f.kinds[i].wide != in.RunWide) {
		i++
	}
	if i == len(f.kinds) {
		f.kinds = append(f.kinds, strike{kind: in.Kind, place: in.Place, wide: in.RunWide})
	}
	f.kinds[i].count++
	f.injected++
	f.last, f.lastAt = uint16(i+1), max(f.lastAt, at+in.For)
	f.opened = in.Opening || f.opened && in.Planned < 0
	if in.Opening {
		f.openings++
	}
	if in.Planned == history.Unplanned {
		f.unplanned++
	}
	if in.Ends {
		f.early = f.early || !in.AfterID
		f.vague = f.vague || in.Approximate
	}
	if !isCut(in) {
		return
	}
	f.cuts++
	if in.AfterID {
		f.cutAfter = true
		f.waiting = uint16(i + 1)
	}
}

// resumed notes that a resume was accepted. Cuts that followed one another without
// an accepted resume between count once, at the last one's place: only the resume
// that was accepted could have lost something.
func (f *strikes) resumed() {
	if f.waiting > 0 {
		f.kinds[f.waiting-1].atRisk++
		f.waiting = 0
	}
}

// name returns "kind@place" of the strike with index i-1, "" below that.
func (f *strikes) name(i int32) string {
	if i <= 0 {
		return ""
	}
	k := &f.kinds[i-1]
	return k.kind + "@" + k.place
}

// resumeCounts count the resume attempts of a stream.
type resumeCounts struct {
	attempted, succeeded, refused, conflicts int64
	replayed, doubleCuts, cutsInReplay       int64
	status                                   statusCounts
}

// statusCounts count statuses without a map: a stream meets few different ones.
type statusCounts struct {
	n     uint8
	codes [4]struct {
		status int
		count  int64
	}
	other int64
}

func (c *statusCounts) add(status int) {
	for i := range c.codes[:c.n] {
		if c.codes[i].status == status {
			c.codes[i].count++
			return
		}
	}
	if int(c.n) == len(c.codes) {
		c.other++
		return
	}
	c.codes[c.n].status, c.codes[c.n].count = status, 1
	c.n++
}
