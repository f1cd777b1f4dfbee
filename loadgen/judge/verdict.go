package judge

import "time"

// A Word is a verdict.
type Word uint8

// Words. The zero value is Inconclusive: what was skipped, crashed or never ran
// cannot hold.
const (
	Inconclusive Word = iota
	Holds
	Violated
)

// String returns the word as result.json spells it.
func (w Word) String() string {
	return pick(int(w), "inconclusive", "holds", "violated")
}

// A Tail is what only the generator knows at the end of a run. Its zero value makes
// the run inconclusive.
type Tail struct {
	// Trailer tells that the history ended properly, RecordsDropped that it lacks records.
	Trailer        bool
	RecordsDropped int64
	// LedgerDropped counts calls that the target's ledger had no room for.
	LedgerDropped int64
	// Planned streams of the load (0 means Setup.Streams), the largest number open at
	// once, arrivals that were dropped since too many were open, and storms that fired:
	// each cuts many links at one instant, and counts once for the bound.
	Planned, MaxOpen, DroppedArrivals, Storms int64
	// Strikes are the storms that no plan had. They count for the bound, not for what was
	// to be reached.
	Strikes int64
	// StartDelayP99 is how late streams started; Saturated that the generator's CPU was
	// full. Touched counts the streams that this may have changed.
	StartDelayP99 time.Duration
	Saturated     bool
	Touched       int64
	// Stopped says why the run ended before its plan did, "" when it did not: what was
	// not carried out cannot hold.
	Stopped string
	// Doubt says why the calls were not what they were meant to be, "" when they were: a
	// load of errors shows nothing.
	Doubt string
}

// startDelayLimit is the start delay from which on the generator has no alibi.
const startDelayLimit = time.Second

// alibi reports whether the generator was well enough to call a target too late.
func (t Tail) alibi() bool {
	return !t.Saturated && t.StartDelayP99 < startDelayLimit
}

// A Verdict is what a run may say.
type Verdict struct {
	Word Word
	// Sentence is the verdict in one sentence, Also what follows it.
	Sentence string
	Also     []string
	// Why says what was not reached or could not be told; empty when the run holds. A
	// violated run lists there what it could not tell beside.
	Why []string
	// Seen says what was seen where nothing could be told, SeenAlso what else, Next what to
	// do about it.
	Seen, Next string
	SeenAlso   []string

	Invariants []Invariant
	Reached    []Reached

	Messages  Messages
	Responses Responses
	Streams   Streams
	Faults    Faults
	Resumes   Resumes
	Control   Control
	Canary    Canary
	// Probes are the extra exchanges with sampled streams, by name; Sampled is the number
	// of these streams.
	Probes   []ProbeCount
	Sampled  int64
	Coverage Coverage

	// JudgedCuts counts calls that were cut after a committed id and settled.
	JudgedCuts int64
	// CutsAtRisk counts cuts after a committed id that an accepted resume followed, in
	// judged streams; a storm counts once. With nothing lost in N of them, the chance of
	// loss per cut is at most LossBound95 = 3/N at 95 %; 0 when something was lost, though
	// the contract allows it, or N is 0.
	CutsAtRisk  int64
	LossBound95 float64
	// Bounds are the same for each place at which a cut was at risk, by name.
	Bounds []PlaceBound
	// Drops say what a cut costs where calls cannot be taken up again.
	Drops Drops
	// Throttled counts the calls of the load that were given up while the target answered
	// 429 or 503.
	Throttled int64
	// Retention is the age of the youngest cursor that was refused, 0 when none was.
	Retention time.Duration

	// After counts the damaged streams by the "kind@place" of the injection before their
	// first finding, most frequent first.
	After []AfterCount
	// Guilty are damaged streams with their timelines, one of every shape first.
	Guilty []Guilty
}

// PlaceBound bounds the chance of loss per cut at one place, at 95 %: 0 when the run
// lost something.
type PlaceBound struct {
	Place  string
	AtRisk int64
	Bound  float64
}

// AfterCount is one row of the table of what damaged streams had met; After is ""
// for streams that met nothing.
type AfterCount struct {
	After   string
	Streams int64
}

// An Invariant is the verdict on one promise.
type Invariant struct {
	Name, Claim, Source string
	Level, Role         string
	// Verdict is "" where the invariant does not apply.
	Verdict string
	// State is what a reader wants to see: holds, violated, inconclusive, not exercised
	// or not applicable; Reason says why, where that needs saying.
	State, Reason string
	// Decides tells that a violation of it makes the run violated.
	Decides    bool
	Checked    int64
	Violations int64
	// Deviations counts findings that the protocol's SHOULD is about although the claim is
	// a MUST. They decide nothing; under Setup.Strict they are violations.
	Deviations int64
	// Streams counts the streams with a violation, control calls included.
	Streams  int64
	Evidence []Evidence
}
