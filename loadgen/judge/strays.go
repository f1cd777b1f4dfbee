package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// Caps of what is kept to tell a lost message from one that reached a sibling. Past them
// a lost message may be one of those that were not kept, and is undecided.
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
	switch {
	case e.Owner != history.OwnerOtherStream || e.OwnerStream == 0 || e.Seq == 0:
	case len(s.strays) >= maxStrays:
		s.straysOver++
	default:
		s.strays = append(s.strays, stray{e.OwnerStream, e.Seq, s.session, s.stream})
	}
}

// A gap is what one stream lost.
type gap struct {
	stream uint32
	load   bool
	lost   int64
	ranges []Range
}

// mergeStrays takes over what came on s and belongs elsewhere, and what s misses. The
// Judge's lock is held.
func (j *Judge) mergeStrays(s *Stream) {
	kept := min(len(s.strays), maxStraysPerRun-len(j.strays))
	j.strays = append(j.strays, s.strays[:kept]...)
	j.special.straysOver += s.straysOver + int64(len(s.strays)-kept)
	whole := s.fate == fateAnswered && s.msgs.Lost+s.msgs.LostAllowed == 0 && s.kind != history.StreamCanary && !s.mute && !s.plain
	if !whole && len(j.partial) <= maxPartial {
		j.partial[s.stream] = s.acct.prefix
	}
	if s.kind == history.StreamCanary || s.msgs.Lost == 0 {
		return
	}
	ranges := s.lostRanges()
	if len(j.gaps) >= maxStraysPerRun {
		j.special.nameless = true
		return
	}
	j.special.nameless = j.special.nameless || total(ranges) < s.msgs.Lost
	j.gaps = append(j.gaps, gap{s.stream, ofLoad(s.kind), s.msgs.Lost, ranges})
}

// found moves the lost messages that reached a sibling from lost to delivered. What may
// have reached one past the caps is undecided.
func (j *Judge) found() {
	seen, matched := map[uint32][]int64{}, 0
	for _, st := range j.strays {
		seen[st.owner] = append(seen[st.owner], st.seq)
	}
	for owner, list := range seen {
		slices.Sort(list)
		seen[owner] = slices.Compact(list)
		matched -= len(seen[owner])
	}
	for _, g := range j.gaps {
		came, rest := g.split(seen[g.stream])
		matched += len(came)
		if n := min(int64(len(came)), g.lost); n > 0 {
			j.forgive(&g, n, rest)
		}
	}
	unknown := j.special.straysOver
	if j.special.nameless {
		unknown += int64(-matched)
	}
	n := min(unknown, j.messages.Lost)
	j.tally[noLoss].violated -= n
	j.messages.Lost -= n
	j.messages.Undecided += n
	j.special.straysOver = n
}

// split divides the missing numbers of a gap into those that came elsewhere, as sorted in
// seen, and the rest.
func (g *gap) split(seen []int64) (came []int64, rest []Range) {
	for _, r := range g.ranges {
		from, _ := slices.BinarySearch(seen, r.First)
		for _, seq := range seen[from:] {
			if seq > r.Last {
				break
			}
			came = append(came, seq)
			if seq > r.First {
				rest = append(rest, Range{r.First, seq - 1})
			}
			r.First = seq + 1
		}
		if r.First <= r.Last {
			rest = append(rest, r)
		}
	}
	return came, rest[:min(len(rest), maxRanges)]
}

// forgive takes n messages of a stream for delivered, though not where they belong.
func (j *Judge) forgive(g *gap, n int64, rest []Range) {
	j.tally[noLoss].violated -= n
	if g.load {
		j.messages.Lost -= n
		j.messages.Delivered += n
	}
	all := n == g.lost
	if all {
		j.hit[noLoss][0]--
	}
	adjust := func(list []Evidence) []Evidence {
		i := slices.IndexFunc(list, func(e Evidence) bool { return e.inv == noLoss && e.Stream == g.stream && e.doubt == certain })
		switch {
		case i < 0:
			return list
		case all:
			return slices.Delete(slices.Clone(list), i, i+1)
		}
		list = slices.Clone(list)
		list[i].Count, list[i].Ranges = list[i].Count-n, rest
		return list
	}
	j.evidence[noLoss] = adjust(j.evidence[noLoss])
	for _, sh := range j.shapes {
		i, ok := slices.BinarySearchFunc(sh.guilty, g.stream, func(x Guilty, stream uint32) int { return cmp.Compare(x.Stream, stream) })
		if ok {
			sh.guilty[i].elsewhere(rest)
			sh.guilty[i].Evidence = adjust(sh.guilty[i].Evidence)
		}
	}
}

// elsewhere says of a guilty stream that some of what it misses came on a sibling.
func (g *Guilty) elsewhere(rest []Range) {
	was, now := "LOST "+joinRanges(g.Lost), "LOST "+joinRanges(rest)
	if len(rest) == 0 {
		now = "ELSEWHERE " + joinRanges(g.Lost)
	}
	g.Headline, g.Lost = strings.Replace(g.Headline, was, now, 1), rest
	g.Steps = slices.Clone(g.Steps)
	for i := range g.Steps {
		if mark := &g.Steps[i].Mark; strings.Contains(*mark, "no-loss: ") {
			*mark = strings.Replace(strings.Replace(*mark, "no-loss: ", "own-stream: ", 1), "never came", "did not come here", 1)
		}
	}
}
