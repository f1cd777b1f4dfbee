package judge

import (
	"slices"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A Judge folds the streams of one run into a [Verdict].
type Judge struct {
	setup   Setup
	table   []invariant
	calls   []CallSetup // at least one, and behind them one that nothing is known of
	room    int         // messages that a call is likely to bring
	roles   []Role
	reasons []string
	// The folds of the invariants that apply.
	events, facts []func(*Stream, *history.Record)
	settles       []func(*Stream)
	sets          sync.Pool // of *idSet, so that streams may close concurrently

	mu         sync.Mutex
	tally      [invariantCount]tally
	hit        [invariantCount][2]int64 // streams with violations, and with doubtful ones alone
	messages   Messages
	responses  Responses
	streams    Streams
	faults     Faults
	cells      map[[2]string]KindPlace
	resumes    Resumes
	control    Control
	canary     Canary
	ids        idTable
	coverage   Coverage
	evidence   [invariantCount][]Evidence
	shapes     map[string]*shape
	damaged    damage
	doubtful   damage // streams that only the generator's alibi convicts
	unlike     damage // streams that only a comparison convicts which fits uncut calls
	drops      drops
	stalls     stalls
	answers    answers
	patience   patience
	stalled    damage // streams that only stalls convict
	strays     []stray
	gaps       []gap
	partial    map[uint32]int64 // streams that did not get everything: how far they are without a hole
	probes     [probeCount]probeTally
	sampled    int64
	special    special
	controlSum [2]int64 // damaged calls, calls whose number of messages differs
	retention  time.Duration
}

// special counts the streams and things that bear on the verdict as a whole.
type special struct {
	loadOpen, open int64 // opened and not closed
	unsettled      int64 // closed without a settled record
	blind          int64 // no usable ledger entry
	withID         int64 // streams that committed an id
	notResumable   int64
	retained       int64 // streams whose cursor was refused
	countless      int64 // answered, and nothing tells how many messages were due
	tooLate        int64 // they wait for the generator's alibi
	lateAnswered   int64 // of these, those whose response came all the same
	lateTail       int64 // what is missing of those
	judgedCuts     int64
	cutUnanswered  int64
	uncut          int64
	uncutComplete  int64
	throttled      int64 // calls whose last answer was 429 or 503, and that got no further
	uncalled       int64 // calls with messages that no control call had shown
	unnumbered     int64 // control calls of which only the response counts, that sent something before it
	misfits        int64 // streams whose messages were unlike before any fault
	altered        int64 // numbers taken for delivered since something came that is equal to none
	unheard        int64 // calls without a fault whose link was closed before any answer
	surplus        int64 // calls with more messages than the control calls
	unreachable    int64 // faults planned for resumes that brought nothing, as the contract allows
	large, deep    int64 // events larger, or nested deeper, than gapless reads
	straysOver     int64 // messages on streams of others that were not kept
	nameless       bool  // messages were lost whose numbers were not kept
}

// New returns the judge of a run. A setup that Validate complains about is judged as
// far as it goes; it never holds.
func New(s Setup) *Judge {
	j := &Judge{setup: s, table: table(), cells: map[[2]string]KindPlace{}, shapes: map[string]*shape{}, partial: map[uint32]int64{}}
	j.setup.Modern = s.modern()
	switch {
	case j.setup.Contract != "":
	case j.setup.Modern || s.umcp():
		j.setup.Contract = NoPromise
	default:
		j.setup.Contract = ExactlyOnce
	}
	j.setup.Ignore, j.setup.Named, j.setup.Reach = slices.Clone(s.Ignore), slices.Clone(s.Named), slices.Clone(s.Reach)
	j.setup.Calls, j.calls = slices.Clone(s.Calls), append(s.calls(), CallSetup{})
	for _, c := range j.calls {
		j.room = max(j.room, int(min(max(c.Expected, c.Twin, 0), 1024)))
	}
	for i := range j.table {
		inv := &j.table[i]
		role, why := roleOf(inv, j.setup)
		j.roles, j.reasons = append(j.roles, role), append(j.reasons, why)
		if role == NotApplicable {
			continue
		}
		if inv.event != nil {
			j.events = append(j.events, inv.event)
		}
		if inv.fact != nil {
			j.facts = append(j.facts, inv.fact)
		}
		if inv.settle != nil {
			j.settles = append(j.settles, inv.settle)
		}
	}
	j.resumes.ByStatus = map[int]int64{}
	return j
}

// Open begins a stream. It may be called concurrently; the stream then belongs to the
// goroutine that feeds it.
func (j *Judge) Open(session, stream uint32, kind history.StreamKind) *Stream {
	j.mu.Lock()
	j.special.open++
	if ofLoad(kind) {
		j.streams.Opened++
		j.special.loadOpen++
	}
	j.mu.Unlock()
	s := &Stream{judge: j, session: session, stream: stream, kind: kind}
	s.called(0)
	s.ex.missed = -1
	if j.setup.told() {
		s.hashes = make([]uint64, 0, j.room)
	}
	if j.setup.IDs {
		s.ids = make([]idUse, 0, j.room+2)
	}
	s.lines.steps = make([]step, 0, 8)
	return s
}

// ofLoad tells the streams of the load from those that the tool adds for itself.
func ofLoad(kind history.StreamKind) bool {
	return kind != history.StreamControl && kind != history.StreamCanary
}

// merge takes over what a closed stream counted.
func (j *Judge) merge(s *Stream) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.special.open--
	if s.kind != history.StreamControl && s.foreignTo.early {
		j.special.misfits++
	}
	j.mergeStrays(s)
	j.answers.add(s)
	if s.kind == history.StreamCanary {
		j.mergeCanary(s)
		return
	}
	if j.roles[uniqueIDs] != NotApplicable {
		s.claimIDs(&j.ids)
	}
	for i := range s.tally {
		j.tally[i].checked += int64(s.tally[i].checked)
		j.tally[i].violated += int64(s.tally[i].violated)
		j.tally[i].pending += int64(s.tally[i].pending)
		j.tally[i].soft += int64(s.tally[i].soft)
		if s.tally[i].violated > 0 {
			j.hit[i][0]++
		} else if s.tally[i].pending > 0 {
			j.hit[i][1]++
		}
	}
	j.coverage.IDs += int64(len(s.ids)) + s.idsOver
	j.coverage.IDsCompared += int64(len(s.ids))
	j.coverage.Untracked += s.acct.lost
	j.mergeSpecial(s)
	if s.kind == history.StreamControl {
		j.mergeControl(s)
	} else {
		j.special.loadOpen--
		j.mergeLoad(s)
	}
	j.mergeProbes(s)
	if len(s.evidence) > 0 {
		j.keep(s)
	}
}

