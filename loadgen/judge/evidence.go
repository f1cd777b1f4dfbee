package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// An Evidence shows where a promise was broken: one per invariant and stream.
type Evidence struct {
	Invariant       string
	Session, Stream uint32
	// Control tells that it happened to a control call, without any fault.
	Control bool
	// Count is the number of findings, Ranges the first message numbers they concern;
	// empty when they do not concern numbered messages.
	Count  int64
	Ranges []Range
	// What says in a few words what was seen first.
	What string
	// At, Link and Cursor say where: time, TCP connection, ordinal of the last
	// committed id.
	At           time.Duration
	Link, Cursor uint32
	// After is "kind@place" of the injection before it, "" when there was none.
	After string

	inv   ident
	doubt doubt // what it waits for
	soft  bool
}

// An Inversion is one message out of order: Late arrived after the higher Early.
type Inversion struct{ Early, Late int64 }

const maxInversions = 8

// A finding is what an invariant has to say.
type finding struct {
	first, last int64   // message numbers, 0 without
	ranges      []Range // instead of first and last
	count       int64   // 0 means 1
	what        string
	mark        string // "" means the name of the invariant
	pending     bool   // counts only if its doubt is lifted, see doubtOf
	stalled     bool   // a stall: counts if chance does not explain them
	soft        bool   // a SHOULD: decides under Setup.Strict alone
	after       int32  // strike before it, as its index+1, or one of:
	quiet       bool   // the timeline needs no mark: another finding gives it
}

// Values of finding.after.
const (
	afterLast = 0  // the last strike, if any
	afterNone = -1 // none
)

// findMessage finds one message wrong.
func (s *Stream) findMessage(inv ident, seq int64, what string) {
	s.find(inv, finding{first: seq, last: seq, what: what})
}

// find notes that a promise was broken.
func (s *Stream) find(inv ident, f finding) {
	if s.judge.roles[inv] == NotApplicable {
		return
	}
	def := &s.judge.table[inv]
	count := max(1, f.count)
	f.soft = f.soft && !s.judge.setup.Strict
	waits := certain
	switch {
	case f.stalled:
		waits = ifStalled
	case f.soft:
		s.tally[inv].soft += uint32(count)
	case f.pending:
		waits = doubtOf(inv)
		s.tally[inv].pending += uint32(count)
	default:
		s.tally[inv].violated += uint32(count)
	}
	if !f.soft && def.level.decides(s.judge.setup.Strict) {
		s.bad = s.bad || waits == certain
		s.doubtful = s.doubtful || waits != certain
	}
	if f.mark == "" {
		f.mark = def.name
	}
	if !f.quiet && len(s.lines.marks) < maxMarks {
		s.now.mark = joinMark(s.now.mark, f.mark)
	}
	for i := range s.evidence {
		if e := &s.evidence[i]; e.inv == inv && e.doubt == waits && e.soft == f.soft {
			e.Count += count
			if f.first > 0 {
				e.Ranges = addRange(e.Ranges, f.first, f.last)
			}
			return
		}
	}
	if f.after == afterLast {
		f.after = int32(s.faults.last)
	}
	e := Evidence{Invariant: def.name, Session: s.session, Stream: s.stream, Control: s.kind == history.StreamControl,
		Count: count, What: f.what, At: s.lastAt, Link: s.ex.link, Cursor: s.cursor, After: s.faults.name(f.after),
		inv: inv, doubt: waits, soft: f.soft}
	if e.Ranges = f.ranges; f.first > 0 {
		e.Ranges = []Range{{f.first, f.last}}
	}
	s.evidence = append(s.evidence, e)
}

// A Guilty stream, with everything that shows it.
type Guilty struct {
	Session, Stream uint32
	Control         bool
	// Headline is "LOST 23-25 · OUT OF ORDER 27 before 26".
	Headline string
	// Expected is the number of messages due, ExpectedFrom who says so; 0 when nobody.
	Expected     int64
	ExpectedFrom string
	Outcome      string
	Lost         []Range
	Repeated     []Range
	Inverted     []Inversion
	// After is "kind@place" of the injection before the first finding.
	After    string
	Evidence []Evidence
	Steps    []Step
	// Same lists the first other streams of the same shape: the same invariants broken
	// after the same kind of fault. SameCount counts all of them.
	Same      []uint32
	SameCount int64

	doubt doubt // what the findings wait for, if all of them do
}

// accuse builds the guilty stream of s.
func (s *Stream) accuse() Guilty {
	g := Guilty{Session: s.session, Stream: s.stream, Control: s.kind == history.StreamControl,
		Expected: s.expected(), ExpectedFrom: s.expectedFrom(), Outcome: outcomeName(s.outcome),
		Inverted: s.order, Evidence: s.evidence, Steps: s.lines.export(s)}
	first := -1
	for i := range s.evidence {
		e := &s.evidence[i]
		if !s.bad && e.doubt != certain && (g.doubt == certain || e.doubt < g.doubt) {
			g.doubt = e.doubt
		}
		switch e.inv {
		case noLoss:
			g.Lost = e.Ranges
		case noDuplicate:
			g.Repeated = e.Ranges
		}
		if !e.soft && s.judge.table[e.inv].level.decides(s.judge.setup.Strict) && first < 0 {
			first = i
		}
	}
	if first >= 0 {
		g.After = s.evidence[first].After
	}
	g.Headline = g.headline(func(e *Evidence) bool {
		return !e.soft && s.judge.table[e.inv].level.decides(s.judge.setup.Strict)
	})
	return g
}

func (s *Stream) expectedFrom() string {
	switch {
	case s.expected() == 0:
		return ""
	case s.judge.setup.Oracle == OracleLedger:
		return "ledger"
	case s.call.Twin > 0:
		return fromControls
	case s.call.Expected > 0 && !s.saysTotal():
		return s.call.ExpectedFrom
	}
	return "params.total"
}

// headline names the damage in capitals, the gravest first: what decides, and no
// deviation.
func (g *Guilty) headline(decides func(*Evidence) bool) string {
	var parts []string
	if len(g.Lost) > 0 {
		parts = append(parts, "LOST "+joinRanges(g.Lost))
	}
	if len(g.Repeated) > 0 {
		parts = append(parts, "REPEATED "+joinRanges(g.Repeated))
	}
	for i, v := range g.Inverted {
		text := thousands(v.Early) + " before " + thousands(v.Late)
		if i == 0 {
			text = "OUT OF ORDER " + text
			parts = append(parts, text)
			continue
		}
		parts[len(parts)-1] += ", " + text
	}
	for i := range g.Evidence {
		switch e := &g.Evidence[i]; e.inv {
		case noLoss, noDuplicate, inOrder:
		default:
			if !decides(e) {
				continue
			}
			parts = append(parts, strings.ToUpper(e.Invariant))
		}
	}
	return strings.Join(parts, " · ")
}

// shape names what streams of one kind of damage have in common.
func (g *Guilty) shape() string {
	names := make([]string, 0, len(g.Evidence)+1)
	for _, e := range g.Evidence {
		name := e.Invariant
		if e.doubt != certain {
			name += "?" + strconv.Itoa(int(e.doubt))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(append(names, g.After), " ")
}
