package judge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// snapshotFormat is the version of what Snapshot writes.
const snapshotFormat = "judge/3"

// A saved state is everything that a Judge keeps of closed streams, with exported fields
// for encoding/json. Slices that are nil stay so, since verdicts are compared by value.
type saved struct {
	Format string
	Setup  Setup

	Tally      []savedTally
	Messages   Messages
	Responses  Responses
	Streams    Streams
	Faults     Faults
	Cells      []KindPlace
	Resumes    Resumes
	Control    Control
	Canary     Canary
	Coverage   Coverage
	IDs        []byte // key, stream and check of each, little endian
	IDsOver    int64
	Evidence   [][]savedEvidence
	Shapes     map[string]savedShape
	Damaged    savedDamage
	Doubtful   savedDamage
	Unlike     savedDamage
	Stalled    savedDamage
	Stalls     stalls
	Answers    answers
	Patience   patience
	Handlers   Handlers
	Reissues   Reissues
	Took       spread
	Strays     []savedStray
	Gaps       []savedGap
	Partial    map[uint32]int64
	Probes     []probeTally
	Sampled    int64
	Special    savedSpecial
	ControlSum [2]int64
	Retention  time.Duration
}

type savedTally struct {
	Checked, Violated, Pending, Soft int64
	Hit                              [2]int64
}

type savedEvidence struct {
	Evidence
	Doubt doubt
	Soft  bool
}

type savedGuilty struct {
	Guilty
	Evidence []savedEvidence // of the Guilty stream
	Doubt    doubt
}

type savedShape struct {
	Guilty  []savedGuilty
	Streams []uint32
	Count   int64
}

type savedDamage struct {
	Streams, Uncut, Aside int64
	After                 map[string]int64
}

type savedStray struct {
	Owner       uint32
	Seq         int64
	Session, At uint32
}

type savedGap struct {
	Stream uint32
	Load   bool
	Lost   int64
	Ranges []Range
}

type savedSpecial struct {
	Unsettled, Blind, WithID, NotResumable, Retained, Countless, TooLate, LateAnswered, LateTail              int64
	JudgedCuts, CutUnanswered, Uncut, UncutComplete                                                           int64
	Throttled, Uncalled, Unnumbered, Misfits, Altered, StraysOver, Large, Deep, Unreachable, Surplus, Unheard int64
	Nameless                                                                                                  bool
}

// Snapshot returns the state of the Judge as it is between streams: what the closed
// streams left. Streams that are open are not in it; whoever restores it feeds them anew,
// from their first record. It may be called at any time.
func (j *Judge) Snapshot() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	sp := &j.special
	s := saved{Format: snapshotFormat, Setup: j.setup, Messages: j.messages, Responses: j.responses, Streams: j.streams,
		Faults: j.faults, Resumes: j.resumes, Control: j.control, Canary: j.canary, Coverage: j.coverage,
		IDs: j.ids.save(), IDsOver: j.ids.over, Partial: j.partial, Probes: j.probes[:], Sampled: j.sampled,
		Damaged: j.damaged.save(), Doubtful: j.doubtful.save(), Unlike: j.unlike.save(), Stalled: j.stalled.save(), Stalls: j.stalls,
		Answers: j.answers, Patience: j.patience, Handlers: j.drops.handlers,
		Reissues: j.drops.reissues, Took: j.drops.took, ControlSum: j.controlSum, Retention: j.retention,
		Special: savedSpecial{sp.unsettled, sp.blind, sp.withID, sp.notResumable, sp.retained, sp.countless, sp.tooLate,
			sp.lateAnswered, sp.lateTail, sp.judgedCuts, sp.cutUnanswered, sp.uncut, sp.uncutComplete,
			sp.throttled, sp.uncalled, sp.unnumbered, sp.misfits, sp.altered, sp.straysOver,
			sp.large, sp.deep, sp.unreachable, sp.surplus, sp.unheard, sp.nameless},
		Evidence: make([][]savedEvidence, len(j.evidence)), Shapes: map[string]savedShape{}}
	s.Streams.Opened -= sp.loadOpen
	for i, t := range j.tally {
		s.Tally = append(s.Tally, savedTally{t.checked, t.violated, t.pending, t.soft, j.hit[i]})
		s.Evidence[i] = saveEvidence(j.evidence[i])
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.cells), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		s.Cells = append(s.Cells, j.cells[key])
	}
	for key, sh := range j.shapes {
		s.Shapes[key] = sh.save()
	}
	for _, st := range j.strays {
		s.Strays = append(s.Strays, savedStray{st.owner, st.seq, st.session, st.at})
	}
	for _, g := range j.gaps {
		s.Gaps = append(s.Gaps, savedGap{g.stream, g.load, g.lost, g.ranges})
	}
	return json.Marshal(s)
}