// mergeCanary takes over whether the canary was convicted. What it lost it lost on
// purpose; that something of others came to it is the target's doing.
func (j *Judge) mergeCanary(s *Stream) {
	j.canary.Seen = true
	if s.tally[noLoss].violated+s.tally[oneResponse].violated+s.tally[oneResponse].pending > 0 {
		j.canary.Convicted = true
	}
	for _, e := range s.evidence {
		if e.inv != ownStream && e.inv != ownSession {
			continue
		}
		j.tally[e.inv].checked += e.Count
		j.tally[e.inv].violated += e.Count
		j.hit[e.inv][0]++
		j.evidence[e.inv] = insertSorted(j.evidence[e.inv], e, maxEvidences, byStream)
	}
}

func (j *Judge) mergeSpecial(s *Stream) {
	sp := &j.special
	if !s.settled || s.resettled {
		sp.unsettled++
	}
	sp.large += int64(s.huge.large)
	sp.deep += int64(s.huge.deep)
	if s.blind() {
		sp.blind++
	}
	if s.hasID || s.created {
		sp.withID++
	}
	if s.fate == fateAnswered && j.setup.Oracle != OracleLedger && j.setup.told() && !s.mute && !s.plain && s.expected() == 0 {
		sp.countless++
	}
	if s.mute && s.unnumbered > 0 && s.kind == history.StreamControl {
		sp.unnumbered++
	}
}

func (j *Judge) mergeControl(s *Stream) {
	c := &j.control
	c.Calls++
	if s.bad || s.doubtful {
		j.controlSum[0]++
	}
	if s.fate != fateAnswered || s.errors > 0 || s.bad || s.msgs.Undecided > 0 {
		return
	}
	c.Complete++
	if c.Complete == 1 {
		c.MessagesPerCall = s.msgs.Delivered
	} else if c.MessagesPerCall != s.msgs.Delivered {
		j.controlSum[1]++
	}
}

func (j *Judge) mergeLoad(s *Stream) {
	j.messages.add(&s.msgs)
	j.mergeOutcome(s)
	j.mergeFaults(s)
	j.drops.add(s)
	j.stalls.add(s)
	j.patience.add(s)
	j.special.altered += s.foreignTo.instead
	if s.fate == fateIndeterminate && s.faults.injected == 0 {
		j.special.unheard++
	}
	if s.surplus() {
		j.special.surplus++
	}
	if s.uncalled > 0 {
		j.special.uncalled++
	}
	if s.throttled() && (s.fate == fateNotSent || s.fate == fateUndecided || s.fate == fateCallRefused) {
		j.special.throttled++
	}
	r, n := &j.resumes, &s.resumes
	r.Attempted += n.attempted
	r.Succeeded += n.succeeded
	r.Refused += n.refused
	r.Conflicts += n.conflicts
	r.ReplayedMessages += n.replayed
	r.DoubleCuts += n.doubleCuts
	r.CutsInReplay += n.cutsInReplay
	for _, c := range n.status.codes[:n.status.n] {
		r.ByStatus[c.status] += c.count
	}
	if n.status.other > 0 {
		r.ByStatus[0] += n.status.other
	}
}

