package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gapless-dev/gapless/loadgen/history"
)

func oneStreamInvariant() invariant {
	return invariant{
		name:   "one-stream-per-message",
		claim:  "no message arrives on two streams, and a stream has one live consumer",
		source: "2025-11-25 transports, Multiple Connections 2 (MUST send each message on only one stream)",
		level:  LevelMust,
		role:   whenTold,
		event:  twoConsumers,
		// Messages on two streams are found at the end of the run, see broadcast.
		settle: func(s *Stream) { s.check(oneStream, s.msgs.Delivered) },
	}
}

// twoConsumers finds a message that came late from the old link although it was emitted
// when the new link was live: the target then served both. What was on its way before is
// below the first live number, and that one itself may have been: which was the first
// depends on how the target counts what it replays.
func twoConsumers(s *Stream, r *history.Record) {
	e := &r.Event
	switch {
	case e.Seq <= 0 || !s.ex.resume || s.judge.setup.Contract == AtLeastOnce: // which may replay more than it says
		return
	case e.Late && e.Owner <= history.OwnerSelf:
		s.ex.lateTo = max(s.ex.lateTo, e.Seq)
	case s.now.standing == fresh && s.ex.liveFrom == 0 && s.ex.missed >= 0 && s.ex.events > uint32(s.ex.missed):
		s.ex.liveFrom = e.Seq
	default:
		return
	}
	if s.ex.liveFrom > 0 && s.ex.lateTo > s.ex.liveFrom {
		s.findMessage(oneStream, s.ex.lateTo, "came on the old link too, long after the new one was live")
		s.ex.lateTo = 0
	}
}

// broadcast finds the messages that reached a stream of the session beside their own. A
// stream that did not get everything has no part in it past its first hole.
func (j *Judge) broadcast() {
	if j.roles[oneStream] == NotApplicable || !j.setup.told() || len(j.partial) > maxPartial {
		return
	}
	strays := slices.Clone(j.strays)
	slices.SortFunc(strays, func(a, b stray) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.owner, b.owner), cmp.Compare(a.seq, b.seq))
	})
	n, found := &j.tally[oneStream], []Evidence{}
	for _, st := range strays {
		if prefix, partial := j.partial[st.owner]; partial && st.seq > prefix {
			continue
		}
		n.violated++
		n.checked++
		if last := len(found) - 1; last >= 0 && found[last].Stream == st.at {
			found[last].Count++
			continue
		}
		found = append(found, Evidence{Invariant: j.table[oneStream].name, Session: st.session, Stream: st.at, Count: 1,
			What: fmt.Sprintf("message %d of stream %d came here and there", st.seq, st.owner), inv: oneStream})
	}
	j.hit[oneStream][0] += int64(len(found))
	for _, e := range found {
		j.evidence[oneStream] = insertSorted(j.evidence[oneStream], e, maxEvidences, byStream)
	}
}
