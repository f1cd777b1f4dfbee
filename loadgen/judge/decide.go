package judge

import "fmt"

// mostUnheard: of more than one in so many calls nobody can be left in doubt whether they ran.
const mostUnheard = 10

// decide gives the word: violated before inconclusive before holds. The reasons are
// everything that keeps the run from holding, apart from violations.
func (j *Judge) decide(v *Verdict, t Tail) (Word, []string) {
	var why []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	sp := &j.special
	add(j.patience.Calls > 0, "%s", j.patience)
	add(j.stdio(), "a stdio server has one pipe and nothing to come back to")
	add(t.Doubt != "", "%s", t.Doubt)
	add(sp.throttled > 0, "%s given up while the target answered 429 or 503: it limits the rate", plural(sp.throttled, "call was", "calls were"))
	add(sp.large > 0, "%s larger than gapless reads (16 MiB of data, 64 KiB of a head or an id)", plural(sp.large, "event was", "events were"))
	add(sp.deep > 0, "%s nested deeper than gapless reads", plural(sp.deep, "event was", "events were"))
	j.whyNoResumption(v, add)
	add(j.answers.Bare > 0, "%s answered with JSON, without a stream for their messages", plural(j.answers.Bare, "call was", "calls were"))
	add(sp.misfits > 0, "before any fault %s messages equal to none of the control calls: the comparison does not fit them",
		plural(sp.misfits, "call brought", "calls brought"))
	add(sp.unheard*mostUnheard > v.Streams.Opened, "%s on a link that the target closed before any answer: nobody can tell whether they ran",
		plural(sp.unheard, "call was made", "calls were made"))
	add(sp.surplus > 0, "%s more messages than the control calls: nothing tells how many were due", plural(sp.surplus, "call brought", "calls brought"))
	add(sp.uncalled > 0, "%s messages that no control call had shown: nothing tells which others were due", plural(sp.uncalled, "call brought", "calls brought"))
	add(t.Stopped != "", "the run was stopped before its plan was carried out: %s", t.Stopped)
	if j.setup.Faults == 0 {
		add(true, "the run plans no faults, so resuming was not judged: no cut, no resume")
	}
	for _, r := range v.Reached {
		add(!r.OK, "%s: wanted %s, got %s", r.Name, thousands(r.Want), thousands(r.Got))
	}
	if err := j.setup.Validate(); err != nil {
		add(true, "the setup is not judged: %v", err)
	}
	add(!j.setup.told() && j.setup.Oracle != OracleResponse,
		"nothing tells which messages should arrive: no ledger, and the control calls neither number theirs alike nor agree")
	for i, inv := range v.Invariants {
		add(j.roles[i] == Demanded && inv.Verdict == "inconclusive" && inv.Checked == 0, "%s saw nothing", inv.Name)
	}
	// What a probe could not tell keeps no run from holding, but probes that were never
	// made do: nobody would miss them.
	add(j.setup.Probes > 0 && j.setup.IDs && !j.setup.Modern && v.Streams.Completed > 0 && v.Sampled == 0, "no stream was probed, though %s to be",
		plural(int64(j.setup.Probes), "was", "were"))
	add(v.Streams.Opened == 0, "no stream was opened")
	add(v.Streams.Opened > 0 && !v.Canary.Seen, "there was no canary")
	add(v.Canary.Seen && !v.Canary.Convicted && !j.answers.Canary, "the canary was not convicted: a message dropped on purpose went unnoticed")
	add(t.RecordsDropped > 0, "%s dropped from the history", plural(t.RecordsDropped, "record was", "records were"))
	add(!t.Trailer, "the history has no trailer")
	add(sp.open > 0, "%s never closed", plural(sp.open, "stream was", "streams were"))
	add(sp.unsettled > 0, "%s not exactly one outcome in the history", plural(sp.unsettled, "stream has", "streams have"))
	add(sp.blind > 0, "%s no usable entry in the ledger", plural(sp.blind, "call has", "calls have"))
	add(sp.countless > 0, "nothing tells how many messages %s due", plural(sp.countless, "call had", "calls had"))
	add(t.LedgerDropped > 0, "the ledger had no room for %s", plural(t.LedgerDropped, "call", "calls"))
	add(v.Responses.Errors > 0, "%s answered with an error", plural(v.Responses.Errors, "call was", "calls were"))
	add(v.Messages.Delivered == 0 && v.Messages.Expected > 0 && v.Streams.Undecided == 0, "no message arrived at all")
	add(j.stalls.open(t.alibi()), "%s silent until gapless gave up, and the next one brought what was due: too few to tell a stall from a slow tool",
		plural(j.stalls.Count, "resume was", "resumes were"))
	j.whyGenerator(v, t, add)
	add(v.Coverage.Untracked > 0, "%s too far past a hole to be tracked", plural(v.Coverage.Untracked, "message was", "messages were"))
	add(sp.straysOver > 0, "%s lost or came on another stream: too many did to keep them all", plural(sp.straysOver, "message was", "messages were"))
	add(v.Messages.Undecided > 0 && v.Responses.Missing == 0 && v.Streams.Undecided == 0 && sp.blind == 0 && j.answers.Bare == 0,
		"%s not decided", plural(v.Messages.Undecided, "message is", "messages are"))
	for _, inv := range v.Invariants {
		if inv.Decides && inv.Violations > 0 {
			return Violated, why
		}
	}
	if len(why) > 0 || !j.allHold(v) {
		return Inconclusive, why
	}
	return Holds, nil
}

