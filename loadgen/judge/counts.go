package judge

// Messages counts the numbered messages of the load's streams. Control calls and the
// canary are counted apart.
//
//	Expected = Delivered + Lost + LostAllowed + Degraded + Undecided
type Messages struct {
	// Expected messages were due: what the ledger shows as accepted, or the numbers from
	// 1 to the call's count. The unsent rest of calls that are indeterminate, not sent,
	// cancelled or refused at once is not due.
	Expected int64
	// Delivered were dispatched at least once, by number.
	Delivered int64
	// Lost were accepted and not dispatched on any stream of the session.
	Lost int64
	// LostAllowed were lost where the contract allows it, and are not in Lost.
	LostAllowed int64
	// Degraded were never stored because the store failed on our demand, and did not arrive.
	Degraded int64
	// Undecided are the missing tails of unanswered calls, and what no usable ledger tells.
	Undecided int64
	// Duplicated counts dispatches beyond the first, but for those that the contract
	// allows: DuplicatedAllowed counts these.
	Duplicated, DuplicatedAllowed int64
	// Misordered counts first dispatches below a number that had come before.
	Misordered int64
	// Foreign counts dispatched messages of other streams, sessions or nobody.
	Foreign int64
	// Corrupt counts messages with other bytes than were emitted, with a digest that does
	// not fit them, or never emitted.
	Corrupt int64
	// Late counts events read from an old link after the resume was sent: neither
	// delivered nor duplicated.
	Late int64
}

func (m *Messages) add(o *Messages) {
	m.Expected += o.Expected
	m.Delivered += o.Delivered
	m.Lost += o.Lost
	m.LostAllowed += o.LostAllowed
	m.Degraded += o.Degraded
	m.Undecided += o.Undecided
	m.Duplicated += o.Duplicated
	m.DuplicatedAllowed += o.DuplicatedAllowed
	m.Misordered += o.Misordered
	m.Foreign += o.Foreign
	m.Corrupt += o.Corrupt
	m.Late += o.Late
}

// Responses counts the responses of the load's streams.
type Responses struct {
	// Expected = Received + Missing + MissingAllowed. Calls whose fate cannot be told are
	// in none. MissingAllowed are those whose response the contract lets go missing.
	Expected, Received, Missing, MissingAllowed int64
	// Repeated counts responses beyond the first of a call, but for those that the
	// contract allows.
	Repeated int64
	// Errors counts the calls that were answered with a JSON-RPC error.
	Errors int64
}

// Streams counts the load's streams.
type Streams struct {
	Planned, Opened, MaxOpen, DroppedArrivals int64
	// By outcome, as the judge sees it: a failed stream that our own fault struck before
	// its first committed id is indeterminate, one that was too late while the generator
	// was slow is undecided.
	Completed, Indeterminate, NotSent, Refused, Cancelled, Undecided, Failed int64
	// Severed calls were cut by us and never answered, under a contract that allows it.
	Severed int64
	// Judged streams put the target's promise to the test: completed, failed, severed, or
	// refused on resume. Damaged ones broke a deciding invariant.
	Judged, Damaged int64
	// Cut counts streams with at least one cut.
	Cut int64
}

// Faults counts the injections into the load's streams.
type Faults struct {
	// Planned is Setup.Faults. Injected counts everything that fired, opening cuts
	// included; Openings those that only made a resume place reachable, Unplanned those
	// that no plan had: they are no part of what the run set out to inject.
	Planned, Injected, Openings, Unplanned int64
	// Cuts counts the injections that ended a link.
	Cuts            int64
	ByKind, ByPlace map[string]int64
	ByKindAndPlace  []KindPlace
}

// KindPlace is one cell of the coverage of kinds and places.
type KindPlace struct {
	Kind, Place string
	Count       int64
	// AtRisk counts the cuts of the cell that an accepted resume followed, in judged
	// streams; WideAtRisk those of storms, stream by stream.
	AtRisk, WideAtRisk int64
}

// Resumes counts the resume attempts of the load's streams.
type Resumes struct {
	// Attempted = Succeeded + Refused + Conflicts + those that no head answered.
	// Succeeded were answered 2xx, Conflicts 409, Refused with any other status.
	Attempted, Succeeded, Refused, Conflicts int64
	ByStatus                                 map[int]int64
	// ReplayedMessages counts messages among the events that the target said it would replay.
	ReplayedMessages int64
	// DoubleCuts counts cuts of a resumed link before its first event, CutsInReplay cuts
	// of one before it had caught up.
	DoubleCuts, CutsInReplay int64
}

// Control counts the control calls.
type Control struct {
	Calls    int64
	Complete int64 // answered, with every expected message once and in order, nothing violated
	// MessagesPerCall is the number of messages of a complete call, 0 when they differ.
	MessagesPerCall int64
}

// Canary is the stream that was damaged on purpose.
type Canary struct {
	Seen, Convicted bool
}

// Coverage says what the caps of the judge left out.
type Coverage struct {
	// IDs were seen, IDsCompared of them compared within their stream, IDsKept kept for
	// comparison with later streams of the session.
	IDs, IDsCompared, IDsKept int64
	// Untracked counts numbered messages too far past a hole to be tracked.
	Untracked int64
}
