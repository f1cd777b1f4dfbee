package judge

import (
	"math"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A resume that is accepted and then brings nothing live looks like a tool that is silent,
// until the client gives up: if the next resume brings at once what was due, it had been
// waiting there. That may be chance: a slow tool may end just while no link was there. So
// a stall is a doubtful finding, of calls that are older than any control call became, and
// it convicts if chance cannot explain all of them and no such call got anything live.

// Bounds of stalls.
const (
	atOnce      = 250 * time.Millisecond // after the head; later is live
	promptHead  = 500 * time.Millisecond // for longer the target itself may have been stopped
	leastChance = 1e-4                   // that slow tools explain all stalls
)

// A stall is what one stream knows of its resumed links that fell silent.
type stall struct {
	armed         bool // the last link was accepted, and silent until we left it
	ended, silent time.Duration
	count         uint32
	odds          int64 // sum of the logarithms of the chances, in thousandths
	chances       int64 // sum of the chances, in millionths
	live          bool  // though it was late something came live on a resumed link
}

// stallLimit is the age from which on everything of the call must have been emitted: what
// the control calls took, and half as much. 0 means that nobody knows.
func (s *Stream) stallLimit() time.Duration {
	if !ofLoad(s.kind) || s.judge.setup.Contract == NoPromise || s.call.Longest == 0 {
		return 0
	}
	return s.call.Longest + max(time.Second, s.call.Longest/2)
}

// overdue tells that everything of the call must have been emitted by an instant. That of
// a GET stream's call was when its response came.
func (s *Stream) overdue(at time.Duration) bool {
	if s.hears() {
		return s.stallLimit() > 0 && s.responses > 0 && at-s.answeredOn > time.Second
	}
	limit := s.stallLimit()
	return limit > 0 && s.responses == 0 && at-s.begunAt > limit
}

// armStall looks at the end of an exchange.
func (s *Stream) armStall(r *history.Record) {
	x := &s.ex
	s.stall.armed = x.resume && x.status == 200 && x.body == history.BodySSE && r.End == history.EndIdle && !x.struck &&
		s.faults.lastAt <= x.began && s.overdue(r.At)
	s.stall.ended, s.stall.silent = r.At, r.At-max(x.headAt, x.cameAt)
}

// checkStall looks at an own message or response that came for the first time.
func (s *Stream) checkStall(r *history.Record) {
	x, n := &s.ex, &s.now
	first := n.standing == fresh || n.standing == behind || n.response && !n.before && !n.posted
	if !first || !x.resume || x.status != 200 {
		return
	}
	since := max(x.headAt, x.cameAt)
	x.cameAt = r.At
	if r.At-since > atOnce {
		s.stall.live = s.stall.live || !s.hears() && s.stallLimit() > 0 && r.At-s.begunAt > s.stallLimit()
		s.stall.armed = false
		return
	}
	if !s.stall.armed || x.struck || x.headAt-x.began > promptHead {
		return
	}
	s.stall.armed = false
	if s.pause.asked >= s.stall.silent { // it said when to come back, and we left it for no longer
		return
	}
	window := x.headAt - s.stall.ended + atOnce
	chance := float64(window) / float64(window+s.stall.silent)
	s.stall.count++
	s.stall.odds += int64(1000 * math.Log(chance))
	s.stall.chances += int64(1e6 * chance)
	s.find(resumeProgress, finding{stalled: true, mark: "resume-progress: the resume before was silent",
		what: "accepted and then silent for " + s.stall.silent.Round(100*time.Millisecond).String() + " though messages were due: the next resume brought them at once"})
}

// stalls is what the Judge keeps of them.
type stalls struct{ Count, Streams, Odds, Chances, Live int64 }

func (t *stalls) add(s *Stream) {
	t.Count += int64(s.stall.count)
	t.Odds += s.stall.odds
	t.Chances += s.stall.chances
	if s.stall.live {
		t.Live++
	}
	if s.stall.count > 0 && s.tally[resumeProgress].violated == 0 {
		t.Streams++
	}
}

// convict tells that chance explains them no more.
func (t *stalls) convict() bool {
	return t.Count > 0 && t.Live == 0 && float64(t.Odds) <= 1000*math.Log(leastChance)
}

// open tells that they may be chance, or not: among calls that are late, and get what is
// due live, few end while no link is there.
func (t *stalls) open(alibi bool) bool {
	if t.Count == 0 || alibi && t.convict() {
		return false
	}
	mean := float64(t.Chances) / 1e6 / float64(t.Count)
	return t.Live == 0 || float64(t.Count) > 1+3*mean*float64(t.Count+t.Live)
}
