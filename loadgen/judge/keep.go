package judge

import (
	"cmp"
	"slices"
)

// Caps of the evidence that a run keeps.
const (
	maxGuilty    = 32 // streams with a timeline
	maxPerShape  = 4  // of which of one shape
	maxShapes    = 64
	maxSame      = 16 // streams named as being of the same shape
	maxEvidences = 16 // per invariant
)

// A shape is one kind of damage: the same invariants broken after the same kind of
// fault. Keeping a few streams of each makes sure that a rare damage is not crowded
// out by a frequent one.
type shape struct {
	guilty  []Guilty // lowest stream numbers first
	streams []uint32 // lowest numbers first
	count   int64
}

// keep takes over the evidence of a stream. What is kept depends on stream numbers,
// not on the order in which streams end.
func (j *Judge) keep(s *Stream) {
	decides := false
	for _, e := range s.evidence {
		decides = decides || !e.soft && j.table[e.inv].level.decides(j.setup.Strict)
		j.evidence[e.inv] = insertSorted(j.evidence[e.inv], e, maxEvidences, byStream)
	}
	if !decides {
		return
	}
	g := s.accuse()
	if !g.Control {
		n := &j.damaged
		switch g.doubt {
		case ifWell:
			n = &j.doubtful
		case ifAlike:
			n = &j.unlike
		case ifStalled:
			n = &j.stalled
		}
		n.add(g.After, s.before(&g), s.aside())
	}
	key := g.shape()
	sh := j.shapes[key]
	if sh == nil {
		if len(j.shapes) >= maxShapes {
			return
		}
		sh = &shape{}
		j.shapes[key] = sh
	}
	sh.count++
	sh.streams = insertSorted(sh.streams, s.stream, maxSame+1, cmp.Compare[uint32])
	sh.guilty = insertSorted(sh.guilty, g, maxPerShape, func(a, b Guilty) int { return cmp.Compare(a.Stream, b.Stream) })
}

func byStream(a, b Evidence) int { return cmp.Compare(a.Stream, b.Stream) }

// insertSorted inserts v and keeps at most limit elements, the lowest.
func insertSorted[T any](list []T, v T, limit int, order func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(list, v, order)
	if i >= limit {
		return list
	}
	if len(list) >= limit {
		list = list[:limit-1]
	}
	return slices.Insert(list, i, v)
}

// guilty lists the kept streams, one of every shape before the second of any, and
// names for each the others of its shape. Streams whose doubt is not lifted are left out.
func (j *Judge) guilty(lifted conviction) []Guilty {
	keys := make([]string, 0, len(j.shapes))
	for key, sh := range j.shapes {
		if lifted[sh.guilty[0].doubt] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Compare(j.shapes[a].guilty[0].Stream, j.shapes[b].guilty[0].Stream)
	})
	var out []Guilty
	for round := range maxPerShape {
		for _, key := range keys {
			sh := j.shapes[key]
			if round >= len(sh.guilty) || len(out) >= maxGuilty {
				continue
			}
			g := sh.guilty[round]
			g.SameCount = sh.count - 1
			for _, n := range sh.streams {
				if n != g.Stream && len(g.Same) < maxSame {
					g.Same = append(g.Same, n)
				}
			}
			out = append(out, g)
		}
	}
	return out
}

// before tells that the damage came before any cut, or without one, and before anything
// was resumed: a target that closes links itself is resumed without a fault of ours.
func (s *Stream) before(g *Guilty) bool {
	return !s.aside() && (g.After == "" || s.faults.cuts == 0) && (s.faults.injected > 0 || s.resumes.attempted == 0)
}

// aside tells that all that is wrong has nothing to do with taking up a stream.
func (s *Stream) aside() bool {
	return !slices.ContainsFunc(s.evidence, func(e Evidence) bool {
		switch e.inv {
		case sessionStatus, originRefused, cursorVerdict:
			return false
		}
		return !e.soft && s.judge.table[e.inv].level.decides(s.judge.setup.Strict)
	})
}

// damage counts the damaged streams of the load, by the fault that came before: uncut
// ones met none before, those aside broke promises about other things than resuming.
type damage struct {
	streams, uncut, aside int64
	after                 map[string]int64
}

func (d *damage) add(after string, uncut, aside bool) {
	if d.after == nil {
		d.after = map[string]int64{}
	}
	d.streams++
	d.after[after]++
	if uncut {
		d.uncut++
	}
	if aside {
		d.aside++
	}
}

func (d *damage) join(o *damage) {
	if d.after == nil {
		d.after = map[string]int64{}
	}
	d.streams += o.streams
	d.uncut += o.uncut
	d.aside += o.aside
	for after, n := range o.after {
		d.after[after] += n
	}
}
