package fuzz

// A seed is a program that was written to come to something.
type seed struct {
	name  string
	head  [headBytes]byte
	steps []step
	meets []string
}

func (s seed) program() program { return program{s.head, s.steps} }

// Durations of a wait.
const (
	ms1 = iota
	ms25
	ms100
	s1
	s5
	s25
	min6
	min31
)

// Shapes of calls, for c of a step.
const (
	every10ms = 0
	atOnce    = 1
	everyS    = 2
	burst3    = 1 << 2
	burst100  = 2 << 2
	poll1     = 2 << 4
	poll3     = 3 << 4
	asks2     = 3 << 6
)

// seeds are programs that together do everything, on a server of each kind.
func seeds() []seed {
	all := append(lawful(), unlawful()...)
	for i, s := range all {
		if s.program().stored() {
			s.name += ", handed off"
			s.head[4] |= 4 | byte(i%3)<<3
			all = append(all, s)
		}
	}
	return all
}

func lawful() []seed {
	return []seed{
		{name: "a call of each revision", steps: []step{
			{op: opCall, b: 10}, {op: opOpen, a: 1}, {op: opCall, a: 1, b: 5}, {op: opOpen, a: 2}, {op: opCall, a: 2, b: 3, c: atOnce},
			{op: opOpen, a: 3}, {op: opCall, a: 3}, {op: opWait, a: s1}, {op: opReuse, a: 0, b: 4},
		}, meets: []string{"revision 2025-11-25", "revision 2025-06-18", "revision 2025-03-26", "revision 1999-12-31", "reused id"}},
		{name: "cut and resumed, with what came meanwhile", steps: []step{
			{op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: ms100}, {op: opResume}, {op: opWait, a: ms25},
			{op: opCut, b: 1}, {op: opWait, a: s1}, {op: opResume}, {op: opWait, a: s1},
		}},
		{name: "cut in the replay", steps: []step{
			{op: opCall, b: 30, c: burst3}, {op: opCut}, {op: opWait, a: s1}, {op: opArm, c: 3}, {op: opResume}, {op: opArm, c: 4}, {op: opResume},
			{op: opWait, a: ms100}, {op: opArm, b: 1, c: 40}, {op: opResume}, {op: opResume},
		}, meets: []string{"cut in replay"}},
		{name: "cut at an event to come", steps: []step{
			{op: opCall, b: 12}, {op: opArm, c: 5}, {op: opWait, a: s1}, {op: opResume}, {op: opCall, b: 12, c: burst100}, {op: opArm, a: 1, b: 1, c: 60, d: 3},
			{op: opWait, a: s1}, {op: opResume}, {op: opResume},
		}},
		{name: "taken over", steps: []step{
			{op: opCall, b: 40}, {op: opWait, a: ms100}, {op: opTakeover}, {op: opWait, a: ms25}, {op: opTakeover}, {op: opWait, a: ms100},
		}, meets: []string{"takeover"}},
		{name: "taken over from a slow reader", steps: []step{
			{op: opCall, b: 40, d: 3}, {op: opSlow, b: 0}, {op: opWait, a: s1}, {op: opTakeover}, {op: opWait, a: s1},
		}},
		{name: "refused while attached", head: [headBytes]byte{2: 1}, steps: []step{
			{op: opCall, b: 40}, {op: opWait, a: ms100}, {op: opTakeover}, {op: opOld, b: 1}, {op: opCut}, {op: opTwice}, {op: opWait, a: s1},
		}, meets: []string{"resume refused with 409", "two resumes at once"}},
		{name: "two resumes at once", steps: []step{
			{op: opCall, b: 40}, {op: opWait, a: ms100}, {op: opCut}, {op: opWait, a: ms100}, {op: opTwice}, {op: opWait, a: ms25},
			{op: opCut}, {op: opWait, a: s5}, {op: opTwice},
		}, meets: []string{"two resumes at once"}},
		{name: "old cursors", steps: []step{
			{op: opCall, b: 10}, {op: opWait, a: ms25}, {op: opOld, b: 1}, {op: opWait, a: ms25}, {op: opResume}, {op: opWait, a: s1}, {op: opOld}, {op: opOld, b: 7},
		}, meets: []string{"old cursor replayed"}},
		{name: "the GET stream", steps: []step{
			{op: opGetCall, b: 20}, {op: opWait, a: ms100}, {op: opSecondGet}, {op: opEmpty}, {op: opCut}, {op: opWait, a: ms100}, {op: opResume},
			{op: opTakeover}, {op: opWait, a: s1}, {op: opGetCall, b: 6, c: atOnce}, {op: opWait, a: s1}, {op: opSecondGet},
		}, meets: []string{"second GET refused"}},
		{name: "GET streams of earlier revisions", head: [headBytes]byte{5: 1}, steps: []step{
			{op: opGetCall, b: 8}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: s1}, {op: opResume}, {op: opGetCall, b: 8}, {op: opWait, a: s1},
		}},
		{name: "polling", head: [headBytes]byte{2: 4}, steps: []step{
			{op: opCall, b: 20, c: poll3}, {op: opWait, a: s1}, {op: opResume}, {op: opWait, a: ms100}, {op: opResume}, {op: opGetCall, b: 10, c: poll1}, {op: opWait, a: s1},
			{op: opResume, a: 0}, {op: opResume, a: 1},
		}, meets: []string{"polling close"}},
		{name: "requests of the server", steps: []step{
			{op: opCall, b: 10, c: asks2}, {op: opWait, a: s1}, {op: opAnswers, b: 1}, {op: opCall, b: 10, c: asks2}, {op: opWait, a: s1},
			{op: opAnswers, b: 2}, {op: opCall, b: 10, c: asks2}, {op: opWait, a: s1}, {op: opCut}, {op: opAnswers},
			{op: opGetCall, b: 5, c: asks2}, {op: opWait, a: s1},
		}, meets: []string{"request of the server answered", "answer never", "answer twice"}},
		{name: "batches", head: [headBytes]byte{5: 2}, steps: []step{
			{op: opBatch, b: 10}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: s1}, {op: opResume}, {op: opOpen}, {op: opBatch, a: 1, b: 3},
		}, meets: []string{"batch taken", "batch refused"}},
		{name: "cancelled", steps: []step{
			{op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opCancel}, {op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opCut}, {op: opCancel}, {op: opWait, a: s1},
		}},
		{name: "slow readers", head: [headBytes]byte{4: 2}, steps: []step{
			{op: opCall, b: 40, c: burst3, d: 3}, {op: opSlow, b: 0}, {op: opWait, a: s5}, {op: opCall, b: 30, c: atOnce, d: 2}, {op: opSlow, a: 1, b: 1}, {op: opWait, a: s1},
			{op: opWait, a: s25}, {op: opResume},
		}, meets: []string{"write timeout"}},
		{name: "connections that are kept", head: [headBytes]byte{4: 1}, steps: []step{
			{op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opTakeover}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: s1}, {op: opResume},
			{op: opCall, b: 6, c: poll1}, {op: opWait, a: s1}, {op: opResume},
		}},
		{name: "many streams in few sessions", steps: []step{
			{op: opCall, b: 9}, {op: opCall, b: 9}, {op: opOpen}, {op: opCall, a: 1, b: 9}, {op: opGetCall, b: 9}, {op: opGetCall, a: 1, b: 9}, {op: opWait, a: ms25},
			{op: opCut, a: 0}, {op: opCut, a: 2}, {op: opCut, a: 0}, {op: opWait, a: ms25}, {op: opResume}, {op: opResume}, {op: opResume}, {op: opWait, a: s1},
		}},
	}
}