// Restore returns a Judge in the state of a snapshot. The setup has to be the one of the
// Judge that made it.
func Restore(setup Setup, snapshot []byte) (*Judge, error) {
	var s saved
	in := json.NewDecoder(bytes.NewReader(snapshot))
	in.DisallowUnknownFields()
	if err := in.Decode(&s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	j := New(setup)
	if err := s.fits(j); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	j.messages, j.responses, j.streams, j.faults, j.resumes = s.Messages, s.Responses, s.Streams, s.Faults, s.Resumes
	j.control, j.canary, j.coverage, j.sampled = s.Control, s.Canary, s.Coverage, s.Sampled
	j.controlSum, j.retention = s.ControlSum, s.Retention
	if err := j.ids.restore(s.IDs, s.IDsOver); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	copy(j.probes[:], s.Probes)
	maps.Copy(j.partial, s.Partial)
	j.damaged, j.doubtful, j.unlike = s.Damaged.restore(), s.Doubtful.restore(), s.Unlike.restore()
	j.stalled, j.stalls = s.Stalled.restore(), s.Stalls
	j.answers, j.patience = s.Answers, s.Patience
	j.drops = drops{s.Handlers, s.Reissues, s.Took}
	for i, t := range s.Tally {
		j.tally[i], j.hit[i] = tally{t.Checked, t.Violated, t.Pending, t.Soft}, t.Hit
		j.evidence[i] = j.restoreEvidence(s.Evidence[i])
	}
	for _, cell := range s.Cells {
		j.cells[[2]string{cell.Kind, cell.Place}] = cell
	}
	for key, sh := range s.Shapes {
		j.shapes[key] = j.restoreShape(sh)
	}
	for _, st := range s.Strays {
		j.strays = append(j.strays, stray{st.Owner, st.Seq, st.Session, st.At})
	}
	for _, g := range s.Gaps {
		j.gaps = append(j.gaps, gap{g.Stream, g.Load, g.Lost, g.Ranges})
	}
	sp := s.Special
	j.special = special{unsettled: sp.Unsettled, blind: sp.Blind, withID: sp.WithID, notResumable: sp.NotResumable, retained: sp.Retained,
		countless: sp.Countless, tooLate: sp.TooLate, lateAnswered: sp.LateAnswered, lateTail: sp.LateTail, judgedCuts: sp.JudgedCuts,
		cutUnanswered: sp.CutUnanswered, uncut: sp.Uncut, uncutComplete: sp.UncutComplete,
		throttled: sp.Throttled, uncalled: sp.Uncalled, unnumbered: sp.Unnumbered, misfits: sp.Misfits, altered: sp.Altered,
		straysOver: sp.StraysOver, large: sp.Large, deep: sp.Deep, unreachable: sp.Unreachable, surplus: sp.Surplus, unheard: sp.Unheard, nameless: sp.Nameless}
	return j, nil
}

// fits tells whether the snapshot is one of a Judge like j.
func (s *saved) fits(j *Judge) error {
	switch {
	case s.Format != snapshotFormat:
		return fmt.Errorf("format %q: want %q", s.Format, snapshotFormat)
	case len(s.Tally) != len(j.tally) || len(s.Evidence) != len(j.evidence) || len(s.Probes) != len(j.probes):
		return fmt.Errorf("%d invariants: want %d", len(s.Tally), len(j.tally))
	}
	for _, sh := range s.Shapes {
		if len(sh.Guilty) == 0 {
			return fmt.Errorf("a shape of damage without a stream")
		}
	}
	theirs, err := json.Marshal(s.Setup)
	if err != nil {
		return err
	}
	ours, err := json.Marshal(j.setup)
	if err != nil {
		return err
	}
	if !bytes.Equal(theirs, ours) {
		return fmt.Errorf("it belongs to another setup")
	}
	return nil
}

func saveEvidence(list []Evidence) []savedEvidence {
	if list == nil {
		return nil
	}
	out := make([]savedEvidence, len(list))
	for i, e := range list {
		out[i] = savedEvidence{e, e.doubt, e.soft}
	}
	return out
}

// restoreEvidence knows an invariant by its name.
func (j *Judge) restoreEvidence(list []savedEvidence) []Evidence {
	if list == nil {
		return nil
	}
	out := make([]Evidence, len(list))
	for i, e := range list {
		out[i] = e.Evidence
		out[i].doubt, out[i].soft = min(e.Doubt, ifStalled), e.Soft
		out[i].inv = ident(slices.IndexFunc(j.table, func(inv invariant) bool { return inv.name == e.Invariant }))
	}
	return out
}

func (sh *shape) save() savedShape {
	out := savedShape{Streams: sh.streams, Count: sh.count}
	for _, g := range sh.guilty {
		out.Guilty = append(out.Guilty, savedGuilty{g, saveEvidence(g.Evidence), g.doubt})
	}
	return out
}

func (j *Judge) restoreShape(sh savedShape) *shape {
	out := &shape{streams: sh.Streams, count: sh.Count}
	for _, s := range sh.Guilty {
		g := s.Guilty
		g.Evidence, g.doubt = j.restoreEvidence(s.Evidence), min(s.Doubt, ifStalled)
		out.guilty = append(out.guilty, g)
	}
	return out
}

func (d *damage) save() savedDamage { return savedDamage{d.streams, d.uncut, d.aside, d.after} }

func (d savedDamage) restore() damage { return damage{d.Streams, d.Uncut, d.Aside, d.After} }

const savedID = 16 // bytes of one

func (t *idTable) save() []byte {
	out := make([]byte, 0, t.used*savedID)
	for _, slot := range t.slots {
		if slot.key != 0 {
			out = binary.LittleEndian.AppendUint64(out, slot.key)
			out = binary.LittleEndian.AppendUint32(out, slot.stream)
			out = binary.LittleEndian.AppendUint32(out, slot.check)
		}
	}
	return out
}

func (t *idTable) restore(data []byte, over int64) error {
	n := len(data) / savedID
	if len(data)%savedID != 0 || n > MaxIDs {
		return fmt.Errorf("%d bytes of ids", len(data))
	}
	*t = idTable{over: over}
	if n > 0 {
		t.grow(2 * n)
	}
	for ; len(data) > 0; data = data[savedID:] {
		key := binary.LittleEndian.Uint64(data)
		if key == 0 {
			return fmt.Errorf("an id that is none")
		}
		slot := t.find(key)
		*slot = idSlot{key, binary.LittleEndian.Uint32(data[8:]), binary.LittleEndian.Uint32(data[12:])}
		t.used++
	}
	return nil
}