// mergeOutcome counts the stream by its fate.
func (j *Judge) mergeOutcome(s *Stream) {
	st, sp := &j.streams, &j.special
	switch s.fate {
	case fateAnswered:
		st.Completed++
	case fateFailed:
		st.Failed++
	case fateTooLate:
		sp.tooLate++
		sp.lateTail += s.lateTail()
		if s.responses > 0 {
			sp.lateAnswered++
		}
	case fateRefused, fateCallRefused, fateNotResumable:
		st.Refused++
	case fateIndeterminate:
		st.Indeterminate++
	case fateNotSent:
		st.NotSent++
	case fateCancelled:
		st.Cancelled++
	case fateSevered:
		st.Severed++
	default:
		st.Undecided++
	}
	switch s.fate {
	case fateNotResumable:
		sp.notResumable++
	case fateRefused:
		sp.retained++
		if j.retention == 0 || s.cutAge < j.retention {
			j.retention = s.cutAge
		}
	}
	if s.fate.judged() && s.fate != fateTooLate {
		st.Judged++
	}
	re := &j.responses
	switch {
	case s.responses > 0:
		re.Expected++
		re.Received++
		re.Repeated += int64(s.responses-s.reanswered) - 1
		if s.errors > 0 && s.fate != fateCancelled { // a cancelled call may well be answered so
			re.Errors++
		}
	case s.responseAllowed():
		re.Expected++
		re.MissingAllowed++
	case s.fate == fateFailed || s.fate == fateRefused:
		re.Expected++
		re.Missing++
	}
}

func (j *Judge) mergeFaults(s *Stream) {
	f, sp := &j.faults, &j.special
	f.Injected += s.faults.injected
	f.Openings += s.faults.openings
	f.Unplanned += s.faults.unplanned
	f.Cuts += s.faults.cuts
	judged := s.fate.judged()
	if s.fate == fateSevered && s.faults.opened && !s.led {
		sp.unreachable++
	}
	for i := range s.faults.kinds {
		k := &s.faults.kinds[i]
		cell := j.cells[[2]string{k.kind, k.place}]
		cell.Kind, cell.Place = k.kind, k.place
		cell.Count += k.count
		switch {
		case judged && k.wide:
			cell.WideAtRisk += k.atRisk
		case judged:
			cell.AtRisk += k.atRisk
		}
		j.cells[[2]string{k.kind, k.place}] = cell
	}
	if s.faults.cuts == 0 {
		sp.uncut++
		if s.fate == fateAnswered {
			sp.uncutComplete++
		}
		return
	}
	j.streams.Cut++
	if s.responses == 0 {
		sp.cutUnanswered++
	}
	if judged && (s.faults.cutAfter || s.fate == fateSevered || j.setup.umcp()) {
		sp.judgedCuts++
	}
}

// A doubt is why a finding may not count: what it rests on is known at the end alone.
type doubt uint8

const (
	certain   doubt = iota
	ifWell          // the generator was well enough to call a target too late
	ifAlike         // the messages of calls that met no fault are like those of the control calls
	ifStalled       // chance does not explain resumes that were silent while messages were due
)

// doubtOf tells what a pending finding of an invariant waits for.
func doubtOf(inv ident) doubt {
	if inv == intact {
		return ifAlike
	}
	return ifWell
}

// A conviction says which doubts are lifted.
type conviction [ifStalled + 1]bool

// settleDoubts turns what was pending into violations, or lets it go.
func (j *Judge) settleDoubts(lifted conviction) {
	for i := range j.tally {
		if t := &j.tally[i]; lifted[doubtOf(ident(i))] {
			t.violated += t.pending
			t.checked += t.pending
			t.pending = 0
			j.hit[i][0] += j.hit[i][1]
		}
	}
	if lifted[ifAlike] {
		j.damaged.join(&j.unlike)
	} else {
		j.messages.Delivered -= j.special.altered
		j.messages.Undecided += j.special.altered
		j.messages.Corrupt -= j.tally[intact].pending
	}
	if lifted[ifStalled] {
		t := &j.tally[resumeProgress]
		t.violated += j.stalls.Count
		t.checked += j.stalls.Count
		j.hit[resumeProgress][0] += j.stalls.Streams
		j.damaged.join(&j.stalled)
	}
	j.settleTooLate(lifted[ifWell])
}

// settleTooLate convicts the streams that were too late, or leaves them undecided.
func (j *Judge) settleTooLate(convict bool) {
	n := j.special.tooLate
	if !convict {
		j.streams.Undecided += n
		return
	}
	j.streams.Failed += n
	j.streams.Judged += n
	missing := n - j.special.lateAnswered
	j.responses.Expected += missing
	j.responses.Missing += missing
	j.messages.Undecided -= j.special.lateTail
	j.messages.Lost += j.special.lateTail
	j.damaged.join(&j.doubtful)
}