func unlawful() []seed {
	all := []seed{
		{name: "evicted", head: [headBytes]byte{1: limitFewEvents}, steps: []step{
			{op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: s1}, {op: opResume}, {op: opOld, b: 1}, {op: opCall, b: 30, c: atOnce}, {op: opWait, a: s1},
		}, meets: []string{"evicted", "old cursor evicted"}},
		{name: "evicted by bytes", head: [headBytes]byte{1: limitSession}, steps: []step{
			{op: opCall, b: 20, d: 1}, {op: opCut}, {op: opCall, b: 20, d: 2}, {op: opWait, a: s1}, {op: opResume}, {op: opWait, a: s5}, {op: opResume}, {op: opResume},
		}, meets: []string{"evicted"}},
		{name: "evicted by streams", head: [headBytes]byte{1: limitStreams}, steps: []step{
			{op: opCall, b: 2}, {op: opCut}, {op: opWait, a: s1}, {op: opCall, b: 2}, {op: opCall, b: 2}, {op: opCall, b: 2}, {op: opCall, b: 40}, {op: opCall, b: 40}, {op: opCall, b: 40},
			{op: opCall, b: 40}, {op: opResume},
		}, meets: []string{"evicted", "call refused"}},
		{name: "other limits of the store", head: [headBytes]byte{1: limitBytes}, steps: []step{
			{op: opCall, b: 20, d: 1}, {op: opOpen}, {op: opCall, a: 1, b: 20, d: 1}, {op: opWait, a: ms25}, {op: opCut}, {op: opCut}, {op: opWait, a: s5}, {op: opResume}, {op: opResume},
		}},
		{name: "cursors that lead nowhere", steps: []step{
			{op: opCall, b: 5}, {op: opOpen}, {op: opCall, a: 1, b: 5}, {op: opWait, a: s1}, {op: opForeign, a: 1}, {op: opForeign, c: 2}, {op: opFuture}, {op: opFuture, a: 1, b: 9},
		}},
		{name: "sessions that have ended", steps: []step{
			{op: opCall, b: 20}, {op: opGetCall, b: 20}, {op: opWait, a: ms25}, {op: opDelete}, {op: opDead}, {op: opDead, b: 1}, {op: opDead, b: 2}, {op: opDead, b: 3},
			{op: opOpen}, {op: opCall, b: 5}, {op: opWait, a: s1}, {op: opDelete},
		}, meets: []string{"delete in mid-call"}},
		{name: "sessions that nobody used", head: [headBytes]byte{2: 8}, steps: []step{
			{op: opCall, b: 5}, {op: opCut}, {op: opWait, a: min6}, {op: opResume}, {op: opOpen}, {op: opCall, b: 5}, {op: opWait, a: s1}, {op: opWait, a: min31}, {op: opUnasked},
			{op: opDead}, {op: opOpen}, {op: opCall, b: 30, c: everyS}, {op: opWait, a: s25}, {op: opCut}, {op: opResume},
		}, meets: []string{"session expired"}},
		{name: "ids in flight", steps: []step{
			{op: opCall, b: 20}, {op: opDuplicate}, {op: opCut}, {op: opDuplicate}, {op: opWait, a: s1}, {op: opDuplicate},
		}, meets: []string{"id in flight refused"}},
		{name: "too many", head: [headBytes]byte{3: 3}, steps: []step{
			{op: opCall, b: 40}, {op: opCall, b: 40}, {op: opCall, b: 40}, {op: opGetCall, a: 1, b: 5}, {op: opCrowd}, {op: opDelete, a: 1}, {op: opOpen},
		}, meets: []string{"too many sessions", "call refused"}},
		{name: "no store", head: [headBytes]byte{0: 7}, steps: []step{
			{op: opCall, b: 20}, {op: opWait, a: ms25}, {op: opCut}, {op: opCall, b: 20}, {op: opGetCall, b: 20}, {op: opWait, a: ms25}, {op: opMalformed}, {op: opArm, c: 3},
			{op: opWait, a: s1}, {op: opCall, b: 30, c: atOnce}, {op: opDelete},
		}},
		{name: "no store, and the GET stream is cut", head: [headBytes]byte{0: 7, 5: 1}, steps: []step{
			{op: opGetCall, b: 30}, {op: opCall, b: 10}, {op: opWait, a: ms25}, {op: opCut}, {op: opWait, a: s1}, {op: opCall, b: 4}, {op: opUnasked},
		}},
	}
	strange := seed{name: "strange bodies", head: [headBytes]byte{3: 4}, steps: []step{{op: opCall, b: 40}}}
	for b := range byte(40) {
		strange.steps = append(strange.steps, step{op: opGarbage, b: b, c: 7, d: b})
	}
	older := seed{name: "strange bodies of an earlier revision", head: [headBytes]byte{5: 2}, steps: strange.steps}
	cursors := seed{name: "strange cursors", steps: []step{{op: opCall, b: 40}}}
	for b := range byte(24) {
		cursors.steps = append(cursors.steps, step{op: opMalformed, b: b, c: b})
	}
	headers := seed{name: "strange headers", steps: []step{{op: opCall, b: 40}}}
	for b := range byte(17) {
		headers.steps = append(headers.steps, step{op: opHeaders, b: b})
	}
	for b := range byte(6) {
		headers.steps = append(headers.steps, step{op: opUnasked, b: b}, step{op: opHalf, b: b % 2, c: 50 * b, d: b})
	}
	return append(all, strange, older, cursors, headers)
}
