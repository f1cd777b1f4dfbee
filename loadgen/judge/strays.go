package judge

import "github.com/gapless-dev/gapless/loadgen/history"

// Caps of what is kept to tell a lost message from one that reached a sibling.
const (
	maxStrays       = 64   // per stream
	maxStraysPerRun = 4096 // per run
	maxPartial      = 1 << 16
)

// A stray is a message of one stream that another stream of the session received.
// A message is lost only if no stream of its session received it.
type stray struct {
	owner uint32
	seq   int64
	// Where it came: session and stream.
	session, at uint32
}

// noteStray keeps a foreign message whose owner is known.
func (s *Stream) noteStray(e *history.Event) {
	if e.Owner != history.OwnerOtherStream || e.OwnerStream == 0 || e.Seq == 0 || len(s.strays) >= maxStrays {
		return
	}
	s.strays = append(s.strays, stray{e.OwnerStream, e.Seq, s.session, s.stream})
}

// A gap is what one stream lost.
type gap struct {
	stream uint32
	load   bool
	ranges []Range
}

// found moves the lost messages that reached a sibling from lost to delivered, and
// returns how many were lost by load and by other streams.
func (j *Judge) found() {
	seen := map[stray]bool{}
	for _, st := range j.strays {
		seen[stray{owner: st.owner, seq: st.seq}] = true
	}
	for _, g := range j.gaps {
		var n int64
		for st := range seen {
			if st.owner != g.stream {
				continue
			}
			for _, r := range g.ranges {
				if st.seq >= r.First && st.seq <= r.Last {
					n++
				}
			}
		}
		j.tally[noLoss].violated -= n
		if g.load {
			j.messages.Lost -= n
			j.messages.Delivered += n
		}
	}
}