// stdio tells a target that no cut can put to the test.
func (j *Judge) stdio() bool { return j.setup.Transport == transportStdio }

// allHold is the last guard: whatever the reasons say, a demanded invariant that does
// not hold keeps the run from holding.
func (j *Judge) allHold(v *Verdict) bool {
	demanded := 0
	for i, inv := range v.Invariants {
		if j.roles[i] != Demanded {
			continue
		}
		demanded++
		if inv.Verdict != "holds" {
			return false
		}
	}
	return demanded > 0
}

// whyNoResumption says that the target does not resume at all.
func (j *Judge) whyNoResumption(v *Verdict, add func(bool, string, ...any)) {
	if j.setup.Contract == NoPromise || j.stdio() {
		return
	}
	seen := v.Streams.Opened + v.Control.Calls
	if j.setup.drafted() {
		add(seen > 0 && j.special.withID == 0, "no notifications/stream/create in %s and %s (the target may leave it out)",
			plural(v.Control.Calls, "control call", "control calls"), plural(v.Streams.Opened, "stream", "streams"))
		return
	}
	add(seen > 0 && j.special.withID == 0, "no event id in %s and %s (ids are optional in MCP)",
		plural(v.Control.Calls, "control call", "control calls"), plural(v.Streams.Opened, "stream", "streams"))
	add(j.special.notResumable > 0, "%s with 405: not resumable", plural(j.special.notResumable, "stream was answered", "streams were answered"))
}

// whyGenerator says what the generator's own state makes doubtful.
func (j *Judge) whyGenerator(v *Verdict, t Tail, add func(bool, string, ...any)) {
	st := &v.Streams
	add(t.Touched > 0, "the generator was saturated: %s touched", plural(t.Touched, "stream was", "streams were"))
	add(t.Saturated && t.Touched == 0 && j.special.tooLate > 0, "the generator was saturated while streams were too late")
	add(t.StartDelayP99 >= startDelayLimit && j.special.tooLate > 0, "the generator was late (p99 of the start delay %s) while streams were too late", t.StartDelayP99)
	add(st.Undecided > 0, "%s undecided", plural(st.Undecided, "stream is", "streams are"))
	missing := st.Planned - st.Opened - st.DroppedArrivals
	add(missing > 0, "%s planned but never opened", plural(missing, "stream was", "streams were"))
	add(j.control.Calls > 0 && j.control.Complete < j.control.Calls && j.controlSum[0] == 0, "%d of %d control calls are complete",
		j.control.Complete, j.control.Calls)
}
